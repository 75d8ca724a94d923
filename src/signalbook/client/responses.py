"""Read responses of servers, and turn error responses into exceptions (core/http.md "Error Processing")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

import httpx

from signalbook.documents import Parts
from signalbook.errors import SignalbookError, describe
from signalbook.uris import hide_user, is_address
from signalbook.values import JSON, Finding, JSONError, JSONObject, parse_json

_LONGEST_PAUSE: Final = 10.0
_MAX_JSON_DEPTH: Final = 128
_HEADER_PREFIX: Final = "xregistry-"


_SEND: Final = "Send an API token or a JWT: --token, SIGNALBOOK_TOKEN, or ${NAME}@ before the host in the URL"
_IN_THE_URL: Final = "Send an API token or a JWT: ${NAME}@ before the host in its URL, with the token in that variable"
_METADATA: Final = "resource_metadata"
"""The parameter of ``WWW-Authenticate`` that shows that the registry accepts tokens of an issuer (RFC 9728)."""


class ClientError(SignalbookError):
    """The error for a request without a usable response. The message can be shown to users."""


def require_registry_url(url: str) -> None:
    """Raise ``ClientError`` unless ``url`` can be the URL of a registry. The error does not show a user or password."""
    if not is_address(url):
        raise ClientError(f"{hide_user(url)!r} is no URL of a registry: it starts with http:// or https://")
    if "?" in url or "#" in url:
        # Requests would go to the URL itself, because paths are appended to it.
        raise ClientError(f"{hide_user(url.partition('?')[0].partition('#')[0])}: give the URL without ? and #")


class Unreachable(ClientError):
    """The error for a server that cannot be reached, or did not answer in time."""


class BadResponse(ClientError):
    """The error for an answer that is not from a registry: not JSON, too large, or redirected."""


class TooLong(BadResponse):
    """The error for a response that is larger than the client accepts."""


class Refused(ClientError):
    """The server answered with an error (core/spec.md "Error Processing").

    ``code`` is the error's name (such as ``unknown_attribute``), its number in Confluent's API (such as ``40401``), or
    ``""``. ``subject`` is the xid or path that the error is about. ``faults`` are the findings, if the server sent any.
    """

    def __init__(self, status: int, body: JSONObject) -> None:
        self.status = status
        self.code = str(body.get("type", "")).partition("#")[2] or str(body.get("error_code", ""))
        self.title = str(body.get("title") or body.get("message") or f"HTTP {status} {_find_phrase(status)}")
        self.detail = str(body.get("detail", ""))
        self.subject = str(body.get("subject", ""))
        self.faults = tuple(Finding.from_json(item) for item in body.get("faults", ()) if isinstance(item, dict))
        super().__init__(describe(self.title, self.detail, self.faults))


class NotAuthenticated(Refused):
    """The server needs credentials, or rejected the credentials that were sent (401).

    ``advice`` tells users how to send credentials.
    """

    advice = ""

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.advice or _SEND}"


class NotFound(Refused):
    """The entity or the API does not exist on the server (404)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The document of a Resource or Version.

    ``url`` is its location if the registry does not store the document, else None. ``attributes`` are the decoded
    ``xRegistry-`` headers, with names in lower case without the prefix.
    """

    content: bytes
    contenttype: str | None
    url: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)


def document(response: httpx.Response) -> Document:
    """Return the document in ``response``, or its URL if the registry does not store the document."""
    names = {name: value for name, value in response.headers.items() if name.startswith(_HEADER_PREFIX)}
    return Document(
        content=response.content,
        contenttype=response.headers.get("content-type"),
        url=response.headers.get("location") if response.status_code == HTTPStatus.SEE_OTHER else None,
        attributes={name.removeprefix(_HEADER_PREFIX): unquote(value) for name, value in names.items()},
    )


def check_response(response: httpx.Response, *, by_url: bool = False) -> httpx.Response:
    """Return ``response`` if it is a success. Raises ``Refused`` (or a subclass) or ``BadResponse`` otherwise.

    ``by_url`` is True if the caller takes credentials only from the URL. The advice in errors depends on it.
    """
    status = response.status_code
    # 303 gives the location of a document that the registry does not store (R157).
    if response.is_success or status == HTTPStatus.SEE_OTHER:
        return response
    if status < HTTPStatus.BAD_REQUEST:
        raise BadResponse(
            f"{response.url}: the server sends to {response.headers.get('location', 'nowhere')}: use that URL"
        )
    try:
        body = parse_json(response.content, max_depth=_MAX_JSON_DEPTH)
    except JSONError:
        body = {}
    error = _ERRORS.get(status, Refused)(status, body if isinstance(body, dict) else {})
    if isinstance(error, NotAuthenticated):
        login = _METADATA in response.headers.get("www-authenticate", "")
        error.advice = _IN_THE_URL if by_url else f"{_SEND}; or run signalbook login URL" if login else _SEND
    raise error


_ERRORS: Final[Mapping[int, type[Refused]]] = {
    HTTPStatus.UNAUTHORIZED: NotAuthenticated,
    HTTPStatus.NOT_FOUND: NotFound,
}


def parse_object(response: httpx.Response, *, parts: Parts | None = None) -> JSONObject:
    """Return the JSON object in ``response``. Raises ``BadResponse`` for anything else.

    With ``parts``, parts that equal those of an earlier document are the same Python objects.
    """
    value = _parse(response, "this is no registry", parts)
    if not isinstance(value, dict):
        raise BadResponse(f"{response.url}: this is no registry: it answers without a JSON object")
    return value


def parse_objects(response: httpx.Response, item_name: str) -> list[JSONObject]:
    """Return the list of JSON objects in ``response``. Raises ``BadResponse`` for anything else.

    ``item_name`` is the plural name of the objects in error messages.
    """
    value = _parse(response, f"these are no {item_name}")
    if not isinstance(value, list) or not all(isinstance(member, dict) for member in value):
        raise BadResponse(f"{response.url}: these are no {item_name}: it answers without a list of objects")
    return value


def _parse(response: httpx.Response, problem: str, parts: Parts | None = None) -> JSON:
    try:
        text = response.content
        return (parse_json if parts is None else parts.parse)(text, max_depth=_MAX_JSON_DEPTH)
    except JSONError as error:
        raise BadResponse(f"{response.url}: {problem}: it answers without JSON ({error})") from None


_ADVICE: Final = "is it running, and is the URL right?"
_TLS_ADVICE: Final = {
    "unable to get local issuer certificate": "name the CA that vouches for it: SSL_CERT_FILE=ca.pem",
    "self-signed certificate": "name the CA that vouches for it, or the certificate itself: SSL_CERT_FILE=ca.pem",
    "certificate has expired": "its certificate has to be renewed; is this machine's clock right?",
    "Hostname mismatch": "its certificate is for another name: use that one in the URL",
    "IP address mismatch": "its certificate is for another name: use that one in the URL",
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not to be trusted; that of a CA of your own: SSL_CERT_FILE=ca.pem",
    "WRONG_VERSION_NUMBER": "it speaks HTTP, not HTTPS: use http:// in the URL, or give it a certificate (--tls-cert)",
    "RECORD_LAYER_FAILURE": "it speaks HTTP, not HTTPS: use http:// in the URL, or give it a certificate (--tls-cert)",
}
"""The advice for users, by a part of OpenSSL's error message."""


def explain_unreachable(base_url: str, error: httpx.HTTPError) -> str:
    """Return a message for users that explains why the server at ``base_url`` could not be reached."""
    if isinstance(error, httpx.TimeoutException):
        return f"the server at {base_url} did not answer in time"
    reason = str(error) or type(error).__name__
    advice = next((words for mark, words in _TLS_ADVICE.items() if mark in reason), _ADVICE)
    return f"cannot reach the server at {base_url} ({reason}): {advice}"


def retry_after(response: httpx.Response, otherwise: float) -> float:
    """Return the seconds to wait before the next attempt, from the header ``Retry-After`` (RFC9110 10.2.3).

    The result is at most 10. Return ``otherwise`` if the header is missing or has a date.
    """
    text = response.headers.get("retry-after", "")
    return min(float(text), _LONGEST_PAUSE) if text.isdigit() else otherwise


def _find_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """A page of a change feed: CloudEvents in commit order.

    ``position`` is where the next page begins. ``more`` is True if the server already has more events.
    """

    events: tuple[JSONObject, ...]
    position: int
    more: bool

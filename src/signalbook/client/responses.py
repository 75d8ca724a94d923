"""Responses: what is taken from them, and the errors they are (core/http.md "Error Processing")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

import httpx

from signalbook.documents import Parts
from signalbook.errors import SignalbookError, describe
from signalbook.values import JSON, Finding, JSONError, JSONObject, parse_json

_LONGEST_PAUSE: Final = 10.0
_MAX_JSON_DEPTH: Final = 128
_HEADER_PREFIX: Final = "xregistry-"


_SEND: Final = "Send an API token or a JWT: --token, SIGNALBOOK_TOKEN, or ${NAME}@ before the host in the URL"
_IN_THE_URL: Final = "Send an API token or a JWT: ${NAME}@ before the host in its URL, with the token in that variable"
_METADATA: Final = "resource_metadata"
"""A challenge has it where an issuer makes tokens for the registry (RFC 9728)."""


class ClientError(SignalbookError):
    """A request that brought no response to use; the message is fit to show a person."""


class Unreachable(ClientError):
    """The server cannot be reached, or did not answer in time."""


class BadResponse(ClientError):
    """The error for an answer that is not from a registry: not JSON, too large, or redirected."""


class TooLong(BadResponse):
    """A response has more bytes than are taken."""


class Refused(ClientError):
    """The server answered with an error (core/spec.md "Error Processing").

    ``code`` is the error's name (``unknown_attribute``; ``""`` if the server gave none), or its number in Confluent's
    API (``40401``), ``subject`` the xid or path it is about, ``faults`` every single fault, if the server names them.
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
    """The server needs credentials, or does not take those that were sent (401).

    ``advice`` says how to send others, by the ways there are.
    """

    advice = ""

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.advice or _SEND}"


class NotFound(Refused):
    """There is no such entity or API (404)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A Resource's or Version's document. ``url`` is where it is if the registry does not keep it.

    ``attributes`` are the ``xRegistry-`` headers, decoded, names in lower case without the prefix.
    """

    content: bytes
    contenttype: str | None
    url: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)


def document(response: httpx.Response) -> Document:
    """The document that ``response`` carries, or says where to find."""
    names = {name: value for name, value in response.headers.items() if name.startswith(_HEADER_PREFIX)}
    return Document(
        content=response.content,
        contenttype=response.headers.get("content-type"),
        url=response.headers.get("location") if response.status_code == HTTPStatus.SEE_OTHER else None,
        attributes={name.removeprefix(_HEADER_PREFIX): unquote(value) for name, value in names.items()},
    )


def check_response(response: httpx.Response, *, by_url: bool = False) -> httpx.Response:
    """``response`` if it is a success. Raises ``Refused``, ``NotFound``, ``BadResponse``.

    ``by_url`` is whether credentials can be in the URL alone, as of programs that work by themselves.
    """
    status = response.status_code
    # 303 says where a document is that the registry does not keep (R157).
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
    """Return the JSON object in ``response``; what it has of ``parts`` are these. Raises ``BadResponse``."""
    value = _parse(response, "this is no registry", parts)
    if not isinstance(value, dict):
        raise BadResponse(f"{response.url}: this is no registry: it answers without a JSON object")
    return value


def parse_objects(response: httpx.Response, item_name: str) -> list[JSONObject]:
    """Return the JSON objects listed in ``response``; ``item_name`` they are is said in errors.

    Raises ``BadResponse``.
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
"""What to do, by what OpenSSL says."""


def explain_unreachable(base_url: str, error: httpx.HTTPError) -> str:
    """Return the error for people about a failed connection."""
    if isinstance(error, httpx.TimeoutException):
        return f"the server at {base_url} did not answer in time"
    reason = str(error) or type(error).__name__
    advice = next((words for mark, words in _TLS_ADVICE.items() if mark in reason), _ADVICE)
    return f"cannot reach the server at {base_url} ({reason}): {advice}"


def retry_after(response: httpx.Response, otherwise: float) -> float:
    """Seconds to wait before the next attempt (RFC9110 10.2.3); dates are not understood."""
    text = response.headers.get("retry-after", "")
    return min(float(text), _LONGEST_PAUSE) if text.isdigit() else otherwise


def _find_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """CloudEvents in the order of their commits, the ``position`` they reach to, and whether there are ``more`` now."""

    events: tuple[JSONObject, ...]
    position: int
    more: bool

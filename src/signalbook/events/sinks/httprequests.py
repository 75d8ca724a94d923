"""One HTTP connection to one place, kept open between requests, trusting the other end with nothing.

It goes to the very address that was checked; an answer has so much time and so many bytes, however it arrives;
redirects are answers like others.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import httpcore

from signalbook import values
from signalbook.events.sinks.base import Consent, DeliveryError, NotYet, SinkPolicy, host_of
from signalbook.events.subscriptions.subscription import Credential
from signalbook.fetching import Deadline, FetchError, connect, reachable
from signalbook.values import JSONError, parse_json, parse_timestamp

PORTS: Final = {"http": 80, "https": 443}
MAX_ANSWER: Final = 64 * 1024
_BROKEN: Final = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.ConnectionNotAvailable)


@dataclass(frozen=True, slots=True, kw_only=True)
class HTTPReply:
    """What came back: header names are in lower case; ``body`` is empty if there was more than ``MAX_ANSWER``."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class SinkConnection:
    """A connection to the origin of ``url``, made when it is first needed. For one thread."""

    def __init__(self, url: str, policy: SinkPolicy) -> None:
        self._parts = urlsplit(url)
        self._policy = policy
        self._deadline = Deadline(policy.timeout)
        self._connection: httpcore.HTTP11Connection | None = None

    def exchange(self, method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> HTTPReply:
        """Send one request and read its answer, within the policy's time. Raises ``DeliveryError``."""
        self._deadline.restart(self._policy.timeout)
        request = httpcore.Request(
            method,
            httpcore.URL(
                scheme=self._parts.scheme, host=self._parts.hostname or "", port=self._port, target=target.encode()
            ),
            headers=[("Host", self._parts.netloc), ("Content-Length", str(len(body))), *headers.items()],
            content=body,
        )
        try:
            return self._exchange(request)
        except httpcore.TimeoutException:
            self.close()
            raise DeliveryError(f"no answer within {self._policy.timeout:g} seconds") from None
        except FetchError as error:
            raise DeliveryError(str(error)) from None
        except (*_BROKEN, OSError) as error:
            self.close()
            raise DeliveryError(f"the connection failed: {error or type(error).__name__}") from None

    def close(self) -> None:
        """Hang up; the next request connects anew."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def _exchange(self, request: httpcore.Request) -> HTTPReply:
        if self._connection is not None and not self._connection.has_expired():
            try:
                return self._over(self._connection, request)
            except _BROKEN:
                pass  # the other end may hang up between two requests, and only using the connection shows it
        self.close()
        self._connection = self._connect()
        return self._over(self._connection, request)

    def _over(self, connection: httpcore.HTTP11Connection, request: httpcore.Request) -> HTTPReply:
        answer = connection.handle_request(request)
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers}
        body = bytearray()
        try:
            for chunk in answer.iter_stream():
                body += chunk
                if len(body) > MAX_ANSWER:
                    self.close()
                    return HTTPReply(status=answer.status, headers=headers)
        finally:
            with suppress(Exception):  # closing what is broken raises again
                answer.close()
        return HTTPReply(status=answer.status, headers=headers, body=bytes(body))

    @property
    def _port(self) -> int:
        return self._parts.port or PORTS[self._parts.scheme]

    def _connect(self) -> httpcore.HTTP11Connection:
        host = host_of(self._parts)
        address = reachable(host, self._port, self._policy.allow, self._deadline.remaining())
        stream = connect(address, self._port, self._deadline)
        if self._parts.scheme == "https":
            trust = (os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
            stream = stream.start_tls(_tls(trust), host)
        origin = httpcore.Origin(self._parts.scheme.encode(), host.encode(), self._port)
        return httpcore.HTTP11Connection(origin=origin, stream=_Gathering(stream))


class _Gathering(httpcore.NetworkStream):
    """A stream that sends a request as one piece, when its answer is wanted: head and body cost one step, not two."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream
        self._held = bytearray()

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """As the stream's."""
        if self._held:
            held, self._held = bytes(self._held), bytearray()
            self._stream.write(held, timeout)
        return self._stream.read(max_bytes, timeout)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 - spent when reading
        """Send it with the next read."""
        self._held += buffer

    def close(self) -> None:
        """As the stream's."""
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        """As the stream's."""
        return self._stream.get_extra_info(info)


def target_of(url: str) -> str:
    """Path and query of ``url``: what a request line has."""
    parts = urlsplit(url)
    return f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"


@lru_cache(maxsize=4)
def _tls(trust: tuple[str | None, str | None]) -> ssl.SSLContext:  # noqa: ARG001 - where OpenSSL looks
    """Reading the system's certificates takes 20 ms: once for all."""
    return ssl.create_default_context()


_GONE: Final = 410
_NOT_THIS_ONE: Final = frozenset({413, 415})
"""Too large, or in a form that is not understood: the event will not get better."""
_LONGEST_WAIT: Final = 86_400.0


def delivery_error(reply: HTTPReply) -> DeliveryError | None:
    """Why an event was not taken, None if it was (D-33). 202 counts as taken: more will not be told."""
    status = reply.status
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return DeliveryError(f"the sink answered {status}; redirects are not followed: subscribe its new address")
    if status == _GONE:
        return DeliveryError("the sink answered 410: it is gone for good", gone=True)
    if status in _NOT_THIS_ONE:
        return DeliveryError(f"the sink answered {status}: it will not take this event", rejected=True)
    return DeliveryError(f"the sink answered {status}", retry_after=retry_after(reply.headers))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from a number or a date (RFC9110 10.2.3); at most a day, None if that is not said."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:12]), _LONGEST_WAIT)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, (_aware(when) - values.now()).total_seconds()), _LONGEST_WAIT)


def _aware(when: datetime) -> datetime:
    return when if when.tzinfo else when.replace(tzinfo=UTC)


PLAIN: Final = "PLAIN"
ACCESSTOKEN: Final = "ACCESSTOKEN"
REFRESHTOKEN: Final = "REFRESHTOKEN"
_EARLY: Final = timedelta(seconds=30)
_LONGEST_EXPIRY: Final = 10**9


class Authorization:
    """What to show with each request. For one thread."""

    def __init__(self, credential: Credential | None, policy: SinkPolicy) -> None:
        self._kind = credential.credentialtype if credential else ""
        self._members = {**credential.members, **credential.secrets} if credential else {}
        self._policy = policy
        self._token = self._members.get("accesstoken", "")
        self._expires = _instant(self._members.get("accesstokenexpiresutc", ""))

    def header(self) -> dict[str, str]:
        """The header ``Authorization``, if there is a credential. Raises ``DeliveryError``."""
        if self._kind == PLAIN:
            pair = f"{self._members.get('identifier', '')}:{self._members.get('secret', '')}"
            return {"Authorization": f"Basic {base64.b64encode(pair.encode('utf-8')).decode('ascii')}"}
        token = self.token()
        return {"Authorization": f"{self._members.get('accesstokentype') or 'Bearer'} {token}"} if token else {}

    def token(self) -> str:
        """The access token, made anew if it is over and can be; empty without one. Raises ``DeliveryError``."""
        over = self._expires is not None and self._expires - _EARLY < values.now()
        if self._kind == REFRESHTOKEN and (over or not self._token):
            self._refresh()
        elif self._kind == ACCESSTOKEN and self._expires is not None and self._expires < values.now():
            raise DeliveryError("the subscription's access token is over (accesstokenexpiresutc): update it")
        return self._token

    def refused(self) -> None:
        """The sink did not like the token (401): the next one will be another, if it can be."""
        if self._kind == REFRESHTOKEN:
            self._token = ""

    def _refresh(self) -> None:
        """Get a token for the refresh token (RFC6749 6); a new refresh token replaces the one there was."""
        endpoint = self._members.get("refreshtokenendpoint", "")
        sent = {"grant_type": "refresh_token", "refresh_token": self._members.get("refreshtoken", "")}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        line = SinkConnection(endpoint, self._policy)
        try:
            reply = line.exchange("POST", target_of(endpoint), headers, urlencode(sent).encode("ascii"))
        except DeliveryError as error:
            raise DeliveryError(f"no access token from {urlsplit(endpoint).hostname}: {error}") from None
        finally:
            line.close()
        self._take(reply, str(urlsplit(endpoint).hostname))

    def _take(self, reply: HTTPReply, host: str) -> None:
        told = _object(reply)
        token, seconds = told.get("access_token"), told.get("expires_in")
        if reply.status != 200 or not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise DeliveryError(f"no access token from {host}: it answered {reply.status}")
        self._token = token
        self._expires = None
        if isinstance(seconds, (int, float)) and 0 < seconds < _LONGEST_EXPIRY:
            self._expires = values.now() + timedelta(seconds=seconds)
        if isinstance(again := told.get("refresh_token"), str):
            self._members["refreshtoken"] = again


def _object(reply: HTTPReply) -> values.JSONObject:
    try:
        found = parse_json(reply.body)
    except JSONError:
        return {}
    return found if isinstance(found, dict) else {}


def _instant(text: str) -> datetime | None:
    return parse_timestamp(text) if text else None


PREFIX: Final = "whsec_"
_SHORTEST, _LONGEST = 24, 64


def signing_key(secret: str) -> bytes:
    """The key in ``secret``: ``whsec_`` and 24 to 64 bytes in Base64. Raises ``ValueError``."""
    try:
        found = base64.b64decode(secret.removeprefix(PREFIX), validate=True) if secret.startswith(PREFIX) else b""
    except binascii.Error:
        found = b""
    if not _SHORTEST <= len(found) <= _LONGEST:
        raise ValueError(f"a secret for signatures is {PREFIX} and {_SHORTEST} to {_LONGEST} bytes in Base64")
    return found


def signature_headers(key: bytes, id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The three headers of a signed delivery; ``timestamp`` is in seconds since 1970."""
    signed = b"%s.%d.%s" % (id.encode("utf-8"), timestamp, body)
    signature = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode("ascii")
    return {"webhook-id": id, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{signature}"}


_DIGITS: Final = 9
ORIGIN: Final = "WebHook-Request-Origin"


class RateLimiter:
    """Keeps requests to ``rate`` a minute, a second's worth of them at once. For one thread at a time."""

    def __init__(self, rate: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._each = 60.0 / rate if rate else 0.0
        self._clock = clock
        self._free = clock() - 1.0

    def step(self) -> None:
        """Count one request. Raises ``NotYet`` if it has to wait."""
        now = self._clock()
        free = max(self._free, now - 1.0)
        if free > now:
            raise NotYet("the sink's rate is used up", retry_after=free - now)
        self._free = free + self._each


def ask_consent(line: SinkConnection, target: str, policy: SinkPolicy, rate: int | None) -> Consent:
    """Ask a sink whether it wants deliveries from ``policy.origin``, at most ``rate`` a minute if that is given.

    Its status says nothing, only ``WebHook-Allowed-Origin`` does (D-34). Raises ``DeliveryError`` if it does not agree.
    """
    headers = {ORIGIN: policy.origin}
    if rate is not None:
        headers["WebHook-Request-Rate"] = str(rate)
    if policy.callback:
        headers["WebHook-Request-Callback"] = policy.callback
    return read_consent(line.exchange("OPTIONS", target, headers), policy.origin, rate)


def read_consent(reply: HTTPReply, origin: str, rate: int | None) -> Consent:
    """What an answer to the question allows. Raises ``DeliveryError``."""
    allowed = reply.headers.get("webhook-allowed-origin", "").strip()
    if allowed != "*" and allowed.lower() != origin.lower():
        told = f"it allows {allowed[:100]!r}" if allowed else "its answer to OPTIONS has no WebHook-Allowed-Origin"
        raise DeliveryError(f"the sink has not agreed to deliveries from {origin!r}: {told}")
    given = reply.headers.get("webhook-allowed-rate", "").strip()
    return Consent(rate=allowed_rate(given, rate))


def allowed_rate(text: str, asked: int | None) -> int | None:
    """Requests a minute out of ``WebHook-Allowed-Rate``: what was ``asked`` if it says nothing, None for ``*``.

    Raises ``DeliveryError`` for what is no rate.
    """
    if not text:
        return asked
    if text == "*":
        return None
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS and int(text) > 0:
        return int(text)
    raise DeliveryError(f"the sink allows a rate of {text[:100]!r}, which is neither * nor a number from 1")

"""Deliver events to web hooks: HTTP requests in structured mode (CloudEvents http-webhook.md and bindings/http).

Binary mode would send some requests without a payload, which web hooks do not allow (D-22).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import httpcore

from signalbook import values
from signalbook.events.sinks.base import (
    EVENT_TYPE,
    Consent,
    DeliveryError,
    NotYet,
    SinkPolicy,
    check_allowed,
    host_of,
    make_setting_error,
)
from signalbook.events.subscription import HTTP, Credential, Subscription, SubscriptionError
from signalbook.fetching import Deadline, FetchError, connect, reachable
from signalbook.tracing import outgoing
from signalbook.values import JSONError, JSONObject, dump_json, parse_json, parse_timestamp

STRUCTURED: Final = "structured"
BATCH: Final = "batch"
BATCH_TYPE: Final = "application/cloudevents-batch+json; charset=utf-8"
PLAIN: Final = "PLAIN"
ACCESSTOKEN: Final = "ACCESSTOKEN"
REFRESHTOKEN: Final = "REFRESHTOKEN"
SIGNINGSECRET: Final = "signingsecret"
ORIGIN: Final = "WebHook-Request-Origin"
PREFIX: Final = "whsec_"
PORTS: Final = {"http": 80, "https": 443}
MAX_ANSWER: Final = 64 * 1024

_METHODS: Final = ("POST", "PUT", "PATCH")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}", re.ASCII)
_HEADER_VALUE: Final = re.compile(r"[!-~]([\t -~]{0,4094}[!-~])?", re.ASCII)
_MOST_HEADERS: Final = 32
# Headers that this module sets or that concern the connection, and credentials, which the API must not return.
_OWN_HEADERS: Final = frozenset(
    {
        *("authorization", "cookie", "proxy-authorization", "content-type", "content-length", "content-encoding"),
        *("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
        *("date", "expect", "host", "http2-settings"),
    }
)
_FASTEST: Final = 10**9
_CREDENTIALS: Final = (PLAIN, ACCESSTOKEN, REFRESHTOKEN, "SIGNATURE")
_MOST_BYTES: Final = 1 << 20
_LONGEST_URL: Final = 4096
_MAX_REMEMBERED: Final = 10_000
_RATE_DIGITS: Final = 9
# A token that is about to expire might have expired when the request arrives.
_EARLY: Final = timedelta(seconds=30)
_LONGEST_EXPIRY: Final = 10**9
_SHORTEST_KEY, _LONGEST_KEY = 24, 64
_BROKEN: Final = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.ConnectionNotAvailable)
_GONE: Final = 410
# Too large, or in an unsupported form: sending the event again would not help.
_UNACCEPTABLE: Final = frozenset({413, 415})
_LONGEST_WAIT: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """The settings of a web hook.

    ``rate`` is the number of requests a minute that the sink is asked to allow; None means that no number is requested.
    ``query`` is True if an access token goes into the query instead of a header (D-35).
    """

    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    mode: str = STRUCTURED
    rate: int | None = None
    query: bool = False


def read_settings(settings: JSONObject) -> WebhookSettings:
    """Return the settings of a subscription. Raises ``SubscriptionError``."""
    checks: dict[str, Callable[[Any], Any]]
    checks = {
        "method": _check_method,
        "headers": _check_headers,
        "mode": _check_mode,
        "rate": _check_rate,
        "accesstokenin": _check_token_place,
    }
    unknown = sorted(set(settings) - set(checks))
    if unknown:
        raise make_setting_error(unknown[0], f"HTTP has no such setting; there are {', '.join(checks)}")
    parsed = {name: check(settings[name]) for name, check in checks.items() if name in settings}
    if "accesstokenin" in parsed:
        parsed["query"] = parsed.pop("accesstokenin")
    return WebhookSettings(**parsed)


def _check_method(value: Any) -> str:
    if value not in _METHODS:
        raise make_setting_error("method", f"it is {', '.join(_METHODS)}")
    return str(value)


def _check_headers(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > _MOST_HEADERS:
        raise make_setting_error("headers", f"it takes an object of at most {_MOST_HEADERS} names and values")
    for name, content in value.items():
        here = f"headers/{name[:128]}"
        if not _HEADER_NAME.fullmatch(name) or not isinstance(content, str) or not _HEADER_VALUE.fullmatch(content):
            raise make_setting_error(here, "that is no header of HTTP")
        if name.lower() in _OWN_HEADERS or name.lower().startswith(("webhook-", "sec-")):
            raise make_setting_error(
                here, "this header is not for subscriptions to set; credentials go into sinkcredential"
            )
    return dict(value)


def _check_mode(value: Any) -> str:
    if value == "binary":
        raise make_setting_error(
            "mode", "web hooks want a payload, which binary mode would not have: structured or batch"
        )
    if value not in (STRUCTURED, BATCH):
        raise make_setting_error("mode", f"it is {STRUCTURED} or {BATCH}")
    return str(value)


def _check_rate(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _FASTEST:
        raise make_setting_error("rate", "it is a number of requests a minute, from 1")
    return value


def _check_token_place(value: Any) -> bool:
    if value not in ("header", "query"):
        raise make_setting_error("accesstokenin", "it is header or query")
    return bool(value == "query")


class WebhookFactory:
    """Opens web hooks, for the protocol ``HTTP``.

    It remembers the consent of sinks, so that new connections need not ask.
    """

    protocols = (HTTP,)

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Remembered] = OrderedDict()
        self._lock = threading.Lock()

    def check(self, subscription: Subscription, policy: SinkPolicy) -> None:
        """Check sink, settings and credential, as far as possible without connecting. Raises ``SubscriptionError``."""
        _check_url(subscription.sink, "/sink", policy)
        read_settings(subscription.protocolsettings)
        credential = subscription.credential
        if credential is None:
            return
        if credential.credentialtype not in _CREDENTIALS:
            raise SubscriptionError(f"/sinkcredential/credentialtype: HTTP supports {', '.join(_CREDENTIALS)}")
        for name in ("accesstoken", "accesstokentype"):
            token_text = credential.secrets.get(name, credential.members.get(name, ""))
            if not (token_text.isascii() and token_text.isprintable()):
                raise SubscriptionError(f"/sinkcredential/{name}: a header takes printable ASCII")
        if credential.credentialtype == REFRESHTOKEN:
            endpoint = credential.members.get("refreshtokenendpoint", "")
            _check_url(endpoint, "/sinkcredential/refreshtokenendpoint", policy)
        if SIGNINGSECRET in credential.secrets:
            try:
                read_signing_key(credential.secrets[SIGNINGSECRET])
            except ValueError as error:
                raise SubscriptionError(f"/sinkcredential/{SIGNINGSECRET}: {error}") from None

    def open(self, subscription: Subscription, policy: SinkPolicy) -> _WebhookSink:
        """Return a web hook that connects when there is something to send. Raises ``DeliveryError``."""
        try:
            self.check(subscription, policy)
        except SubscriptionError as error:
            raise DeliveryError(str(error)) from None
        return _WebhookSink(subscription, policy, self._remember(subscription, policy))

    def _remember(self, subscription: Subscription, policy: SinkPolicy) -> _Remembered:
        with self._lock:
            remembered = self._known.pop(subscription.id, None)
            if remembered is None or remembered.subscription != subscription:
                remembered = _Remembered(subscription, policy)
            self._known[subscription.id] = remembered
            if len(self._known) > _MAX_REMEMBERED:
                self._known.popitem(last=False)
        if policy.consent is not None:
            remembered.set_consent(policy.consent)
        return remembered


class _Remembered:
    """The state of a sink that outlives its connection: consent, permitted rate and access token."""

    def __init__(self, subscription: Subscription, policy: SinkPolicy) -> None:
        self.subscription = subscription
        self.authorization = Authorization(subscription.credential, policy)
        self.pace: RateLimiter | None = None
        self._consent: Consent | None = None

    def set_consent(self, consent: Consent) -> None:
        """Store that the sink agrees to deliveries, and at which rate."""
        if consent != self._consent:
            self._consent, self.pace = consent, RateLimiter(consent.rate)


class _WebhookSink:
    """A web hook as a sink, for one thread at a time."""

    def __init__(self, subscription: Subscription, policy: SinkPolicy, remembered: _Remembered) -> None:
        self._settings = read_settings(subscription.protocolsettings)
        self._policy = policy
        self._remembered = remembered
        self._target = target_of(subscription.sink)
        self._connection = SinkConnection(subscription.sink, policy)
        secrets = subscription.credential.secrets if subscription.credential else {}
        self._key = read_signing_key(secrets[SIGNINGSECRET]) if SIGNINGSECRET in secrets else None

    def send(self, events: Sequence[JSONObject]) -> None:
        """Send each event as one request, or several events in one request in batch mode."""
        delivered_count = 0
        try:
            for batch in self._split_batches(events):
                self._post(batch)
                delivered_count += len(batch)
        except DeliveryError as error:
            error.delivered = delivered_count + error.delivered
            raise

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _split_batches(self, events: Sequence[JSONObject]) -> Iterator[Sequence[JSONObject]]:
        if self._settings.mode == STRUCTURED:
            yield from ([event] for event in events)
            return
        batch: list[JSONObject] = []
        size = 0
        for event in events:
            length = len(dump_json(event))
            if batch and size + length > _MOST_BYTES:
                yield batch
                batch, size = [], 0
            batch.append(event)
            size += length
        if batch:
            yield batch

    def _post(self, batch: Sequence[JSONObject]) -> None:
        pace = self._find_pace()
        pace.step()
        batched = self._settings.mode == BATCH
        body = dump_json(list(batch) if batched else batch[0])
        target, headers = self._build_head(batch, body)
        reply = self._connection.exchange(self._settings.method, target, headers, body)
        error = delivery_error(reply)
        if error is None:
            return
        if reply.status == 401:
            self._remembered.authorization.drop_token()
        # 413 and 415 may concern one event of many. Sent alone, the others may be accepted.
        if error.rejected and len(batch) > 1:
            self._post_one_by_one(batch)
            return
        raise error

    def _post_one_by_one(self, batch: Sequence[JSONObject]) -> None:
        """Send the events of a rejected batch one by one, to find the event that the sink rejects."""
        for delivered_count, event in enumerate(batch):
            try:
                self._post([event])
            except DeliveryError as error:
                error.delivered = delivered_count
                raise

    def _find_pace(self) -> RateLimiter:
        """Return the rate limiter for the sink.

        If the policy requires consent, the sink is asked for it once (D-34).
        """
        if self._remembered.pace is None:
            if self._policy.ask:
                self._remembered.set_consent(
                    request_consent(self._connection, self._target, self._policy, self._settings.rate)
                )
            else:
                self._remembered.set_consent(Consent(rate=self._settings.rate))
        assert self._remembered.pace is not None
        return self._remembered.pace

    def _build_head(self, batch: Sequence[JSONObject], body: bytes) -> tuple[str, dict[str, str]]:
        content = BATCH_TYPE if self._settings.mode == BATCH else EVENT_TYPE
        headers = {**self._settings.headers, **outgoing(), "Content-Type": content, ORIGIN: self._policy.origin}
        target = self._target
        if self._settings.query and (token := self._remembered.authorization.token()):
            target = f"{target}{'&' if '?' in target else '?'}access_token={quote(token, safe='')}"
            headers["Cache-Control"] = "no-store"
        else:
            headers |= self._remembered.authorization.header()
        if self._key is not None:
            ids = (str(batch[0]["id"]), str(batch[-1]["id"]))
            headers |= signature_headers(self._key, "..".join(dict.fromkeys(ids)), int(time.time()), body)
        return target, headers


def _check_url(url: str, place: str, policy: SinkPolicy) -> None:
    """Raise ``SubscriptionError`` if events must not be delivered to ``url``.

    The address of its host is checked again with each connection.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS[parts.scheme]
        fits = bool(parts.hostname) and url.isascii() and url.isprintable() and " " not in url
    except (ValueError, KeyError):
        raise SubscriptionError(f"{place}: it takes an https URL") from None
    if not fits or len(url) > _LONGEST_URL:
        raise SubscriptionError(f"{place}: it takes an https URL of up to {_LONGEST_URL} characters of ASCII")
    if parts.username is not None or parts.password is not None:
        raise SubscriptionError(f"{place}: names and passwords go into sinkcredential, not into the URL")
    check_allowed(host_of(parts), port, parts.scheme == "https", policy, place)


class RateLimiter:
    """Limits requests to ``rate`` a minute (None: no limit), with bursts of up to one second's requests.

    For one thread at a time.
    """

    def __init__(self, rate: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._each = 60.0 / rate if rate else 0.0
        self._clock = clock
        self._free = clock() - 1.0

    def step(self) -> None:
        """Count one request. Raises ``NotYet`` if the request has to wait."""
        now = self._clock()
        # Unused time is saved for one second at most, which allows a burst of one second's requests.
        free = max(self._free, now - 1.0)
        if free > now:
            raise NotYet("the sink's rate is used up", retry_after=free - now)
        self._free = free + self._each


def request_consent(connection: SinkConnection, target: str, policy: SinkPolicy, rate: int | None) -> Consent:
    """Ask a sink for its consent to deliveries from ``policy.origin``, at most ``rate`` a minute unless that is None.

    The status of the answer does not matter, only its header ``WebHook-Allowed-Origin`` (D-34). Raises
    ``DeliveryError`` if the sink does not agree.
    """
    headers = {ORIGIN: policy.origin}
    if rate is not None:
        headers["WebHook-Request-Rate"] = str(rate)
    if policy.callback:
        headers["WebHook-Request-Callback"] = policy.callback
    return read_consent(connection.exchange("OPTIONS", target, headers), policy.origin, rate)


def read_consent(reply: HTTPReply, origin: str, rate: int | None) -> Consent:
    """Return the consent in the answer to a request for it. Raises ``DeliveryError``."""
    allowed = reply.headers.get("webhook-allowed-origin", "").strip()
    if allowed != "*" and allowed.lower() != origin.lower():
        detail = f"it allows {allowed[:100]!r}" if allowed else "its answer to OPTIONS has no WebHook-Allowed-Origin"
        raise DeliveryError(f"the sink has not agreed to deliveries from {origin!r}: {detail}")
    rate_text = reply.headers.get("webhook-allowed-rate", "").strip()
    return Consent(rate=allowed_rate(rate_text, rate))


def allowed_rate(text: str, requested: int | None) -> int | None:
    """Return the requests a minute in ``WebHook-Allowed-Rate``; None means any number (``*``).

    If ``text`` is empty, return ``requested``. Raises ``DeliveryError`` if ``text`` is not a rate.
    """
    if not text:
        return requested
    if text == "*":
        return None
    if text.isascii() and text.isdigit() and len(text) <= _RATE_DIGITS and int(text) > 0:
        return int(text)
    raise DeliveryError(f"the sink allows a rate of {text[:100]!r}, which is neither * nor a number from 1")


class Authorization:
    """The credential that is sent with each request. For one thread."""

    def __init__(self, credential: Credential | None, policy: SinkPolicy) -> None:
        self._kind = credential.credentialtype if credential else ""
        self._members = {**credential.members, **credential.secrets} if credential else {}
        self._policy = policy
        self._token = self._members.get("accesstoken", "")
        self._expires = _parse_instant(self._members.get("accesstokenexpiresutc", ""))

    def header(self) -> dict[str, str]:
        """Return the header ``Authorization``; empty without a credential. Raises ``DeliveryError``."""
        if self._kind == PLAIN:
            pair = f"{self._members.get('identifier', '')}:{self._members.get('secret', '')}"
            return {"Authorization": f"Basic {base64.b64encode(pair.encode('utf-8')).decode('ascii')}"}
        token = self.token()
        return {"Authorization": f"{self._members.get('accesstokentype') or 'Bearer'} {token}"} if token else {}

    def token(self) -> str:
        """Return the access token; empty if there is none. Raises ``DeliveryError``.

        A token that is missing or about to expire is replaced if the credential has a refresh token.
        """
        over = self._expires is not None and self._expires - _EARLY < values.now()
        if self._kind == REFRESHTOKEN and (over or not self._token):
            self._refresh()
        elif self._kind == ACCESSTOKEN and self._expires is not None and self._expires < values.now():
            raise DeliveryError("the subscription's access token is over (accesstokenexpiresutc): update it")
        return self._token

    def drop_token(self) -> None:
        """Drop the access token after the sink rejected it (401), if it can be replaced with a refresh token."""
        if self._kind == REFRESHTOKEN:
            self._token = ""

    def _refresh(self) -> None:
        """Get an access token for the refresh token (RFC6749 6).

        A new refresh token in the answer replaces the old one.
        """
        endpoint = self._members.get("refreshtokenendpoint", "")
        sent = {"grant_type": "refresh_token", "refresh_token": self._members.get("refreshtoken", "")}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        connection = SinkConnection(endpoint, self._policy)
        try:
            reply = connection.exchange("POST", target_of(endpoint), headers, urlencode(sent).encode("ascii"))
        except DeliveryError as error:
            raise DeliveryError(f"no access token from {urlsplit(endpoint).hostname}: {error}") from None
        finally:
            connection.close()
        self._take(reply, str(urlsplit(endpoint).hostname))

    def _take(self, reply: HTTPReply, host: str) -> None:
        answer = _parse_object(reply)
        token, seconds = answer.get("access_token"), answer.get("expires_in")
        if reply.status != 200 or not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise DeliveryError(f"no access token from {host}: it answered {reply.status}")
        self._token = token
        self._expires = None
        if isinstance(seconds, (int, float)) and 0 < seconds < _LONGEST_EXPIRY:
            self._expires = values.now() + timedelta(seconds=seconds)
        if isinstance(again := answer.get("refresh_token"), str):
            self._members["refreshtoken"] = again


def _parse_object(reply: HTTPReply) -> values.JSONObject:
    try:
        document = parse_json(reply.body)
    except JSONError:
        return {}
    return document if isinstance(document, dict) else {}


def _parse_instant(text: str) -> datetime | None:
    return parse_timestamp(text) if text else None


def read_signing_key(secret: str) -> bytes:
    """Return the key in ``secret``: ``whsec_`` and 24 to 64 bytes in Base64. Raises ``ValueError``."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True) if secret.startswith(PREFIX) else b""
    except binascii.Error:
        key = b""
    if not _SHORTEST_KEY <= len(key) <= _LONGEST_KEY:
        raise ValueError(f"a secret for signatures is {PREFIX} and {_SHORTEST_KEY} to {_LONGEST_KEY} bytes in Base64")
    return key


def signature_headers(key: bytes, id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the three headers of a signed delivery. ``timestamp`` is in seconds since 1970."""
    signed = b"%s.%d.%s" % (id.encode("utf-8"), timestamp, body)
    signature = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode("ascii")
    return {"webhook-id": id, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{signature}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HTTPReply:
    """The answer to a request.

    Header names are in lower case. ``body`` is empty if it was larger than ``MAX_ANSWER``.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class SinkConnection:
    """A connection to the origin of ``url``, opened when it is first needed. For one thread."""

    def __init__(self, url: str, policy: SinkPolicy) -> None:
        self._parts = urlsplit(url)
        self._policy = policy
        self._deadline = Deadline(policy.timeout)
        self._connection: httpcore.HTTP11Connection | None = None

    def exchange(self, method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> HTTPReply:
        """Send one request and return the answer, within the policy's timeout. Raises ``DeliveryError``."""
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
            return self._send_request(request)
        except httpcore.TimeoutException:
            self.close()
            raise DeliveryError(f"no answer within {self._policy.timeout:g} seconds") from None
        except FetchError as error:
            raise DeliveryError(str(error)) from None
        except (*_BROKEN, OSError) as error:
            self.close()
            raise DeliveryError(f"the connection failed: {error or type(error).__name__}") from None

    def close(self) -> None:
        """Close the connection. The next request opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def _send_request(self, request: httpcore.Request) -> HTTPReply:
        if self._connection is not None and not self._connection.has_expired():
            try:
                return self._send_over(self._connection, request)
            except _BROKEN:
                pass  # the other end may hang up between two requests, and only using the connection shows it
        self.close()
        self._connection = self._connect()
        return self._send_over(self._connection, request)

    def _send_over(self, connection: httpcore.HTTP11Connection, request: httpcore.Request) -> HTTPReply:
        answer = connection.handle_request(request)
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers}
        body = bytearray()
        try:
            for chunk in answer.iter_stream():
                body += chunk
                if len(body) > MAX_ANSWER:  # only the status counts; the unread rest makes the connection unusable
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
            # Part of the cache key, because a test or an operator may change the variables at run time.
            trust = (os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
            stream = stream.start_tls(_make_tls_context(trust), host)
        origin = httpcore.Origin(self._parts.scheme.encode(), host.encode(), self._port)
        return httpcore.HTTP11Connection(origin=origin, stream=_Gathering(stream))


class _Gathering(httpcore.NetworkStream):
    """A stream that sends head and body of a request together when the answer is read: one packet instead of two."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream
        self._held = bytearray()

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Send the collected bytes, then read from the stream."""
        if self._held:
            held, self._held = bytes(self._held), bytearray()
            self._stream.write(held, timeout)
        return self._stream.read(max_bytes, timeout)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 - spent when reading
        """Collect ``buffer``, to send it with the next read."""
        self._held += buffer

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        """Return the extra information of the stream."""
        return self._stream.get_extra_info(info)


def target_of(url: str) -> str:
    """Return the path and query of ``url``, as in a request line."""
    parts = urlsplit(url)
    return f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"


@lru_cache(maxsize=4)
def _make_tls_context(trust: tuple[str | None, str | None]) -> ssl.SSLContext:  # noqa: ARG001 - where OpenSSL looks
    """Return a TLS context, which is cached because reading the system's certificates takes 20 ms."""
    return ssl.create_default_context()


def delivery_error(reply: HTTPReply) -> DeliveryError | None:
    """Return the error if an event was not accepted, else None (D-33).

    202 counts as accepted: there will be no other answer.
    """
    status = reply.status
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return DeliveryError(f"the sink answered {status}; redirects are not followed: subscribe its new address")
    if status == _GONE:
        return DeliveryError("the sink answered 410: it is gone for good", gone=True)
    if status in _UNACCEPTABLE:
        return DeliveryError(f"the sink answered {status}: it will not take this event", rejected=True)
    return DeliveryError(f"the sink answered {status}", retry_after=retry_after(reply.headers))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait from a number or a date in ``Retry-After`` (RFC9110 10.2.3), at most a day.

    Return None if there is no such header, or if it is invalid.
    """
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:12]), _LONGEST_WAIT)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, (_add_zone(when) - values.now()).total_seconds()), _LONGEST_WAIT)


def _add_zone(when: datetime) -> datetime:
    return when if when.tzinfo else when.replace(tzinfo=UTC)


FACTORY: Final = WebhookFactory()

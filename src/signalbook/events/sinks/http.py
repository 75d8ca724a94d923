"""Web hooks: events as HTTP requests in structured mode (CloudEvents http-webhook.md and bindings/http).

Binary mode would leave requests without payload, which web hooks may not be (D-22).
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlsplit

from signalbook.events.sinks import httprequests
from signalbook.events.sinks.base import EVENT_TYPE, Consent, DeliveryError, SinkPolicy, check_allowed, host_of
from signalbook.events.sinks.httprequests import (
    ACCESSTOKEN,
    ORIGIN,
    PLAIN,
    PORTS,
    REFRESHTOKEN,
    Authorization,
    RateLimiter,
    SinkConnection,
    ask_consent,
    delivery_error,
    target_of,
)
from signalbook.events.subscriptions.subscription import HTTP, Subscription, SubscriptionError
from signalbook.values import JSONObject, dump_json

STRUCTURED: Final = "structured"
BATCH: Final = "batch"
_METHODS: Final = ("POST", "PUT", "PATCH")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}", re.ASCII)
_VALUE: Final = re.compile(r"[!-~]([\t -~]{0,4094}[!-~])?", re.ASCII)
_MOST_HEADERS: Final = 32
_FASTEST: Final = 10**9
# Ours to set, or about the connection; a credential belongs where nobody reads it back.
_OURS: Final = frozenset(
    {
        *("authorization", "cookie", "proxy-authorization", "content-type", "content-length", "content-encoding"),
        *("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
        *("date", "expect", "host", "http2-settings"),
    }
)
_PLACE: Final = "/protocolsettings"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSettings:
    """``rate`` is how many requests a minute the sink is asked to allow, None if it is not asked for a number.

    ``query`` says whether an access token goes into the query, and not into a header (D-35).
    """

    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    mode: str = STRUCTURED
    rate: int | None = None
    query: bool = False


def read_settings(settings: JSONObject) -> HookSettings:
    """The settings of a subscription. Raises ``SubscriptionError``."""
    known: dict[str, Callable[[Any], Any]]
    known = {"method": _method, "headers": _headers, "mode": _mode, "rate": _rate, "accesstokenin": _token}
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise _wrong(unknown[0], f"HTTP has no such setting; there are {', '.join(known)}")
    found = {name: check(settings[name]) for name, check in known.items() if name in settings}
    if "accesstokenin" in found:
        found["query"] = found.pop("accesstokenin")
    return HookSettings(**found)


def _method(value: Any) -> str:
    if value not in _METHODS:
        raise _wrong("method", f"it is {', '.join(_METHODS)}")
    return str(value)


def _headers(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > _MOST_HEADERS:
        raise _wrong("headers", f"it takes an object of at most {_MOST_HEADERS} names and values")
    for name, content in value.items():
        here = f"headers/{name[:128]}"
        if not _NAME.fullmatch(name) or not isinstance(content, str) or not _VALUE.fullmatch(content):
            raise _wrong(here, "that is no header of HTTP")
        if name.lower() in _OURS or name.lower().startswith(("webhook-", "sec-")):
            raise _wrong(here, "this header is not for subscriptions to set; credentials go into sinkcredential")
    return dict(value)


def _mode(value: Any) -> str:
    if value == "binary":
        raise _wrong("mode", "web hooks want a payload, which binary mode would not have: structured or batch")
    if value not in (STRUCTURED, BATCH):
        raise _wrong("mode", f"it is {STRUCTURED} or {BATCH}")
    return str(value)


def _rate(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _FASTEST:
        raise _wrong("rate", "it is a number of requests a minute, from 1")
    return value


def _token(value: Any) -> bool:
    if value not in ("header", "query"):
        raise _wrong("accesstokenin", "it is header or query")
    return bool(value == "query")


def _wrong(name: str, detail: str) -> SubscriptionError:
    return SubscriptionError(f"{_PLACE}/{name}: {detail}")


BATCH_TYPE: Final = "application/cloudevents-batch+json; charset=utf-8"
SIGNINGSECRET: Final = "signingsecret"
_CREDENTIALS: Final = (PLAIN, ACCESSTOKEN, REFRESHTOKEN, "SIGNATURE")
_MOST_BYTES: Final = 1 << 20
_LONGEST_URL: Final = 4096
_REMEMBERED: Final = 10_000


class Hooks:
    """The kind ``HTTP``. It remembers what each sink agreed to, so that a new connection need not ask again."""

    protocols = (HTTP,)

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Memory] = OrderedDict()
        self._lock = threading.Lock()

    def check(self, subscription: Subscription, policy: SinkPolicy) -> None:
        """Sink, settings and credential, as far as they can be told without asking the sink."""
        _check_url(subscription.sink, "/sink", policy)
        read_settings(subscription.protocolsettings)
        credential = subscription.credential
        if credential is None:
            return
        if credential.credentialtype not in _CREDENTIALS:
            raise SubscriptionError(f"/sinkcredential/credentialtype: HTTP knows {', '.join(_CREDENTIALS)}")
        for name in ("accesstoken", "accesstokentype"):
            shown = credential.secrets.get(name, credential.members.get(name, ""))
            if not (shown.isascii() and shown.isprintable()):
                raise SubscriptionError(f"/sinkcredential/{name}: a header takes printable ASCII")
        if credential.credentialtype == REFRESHTOKEN:
            endpoint = credential.members.get("refreshtokenendpoint", "")
            _check_url(endpoint, "/sinkcredential/refreshtokenendpoint", policy)
        if SIGNINGSECRET in credential.secrets:
            try:
                httprequests.signing_key(credential.secrets[SIGNINGSECRET])
            except ValueError as error:
                raise SubscriptionError(f"/sinkcredential/{SIGNINGSECRET}: {error}") from None

    def open(self, subscription: Subscription, policy: SinkPolicy) -> _Hook:
        """A hook that connects when there is something to send."""
        try:
            self.check(subscription, policy)
        except SubscriptionError as error:
            raise DeliveryError(str(error)) from None
        return _Hook(subscription, policy, self._memory(subscription, policy))

    def _memory(self, subscription: Subscription, policy: SinkPolicy) -> _Memory:
        with self._lock:
            known = self._known.pop(subscription.id, None)
            if known is None or known.subscription != subscription:
                known = _Memory(subscription, policy)
            self._known[subscription.id] = known
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        if policy.consent is not None:
            known.agreed(policy.consent)
        return known


class _Memory:
    """What outlives a connection to a sink: its consent, the pace that it allows, the access token there is."""

    def __init__(self, subscription: Subscription, policy: SinkPolicy) -> None:
        self.subscription = subscription
        self.authorization = Authorization(subscription.credential, policy)
        self.pace: RateLimiter | None = None
        self._consent: Consent | None = None

    def agreed(self, consent: Consent) -> None:
        """The sink wants deliveries, this fast."""
        if consent != self._consent:
            self._consent, self.pace = consent, RateLimiter(consent.rate)


class _Hook:
    """One sink, for one thread at a time."""

    def __init__(self, subscription: Subscription, policy: SinkPolicy, memory: _Memory) -> None:
        self._settings = read_settings(subscription.protocolsettings)
        self._policy = policy
        self._memory = memory
        self._target = target_of(subscription.sink)
        self._line = SinkConnection(subscription.sink, policy)
        secrets = subscription.credential.secrets if subscription.credential else {}
        self._key = httprequests.signing_key(secrets[SIGNINGSECRET]) if SIGNINGSECRET in secrets else None

    def send(self, events: Sequence[JSONObject]) -> None:
        """Each event as a request of its own, or several in one in batch mode."""
        done = 0
        try:
            for batch in self._batches(events):
                self._post(batch)
                done += len(batch)
        except DeliveryError as error:
            error.delivered = done + error.delivered
            raise

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    def _batches(self, events: Sequence[JSONObject]) -> Iterator[Sequence[JSONObject]]:
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
        pace = self._pace()
        pace.step()
        batched = self._settings.mode == BATCH
        body = dump_json(list(batch) if batched else batch[0])
        target, headers = self._head(batch, body)
        reply = self._line.exchange(self._settings.method, target, headers, body)
        error = delivery_error(reply)
        if error is None:
            return
        if reply.status == 401:
            self._memory.authorization.refused()
        if error.rejected and len(batch) > 1:
            self._one_by_one(batch)
            return
        raise error

    def _one_by_one(self, batch: Sequence[JSONObject]) -> None:
        """A batch that is not understood, or too large: which of its events is to blame?"""
        for done, event in enumerate(batch):
            try:
                self._post([event])
            except DeliveryError as error:
                error.delivered = done
                raise

    def _pace(self) -> RateLimiter:
        """The pace that was agreed on; the sink is asked once (D-34)."""
        if self._memory.pace is None:
            if self._policy.ask:
                self._memory.agreed(ask_consent(self._line, self._target, self._policy, self._settings.rate))
            else:
                self._memory.agreed(Consent(rate=self._settings.rate))
        assert self._memory.pace is not None
        return self._memory.pace

    def _head(self, batch: Sequence[JSONObject], body: bytes) -> tuple[str, dict[str, str]]:
        content = BATCH_TYPE if self._settings.mode == BATCH else EVENT_TYPE
        headers = {**self._settings.headers, "Content-Type": content, ORIGIN: self._policy.origin}
        target = self._target
        if self._settings.query and (token := self._memory.authorization.token()):
            target = f"{target}{'&' if '?' in target else '?'}access_token={quote(token, safe='')}"
            headers["Cache-Control"] = "no-store"
        else:
            headers |= self._memory.authorization.header()
        if self._key is not None:
            ids = (str(batch[0]["id"]), str(batch[-1]["id"]))
            headers |= httprequests.signature_headers(self._key, "..".join(dict.fromkeys(ids)), int(time.time()), body)
        return target, headers


FACTORY: Final = Hooks()


def _check_url(url: str, place: str, policy: SinkPolicy) -> None:
    """Whether ``url`` is one to deliver to. Where its name leads is looked at with each connection."""
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

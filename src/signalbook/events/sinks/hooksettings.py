"""The protocol settings of web hooks, read and checked (subscriptions/spec.md 3.2.4.1; D-30)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from signalbook.events.subscriptions.subscription import SubscriptionError
from signalbook.values import JSONObject

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


def read(settings: JSONObject) -> HookSettings:
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

"""The consent of a web hook to get deliveries, and the rate that it allows (CloudEvents http-webhook.md 4)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from signalbook.events.sinks.base import Consent, DeliveryError, NotYet, Policy
from signalbook.events.sinks.line import Line, Reply

_DIGITS: Final = 9
ORIGIN: Final = "WebHook-Request-Origin"


class Pace:
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


def ask(line: Line, target: str, policy: Policy, rate: int | None) -> Consent:
    """Ask a sink whether it wants deliveries from ``policy.origin``, at most ``rate`` a minute if that is given.

    Its status says nothing, only ``WebHook-Allowed-Origin`` does (D-34). Raises ``DeliveryError`` if it does not agree.
    """
    headers = {ORIGIN: policy.origin}
    if rate is not None:
        headers["WebHook-Request-Rate"] = str(rate)
    if policy.callback:
        headers["WebHook-Request-Callback"] = policy.callback
    return consent(line.exchange("OPTIONS", target, headers), policy.origin, rate)


def consent(reply: Reply, origin: str, rate: int | None) -> Consent:
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

"""What a web hook's answer means for the delivery (CloudEvents http-webhook.md 2.2)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from signalbook import values
from signalbook.events.sinks.base import DeliveryError
from signalbook.events.sinks.line import Reply

_GONE: Final = 410
_NOT_THIS_ONE: Final = frozenset({413, 415})
"""Too large, or in a form that is not understood: the event will not get better."""
_LONGEST: Final = 86_400.0


def fault(reply: Reply) -> DeliveryError | None:
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
        return min(float(text[:12]), _LONGEST)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, (_aware(when) - values.now()).total_seconds()), _LONGEST)


def _aware(when: datetime) -> datetime:
    return when if when.tzinfo else when.replace(tzinfo=UTC)

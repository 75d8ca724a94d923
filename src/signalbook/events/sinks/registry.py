"""Which kinds of sinks there are: everything in the entry-point group ``signalbook.sinks``, the built-in ones too.

The name of an entry point is the ``protocol`` of subscriptions in lower case, its value an object that keeps to
``base.Kind``. It is imported when that protocol is first asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from signalbook.errors import SignalbookError
from signalbook.events.sinks.base import Kind
from signalbook.events.subscriptions.subscription import SubscriptionError

GROUP: Final = "signalbook.sinks"


class SinkClash(SignalbookError):
    """Two installed packages offer sinks of the same protocol; one of them must go."""


def find(protocol: str) -> Kind:
    """The kind that serves ``protocol``. Raises ``SubscriptionError`` if there is none, or not all that it takes."""
    point = _offered().get(protocol)
    if point is None:
        raise SubscriptionError(f"/protocol: there is no {protocol!r}; there are {', '.join(protocols())}")
    try:
        return _load(point)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("signalbook"):
            raise
        extra = point.extras[0] if point.extras else protocol.lower()
        raise SubscriptionError(
            f"/protocol: {protocol} takes the package {error.name!r}: pip install 'signalbook[{extra}]'"
        ) from None


def protocols() -> tuple[str, ...]:
    """The values of ``protocol`` that are served, sorted; some of them may take an extra that is not installed."""
    return tuple(sorted(_offered()))


def collect(points: Iterable[EntryPoint]) -> Mapping[str, EntryPoint]:
    """Entry points by protocol. Raises ``SinkClash`` if two differ under one name."""
    found: dict[str, EntryPoint] = {}
    for point in points:
        other = found.setdefault(point.name.upper(), point)
        if other.value != point.value:
            raise SinkClash(f"sinks of the protocol {point.name!r} are offered by both {other.value} and {point.value}")
    return found


@cache
def _offered() -> Mapping[str, EntryPoint]:
    return collect(entry_points(group=GROUP))


@cache
def _load(point: EntryPoint) -> Kind:
    loaded: Kind = point.load()
    return loaded

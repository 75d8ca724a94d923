"""Which kinds of sinks there are: everything in the entry-point group ``signalbook.sinks``, the built-in ones too.

The name of an entry point is the ``protocol`` of subscriptions in lower case, its value an object that keeps to
``base.Kind``. It is imported when that protocol is first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Final

from signalbook import plugins
from signalbook.events.sinks.base import Kind
from signalbook.events.subscriptions.subscription import SubscriptionError

GROUP: Final = "signalbook.sinks"


def find(protocol: str) -> Kind:
    """The kind that serves ``protocol``. Raises ``SubscriptionError`` if there is none, or not all that it takes."""
    point = _offered().get(protocol)
    if point is None:
        raise SubscriptionError(f"/protocol: there is no {protocol!r}; there are {', '.join(protocols())}")
    try:
        found: Kind = plugins.load(point)
        return found
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


def _offered() -> Mapping[str, EntryPoint]:
    return plugins.offered(GROUP, "protocol", plugins.upper)

"""What came last, so that what comes again is known."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

_REMEMBERED: Final = 10_000

T = TypeVar("T", bound=Hashable)


class Seen(Generic[T]):
    """The things seen last, up to ``limit`` of them: it may be no harm if one counts as new again."""

    def __init__(self, *, limit: int = _REMEMBERED) -> None:
        self._limit = limit
        self._known: OrderedDict[T, None] = OrderedDict()

    def __contains__(self, thing: T) -> bool:
        return thing in self._known

    def add(self, thing: T) -> None:
        """Remember ``thing``; the oldest may be forgotten."""
        self._known[thing] = None
        while len(self._known) > self._limit:
            self._known.popitem(last=False)

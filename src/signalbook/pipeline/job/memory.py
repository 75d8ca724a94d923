"""Caches for values that a process uses in several batches, and control of garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
# If more new objects than this still exist, making them old objects is worth the time.
_MANY: Final = 100_000


@contextmanager
def pause_collection() -> Iterator[None]:
    """Pause garbage collection in the context: for millions of new values it takes longer than creating them."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            # Most new objects stay in use. Freezing and unfreezing makes them old objects, which are not searched at
            # the next collection. For few objects this is not worth the call of ``get_freeze_count``, which is slow if
            # the program has frozen many objects.
            if gc.get_count()[0] > _MANY and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class Latest(Generic[K, V]):
    """A cache of the most recent values, up to ``most`` bytes in total. The last value is always kept.

    It serves jobs that alternate in one process, each with its own definitions.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: dict[K, tuple[V, int]] = {}

    def get(self, key: K) -> V | None:
        """Return the cached value of ``key``, or None."""
        cached = self._found.pop(key, None)
        if cached is None:
            return None
        self._found[key] = cached  # the latest is at the end
        return cached[0]

    def take(self, key: K) -> V | None:
        """Remove and return the cached value of ``key``, or None."""
        cached = self._found.pop(key, None)
        return None if cached is None else cached[0]

    def keep(self, key: K, value: V, size: int) -> None:
        """Store ``value`` of ``size`` bytes under ``key``, and drop the oldest other values if there is no room."""
        self._found[key] = value, size
        room = self._most
        for other_key, (_, entry_size) in reversed(list(self._found.items())):
            room -= entry_size
            if room < 0 and other_key != key:
                self._found.pop(other_key, None)


class Derived(Generic[V]):
    """A cache of the results of ``make`` for immutable values, which are compared by identity.

    Results that are not used between two calls of ``end_turn`` are dropped.
    """

    def __init__(self, make: Callable[[Any], V]) -> None:
        self._make = make
        # The entries contain the values themselves, so that no other object can get the same id.
        self._before: dict[int, tuple[Any, V]] = {}
        self._now: dict[int, tuple[Any, V]] = {}

    def end_turn(self) -> None:
        """Drop the results that were not used since the last call."""
        self._before, self._now = self._now, {}

    def __call__(self, value: Any) -> V:
        """Return the cached or new result of ``make`` for ``value``."""
        key = id(value)
        cached = self._now.get(key) or self._before.get(key)
        if cached is None:
            cached = value, self._make(value)
        self._now[key] = cached
        return cached[1]

"""The memory of a process between batches: what is not made again, and that nobody looks for cycles meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
# Objects that were made, and not gone again.
_MANY: Final = 100_000


@contextmanager
def pause_collection() -> Iterator[None]:
    """Pause the search for cycles: among millions of fresh values it takes longer than to make them."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            # What was made stays, most of it: as old objects it is not searched as soon as collecting goes on. Of few
            # that is not worth a look whether the program has frozen some of its own, which walks through all of those.
            if gc.get_count()[0] > _MANY and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class Latest(Generic[K, V]):
    """A cache of the most recent values up to ``most`` bytes together, at least the last one.

    Jobs that take turns in a process, each with its own definitions, find theirs again.
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
        """Keep ``value`` of ``size`` bytes, and the latest of the other values that there is room for."""
        self._found[key] = value, size
        room = self._most
        for other_key, (_, entry_size) in reversed(list(self._found.items())):
            room -= entry_size
            if room < 0 and other_key != key:
                self._found.pop(other_key, None)


class Derived(Generic[V]):
    """A cache of what ``make`` returns for immutable values, by identity, while they are in use."""

    def __init__(self, make: Callable[[Any], V]) -> None:
        self._make = make
        # With the values themselves: as long as one is here no other object has its id.
        self._before: dict[int, tuple[Any, V]] = {}
        self._now: dict[int, tuple[Any, V]] = {}

    def end_turn(self) -> None:
        """End this turn: results that were not used in it are dropped."""
        self._before, self._now = self._now, {}

    def __call__(self, value: Any) -> V:
        """Return the result for ``value``."""
        key = id(value)
        cached = self._now.get(key) or self._before.get(key)
        if cached is None:
            cached = value, self._make(value)
        self._now[key] = cached
        return cached[1]

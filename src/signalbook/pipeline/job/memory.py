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
def uncollected() -> Iterator[None]:
    """Look for no cycles meanwhile: among millions of fresh values that takes longer than to make them."""
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
        found = self._found.pop(key, None)
        if found is None:
            return None
        self._found[key] = found  # the latest is at the end
        return found[0]

    def take(self, key: K) -> V | None:
        """The same, which is kept no longer."""
        found = self._found.pop(key, None)
        return None if found is None else found[0]

    def keep(self, key: K, value: V, size: int) -> None:
        """Keep ``value``, of so many bytes, and of the others the latest that there is room for."""
        self._found[key] = value, size
        left = self._most
        for each, (_, own) in reversed(list(self._found.items())):
            left -= own
            if left < 0 and each != key:
                self._found.pop(each, None)


class Derived(Generic[V]):
    """A cache of what ``make`` returns for immutable values, by identity, while they are in use."""

    def __init__(self, make: Callable[[Any], V]) -> None:
        self._make = make
        # With the values themselves: as long as one is here no other object has its id.
        self._before: dict[int, tuple[Any, V]] = {}
        self._now: dict[int, tuple[Any, V]] = {}

    def turn(self) -> None:
        """End this turn: what was not asked for in it is forgotten."""
        self._before, self._now = self._now, {}

    def __call__(self, value: Any) -> V:
        """Return the result for ``value``."""
        key = id(value)
        found = self._now.get(key) or self._before.get(key)
        if found is None:
            found = value, self._make(value)
        self._now[key] = found
        return found[1]

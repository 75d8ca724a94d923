"""Mappings whose values are made when somebody asks for them: most definitions of a large book occur in no batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Deferred(Mapping[K, V]):
    """Values by the keys of ``sources``, each made of its source when first asked for, and once.

    Which keys there are is known without making anything.
    """

    def __init__(self, sources: Mapping[K, Any], make: Callable[[Any], V]) -> None:
        self._sources = sources
        self._make = make
        self._made: dict[K, V] = {}

    def __getitem__(self, key: K) -> V:
        found = self._made.get(key)
        if found is None:
            source = self._sources[key]
            found = self._made.setdefault(key, self._make(source))  # of two threads one wins
        return found

    def get(self, key: Any, default: Any = None) -> Any:
        """The value, without taking an error of making it for a key that is not there."""
        return self[key] if key in self._sources else default

    def __contains__(self, key: object) -> bool:
        return key in self._sources

    def __iter__(self) -> Iterator[K]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    @property
    def made(self) -> int:
        """How many values were asked for so far."""
        return len(self._made)

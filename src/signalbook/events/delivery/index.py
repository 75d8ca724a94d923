"""Who may want an event: by what it has, not by asking everybody."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from signalbook.events.delivery.interest import Key
from signalbook.events.filters import Event

T = TypeVar("T")


class Index(Generic[T]):
    """Members by the keys of their events. An event costs a look for each length of prefix there is, and its takers."""

    def __init__(self) -> None:
        # Dictionaries without values are sets that keep their order.
        self._always: dict[T, None] = {}
        # By attribute and length of the prefix, 0 for whole values; then by value.
        self._places: dict[tuple[str, int], dict[str, dict[T, None]]] = {}

    def add(self, member: T, keys: frozenset[Key] | None) -> None:
        """Have ``member`` found for events with one of ``keys``, or for all if there are none."""
        if keys is None:
            self._always[member] = None
            return
        for key in keys:
            self._places.setdefault(_place(key), {}).setdefault(key.value, {})[member] = None

    def remove(self, member: T, keys: frozenset[Key] | None) -> None:
        """Undo ``add``."""
        if keys is None:
            del self._always[member]
            return
        for key in keys:
            values = self._places[_place(key)]
            del values[key.value][member]
            if not values[key.value]:
                del values[key.value]
            if not values:
                del self._places[_place(key)]

    def candidates(self, event: Event) -> Iterable[T]:
        """Members that may want ``event``, each once."""
        found = dict(self._always)
        for (attribute, length), values in self._places.items():
            value = event[attribute]
            assert isinstance(value, str)
            members = values.get(value[:length] if length else value)
            if members:
                found.update(members)
        return found


def _place(key: Key) -> tuple[str, int]:
    return (key.attribute, 0 if key.exact else len(key.value))

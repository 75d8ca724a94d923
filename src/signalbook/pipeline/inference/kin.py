"""Objects that are of one kind wherever they stand in a stream: what is known of one of them is known of all.

A delivery of GitHub has an account as its sender, another as the owner of a repository, and so on: each of these places
may have had few values, all of them together had many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from signalbook.pipeline.inference.seen import Seen
from signalbook.pipeline.inference.texts import Room

# Fewer names than these may be alike by chance.
_LEAST_NAMES: Final = 4
_ALIKE: Final = 0.7
# Each set of names is held to every family: more of them are not looked at.
_MOST_SETS: Final = 500
# With as many values and no exception, the chance of one is below 1 % (the rule of three: 3 / n).
ENOUGH: Final = 300

Names = frozenset[str]


class Family(msgspec.Struct):
    """Places whose objects have about the same ``names``: what stood there as members, not what was within those."""

    names: Names
    objects: int = 0
    members: dict[str, Seen] = {}

    def add(self, place: Seen, room: Room) -> None:
        """Add one more place."""
        self.objects += place.objects
        for name, member in place.members.items():
            if name in self.members or room.take(name):
                self.members.setdefault(name, Seen()).tally(member, room)

    def alike(self, names: Names) -> bool:
        """Whether objects with these names belong here: most names of either are those of both."""
        return len(self.names & names) >= _ALIKE * len(self.names | names)


class Kin:
    """The families of a stream."""

    def __init__(self, places: Iterable[Seen]) -> None:
        self._families: dict[Names, Family] = {}
        self._room = Room()
        for place in places:
            for objects in _objects(place):
                self._sort(objects)

    def _sort(self, place: Seen) -> None:
        names = frozenset(place.members)
        family = self._families.get(names)
        if family is None:
            if len(names) < _LEAST_NAMES or len(self._families) == _MOST_SETS:
                return
            known = {id(family): family for family in self._families.values()}
            family = next((each for each in known.values() if each.alike(names)), Family(names=names))
            self._families[names] = family
        family.add(place, self._room)

    def known(self, place: Seen) -> Family | None:
        """What is known of the objects in ``place`` from others like them; None if that is nothing, or not needed."""
        return None if place.objects >= ENOUGH else self._families.get(frozenset(place.members))


def _objects(place: Seen) -> Iterator[Seen]:
    """All places of objects in ``place``."""
    whole = place.whole()
    if whole.objects and whole.others is None:
        yield whole
    if place.items is not None:
        yield from _objects(place.items)
    for member in whole.members.values():
        yield from _objects(member)

"""What was seen in one place of many JSON values: a summary of bounded size that merges with others of its kind.

Tasks summarise their part of a stream, the driver merges the summaries: the order does not matter.
"""

from __future__ import annotations

from typing import Final

import msgspec

from signalbook.pipeline.inference.texts import Room, Texts
from signalbook.values import JSON

MOST_MEMBERS: Final = 1000
DEEPEST: Final = 32
MOST_CASES: Final = 32
LONGEST_CASE: Final = 64
# Putting cases together copies all that is within, level by level.
DEEPEST_CASE: Final = 6
TELLING: Final = (
    "type", "kind", "action", "event", "eventType", "event_type", "@type", "__typename", "object", "operation", "op",
    "method", "status", "state",
)  # fmt: skip
"""Members that tell by their text what else an object has, in the order they are looked for."""


class Seen(msgspec.Struct, omit_defaults=True):
    """How often each kind of value stood in one place, and what was within.

    ``members`` are those of objects by name, ``others`` all those beyond ``MOST_MEMBERS`` names in one, or without
    ``Room``; ``items`` are the elements of arrays. What lies deeper than ``DEEPEST`` is not looked at.

    As long as all objects have the same telling member ``by``, with at most ``MOST_CASES`` texts, members are in
    ``cases``, by its text; from then on ``cases`` is None. ``whole`` has them together.
    """

    nulls: int = 0
    booleans: int = 0
    integers: int = 0
    numbers: int = 0
    arrays: int = 0
    objects: int = 0
    texts: Texts = msgspec.field(default_factory=Texts)
    items: Seen | None = None
    members: dict[str, Seen] = {}
    others: Seen | None = None
    by: str = ""
    cases: dict[str, Seen] | None = {}

    @property
    def count(self) -> int:
        """Values seen here."""
        scalars = self.nulls + self.booleans + self.integers + self.numbers
        return scalars + self.texts.count + self.arrays + self.objects

    def take(self, value: JSON, room: Room, depth: int = 0) -> None:
        """Look at one more value."""
        if value is None:
            self.nulls += 1
        elif isinstance(value, str):
            self.texts.take(value, room)
        elif isinstance(value, bool):
            self.booleans += 1
        elif isinstance(value, int):
            self.integers += 1
        elif isinstance(value, dict):
            self._take_object(value, room, depth + 1)
        elif isinstance(value, list):
            self._take_array(value, room, depth + 1)
        else:
            self.numbers += 1

    def _take_object(self, value: dict[str, JSON], room: Room, depth: int) -> None:
        self.objects += 1
        if depth > DEEPEST:
            return
        holder = self._case(*(_told(value) if depth <= DEEPEST_CASE else ("", "")), room)
        if holder is not self:
            holder.objects += 1
        for name, member in value.items():
            place = holder.members.get(name)
            if place is None:
                place = holder._place(name, room)
            place.take(member, room, depth)

    def _case(self, by: str, text: str, room: Room) -> Seen:
        """What holds the members of objects that have ``text`` in ``by``: a case of its own, or this place itself."""
        if self.cases is None:
            return self
        found = self.cases.get(text) if by == self.by else None
        if found is not None:
            return found
        fits = by and (by == self.by or not self.cases) and len(self.cases) < MOST_CASES and room.take(text)
        if not fits:
            self._join(room)
            return self
        self.by = by
        found = self.cases[text] = Seen(cases=None)
        return found

    def _join(self, room: Room) -> None:
        """Forget which case a member was seen in; what has its place already needs no more room."""
        cases, self.cases, self.by = self.cases or {}, None, ""
        for case in cases.values():
            if self.members or self.others:
                self._add_members(case, room)
            else:
                self.members, self.others = case.members, case.others

    def _place(self, name: str, room: Room) -> Seen:
        if len(self.members) < MOST_MEMBERS and room.take(name):
            place = self.members[name] = Seen()
            return place
        if self.others is None:
            self.others = Seen()
        return self.others

    def _take_array(self, value: list[JSON], room: Room, depth: int) -> None:
        self.arrays += 1
        if depth > DEEPEST:
            return
        if value and self.items is None:
            self.items = Seen()
        for item in value:
            self.items.take(item, room, depth)  # type: ignore[union-attr]

    def merge(self, other: Seen, room: Room) -> None:
        """Add what ``other`` saw."""
        self.tally(other, room)
        if other.items is not None:
            self.items = merged(self.items, other.items, room)
        if other.cases is None:
            self._join(room)
        for text, case in (other.cases or {}).items():
            holder = self._case(other.by, text, room)
            if holder is not self:
                holder.objects += case.objects
            holder._add_members(case, room)
        self._add_members(other, room)

    def tally(self, other: Seen, room: Room) -> None:
        """Add what ``other`` saw in this place itself, and nothing of what was within."""
        self.nulls += other.nulls
        self.booleans += other.booleans
        self.integers += other.integers
        self.numbers += other.numbers
        self.arrays += other.arrays
        self.objects += other.objects
        self.texts.merge(other.texts, room)

    def _add_members(self, other: Seen, room: Room) -> None:
        if other.others is not None:
            self.others = merged(self.others, other.others, room)
        for name, member in other.members.items():
            (self.members.get(name) or self._place(name, room)).merge(member, room)

    def names(self) -> set[str]:
        """The members of all cases."""
        return {name for case in (self, *(self.cases or {}).values()) for name in case.members}

    def whole(self) -> Seen:
        """The same, with the members of all cases together."""
        if not self.cases:
            return self
        found = Seen()
        found.merge(self, Room())
        found._join(Room())
        return found


def merged(one: Seen | None, other: Seen, room: Room) -> Seen:
    """Both in one, which is ``one`` if there is one."""
    if one is None:
        one = Seen()
    one.merge(other, room)
    return one


def _told(value: dict[str, JSON]) -> tuple[str, str]:
    """The telling member of an object and its text, two empty ones if it has none."""
    for name in TELLING:
        text = value.get(name)
        if isinstance(text, str):
            return (name, text) if len(text) <= LONGEST_CASE else ("", "")
    return "", ""

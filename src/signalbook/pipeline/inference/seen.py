"""What was seen in one place of many JSON values: a summary of bounded size that merges with others of its kind.

Tasks summarise their part of a stream, the driver merges the summaries: the order does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from signalbook.messages.timestamps import is_timestamp
from signalbook.uris import is_uri
from signalbook.values import JSON

MOST: Final = 128 * 1024 * 1024
_PLACE: Final = 500
MOST_MEMBERS: Final = 1000
MOST_TEXTS: Final = 64
LONGEST_TEXT: Final = 128
DEEPEST: Final = 32

_DATE: Final = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])", re.ASCII)
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_EMAIL: Final = re.compile(r"[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+", re.ASCII)
_IPV4: Final = re.compile(r"(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}", re.ASCII)

FORMATS: Final[dict[str, Callable[[str], object]]] = {
    "date-time": is_timestamp,
    "date": _DATE.fullmatch,
    "uuid": _UUID.fullmatch,
    "email": _EMAIL.fullmatch,
    "ipv4": _IPV4.fullmatch,
    "uri": lambda text: "://" in text and is_uri(text),
}
"""Formats of JSON Schema that are told from other texts by looking at them."""


class Room(msgspec.Struct):
    """How much more a summary may remember, in bytes, roughly.

    Each of its places is bounded by itself, but a stream of strange messages may make any number of places.
    """

    left: int = MOST

    def take(self, name: str) -> bool:
        """Whether there is room for a place of this name, or for a text, which is taken then."""
        cost = _PLACE + len(name)
        if cost > self.left:
            return False
        self.left -= cost
        return True


class Texts(msgspec.Struct, omit_defaults=True):
    """The texts in one place: how many, which ones while they are few and short, and the formats all of them have.

    ``values`` is None once there were more than ``MOST_TEXTS`` different ones, or one beyond ``LONGEST_TEXT``
    characters; ``formats`` is None as long as there was no text at all.
    """

    count: int = 0
    values: dict[str, int] | None = {}
    formats: list[str] | None = None

    def take(self, text: str, room: Room) -> None:
        """Count one more."""
        self.count += 1
        if self.formats is None:
            self.formats = [name for name, fits in FORMATS.items() if fits(text)]
        elif self.formats:
            self.formats = [name for name in self.formats if FORMATS[name](text)]
        self._remember(text, 1, room)

    def merge(self, other: Texts, room: Room) -> None:
        """Add what ``other`` saw."""
        self.count += other.count
        if other.formats is not None:
            mine = other.formats if self.formats is None else self.formats
            self.formats = [name for name in mine if name in other.formats]
        if other.values is None:
            self.values = None
            return
        for text, count in other.values.items():
            self._remember(text, count, room)

    def _remember(self, text: str, count: int, room: Room) -> None:
        values = self.values
        if values is None:
            return
        if text in values:
            values[text] += count
        elif len(values) < MOST_TEXTS and len(text) <= LONGEST_TEXT and room.take(text):
            values[text] = count
        else:
            self.values = None


class Seen(msgspec.Struct, omit_defaults=True):
    """How often each kind of value stood in one place, and what was within.

    ``members`` are those of objects by name, ``others`` all those beyond ``MOST_MEMBERS`` names in one, or without
    ``Room``; ``items`` are the elements of arrays. What lies deeper than ``DEEPEST`` is not looked at.
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
        for name, member in value.items():
            place = self.members.get(name)
            if place is None:
                place = self._place(name, room)
            place.take(member, room, depth)

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
        for name in ("nulls", "booleans", "integers", "numbers", "arrays", "objects"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.texts.merge(other.texts, room)
        if other.items is not None:
            self.items = merged(self.items, other.items, room)
        if other.others is not None:
            self.others = merged(self.others, other.others, room)
        for name, member in other.members.items():
            (self.members.get(name) or self._place(name, room)).merge(member, room)


def merged(one: Seen | None, other: Seen, room: Room) -> Seen:
    """Both in one, which is ``one`` if there is one."""
    if one is None:
        one = Seen()
    one.merge(other, room)
    return one

"""The texts in one place of many JSON values, and how much a summary may remember."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from signalbook.messages.cloudevents import is_timestamp
from signalbook.uris import is_uri

MOST: Final = 128 * 1024 * 1024
_PLACE: Final = 500
MOST_TEXTS: Final = 64
LONGEST_TEXT: Final = 128

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

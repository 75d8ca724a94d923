"""JSON documents that are read again and again: a Resource with the text that it had before is not read again.

A document is taken apart as far as its Resources without reading these: four objects in each other, a registry, its
Groups of a type, a Group, its Resources of a type. Other documents have something else there, which does no harm.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from signalbook.values import JSON, MAX_DEPTH, JSONError, JSONObject, parse_json

_LEVELS: Final = 4
_QUOTE: Final = b'"'
# What else than an object may be where one is expected: lists are left as they are written, as Resources are.
_Other = str | int | float | bool | None | list[msgspec.Raw]
_Resources = dict[str, msgspec.Raw]
_Group = dict[str, _Resources | _Other]
_Groups = dict[str, _Group | _Other]
_document: Final = msgspec.json.Decoder(dict[str, _Groups | _Other])


class Parts:
    """The Resources of the document that was read last, by their text.

    A document has the very same object for each that the last one had. Nobody may change one: whoever does has to throw
    this away. ``plain`` are the ids of those that name no file, wherever they are in a document (``sources.attach``).
    """

    def __init__(self) -> None:
        self._known: dict[bytes, _Part] = {}
        self.plain: frozenset[int] = frozenset()

    def parse(self, text: bytes, *, max_depth: int = MAX_DEPTH) -> JSON:
        """The value of a JSON text, as ``parse_json`` has it, to the same depth each time. Raises ``JSONError``."""
        reading = _Parse(text, self._known, max_depth)
        try:
            value, quotes = reading.read_document()
        except (msgspec.DecodeError, UnicodeError, RecursionError, JSONError):
            quotes = -1
        # Of a name that an object has twice the first value is passed over, whatever is in it. Then there are more
        # quotation marks than in what was read: parse_json reads it all, and says what is wrong in its own words.
        if quotes != text.count(_QUOTE):
            reading.read.clear()
            value = parse_json(text, max_depth=max_depth)
        self._known = reading.read
        self.plain = frozenset(id(part.value) for part in reading.read.values() if part.is_plain)
        return value


class _Part(NamedTuple):
    """A Resource, with the number of quotation marks in its text; a plain one has no member with a name in ``url``."""

    value: JSONObject
    quotes: int
    is_plain: bool


class _Parse:
    """The reading of one document. ``read`` are its Resources."""

    def __init__(self, text: bytes, known: dict[bytes, _Part], max_depth: int) -> None:
        self.read: dict[bytes, _Part] = {}
        self._text = text
        self._known = known
        self._max_depth = max_depth

    def read_document(self) -> tuple[JSONObject, int]:
        """Read all, and count the quotation marks in the text."""
        return self._read_object(_document.decode(self._text), 1)

    def _read_object(self, members: dict[str, Any], level: int) -> tuple[JSONObject, int]:
        value: JSONObject = {}
        total = 0
        for name, member in members.items():
            if level == _LEVELS:
                value[name], quotes = self._read_resource(bytes(member))
            elif member.__class__ is dict:
                value[name], quotes = self._read_object(member, level + 1)
            elif member.__class__ is list:
                items = list(map(bytes, member))
                value[name] = [parse_json(item, max_depth=self._max_depth - level - 1) for item in items]
                quotes = sum(item.count(_QUOTE) for item in items)
            else:
                value[name] = member
                quotes = self._count_quotes(member) if isinstance(member, str) else 0
            total += self._count_quotes(name) + quotes
        return value, total

    def _read_resource(self, text: bytes) -> tuple[JSON, int]:
        part = self._known.get(text)
        if part is None:
            value, quotes = parse_json(text, max_depth=self._max_depth - _LEVELS), text.count(_QUOTE)
            if not isinstance(value, dict):
                return value, quotes
            is_plain = b'url"' not in text and b"\\u" not in text  # a letter may be written by its number
            part = _Part(value, quotes, is_plain)
        self.read[text] = part
        return part.value, part.quotes

    def _count_quotes(self, text: str) -> int:
        """Return the quotation marks in a string as it is written."""
        if '"' in text and b"\\u0022" in self._text:  # no way to tell where there are fewer of them
            raise JSONError(text)
        return 2 + text.count('"')

"""JSON documents that are read again and again: a Resource with the text that it had before is not read again.

A document is taken apart as far as its Resources without reading these: four objects in each other, a registry, its
Groups of a type, a Group, its Resources of a type. Other documents have something else there, which does no harm.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from signalbook.values import JSON, MAX_DEPTH, JSONError, JSONObject, parse_json

_LEVELS: Final = 4
_OBJECT: Final = ord("{")
_QUOTE: Final = b'"'
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Parts:
    """The Resources of the document that was read last, by their text.

    A document has the very same object for each that the last one had. Nobody may change one: whoever does has to throw
    this away. ``plain`` are the ids of those that name no file, wherever they are in a document (``sources.attach``).
    """

    def __init__(self) -> None:
        self._known: dict[bytes, _Part] = {}
        self.plain: frozenset[int] = frozenset()

    def parse(self, text: bytes) -> JSON:
        """The value of a JSON text, as ``parse_json`` has it. Raises ``JSONError``."""
        reading = _Reading(self._known)
        try:
            value, quotes = reading.object(text, 1)
        except (msgspec.DecodeError, UnicodeError, RecursionError, JSONError):
            quotes = -1
        # Of a name that an object has twice the first value is passed over, whatever is in it. Then there are more
        # quotation marks than in what was read: parse_json reads it all, and says what is wrong in its own words.
        if quotes != text.count(_QUOTE):
            reading.read.clear()
            value = parse_json(text)
        self._known = reading.read
        self.plain = frozenset(id(part.value) for part in reading.read.values() if part.is_plain)
        return value


class _Part(NamedTuple):
    """A Resource, with the number of quotation marks in its text; a plain one has no member with a name in ``url``."""

    value: JSONObject
    quotes: int
    is_plain: bool


class _Reading:
    """One document being read; ``read`` are its Resources."""

    def __init__(self, known: dict[bytes, _Part]) -> None:
        self.read: dict[bytes, _Part] = {}
        self._known = known

    def object(self, text: Any, level: int) -> tuple[JSONObject, int]:
        """An object that is the ``level``-th from outside, and how many quotation marks there are in what was read."""
        value: JSONObject = {}
        total = 0
        for name, raw in _members.decode(text).items():
            if memoryview(raw)[0] != _OBJECT:
                found = bytes(raw)
                value[name], quotes = parse_json(found, max_depth=MAX_DEPTH - level), found.count(_QUOTE)
            elif level < _LEVELS:
                value[name], quotes = self.object(raw, level + 1)
            else:
                part = self._resource(bytes(raw))
                value[name], quotes = part.value, part.quotes
            if '"' in name:  # written with more quotation marks, or fewer, than it is counted with
                raise JSONError(name)
            total += quotes + 2
        return value, total

    def _resource(self, text: bytes) -> _Part:
        found = self._known.get(text)
        if found is None:
            is_plain = b'url"' not in text and b"\\u" not in text  # a letter may be written by its number
            found = _Part(parse_json(text, max_depth=MAX_DEPTH - _LEVELS), text.count(_QUOTE), is_plain)
        self.read[text] = found
        return found

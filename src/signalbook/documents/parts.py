"""Parse JSON documents that are read repeatedly, without parsing unchanged Resources again.

A document is split down to its Resources, which are four levels deep: registry, Groups of a type, Group, Resources of
a type. Resources are parsed only if their text has changed. Documents with another structure may be parsed too.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from signalbook.values import JSON, MAX_DEPTH, JSONError, JSONObject, parse_json

_LEVELS: Final = 4
_QUOTE: Final = b'"'
# Other values that may stand in the place of an object. Lists are kept as text at first, like Resources.
_Other = str | int | float | bool | None | list[msgspec.Raw]
_Resources = dict[str, msgspec.Raw]
_Group = dict[str, _Resources | _Other]
_Groups = dict[str, _Group | _Other]
_document: Final = msgspec.json.Decoder(dict[str, _Groups | _Other])


class Parts:
    """A cache of the Resources in the document that was parsed last, by their text.

    If the next document contains a Resource with the same text, it contains the same Python object. So callers must not
    change these objects, or must discard this cache. ``plain`` contains the Python ``id`` of each Resource that refers
    to no file (``sources.attach``).
    """

    def __init__(self) -> None:
        self._known: dict[bytes, _Part] = {}
        self.plain: frozenset[int] = frozenset()

    def parse(self, text: bytes, *, max_depth: int = MAX_DEPTH) -> JSON:
        """Parse JSON like ``parse_json``, reusing known Resources. Use the same ``max_depth`` for every document.

        Raises ``JSONError``.
        """
        reading = _Parse(text, self._known, max_depth)
        try:
            value, quotes = reading.read_document()
        except (msgspec.DecodeError, UnicodeError, RecursionError, JSONError):
            quotes = -1
        # If an object has a name twice, the first value was skipped without checking it. Then the text has more
        # quotation marks than the parsed parts. In this case parse the whole text, so that parse_json reports errors.
        if quotes != text.count(_QUOTE):
            reading.read.clear()
            value = parse_json(text, max_depth=max_depth)
        self._known = reading.read
        self.plain = frozenset(id(part.value) for part in reading.read.values() if part.is_plain)
        return value


class _Part(NamedTuple):
    """A Resource, and the number of quotation marks in its text.

    ``is_plain`` is True if no name of a member ends with ``url``.
    """

    value: JSONObject
    quotes: int
    is_plain: bool


class _Parse:
    """Parses one document. ``read`` collects its Resources by their text, and ``known`` are those of the last one."""

    def __init__(self, text: bytes, known: dict[bytes, _Part], max_depth: int) -> None:
        self.read: dict[bytes, _Part] = {}
        self._text = text
        self._known = known
        self._max_depth = max_depth

    def read_document(self) -> tuple[JSONObject, int]:
        """Parse the document, and return it with the number of quotation marks in the parsed parts."""
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
            is_plain = b'url"' not in text and b"\\u" not in text  # a letter may be written as an escape
            part = _Part(value, quotes, is_plain)
        self.read[text] = part
        return part.value, part.quotes

    def _count_quotes(self, text: str) -> int:
        """Return the number of quotation marks with which the string ``text`` is written in JSON."""
        if '"' in text and b"\\u0022" in self._text:  # the number cannot be known: parse it all
            raise JSONError(text)
        return 2 + text.count('"')

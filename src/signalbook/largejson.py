"""Decode large JSON texts in steps, so that other threads can run between the steps.

A decoder holds the interpreter's lock from the first byte to the last. For a text of 60 MB with 20 million values, all
other threads would wait for seconds. This module cuts the text at commas into pieces of about 100 KB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from signalbook.values import JSON, MAX_DEPTH, JSONError, TooManyValues, count_separators, parse_json

MAX_VALUES: Final = 1_000_000
"""The largest number of values in a document. A decoded value takes about a hundred bytes, many times its text."""
LARGE: Final = 1 << 18
"""Texts with more bytes are decoded in steps. A decoder needs only a few milliseconds for smaller texts."""
_STEP_BYTES: Final = 1 << 16
_WINDOW: Final = 1 << 20
"""The number of bytes that are searched at once for commas, brackets and quotes."""
# The group is empty for a string whose closing quote is behind the end of the window.
_JSON_TOKEN: Final = re.compile(rb'[\]\[{},]|"(?:[^"\\]++|\\.)*+("?)', re.DOTALL)
# Match up to 256 members that are neither arrays nor objects at once, each with its comma, because most of a text
# consists of such members. Text before a bracket is skipped as a whole, so that each byte is read only a few times.
_RUN: Final = re.compile(
    rb'(?:[^"\[\]{},]*+(?:"(?:[^"\\]++|\\.)*+"[^"\[\]{},]*+){0,2}+,){1,256}+'
    rb'|[\]\[{}]|"(?:[^"\\]++|\\.)*+("?)|[^"\[\]{},]++',
    re.DOTALL,
)
_REST: Final = re.compile(rb'(?:[^"\\]++|\\.)*+("?)', re.DOTALL)
_SPACE: Final = b" \t\r\n"
_CLOSING: Final = dict(zip(b"[{", b"]}", strict=True))
_ARRAY: Final = ord("[")
_COMMA: Final = ord(",")
_STRUCTURE: Final = b"[]{},"
_BETWEEN: Final = 2
"""The largest number of strings between two commas or brackets: a name and a value."""
_AT_BYTE: Final = re.compile(r"\(byte (\d+)\)")


def parse_untrusted_json(
    data: bytes,
    *,
    max_depth: int = MAX_DEPTH,
    max_values: int = MAX_VALUES,
    unique: bool = False,
    exact: bool = False,
) -> JSON:
    """Parse like ``parse_json``, but decode large texts in steps.

    Raises ``JSONError``, or ``TooManyValues`` before any value is decoded if there are more than ``max_values``.
    """
    decode = parse_json if len(data) <= LARGE else parse_large_json
    return decode(data, max_depth=max_depth, max_values=max_values, unique=unique, exact=exact)


def parse_large_json(
    data: bytes,
    *,
    max_depth: int = MAX_DEPTH,
    max_values: int = MAX_VALUES,
    unique: bool = False,
    exact: bool = False,
    step: int = _STEP_BYTES,
) -> JSON:
    """Parse like ``parse_untrusted_json``, always in steps of about ``step`` bytes."""
    _check_size(data, max_depth, max_values)
    return _Reader(data, unique=unique, exact=exact, step=step).read()


def _check_size(data: bytes, max_depth: int, max_values: int) -> None:
    """Raise ``JSONError`` for too many values or levels."""
    windows = range(0, len(data), _WINDOW)
    # Separators within strings only make this count too high. So most texts need no exact count.
    most = sum(count_separators(data[start : start + _WINDOW]) for start in windows)
    if most <= max_values and _is_shallow(data, windows, max_depth):
        return
    values = depth = 0
    for _, token in _find_tokens(data, _JSON_TOKEN):
        if token in b"[{":
            depth += 1
            if depth > max_depth:
                raise JSONError(f"nested deeper than {max_depth} levels")
        elif token != _COMMA:
            depth -= 1
            continue
        values += 1
        if values > max_values:
            raise TooManyValues(max_values)


def _is_shallow(data: bytes, windows: range, max_depth: int) -> bool:
    opened = sum(data[at : at + _WINDOW].count(b"[") + data[at : at + _WINDOW].count(b"{") for at in windows)
    return opened <= max_depth


def _find_tokens(data: bytes, pattern: re.Pattern[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the position and byte of every bracket, brace and comma outside strings.

    With the pattern ``_RUN``, only the last comma of a run of simple members is yielded.
    """
    position, end, between = 0, len(data), 0
    while position < end:
        window = min(position + _WINDOW, end)
        for match in pattern.finditer(data, position, window):
            last = match.end() - 1
            token = data[last]
            if token in _STRUCTURE and match[1] is None:
                between = 0
                yield last, token
            elif match[1] is not None:
                between += 1
                if between > _BETWEEN:
                    raise _build_error(match.start())
                if not match[1]:
                    position = _find_string_end(data, match.end())
                    break
        else:
            position = window


def _find_string_end(data: bytes, position: int) -> int:
    """Return the position after the closing quote of the string that continues at ``position``."""
    while position < len(data):
        # An escape that the window cuts off is matched again from the next position.
        match = _REST.match(data, position, min(position + _WINDOW, len(data)))
        assert match is not None  # the pattern also matches the empty string
        if match[1]:
            return match.end()
        if match.end() == position:
            break
        position = match.end()
    raise JSONError("Input data was truncated")


class _Container:
    """An array or object whose closing bracket has not been reached yet."""

    __slots__ = ("comma", "placed", "start", "taken", "value")

    def __init__(self, start: int) -> None:
        self.start = start
        self.value: JSON = None
        """The members decoded so far, or None if no member has been decoded."""
        self.taken = start + 1
        """The position where the text that is not decoded yet begins: after a comma, a bracket, or a member."""
        self.placed = False
        """True if ``taken`` is the end of a member that was decoded separately."""
        self.comma = start
        """The position of the last comma between members, or ``start`` if there was no comma."""


class _Reader:
    """A decoder of one text. The limits on values and levels have been checked before."""

    def __init__(self, data: bytes, *, unique: bool, exact: bool, step: int) -> None:
        self._data = data
        self._unique = unique
        self._exact = exact
        self._step = step

    def read(self) -> JSON:
        """Decode the whole text and return its value."""
        open_containers: list[_Container] = []
        for position, token in _find_tokens(self._data, _RUN):
            if token in _CLOSING:
                if not open_containers and not self._is_blank(0, position):
                    raise _build_error(0)
                open_containers.append(_Container(position))
            elif not open_containers:
                raise _build_error(position)
            elif token == _COMMA:
                self._pass_comma(open_containers[-1], position)
            else:
                top = open_containers.pop()
                if token != _CLOSING[self._data[top.start]]:
                    raise _build_error(position)
                if not open_containers:
                    return self._finish_whole(top, position)
                if top.value is not None or position - top.taken > self._step:
                    self._place(open_containers[-1], top, position)
        if open_containers:
            raise JSONError("Input data was truncated")
        return parse_json(self._data, unique=self._unique, exact=self._exact)  # neither an array nor an object

    def _pass_comma(self, container: _Container, comma: int) -> None:
        """Handle the comma at position ``comma``. ``_find_tokens`` yields only the last one of a run of members."""
        container.comma = comma
        if container.placed:
            first = self._data.index(b",", container.taken)
            if not self._is_blank(container.taken, first):
                raise _build_error(container.taken)
            container.placed = False
            container.taken = first + 1
        if comma - container.taken > self._step:
            self._take(container, comma)
            container.taken = comma + 1

    def _finish_whole(self, top: _Container, end: int) -> JSON:
        self._close(top, end)
        if not self._is_blank(end + 1, len(self._data)):
            raise JSONError(f"JSON is malformed: trailing characters (byte {end + 1})")
        return top.value

    def _close(self, container: _Container, end: int) -> None:
        """Decode the rest of a container whose closing bracket is at ``end``."""
        if not container.placed:
            self._take(container, end)
        elif not self._is_blank(container.taken, end):
            raise _build_error(container.taken)

    def _take(self, container: _Container, end: int) -> None:
        """Decode the members of ``container`` up to ``end``, and add them to its value."""
        data, start = self._data, container.taken
        # No member before ``end`` is an error, unless the container is empty: then it has no comma.
        if self._is_blank(start, end) and container.comma > container.start:
            raise _build_error(end)
        opening = data[container.start]
        members = self._decode(b"%c%b%c" % (opening, data[start:end], _CLOSING[opening]), start - 1)
        if container.value is None:
            container.value = members
        elif opening == _ARRAY:
            container.value += members
        else:
            self._add(container.value, members)

    def _place(self, parent: _Container, child: _Container, end: int) -> None:
        """Decode the rest of ``child``, which ends at ``end``, and add it to ``parent`` after the members before it."""
        self._close(child, end)
        if parent.placed:  # there is no comma between them
            raise _build_error(child.start)
        if parent.comma >= parent.taken:
            self._take(parent, parent.comma)
            parent.taken = parent.comma + 1
        before = self._data[parent.taken : child.start]
        if self._data[parent.start] == _ARRAY:
            if before.strip(_SPACE):
                raise _build_error(parent.taken)
            parent.value = parent.value or []
            parent.value.append(child.value)
        else:
            name = self._decode(b"{%bnull}" % before, parent.taken - 1)
            parent.value = parent.value or {}
            self._add(parent.value, dict.fromkeys(name, child.value))
        parent.taken = end + 1
        parent.placed = True

    def _decode(self, text: bytes, start: int) -> JSON:
        """Decode a piece of the text that begins at ``start``. Positions in errors refer to the whole text."""
        try:
            return parse_json(text, max_depth=len(text), unique=self._unique, exact=self._exact)
        except JSONError as error:
            message = _AT_BYTE.sub(lambda found: f"(byte {int(found[1]) + start})", str(error))
            raise JSONError(message) from None

    def _add(self, members: JSON, more: JSON) -> None:
        if self._unique and not members.keys().isdisjoint(more):
            name = next(name for name in more if name in members)
            raise JSONError(f"an object has the name {name[:100]!r} twice")
        members |= more

    def _is_blank(self, start: int, end: int) -> bool:
        return not self._data[start:end].strip(_SPACE)


def _build_error(position: int) -> JSONError:
    return JSONError(f"JSON is malformed: invalid character (byte {position})")

"""JSON arrays of any length, element by element: where one ends is found here, what it says is not looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from signalbook.pipeline.failures import PipelineError
from signalbook.pipeline.sources.base import Frame, Offsets, one_message
from signalbook.pipeline.sources.lines import BLOCK, MAX_LINE, Bytes

MAX_ELEMENT: Final = MAX_LINE
_QUOTE, _ESCAPE, _COMMA = b'"\\,'
_BLANK: Final = b" \t\r\n"


def _table(values: Mapping[bytes, int]) -> npt.NDArray[np.int8]:
    table = np.zeros(256, np.int8)
    for characters, value in values.items():
        table[list(characters)] = value
    return table


_DEPTHS: Final = _table({b"[{": 1, b"]}": -1})
_IS_STRUCTURAL: Final = _table({b"[{]},": 1}).astype(bool)
_IS_BLANK: Final = _table({_BLANK: 1}).astype(bool)


def frames(path: str, file: Bytes) -> Iterator[Frame]:
    """The elements of the array in a file; a position is an index in it.

    A file that is no array is one message. What is left of an array that is cut off, and what follows one, is one
    message that is unreadable. Raises ``PipelineError`` for an element beyond ``MAX_ELEMENT``, and ``OSError``.
    """
    head = _first_character(file)
    if head != b"[":
        content = _to_end(path, file, head, 0)
        if content:
            yield one_message(path, content, 0)
        return
    number, rest = 0, b""
    while piece := file.read(max(BLOCK, len(rest))):
        data = rest + piece
        commas, close = _boundaries(data)
        ends = commas if close is None else np.append(commas, close)
        found = _frame(path, data, ends, number)
        if close is not None and number == 0 and len(found) == 1 and not found.raw(0):
            found = _frame(path, data, ends[:0], 0)  # an array of nothing
        if len(found):
            yield found
        number += len(found)
        if close is not None:
            yield from _following(path, file, data[close + 1 :], number)
            return
        rest = data[commas[-1] + 1 :] if len(commas) else data
        _bounded(path, rest, number)
    yield one_message(path, rest.strip(_BLANK), number, fault="the file ends inside of its JSON array: it is cut off")


def _first_character(file: Bytes) -> bytes:
    """The first character that is no blank; ``b""`` if there is none."""
    while (character := file.read(1)) and character in _BLANK:
        pass
    return character


def _boundaries(data: bytes) -> tuple[Offsets, int | None]:
    """Where in an array the commas between its elements are, and where it ends if it does.

    ``data`` begins between two elements.
    """
    text = np.frombuffer(data, np.uint8)
    places = np.flatnonzero(_IS_STRUCTURAL[text])
    places = places[np.searchsorted(_quotes(text), places) % 2 == 0]
    characters = text[places]
    depths = np.cumsum(_DEPTHS[characters], dtype=np.int64)
    closing = np.flatnonzero(depths < 0)
    last = len(places) if not len(closing) else int(closing[0])
    commas = places[:last][(characters[:last] == _COMMA) & (depths[:last] == 0)]
    return commas, int(places[last]) if len(closing) else None


def _quotes(text: npt.NDArray[np.uint8]) -> Offsets:
    """Where strings begin and end: at quotes that no odd number of backslashes precedes."""
    quotes = np.flatnonzero(text == _QUOTE)
    escapes = np.flatnonzero(text == _ESCAPE)
    if not len(escapes):
        return quotes
    breaks = np.flatnonzero(np.diff(escapes) > 1)
    firsts = escapes[np.append(0, breaks + 1)]
    lasts = escapes[np.append(breaks, len(escapes) - 1)]
    escaped = lasts[(lasts - firsts) % 2 == 0] + 1
    return np.setdiff1d(quotes, escaped, assume_unique=True)


def _frame(path: str, data: bytes, ends: Offsets, number: int) -> Frame:
    """The elements that end where ``ends`` says, without the blanks around them."""
    starts = np.concatenate([[0], ends[:-1] + 1])[: len(ends)].astype(np.int64)
    solid = np.append(np.flatnonzero(~_IS_BLANK[np.frombuffer(data, np.uint8)]), len(data))
    starts = np.minimum(solid[np.searchsorted(solid, starts)], ends)
    before = np.searchsorted(solid, ends) - 1
    ends = np.maximum(np.where(before < 0, 0, solid[before] + 1), starts)
    return Frame(
        path=path, block=data, starts=starts, ends=ends, positions=np.arange(number, number + len(ends), dtype=np.int64)
    )


def _following(path: str, file: Bytes, rest: bytes, number: int) -> Iterator[Frame]:
    content = _to_end(path, file, rest, number)
    if content:
        yield one_message(path, content, number, fault="bytes follow the JSON array")


def _to_end(path: str, file: Bytes, head: bytes, number: int) -> bytes:
    """``head`` and the rest of the file, without the blanks around it."""
    content = bytearray(head.lstrip(_BLANK))
    while piece := file.read(BLOCK):
        content += piece if content else piece.lstrip(_BLANK)
        _bounded(path, content, number)
    return bytes(content.rstrip(_BLANK))


def _bounded(path: str, data: bytes | bytearray, number: int) -> None:
    if len(data) > MAX_ELEMENT:
        raise PipelineError(f"{path}: element {number} of the array is longer than {MAX_ELEMENT} bytes; is this JSON?")

"""JSON arrays of any length, element by element: where one ends is found here, what it says is not looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from signalbook.pipeline.sources.base import MAX_MESSAGE, MessageBatch, Offsets, one_message
from signalbook.pipeline.sources.limits import KEPT, too_long
from signalbook.pipeline.sources.lines import BLOCK, Bytes

_QUOTE, _ESCAPE, _COMMA = b'"\\,'
_BLANK: Final = b" \t\r\n"


def _table(values: Mapping[bytes, int]) -> npt.NDArray[np.int8]:
    table = np.zeros(256, np.int8)
    for characters, value in values.items():
        table[list(characters)] = value
    return table


_DEPTHS: Final = _table({b"[{": 1, b"]}": -1})
_IS_STRUCTURAL: Final = _table({b"[{]},": 1}).astype(bool)


def array_batches(path: str, file: Bytes, limit: int = MAX_MESSAGE) -> Iterator[MessageBatch]:
    """The elements of the array in a file; a position is an index in it.

    A file that is no array is one message. What is left of an array that is cut off, and what follows one, is one
    message that is unreadable. Of an element beyond ``limit`` bytes the beginning is kept, as a batch that says so.
    Raises ``OSError``.
    """
    first = _first_piece(file)
    if not first.startswith(b"["):
        whole, size = _to_end(file, first, limit)
        if whole:
            yield one_message(path, whole, 0) if size <= limit else too_long(path, whole, 0, size, limit)
        return
    scan, number, pending, lost = _Scan(), 0, [b""], _Lost()
    for piece in filter(None, chain([first[1:]], iter(partial(file.read, BLOCK), b""))):
        ends, close = scan.boundaries(piece)
        pending.append(piece)
        if not len(ends):
            if lost.size or sum(map(len, pending)) > limit:
                lost.add(pending)
                pending = []
            continue
        data = b"".join(pending)
        ends += len(data) - len(piece)
        if lost.size:
            lost.add([data[: int(ends[0])]])
            yield too_long(path, lost.head, number, lost.size, limit)
            data, ends = data[int(ends[0]) + 1 :], ends[1:] - (ends[0] + 1)
            lost, number = _Lost(), number + 1
        found = _batch(path, data, ends, number)
        if close and number == 0 and len(found) == 1 and not found.raw(0):
            found = _batch(path, data, ends[:0], 0)  # an array of nothing
        if len(found):
            yield found
        number += len(found)
        pending = [data[int(ends[-1]) + 1 :] if len(ends) else data]
        if close:
            yield from _following(path, file, pending[0], number, limit)
            return
    rest = (lost.head or b"".join(pending)).strip(_BLANK)
    yield one_message(path, rest, number, error="the file ends inside of its JSON array: it is cut off")


def _first_piece(file: Bytes) -> bytes:
    """Some bytes from the first on that is no blank; ``b""`` if there is none."""
    while piece := file.read(BLOCK):
        if found := piece.lstrip(_BLANK):
            return found
    return b""


@dataclass(slots=True)
class _Lost:
    """What was read of an element that is too long: its beginning, and how many bytes."""

    head: bytes = b""
    size: int = 0

    def add(self, pieces: Sequence[bytes]) -> None:
        """Pieces that are not kept."""
        if len(self.head) < KEPT:
            self.head = (self.head + b"".join(pieces))[:KEPT]
        self.size += sum(map(len, pieces))


@dataclass(slots=True)
class _Scan:
    """How far into an array its pieces have led: how deep, and whether into a string or behind its backslash."""

    depth: int = 0
    in_string: bool = False
    escaping: bool = False

    def boundaries(self, piece: bytes) -> tuple[Offsets, bool]:
        """Where in the next piece elements end: at commas, and at the end of the array, if that is the last of them."""
        text = np.frombuffer(piece, np.uint8)
        quotes = self._quotes(text)
        places = np.flatnonzero(_IS_STRUCTURAL[text])
        places = places[(np.searchsorted(quotes, places) + self.in_string) % 2 == 0]
        characters = text[places]
        depths = self.depth + np.cumsum(_DEPTHS[characters], dtype=np.int64)
        closing = np.flatnonzero(depths < 0)
        last = int(closing[0]) if len(closing) else len(places)
        commas = places[:last][(characters[:last] == _COMMA) & (depths[:last] == 0)]
        self.in_string ^= len(quotes) % 2 == 1
        self.depth = int(depths[-1]) if len(depths) else self.depth
        return np.append(commas, places[last : last + 1]), len(closing) > 0

    def _quotes(self, text: npt.NDArray[np.uint8]) -> Offsets:
        """Where strings begin and end: at quotes that no odd number of backslashes precedes."""
        quotes = np.flatnonzero(text == _QUOTE)
        escapes = np.flatnonzero(text == _ESCAPE)
        if self.escaping:
            escapes = np.append(-1, escapes)  # the one that the piece before ended with
        self.escaping = False
        if not len(escapes):
            return quotes
        breaks = np.flatnonzero(np.diff(escapes) > 1)
        firsts = escapes[np.append(0, breaks + 1)]
        lasts = escapes[np.append(breaks, len(escapes) - 1)]
        escaped = lasts[(lasts - firsts) % 2 == 0] + 1
        self.escaping = bool(len(escaped)) and int(escaped[-1]) == len(text)
        return np.setdiff1d(quotes, escaped, assume_unique=True)


def _batch(path: str, data: bytes, ends: Offsets, number: int) -> MessageBatch:
    """The elements that end where ``ends`` says, without the blanks around them."""
    bounds = [_trimmed(data, start + 1, end) for start, end in pairwise([-1, *ends.tolist()])]
    starts, ends = np.array(bounds, np.int64).reshape(-1, 2).T
    positions = np.arange(number, number + len(ends), dtype=np.int64)
    data = data[: int(ends[-1])] if len(ends) else b""  # the next element counts with its own batch
    return MessageBatch(path=path, content=data, starts=starts, ends=ends, positions=positions)


def _trimmed(data: bytes, start: int, end: int) -> tuple[int, int]:
    """The element between two places, without blanks; most have one before them at most."""
    if start < end and data[start] in _BLANK:
        start += 1
    if start < end and data[start] not in _BLANK and data[end - 1] not in _BLANK:
        return start, end
    element = data[start:end].rstrip(_BLANK)
    end = start + len(element)
    return end - len(element.lstrip(_BLANK)), end


def _following(path: str, file: Bytes, rest: bytes, number: int, limit: int) -> Iterator[MessageBatch]:
    content, _ = _to_end(file, rest, limit)
    if content:
        yield one_message(path, content, number, error="bytes follow the JSON array")


def _to_end(file: Bytes, head: bytes, limit: int) -> tuple[bytes, int]:
    """``head`` and the rest of the file without the blanks around it, and its size; the beginning of what is longer."""
    content = bytearray(head.lstrip(_BLANK))
    size = len(content)
    while piece := file.read(BLOCK):
        found = piece if content else piece.lstrip(_BLANK)
        size += len(found)
        if size <= limit:
            content += found
        else:
            del content[KEPT:]
    return (bytes(content.rstrip(_BLANK)), len(content)) if size <= limit else (bytes(content), size)

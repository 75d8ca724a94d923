"""Files of lines, plain or gzip, in blocks of whole lines."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Final

import numpy as np

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources.base import Frame, Split
from signalbook.pipeline.sources.limits import KEPT, too_long

# Blocks fit a processor's cache; larger ones cost a page fault per 4 KiB (docs/decisions/070-one-pass-on-arrow.md).
BLOCK: Final = 1 << 20
ENDLESS: Final = 1 << 62
"""More bytes than any file has."""
Bytes = gzip.GzipFile | FileIO
_NEWLINE: Final = ord("\n")
_STEP: Final = 64 * 1024


def frames(split: Split) -> Iterator[Frame]:
    """The lines that begin in ``split``, as frames whose positions are byte offsets in the (unpacked) file.

    Of a line beyond the split's limit the beginning is kept, as a frame that says so. Raises ``PipelineError`` for a
    file that cannot be read.
    """
    with reading(split.path) as file:
        offset = _seek(file, split)
        # of a packed file the size says nothing
        remaining = ENDLESS if is_packed(split.path) else split.end - offset
        yield from _Lines(file, split.path, split.limit, offset, remaining).frames()


def open_file(path: str) -> Bytes:
    """A file for reading bytes, unpacked if its name ends in ``.gz``."""
    return gzip.open(path, "rb") if is_packed(path) else Path(path).open("rb", buffering=0)


@contextmanager
def reading(path: str) -> Iterator[Bytes]:
    """An open file. Raises ``PipelineError`` where it, or what is inside of it, cannot be read."""
    try:
        with open_file(path) as file:
            yield file
    except (OSError, EOFError, zlib.error) as error:
        raise PipelineError(f"cannot read {path}: {error}") from error


def is_packed(path: str) -> bool:
    """Whether a file is gzip, by its name."""
    return path.endswith(".gz")


@dataclass(slots=True)
class _Lines:
    """How far a split is read: ``rest`` is at hand of the line that begins at ``offset``, and has no newline."""

    file: Bytes
    path: str
    limit: int
    offset: int
    remaining: int
    rest: bytes = b""

    def frames(self) -> Iterator[Frame]:
        """Blocks of whole lines; the last line of a file may lack its newline."""
        while self.remaining > 0:
            # a long line is copied a few times only
            piece = self.file.read(min(max(BLOCK, len(self.rest)), self.remaining))
            if not piece:
                break
            self.remaining -= len(piece)
            yield from self._take(piece)
        if self.rest:
            yield from self._last()

    def _take(self, piece: bytes) -> Iterator[Frame]:
        while piece:
            cut = piece.rfind(b"\n") + 1
            if cut:
                block = self.rest + piece[:cut]
                yield _frame(self.path, block, self.offset)
                self.offset += len(block)
                self.rest = piece[cut:]
                return
            if len(self.rest) + len(piece) <= self.limit:
                self.rest += piece
                return
            found, piece = self._skip(piece)
            yield found

    def _last(self) -> Iterator[Frame]:
        """The line that begins in the split, and ends behind it."""
        while piece := self.file.read(max(64 * 1024, len(self.rest))):
            cut = piece.find(b"\n") + 1
            if not cut and len(self.rest) + len(piece) > self.limit:
                yield self._skip(piece)[0]
                return
            self.rest += piece[:cut] if cut else piece
            if cut:
                break
        yield _frame(self.path, self.rest, self.offset)

    def _skip(self, piece: bytes) -> tuple[Frame, bytes]:
        """Keep nothing of the line but its beginning; what is at hand behind it, as far as it is in the split."""
        head, size = (self.rest + piece[:KEPT])[:KEPT], len(self.rest) + len(piece)
        more, following, self.remaining = _to_newline(self.file, self.remaining)
        found = too_long(self.path, head, self.offset, size + more, self.limit)
        self.offset += size + more + 1
        self.rest = b""
        return found, following if self.remaining >= 0 else b""


def _seek(file: Bytes, split: Split) -> int:
    """Go to the first line that begins in the split; one that began before belongs to the split before."""
    if split.start == 0:
        return 0
    file.seek(split.start - 1)
    offset = split.start + _to_newline(file, 0)[0]
    file.seek(offset)
    return offset


def _to_newline(file: Bytes, remaining: int) -> tuple[int, bytes, int]:
    """Bytes up to the end of the line, what was read behind it, and how many of ``remaining`` bytes are left.

    None is read behind those unless the line goes on there; then less than none are left.
    """
    size = 0
    while piece := file.read(min(_STEP, remaining) if remaining > 0 else _STEP):
        remaining -= len(piece)
        place = piece.find(b"\n")
        if place >= 0:
            return size + place, piece[place + 1 :], remaining
        size += len(piece)
    return size, b"", remaining


def _frame(path: str, block: bytes, offset: int) -> Frame:
    if not block.endswith(b"\n"):
        block += b"\n"
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE).astype(np.int64, copy=False)
    starts = np.empty_like(ends)
    starts[0] = 0
    starts[1:] = ends[:-1] + 1
    return Frame(path=path, block=block, starts=starts, ends=ends, positions=starts + offset, lines=True)

"""Files of lines, plain or gzip, in blocks of whole lines."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Final

import numpy as np

from signalbook.pipeline.failures import PipelineError
from signalbook.pipeline.sources.base import Frame, Split

# Blocks fit a processor's cache; larger ones cost a page fault per 4 KiB (docs/decisions/070-one-pass-on-arrow.md).
BLOCK: Final = 1 << 20
MAX_LINE: Final = 256 * 1024 * 1024
Bytes = gzip.GzipFile | FileIO
_NEWLINE: Final = ord("\n")


def frames(split: Split) -> Iterator[Frame]:
    """The lines that begin in ``split``, as frames whose positions are byte offsets in the (unpacked) file.

    Raises ``PipelineError`` for a file that cannot be read, or a line beyond ``MAX_LINE``.
    """
    with reading(split.path) as file:
        for block, offset in _blocks(file, split):
            yield _frame(split.path, block, offset)


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


def _blocks(file: Bytes, split: Split) -> Iterator[tuple[bytes, int]]:
    """Blocks of whole lines with the offset of each; the last line of a file may lack its newline."""
    offset = _seek(file, split)
    # of a packed file the size says nothing
    remaining = MAX_LINE * MAX_LINE if is_packed(split.path) else split.end - offset
    rest = b""
    while remaining > 0:
        piece = file.read(min(max(BLOCK, len(rest)), remaining))  # a long line is copied a few times only
        remaining -= len(piece)
        if not piece:
            break
        cut = piece.rfind(b"\n") + 1
        if cut:
            block = rest + piece[:cut]
            yield block, offset
            offset += len(block)
            rest = piece[cut:]
        else:
            rest = _longer(rest, piece, split.path, offset)
    if rest:
        yield rest + _to_newline(file, rest, split.path, offset), offset


def _seek(file: Bytes, split: Split) -> int:
    """Go to the first line that begins in the split; one that began before belongs to the split before."""
    if split.start == 0:
        return 0
    file.seek(split.start - 1)
    skipped = _to_newline(file, b"", split.path, split.start - 1)
    offset = split.start - 1 + len(skipped)
    file.seek(offset)
    return offset


def _to_newline(file: Bytes, rest: bytes, path: str, offset: int) -> bytes:
    """From where the file stands to the end of the line, its newline included."""
    tail = b""
    while piece := file.read(max(64 * 1024, len(tail))):
        cut = piece.find(b"\n") + 1
        if cut:
            return tail + piece[:cut]
        tail = _longer(tail, piece, path, offset, len(rest))
    return tail


def _longer(line: bytes, piece: bytes, path: str, offset: int, more: int = 0) -> bytes:
    if len(line) + len(piece) + more > MAX_LINE:
        raise PipelineError(f"{path}: the line at byte {offset} is longer than {MAX_LINE} bytes; is this a text file?")
    return line + piece


def _frame(path: str, block: bytes, offset: int) -> Frame:
    if not block.endswith(b"\n"):
        block += b"\n"
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE).astype(np.int64, copy=False)
    starts = np.empty_like(ends)
    starts[0] = 0
    starts[1:] = ends[:-1] + 1
    return Frame(path=path, block=block, starts=starts, ends=ends, positions=starts + offset, lines=True)

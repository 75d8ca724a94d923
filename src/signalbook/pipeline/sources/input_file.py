"""Input files while they are read: wherever they lie, unpacked, as UTF-8, and up to where they are damaged.

What a file has before its damage is handed out; the next read raises ``DamagedFile``. That is only for what stays as it
is. Where a store or a network fails ``PipelineError`` is raised, and Spark tries the task again.
"""

from __future__ import annotations

import codecs
import errno
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import BinaryIO, Final, Protocol, Self, cast

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import place_of
from signalbook.pipeline.sources.base import BLANK, DAMAGED, UNREADABLE, DamagedFile, Split
from signalbook.pipeline.sources.compression import (
    BROKEN,
    SIGNATURE_BYTES,
    Compression,
    DecompressedFile,
    detect_compression,
)

ENDLESS: Final = 1 << 62
"""More bytes than any file has."""
# Bytes of a request to a store: fewer take as long as that.
_REQUEST: Final = 4 * 1024 * 1024
# Bytes of the first request at a place, where few are asked for: most often something else is looked at next.
_LOOK: Final = 64 * 1024
# What is said once and always. Not EIO: mounted buckets and soft NFS say it of a connection that is lost.
_LASTING: Final = frozenset({errno.EACCES, errno.EPERM, errno.EISDIR})
# Longer ones first: that of UTF-32 begins as that of UTF-16 does.
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MAX_MARK_BYTES: Final = 4


class Readable(Protocol):
    """A file of bytes that is read forwards, from a place on."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, fewer only at the end."""
        ...

    def seek(self, place: int, /) -> int:
        """Go to a place."""
        ...


@contextmanager
def open_input(split: Split) -> Iterator[InputFile]:
    """Open the file of a split, and decompress it if it is compressed. Raises ``DamagedFile`` and ``PipelineError``."""
    place = place_of(split.path, split.storage)
    local = place.folder is not None
    with _explain_errors(split.path, local=local, nothing=True):
        file = place.open()
    with file, InputFile(split.path, file, local=local) as input_file:
        yield input_file


class InputFile:
    """An open file; what is before its damage is read, and then the damage raised."""

    def __init__(self, path: str, file: BinaryIO, *, local: bool) -> None:
        self._path = path
        self._local = local
        self._file: Readable = file if local else ReadAhead(file)
        self._read = 0
        self._damage: Exception | None = None
        with _explain_errors(path, local=local, nothing=True):
            head = self._file.read(SIGNATURE_BYTES)
            self._file.seek(0)
        self._compression = detect_compression(path, head)
        self._unpacked = self._compression.open(cast("BinaryIO", self._file)) if self._compression else None

    @property
    def is_compressed(self) -> bool:
        """True if the file is decompressed while it is read: its size and splits say nothing about its content."""
        return self._compression is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if isinstance(self._file, ReadAhead):
            self._file.close()

    def read(self, size: int, /) -> bytes:
        """Return the next bytes. Raises ``DamagedFile`` if the file is damaged."""
        with _explain_errors(self._path, local=self._local, nothing=self._read == 0, compression=self._compression):
            content = self._file.read(size) if self._unpacked is None else self._unpack(self._unpacked, size)
        self._read += len(content)
        return content

    def _unpack(self, file: DecompressedFile, size: int) -> bytes:
        """The next bytes, up to where it is damaged. Raises what ``file`` does, first and ever after."""
        parts: list[bytes] = []
        while size > 0 and self._damage is None:
            try:
                # not ``read``, which loses what it has where it fails
                part = file.read1(size)
            except BROKEN as error:
                self._damage = error
                break
            if not part:
                break
            parts.append(part)
            size -= len(part)
        if self._damage is not None and not parts:
            raise self._damage
        return b"".join(parts)

    def seek(self, place: int, /) -> int:
        """Go to a place. Raises as ``read`` does."""
        self._damage = None
        with _explain_errors(self._path, local=self._local, nothing=False, compression=self._compression):
            return (self._unpacked or self._file).seek(place)


class ReadAhead:
    """A file in a store: a request is under way while the answer to the one before is processed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._pool = ThreadPoolExecutor(1)
        self._next_piece: Future[bytes] | None = None
        self._piece = b""
        self._at = 0
        self._end = 0  # of the piece, in the file

    def read(self, size: int, /) -> bytes:
        """The next bytes. Raises ``OSError``."""
        parts: list[bytes] = []
        while size > 0 and (self._at < len(self._piece) or self._read_piece(size)):
            part = self._piece[self._at : self._at + size]
            self._at += len(part)
            size -= len(part)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def seek(self, place: int, /) -> int:
        """Go to a place; one that is near is read on to, which takes no longer than a request. Raises ``OSError``."""
        while self._piece and 0 < place - self._end < _REQUEST and self._read_piece(_REQUEST):
            pass
        if 0 <= self._end - place <= len(self._piece):
            self._at = len(self._piece) - (self._end - place)
        else:
            self._settle()
            self._piece, self._at, self._end = b"", 0, place
            self._file.seek(place)
        return place

    def close(self) -> None:
        """Wait for what is under way."""
        self._settle()
        self._pool.shutdown()

    def _read_piece(self, size: int) -> bool:
        """Read the next piece, because of ``size`` bytes. Return False at the end."""
        if size <= _LOOK and not self._piece:
            piece = self._file.read(_LOOK)
        else:
            piece = self._file.read(_REQUEST) if self._next_piece is None else self._next_piece.result()
            self._next_piece = self._pool.submit(self._file.read, _REQUEST) if piece else None
        self._piece, self._at, self._end = piece, 0, self._end + len(piece)
        return bool(piece)

    def _settle(self) -> None:
        if self._next_piece is not None:
            with suppress(OSError):
                self._next_piece.result()
            self._next_piece = None


@contextmanager
def _explain_errors(path: str, *, local: bool, nothing: bool, compression: Compression | None = None) -> Iterator[None]:
    """Raise ``DamagedFile`` for content that cannot be read, and ``PipelineError`` for errors that may pass."""
    rule = UNREADABLE if nothing else DAMAGED
    try:
        yield
    except BROKEN as error:
        raise DamagedFile(path, f"damaged {compression.name if compression else 'file'}: {error}", rule) from error
    except OSError as error:
        if local and error.errno in _LASTING:
            raise DamagedFile(path, str(error.strerror), rule) from error
        raise PipelineError(f"cannot read {path}: {error}") from error


def open_utf8(path: str, file: Readable) -> tuple[Readable, int]:
    """Return text as UTF-8 from its beginning, and the length of its byte order mark; UTF-16 is recoded.

    Places in that are those of its UTF-8. Raises ``DamagedFile`` for UTF-32, which nobody sends.
    """
    file.seek(0)
    head = file.read(_MAX_MARK_BYTES)
    mark, encoding = next(((mark, name) for mark, name in _MARKS if head.startswith(mark)), (b"", "utf-8"))
    if encoding == "utf-32":
        raise DamagedFile(path, "the text is UTF-32: give it as UTF-8", UNREADABLE, head)
    file.seek(len(mark))
    return (file, len(mark)) if encoding == "utf-8" else (_Recoded(path, file, encoding), 0)


def read_text_head(path: str, file: Readable, size: int) -> bytes:
    """Return the beginning of a file's text without blanks before it: at least ``size`` bytes, if there are so many.

    Damage after the first bytes is left to whoever reads on. Raises ``DamagedFile`` if there are none.
    """
    text, _ = open_utf8(path, file)
    head = b""
    try:
        while len(head) < size and (piece := text.read(size)):
            head = (head + piece).lstrip(BLANK)
    except DamagedFile:
        if not head:
            raise
    return head


class _Recoded:
    """UTF-16 as UTF-8. Half of a pair of surrogates stays what it is: not UTF-8, in its own message alone."""

    def __init__(self, path: str, file: Readable, encoding: str) -> None:
        self._path = path
        self._file = file
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")

    def read(self, size: int, /) -> bytes:
        while piece := self._file.read(max(size, 2)):
            if text := self._decoder.decode(piece):
                return text.encode("utf-8", "surrogatepass")
        pending, _ = self._decoder.getstate()
        if pending:
            raise DamagedFile(self._path, f"the text ends inside of a character of {self._encoding.upper()[:6]}")
        return b""

    def seek(self, place: int, /) -> int:
        """Allow seeking only to the beginning of an unread file."""
        return place

"""Read input files from any place: decompressed, as UTF-8, and up to the position where they are damaged.

Reading returns the content before the damage; the next read raises ``DamagedFile``. This error is only for permanent
damage. If a store or the network fails, ``PipelineError`` is raised, and Spark repeats the task.
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
# Bytes of a request to a store. Smaller requests take as long.
_REQUEST: Final = 4 * 1024 * 1024
# Bytes of the first request after a seek if the caller reads few bytes: usually it seeks again afterwards.
_LOOK: Final = 64 * 1024
# Errors that are permanent. EIO is not: mounted buckets and soft NFS mounts return it for a lost connection.
_LASTING: Final = frozenset({errno.EACCES, errno.EPERM, errno.EISDIR})
# Byte order marks. Longer ones come first, because that of UTF-32 begins with that of UTF-16.
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MAX_MARK_BYTES: Final = 4


class Readable(Protocol):
    """The interface of a file of bytes that is read from an offset on."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, about ``size`` of them; no bytes only at the end."""
        ...

    def seek(self, place: int, /) -> int:
        """Go to the offset ``place``, and return it."""
        ...


@contextmanager
def open_input(split: Split) -> Iterator[InputFile]:
    """Yield the opened file of ``split``, decompressed if necessary. Raises ``DamagedFile`` and ``PipelineError``."""
    place = place_of(split.path, split.storage)
    local = place.folder is not None
    with _explain_errors(split.path, local=local, nothing=True):
        file = place.open()
    with file, InputFile(split.path, file, local=local) as input_file:
        yield input_file


class InputFile:
    """An open input file. ``read`` returns the content before the damage, if any, and then raises ``DamagedFile``."""

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
        """Return at most ``size`` bytes. Raises ``DamagedFile`` if the file is damaged here, and ``PipelineError``."""
        with _explain_errors(self._path, local=self._local, nothing=self._read == 0, compression=self._compression):
            content = self._file.read(size) if self._unpacked is None else self._unpack(self._unpacked, size)
        self._read += len(content)
        return content

    def _unpack(self, file: DecompressedFile, size: int) -> bytes:
        """Return the next bytes up to the damage, if any. Raises the error of ``file`` if the damage comes first."""
        parts: list[bytes] = []
        while size > 0 and self._damage is None:
            try:
                # ``read`` would lose the bytes before the damage
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
        """Go to the offset ``place``, and return it. Raises like ``read``."""
        self._damage = None
        with _explain_errors(self._path, local=self._local, nothing=False, compression=self._compression):
            return (self._unpacked or self._file).seek(place)


class ReadAhead:
    """A file in a store. The next piece is requested while the caller processes the previous piece."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._pool = ThreadPoolExecutor(1)
        self._next_piece: Future[bytes] | None = None
        self._piece = b""
        self._at = 0
        self._end = 0  # the offset in the file at which the current piece ends

    def read(self, size: int, /) -> bytes:
        """Return the next ``size`` bytes; fewer only at the end. Raises ``OSError``."""
        parts: list[bytes] = []
        while size > 0 and (self._at < len(self._piece) or self._read_piece(size)):
            part = self._piece[self._at : self._at + size]
            self._at += len(part)
            size -= len(part)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def seek(self, place: int, /) -> int:
        """Go to the offset ``place``, and return it. Raises ``OSError``.

        If it is close, read up to it, which takes no longer than a new request.
        """
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
        """Wait for the current request, and end the thread."""
        self._settle()
        self._pool.shutdown()

    def _read_piece(self, size: int) -> bool:
        """Read the next piece, of which the caller needs ``size`` bytes. Return False at the end of the file."""
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
    """Convert errors in the context to ``DamagedFile`` if they are permanent, otherwise to ``PipelineError``.

    ``local`` says that the file is in a file system, ``nothing`` that no content was read yet.
    """
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
    """Return the text of ``file`` as UTF-8 from its beginning, and the length of its byte order mark in bytes.

    UTF-16 is converted; the length then is 0, and offsets refer to the UTF-8 text. Raises ``DamagedFile`` for UTF-32.
    """
    file.seek(0)
    head = file.read(_MAX_MARK_BYTES)
    mark, encoding = next(((mark, name) for mark, name in _MARKS if head.startswith(mark)), (b"", "utf-8"))
    if encoding == "utf-32":
        raise DamagedFile(path, "the text is UTF-32: give it as UTF-8", UNREADABLE, head)
    file.seek(len(mark))
    return (file, len(mark)) if encoding == "utf-8" else (_Recoded(path, file, encoding), 0)


def read_text_head(path: str, file: Readable, size: int) -> bytes:
    """Return the beginning of a file's text without leading blanks: at least ``size`` bytes, or the whole text.

    Damage after the first bytes is not reported. Raises ``DamagedFile`` if no bytes can be read.
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
    """A UTF-16 file that is read as UTF-8.

    A lone surrogate stays in the output as invalid UTF-8, so that only its own message is unreadable.
    """

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
        """Do nothing: the only seek is to the beginning of an unread file."""
        return place

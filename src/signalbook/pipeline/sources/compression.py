"""Recognise compressed files by their first bytes, and decompress them in pieces of bounded size."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, Final, Protocol

import zstandard

COMPRESSED_SUFFIXES: Final = (".gz", ".bz2", ".xz", ".zst")
"""The endings of the names of compressed files."""
SIGNATURE_BYTES: Final = 10
"""The number of bytes at the beginning of a file that are needed to detect its compression."""
# With the working memory of the decompressor, this limits the memory that decompressing a file can use.
_MAX_WINDOW_BYTES: Final = 128 * 1024 * 1024
# 4 bytes of zstd data can become 128 KiB, and its interface cannot limit the output of a call. A piece of this size
# becomes at most 32 MiB.
_ZSTD_PIECE_BYTES: Final = 1024
_PIECE_BYTES: Final = 64 * 1024
_OUTPUT_BYTES: Final = 64 * 1024


class BrokenStream(Exception):
    """The error for compressed data that cannot be decompressed, or only with too much memory."""


BROKEN: Final = (EOFError, zlib.error, gzip.BadGzipFile, BrokenStream)
"""The errors of reading a compressed file that is damaged or cut off."""


class DecompressedFile(Protocol):
    """A file of decompressed bytes; ``seek`` backwards decompresses it again from its beginning."""

    def read1(self, size: int = -1, /) -> bytes:
        """Return at most ``size`` bytes, at least one before the end. Raises one of ``BROKEN``."""
        ...

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to an offset in the decompressed data."""
        ...


class Decompressor(Protocol):
    """The decompressor of one stream or frame, with the interface of ``bz2.BZ2Decompressor``."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def needs_input(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Compression:
    """A compression format. The first bytes of files in this format match ``signature``."""

    name: str
    suffix: str
    signature: re.Pattern[bytes]
    open: Callable[[BinaryIO], DecompressedFile]


def detect_compression(path: str, head: bytes) -> Compression | None:
    """Return the compression of a file by its first bytes ``head``, or else by its name; None if uncompressed."""
    by_content = (kind for kind in _COMPRESSIONS if kind.signature.match(head))
    by_name = (kind for kind in _COMPRESSIONS if path.endswith(kind.suffix))
    return next(by_content, None) or next(by_name, None)


def has_compressed_name(path: str) -> bool:
    """Return True if the name of a file has the suffix of a compression format."""
    return path.endswith(COMPRESSED_SUFFIXES)


def remove_compressed_suffix(name: str) -> str:
    """Return the name of a file without the suffix of a compression format."""
    return name[: name.rindex(".")] if has_compressed_name(name) else name


class _Decompressed(io.RawIOBase):
    """The decompressed content of all streams of a compressed file, one after the other."""

    def __init__(self, file: BinaryIO, create: Callable[[], Decompressor], piece_bytes: int) -> None:
        self._file = file
        self._create = create
        self._piece_bytes = piece_bytes
        self._decompressor = create()
        self._offset = 0
        self._next_input = b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._offset

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        """Decompress into ``buffer``. Raises ``BrokenStream``, and ``EOFError`` for a file that is cut off."""
        content = b""
        while not content and (not self._decompressor.eof or self._start_next_stream()):
            piece = self._read_input() if self._decompressor.needs_input else b""
            content = self._decompress(piece, len(buffer))
        buffer[: len(content)] = content
        self._offset += len(content)
        return len(content)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        if whence == io.SEEK_CUR:
            offset += self._offset
        if offset < self._offset:
            self._file.seek(0)
            self._decompressor, self._offset, self._next_input = self._create(), 0, b""
        while self._offset < offset and self.readinto(bytearray(min(offset - self._offset, _OUTPUT_BYTES))):
            pass
        return self._offset

    def _read_input(self) -> bytes:
        piece, self._next_input = self._next_input or self._file.read(self._piece_bytes), b""
        if not piece:
            raise EOFError("the compressed data is cut off")
        return piece

    def _decompress(self, piece: bytes, size: int) -> bytes:
        try:
            return self._decompressor.decompress(piece, size)
        except (OSError, ValueError, lzma.LZMAError, zstandard.ZstdError) as error:
            # bz2 raises OSError for invalid data; no file is read here
            raise BrokenStream(str(error)) from error

    def _start_next_stream(self) -> bool:
        """Go to the next stream, skipping padding zeros. Return False if there is no further stream."""
        following = self._decompressor.unused_data.lstrip(b"\0")
        while not following and (piece := self._file.read(self._piece_bytes)):
            following = piece.lstrip(b"\0")
        if following:
            self._decompressor, self._next_input = self._create(), following
        return bool(following)


class _ZstdDecompressor:
    """A decompressor of a zstd frame with the interface of ``bz2.BZ2Decompressor``. It buffers unread output."""

    def __init__(self) -> None:
        self._frame = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).decompressobj()
        self._output = io.BytesIO()
        self._is_exhausted = True

    @property
    def eof(self) -> bool:
        return self._is_exhausted and self._frame.eof

    @property
    def unused_data(self) -> bytes:
        return self._frame.unused_data

    @property
    def needs_input(self) -> bool:
        return self._is_exhausted and not self._frame.eof

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if data:
            self._output = io.BytesIO(self._frame.decompress(data))
        content = self._output.read(max_length)
        self._is_exhausted = self._output.tell() == len(self._output.getbuffer())
        return content


def _open_gzip(file: BinaryIO) -> DecompressedFile:
    return gzip.GzipFile(fileobj=file)


def _open_bzip2(file: BinaryIO) -> DecompressedFile:
    return io.BufferedReader(_Decompressed(file, bz2.BZ2Decompressor, _PIECE_BYTES), _OUTPUT_BYTES)


def _open_xz(file: BinaryIO) -> DecompressedFile:
    return io.BufferedReader(_Decompressed(file, _create_xz_decompressor, _PIECE_BYTES), _OUTPUT_BYTES)


def _open_zstd(file: BinaryIO) -> DecompressedFile:
    return io.BufferedReader(_Decompressed(file, _ZstdDecompressor, _ZSTD_PIECE_BYTES), _OUTPUT_BYTES)


def _create_xz_decompressor() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_MAX_WINDOW_BYTES)


# RFC 1952 2.3.1, the bzip2 and xz file formats, RFC 8878 3.1: a zstd file may begin with a skippable frame.
# No JSON, Avro container or CloudEvent in Protobuf begins with one of these.
_COMPRESSIONS: Final = (
    Compression("gzip", ".gz", re.compile(rb"\x1f\x8b\x08"), _open_gzip),
    Compression("bzip2", ".bz2", re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), _open_bzip2),
    Compression("xz", ".xz", re.compile(rb"\xfd7zXZ\x00"), _open_xz),
    Compression("zstd", ".zst", re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), _open_zstd),
)

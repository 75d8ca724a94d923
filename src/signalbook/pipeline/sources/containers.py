"""Avro object container files (Avro specification, "Object Container Files"), read block by block within bounds."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

import fastavro
import pyarrow as pa

from signalbook.formats.avro import BROKEN
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources.lines import Bytes

MAX_BLOCK: Final = 256 * 1024 * 1024
_USUAL_HEADER: Final = 64 * 1024
_MAX_HEADER: Final = 16 * 1024 * 1024
_MAGIC: Final = b"Obj\x01"
_SYNC: Final = 16
_PIECE: Final = 4096
_META: Final = fastavro.parse_schema({"type": "map", "values": "bytes"})
_NUMBERS: Final = 20
_CUT_OFF: Final = "the file ends inside of a block: it is cut off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a container says of itself; blocks begin at byte ``end``."""

    schema: bytes
    codec: str
    sync: bytes
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block at byte ``offset``: ``count`` records, still packed. One with a ``fault`` counts as one record."""

    offset: int
    count: int
    content: bytes
    fault: str = ""


class Damage(ValueError):
    """A block that cannot be unpacked; the text says why."""


class Window:
    """What is at hand of a file that is read forwards, from a place on that moves.

    To go back in a packed file is to unpack all of it anew, so what may be read again is kept until ``forget``.
    """

    def __init__(self, file: Bytes) -> None:
        self._file = file
        self._start = 0
        self._content = bytearray()

    def at(self, place: int, size: int) -> bytes:
        """The bytes at a place; fewer only at the end of the file. Raises ``OSError``."""
        if not 0 <= place - self._start <= len(self._content):
            self._file.seek(place)
            self._start, self._content = place, bytearray()
        self.fill(place + size)
        return bytes(memoryview(self._content)[place - self._start :][:size])

    def fill(self, end: int) -> bool:
        """Have all up to ``end`` at hand; whether the file goes that far. Raises ``OSError``."""
        while (missing := end - self._start - len(self._content)) > 0 and (piece := self._file.read(missing)):
            self._content += piece
        return missing <= 0

    def forget(self, place: int) -> None:
        """Keep nothing from before a place."""
        if self._start < place <= self._start + len(self._content):
            del self._content[: place - self._start]
            self._start = place


def read_header(path: str, window: Window) -> Header:
    """The header of the container. Raises ``PipelineError`` if the file is none, and ``OSError``."""
    head = window.at(0, _USUAL_HEADER)
    if not head.startswith(_MAGIC):
        raise PipelineError(f"{path} is no Avro object container file")
    try:
        header = _header(head)
    except BROKEN:
        header = _long_header(path, window.at(0, _MAX_HEADER))
    if header.codec not in _CODECS:
        raise PipelineError(f"{path}: no decoder for codec {header.codec[:50]!r}; there are: {', '.join(_CODECS)}")
    return header


def _long_header(path: str, head: bytes) -> Header:
    try:
        return _header(head)
    except BROKEN as error:
        raise PipelineError(f"{path}: the header of the Avro container is damaged: {error!r}") from None


def _header(head: bytes) -> Header:
    stream = BytesIO(head)
    stream.seek(len(_MAGIC))
    meta: Any = fastavro.schemaless_reader(stream, _META, None)
    schema, codec, sync = meta["avro.schema"], meta.get("avro.codec", b"null").decode(), stream.read(_SYNC)
    if len(sync) < _SYNC:
        raise EOFError("it is cut off")
    return Header(schema=schema, codec=codec, sync=sync, end=stream.tell())


def blocks(path: str, window: Window, header: Header, start: int, end: int) -> Iterator[tuple[int, Block]]:
    """The blocks that begin in the bytes ``start`` to ``end``, each with the number of its first record in the file.

    Blocks before are skipped, but counted. Behind a damaged block reading goes on at the next marker between blocks.
    Raises ``PipelineError`` where there is none to be found for too long, and ``OSError``.
    """
    number, offset = 0, header.end
    while offset < end:
        window.forget(offset)
        block, following = _block(path, window, header, offset, wanted=offset >= start)
        if block is None:
            return
        if offset >= start:
            yield number, block
        number += 1 if block.fault else block.count
        offset = following


def _block(path: str, window: Window, header: Header, offset: int, *, wanted: bool) -> tuple[Block | None, int]:
    """The block at ``offset``, its content only if ``wanted``, and where the next one begins; ``None`` at the end."""
    head = window.at(offset, _NUMBERS)
    if not head:
        return None, offset
    stream = BytesIO(head)
    try:
        count, size = _long(stream), _long(stream)
    except EOFError:
        return _damaged(path, window, header, offset)
    if count < 0 or not 0 <= size <= MAX_BLOCK:
        return _damaged(path, window, header, offset)
    begin = offset + stream.tell()
    end = begin + size
    if (wanted and not window.fill(end + _SYNC)) or window.at(end, _SYNC) != header.sync:
        return _damaged(path, window, header, offset)
    content = window.at(begin, size) if wanted else b""
    # no record takes less than a byte, and numbers of records stay such that there is room for them in 64 bits
    return Block(offset=offset, count=min(count, MAX_BLOCK), content=content), end + _SYNC


def _damaged(path: str, window: Window, header: Header, offset: int) -> tuple[Block, int]:
    """All from ``offset`` to the next marker, or to the end of the file."""
    size = _PIECE
    while True:
        content = window.at(offset, size)
        place = content.find(header.sync)
        if place >= 0:
            fault = "a block of the container is damaged"
            return Block(offset=offset, count=1, content=content[:place], fault=fault), offset + place + _SYNC
        if len(content) < size:
            return Block(offset=offset, count=1, content=content, fault=_CUT_OFF), offset + len(content)
        if size > MAX_BLOCK:
            raise PipelineError(
                f"{path}: from byte {offset} on there is no block of an Avro container for {MAX_BLOCK} bytes"
            )
        size *= 2  # the next marker is near as a rule, and hostile files have damage in each few bytes


def _long(stream: BytesIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = stream.read(1)
        if not byte:
            raise EOFError
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
    return -1


def unpack(codec: str, content: bytes) -> bytes:
    """The records of a block. Raises ``Damage``, also where there would be more than ``MAX_BLOCK`` bytes."""
    try:
        found = _CODECS[codec](content)
    except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as error:
        raise Damage(f"a block of the container cannot be unpacked by {codec}: {error}") from None
    if len(found) > MAX_BLOCK:
        raise Damage(f"a block of the container unpacks to more than {MAX_BLOCK} bytes")
    return found


def _whole(stream: Any, found: bytes) -> bytes:
    if len(found) <= MAX_BLOCK and not stream.eof:
        raise EOFError("it ends early")
    return found


def _deflate(content: bytes) -> bytes:
    stream = zlib.decompressobj(-15)
    return _whole(stream, stream.decompress(content, MAX_BLOCK + 1))


def _bzip2(content: bytes) -> bytes:
    stream = bz2.BZ2Decompressor()
    return _whole(stream, stream.decompress(content, MAX_BLOCK + 1))


def _xz(content: bytes) -> bytes:
    stream = lzma.LZMADecompressor(memlimit=MAX_BLOCK)
    return _whole(stream, stream.decompress(content, MAX_BLOCK + 1))


def _zstandard(content: bytes) -> bytes:
    with pa.input_stream(pa.BufferReader(content), compression="zstd") as stream:
        found: bytes = stream.read(MAX_BLOCK + 1)
        return found


def _snappy(content: bytes) -> bytes:
    """Snappy's own format, which begins with the length, and the CRC-32 of what was packed."""
    packed, checksum = content[:-4], content[-4:]
    size = _unsigned(packed)
    if size > MAX_BLOCK:
        raise ValueError(f"{size} bytes are too many")
    found: bytes = pa.Codec("snappy").decompress(packed, decompressed_size=size, asbytes=True)
    if zlib.crc32(found).to_bytes(4, "big") != checksum:
        raise ValueError("the checksum is another one")
    return found


def _unsigned(content: bytes) -> int:
    value = 0
    for index, byte in enumerate(content[:5]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value
    raise ValueError("it does not say its length")


_CODECS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "null": lambda content: content,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}

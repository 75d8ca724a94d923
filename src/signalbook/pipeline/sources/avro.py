"""A source for Avro object container files whose records are CloudEvents in the Avro event format."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa

from signalbook.formats import SchemaError
from signalbook.formats.avro import BROKEN, FORMAT, AvroSchema
from signalbook.messages import Message
from signalbook.messages.eventformats.avro import CLOUDEVENTS_SCHEMA, read_datum
from signalbook.messages.eventformats.base import AVRO_FORMAT
from signalbook.pipeline.sources import files
from signalbook.pipeline.sources.base import KEPT, UNREADABLE, DamagedFile, MessageBatch, Split
from signalbook.pipeline.sources.files import build_structured_message
from signalbook.pipeline.sources.input_file import ENDLESS, Readable, open_input
from signalbook.values import dump_json

MAX_BLOCK: Final = 256 * 1024 * 1024
_USUAL_HEADER: Final = 64 * 1024
_MAX_HEADER: Final = 16 * 1024 * 1024
MAGIC: Final = b"Obj\x01"
_SYNC: Final = 16
_PIECE: Final = 4096
_META: Final = fastavro.parse_schema({"type": "map", "values": "bytes"})
_MAX_BLOCK_HEAD_BYTES: Final = 20
_CUT_OFF: Final = "the file ends inside of a block: it is cut off"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerHeader:
    """The header of a container. Its blocks begin at byte ``end``."""

    schema: bytes
    codec: str
    sync: bytes
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerBlock:
    """A block at byte ``offset`` of the file: ``count`` records, still compressed.

    A block with an ``error`` is damaged and counts as one record.
    """

    offset: int
    count: int
    content: bytes
    error: str = ""

    def __str__(self) -> str:
        """Return the place of the block for error messages."""
        return f"the block at byte {self.offset}"


class DamagedBlock(ValueError):
    """The error for a block that cannot be read completely; its text says why."""


class FileWindow:
    """The part of a file that is in memory while the file is read from beginning to end.

    Seeking back in a compressed file means decompressing it again from the start, so bytes stay in memory until
    ``forget`` is called. A damaged file seems to end at the damage; ``damage`` is the error then, otherwise None.
    """

    def __init__(self, file: Readable) -> None:
        self.damage: DamagedFile | None = None
        self._file = file
        self._start = 0
        self._content = bytearray()

    def read_at(self, place: int, size: int) -> bytes:
        """Return ``size`` bytes at the offset ``place``; fewer only at the end of the file."""
        if not 0 <= place - self._start <= len(self._content):
            self._file.seek(place)
            self._start, self._content = place, bytearray()
        self.fill(place + size)
        return bytes(memoryview(self._content)[place - self._start :][:size])

    def fill(self, end: int) -> bool:
        """Read the file up to the offset ``end``, and return True if the file has that many bytes."""
        while (missing := end - self._start - len(self._content)) > 0 and (piece := self._read_piece(missing)):
            self._content += piece
        return missing <= 0

    def _read_piece(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except DamagedFile as damage:
            if damage.rule == UNREADABLE:
                raise
            self.damage = damage
            return b""

    def forget(self, place: int) -> None:
        """Release the bytes before the offset ``place``."""
        if self._start < place <= self._start + len(self._content):
            del self._content[: place - self._start]
            self._start = place


def read_header(path: str, window: FileWindow) -> ContainerHeader:
    """Return the header of the container. Raises ``DamagedFile`` if the file is not an Avro container."""
    head = window.read_at(0, _USUAL_HEADER)
    if not head.startswith(MAGIC):
        raise DamagedFile(path, "it is no Avro object container file", UNREADABLE, head)
    try:
        # Most headers are short. A header with a schema of megabytes is read in a second try, up to a larger limit.
        header = _parse_header(head)
    except BROKEN:
        header = _read_long_header(path, window.read_at(0, _MAX_HEADER))
    if header.codec not in _CODECS:
        why = f"no decoder for codec {header.codec[:50]!r}; there are: {', '.join(_CODECS)}"
        raise DamagedFile(path, why, UNREADABLE, head)
    return header


def _read_long_header(path: str, head: bytes) -> ContainerHeader:
    try:
        return _parse_header(head)
    except BROKEN as error:
        why = f"the header of the Avro container is damaged: {error!r}"
        raise DamagedFile(path, why, UNREADABLE, head) from None


def _parse_header(head: bytes) -> ContainerHeader:
    stream = BytesIO(head)
    stream.seek(len(MAGIC))
    meta: Any = fastavro.schemaless_reader(stream, _META, None)
    schema, codec, sync = meta["avro.schema"], meta.get("avro.codec", b"null").decode(), stream.read(_SYNC)
    if len(sync) < _SYNC:
        raise EOFError("it is cut off")
    return ContainerHeader(schema=schema, codec=codec, sync=sync, end=stream.tell())


def read_blocks(
    window: FileWindow, header: ContainerHeader, start: int, end: int
) -> Iterator[tuple[int, ContainerBlock]]:
    """Yield each block that begins in the bytes ``start`` to ``end``, with the number of its first record in the file.

    Earlier blocks are skipped, but their records are counted. After a damaged block, reading continues at the next
    marker between blocks. It ends if no marker is found within ``MAX_BLOCK`` bytes.
    """
    number, offset = 0, header.end
    while offset < end:
        window.forget(offset)
        block, following = _read_block(window, header, offset, with_content=offset >= start)
        if block is None:
            return
        if offset >= start:
            yield number, block
        number += 1 if block.error else block.count
        offset = following


def _read_block(
    window: FileWindow, header: ContainerHeader, offset: int, *, with_content: bool
) -> tuple[ContainerBlock | None, int]:
    """Return the block at ``offset`` (``None`` at the end), and the offset of the next block."""
    head = window.read_at(offset, _MAX_BLOCK_HEAD_BYTES)
    if not head:
        return None, offset
    stream = BytesIO(head)
    try:
        count, size = _read_long(stream), _read_long(stream)
    except EOFError:
        return _find_damage(window, header, offset)
    if count < 0 or not 0 <= size <= MAX_BLOCK:
        return _find_damage(window, header, offset)
    begin = offset + stream.tell()
    end = begin + size
    if (with_content and not window.fill(end + _SYNC)) or window.read_at(end, _SYNC) != header.sync:
        return _find_damage(window, header, offset)
    content = window.read_at(begin, size) if with_content else b""
    # each record takes at least one byte; the limit also keeps the numbers of records within 64 bits
    return ContainerBlock(offset=offset, count=min(count, MAX_BLOCK), content=content), end + _SYNC


def _find_damage(window: FileWindow, header: ContainerHeader, offset: int) -> tuple[ContainerBlock, int]:
    """Return everything from ``offset`` to the next marker, or to the end of the file, as one damaged block."""
    size = _PIECE
    while True:
        content = window.read_at(offset, size)
        place = content.find(header.sync)
        if place >= 0:
            error = "a block of the container is damaged"
            return ContainerBlock(offset=offset, count=1, content=content[:place], error=error), offset + place + _SYNC
        if len(content) < size:
            return ContainerBlock(offset=offset, count=1, content=content, error=_CUT_OFF), offset + len(content)
        if size > MAX_BLOCK:
            error = f"from here on there is no block of an Avro container for {MAX_BLOCK} bytes; the rest is not read"
            return ContainerBlock(offset=offset, count=1, content=content[:KEPT], error=error), ENDLESS
        size *= 2  # start small: the next marker is usually near, and a hostile file may be damaged every few bytes


def _read_long(stream: BytesIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = stream.read(1)
        if not byte:
            raise EOFError
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
    return -1


def unpack(codec: str, block: ContainerBlock) -> bytes:
    """Return the decompressed records of a block. Raises ``DamagedBlock``, also for more than ``MAX_BLOCK`` bytes."""
    if block.error:
        raise DamagedBlock(block.error)
    try:
        unpacked = _CODECS[codec](block.content)
    except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as error:
        raise DamagedBlock(f"a block of the container cannot be unpacked by {codec}: {error}") from None
    if len(unpacked) > MAX_BLOCK:
        raise DamagedBlock(f"a block of the container unpacks to more than {MAX_BLOCK} bytes")
    return unpacked


def read_records(
    content: bytes, count: int, read: Callable[[BytesIO], Any], expected: str
) -> Iterator[tuple[Any, int]]:
    """Yield ``count`` records of ``content``, decoded by ``read``, each with the offset of its end.

    Raises ``DamagedBlock`` for a record that cannot be decoded, and for data after the last record. ``expected``
    describes a record in the error text.
    """
    stream, end = BytesIO(content), 0
    for _ in range(count):
        try:
            record = read(stream)
        except BROKEN as error:
            raise DamagedBlock(f"not {expected}: {str(error) or type(error).__name__}") from None
        before, end = end, stream.tell()
        if end == before:  # a hostile block may claim any number of empty records
            raise DamagedBlock("its records take no bytes")
        yield record, end
    if end < len(content):
        raise DamagedBlock(f"{len(content) - end} bytes follow the last record")


def _check_end(stream: Any, unpacked: bytes) -> bytes:
    if len(unpacked) <= MAX_BLOCK and not stream.eof:
        raise EOFError("it ends early")
    return unpacked


def _unpack_deflate(content: bytes) -> bytes:
    stream = zlib.decompressobj(-15)
    return _check_end(stream, stream.decompress(content, MAX_BLOCK + 1))


def _unpack_bzip2(content: bytes) -> bytes:
    stream = bz2.BZ2Decompressor()
    return _check_end(stream, stream.decompress(content, MAX_BLOCK + 1))


def _unpack_xz(content: bytes) -> bytes:
    stream = lzma.LZMADecompressor(memlimit=MAX_BLOCK)
    return _check_end(stream, stream.decompress(content, MAX_BLOCK + 1))


def _unpack_zstandard(content: bytes) -> bytes:
    with pa.input_stream(pa.BufferReader(content), compression="zstd") as stream:
        unpacked: bytes = stream.read(MAX_BLOCK + 1)
        return unpacked


def _unpack_snappy(content: bytes) -> bytes:
    """Decompress data in Snappy's raw format, and check the CRC-32 of the result that follows the data."""
    packed, checksum = content[:-4], content[-4:]
    size = _read_unsigned(packed)
    if size > MAX_BLOCK:
        raise ValueError(f"{size} bytes are too many")
    unpacked: bytes = pa.Codec("snappy").decompress(packed, decompressed_size=size, asbytes=True)
    if zlib.crc32(unpacked).to_bytes(4, "big") != checksum:
        raise ValueError("the checksum is another one")
    return unpacked


def _read_unsigned(content: bytes) -> int:
    value = 0
    for index, byte in enumerate(content[:5]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value
    raise ValueError("it does not say its length")


_CODECS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "null": lambda content: content,
    "deflate": _unpack_deflate,
    "snappy": _unpack_snappy,
    "zstandard": _unpack_zstandard,
    "bzip2": _unpack_bzip2,
    "xz": _unpack_xz,
}


_EXPECTED: Final = FORMAT.parse(dump_json(CLOUDEVENTS_SCHEMA), "Avro")


class AvroEvents:
    """A source of Avro containers. A position is the number of a record in its file, from 0."""

    name = "cloudevents-avro"
    divisible = True
    endings: tuple[str, ...] = (".avro",)
    cloudevents_json = False

    def read(self, split: Split) -> Iterator[MessageBatch]:
        """Yield the records of the blocks that begin in ``split``.

        A damaged record and the rest of its block are one unreadable message. Raises ``DamagedFile`` for a file that is
        not a container, or whose records are not CloudEvents.
        """
        with open_input(split) as file:
            window = FileWindow(file)
            if not window.read_at(0, 1):
                return  # the file is empty, which the size of a compressed file does not show
            if file.is_compressed and split.start:
                return  # the first split reads the whole compressed file
            header = read_header(split.path, window)
            _check(split.path, header.schema)
            end, following = ENDLESS if file.is_compressed else split.end, 0
            for number, block in read_blocks(window, header, split.start, end):
                if window.damage is not None and block.error:
                    yield window.damage.to_batch(number, block.content)
                    return
                yield from _read_batches(split.path, header.codec, number, block)
                following = number + block.count
            if window.damage is not None:  # the damage begins directly after a block
                yield window.damage.to_batch(following, b"")

    def message(self, batch: MessageBatch, index: int) -> Message:
        """Return the record at ``index`` as a structured CloudEvent. Raises ``UnreadableMessage``."""
        return build_structured_message(batch, index, AVRO_FORMAT)


CONTAINER: Final = AvroEvents()


def _read_batches(path: str, codec: str, number: int, block: ContainerBlock) -> Iterator[MessageBatch]:
    """Yield the records of a block in batches of about ``BLOCK`` bytes. The rest after damage is one message."""
    try:
        content = unpack(codec, block)
    except DamagedBlock as error:
        yield DamagedFile(path, f"{block}: {error}").to_batch(number, block.content)
        return
    bounds, damage = [0], ""
    try:
        for _, end in read_records(content, block.count, read_datum, "a CloudEvent in Avro"):
            bounds.append(end)
            if bounds[-1] - bounds[0] >= files.BLOCK:
                yield _build_batch(path, content, bounds, number)
                number += len(bounds) - 1
                bounds = bounds[-1:]
    except DamagedBlock as error:
        damage = str(error)
    if len(bounds) > 1:
        yield _build_batch(path, content, bounds, number)
    if damage:
        yield DamagedFile(path, f"{block}: {damage}").to_batch(number + len(bounds) - 1, content[bounds[-1] :])


def _build_batch(path: str, content: bytes, bounds: list[int], number: int) -> MessageBatch:
    """Return records as a batch. ``bounds`` are the offsets between records, ``number`` that of the first record."""
    places = np.array(bounds, np.int64) - bounds[0]
    positions = np.arange(number, number + len(bounds) - 1, dtype=np.int64)
    block = content[bounds[0] : bounds[-1]]
    return MessageBatch(path=path, content=block, starts=places[:-1], ends=places[1:], positions=positions)


def _check(path: str, document: bytes) -> None:
    """Raise ``DamagedFile`` unless records of the schema ``document`` are encoded like those of the event format."""
    try:
        schema = FORMAT.parse(document, "Avro")
    except SchemaError as error:
        raise DamagedFile(path, f"the schema in the Avro container cannot be used: {error}", UNREADABLE) from None
    if not _has_same_encoding(schema.type, schema, _EXPECTED.type, _EXPECTED, frozenset()):
        name = schema.type["name"] if isinstance(schema.type, dict) and "name" in schema.type else schema.type
        why = f"it holds {str(name)[:100]}, whose schema is not that of the CloudEvents Avro event format"
        raise DamagedFile(path, why, UNREADABLE)


def _has_same_encoding(
    node: Any, of: AvroSchema, other: Any, of_other: AvroSchema, above: frozenset[tuple[str, str]]
) -> bool:
    """Return True if the types ``node`` and ``other`` have the same encoding; names of types do not matter.

    ``of`` and ``of_other`` are the schemas with the named types, ``above`` the pairs of enclosing record types.
    """
    node, other = _resolve_type(node, of), _resolve_type(other, of_other)
    if isinstance(node, list) and isinstance(other, list):
        pairs = list(zip(node, other, strict=False))
        return len(node) == len(other) and all(_has_same_encoding(a, of, b, of_other, above) for a, b in pairs)
    if not (isinstance(node, dict) and isinstance(other, dict)):
        return bool(node == other)
    if node["type"] != other["type"]:
        return False
    if node["type"] != "record":
        inner = "values" if node["type"] == "map" else "items"
        return _has_same_encoding(node[inner], of, other[inner], of_other, above)
    pair = node["name"], other["name"]
    fields = list(zip(node["fields"], other["fields"], strict=False))
    return pair in above or (
        [field["name"] for field in node["fields"]] == [field["name"] for field in other["fields"]]
        and all(_has_same_encoding(a["type"], of, b["type"], of_other, above | {pair}) for a, b in fields)
    )


def _resolve_type(node: Any, of: AvroSchema) -> Any:
    """Return the definition of a named or complex type, and the name of a primitive type."""
    node = of.names.types.get(node, node) if isinstance(node, str) else node
    if isinstance(node, dict) and node["type"] not in ("record", "map", "array", "enum", "fixed"):
        return node["type"]
    return node

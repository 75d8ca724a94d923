"""Sources for files that hold messages in lines or in JSON arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import chain, pairwise
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from signalbook.messages import Message
from signalbook.messages.bindings.http import request
from signalbook.messages.cloudevents import JSON_FORMAT
from signalbook.pipeline.arrays import Offsets
from signalbook.pipeline.limits import MAX_MESSAGE
from signalbook.pipeline.native import load_module
from signalbook.pipeline.sources.base import (
    ALONE,
    BLANK,
    KEPT,
    RECORD_TYPES,
    DamagedFile,
    MessageBatch,
    Split,
    UnreadableMessage,
    build_single_batch,
    build_too_long_batch,
    release_memory,
)
from signalbook.pipeline.sources.input_file import ENDLESS, Readable, open_input, open_utf8

# Bytes that are read at once. A block of this size fits into a processor's cache; a larger one costs a page fault per
# 4 KiB (docs/decisions/070-pipeline.md).
BLOCK: Final = 1 << 20
# More bytes than any block of several lines has, so that a longer block is a single line.
_LONG: Final = 2 * BLOCK
# The endings of files that hold JSON.
JSON_ENDINGS: Final = (".json", ".jsonl", ".ndjson", ".jsonlines")
_NEWLINE: Final = ord("\n")
_STEP: Final = 64 * 1024
_QUOTE, _ESCAPE, _COMMA = b'"\\,'


def read_line_batches(split: Split) -> Iterator[MessageBatch]:
    """Yield the lines that begin in ``split``. Positions are byte offsets in the file after decompression, as UTF-8.

    A line of more than ``split.limit`` bytes is a batch with an error and only the beginning of the line. Raises like
    ``FileSource.read``.
    """
    with open_input(split) as file:
        text, offset = open_utf8(split.path, file)
        # The size of a compressed or recoded file says nothing about its content, so the first split reads all of it.
        whole = file.is_compressed or text is not file
        if whole and split.start:
            return
        if split.start:
            offset = _seek(file, split.start)
        remaining = ENDLESS if whole else split.end - offset
        if split.start == 0 < offset:
            # The first line belongs to the split even if the split ends within the byte order mark.
            remaining = max(remaining, 1)
        yield from _Lines(text, split.path, split.limit, offset, remaining).read_batches()


@dataclass(slots=True)
class _Lines:
    """The state of reading a split. ``rest`` is the part read so far of the line that begins at ``offset``."""

    file: Readable
    path: str
    limit: int
    offset: int
    remaining: int
    # a ``BytesIO`` grows, and returns its content, without copying it
    rest: BytesIO = field(default_factory=BytesIO)

    def read_batches(self) -> Iterator[MessageBatch]:
        """Yield complete lines in batches of about ``BLOCK`` bytes.

        The last line may lack its newline, or be damaged.
        """
        try:
            yield from self._read_sound()
        except DamagedFile as damage:
            yield damage.to_batch(self.offset, self.rest.getvalue())

    def _read_sound(self) -> Iterator[MessageBatch]:
        while self.remaining > 0:
            piece = self.file.read(min(BLOCK, self.remaining))
            if not piece:
                break
            self.remaining -= len(piece)
            yield from self._take(piece)
        if self.rest.tell():
            yield from self._read_last()

    def _take(self, piece: bytes) -> Iterator[MessageBatch]:
        while piece:
            cut = piece.rfind(b"\n") + 1
            if cut and self.rest.tell() > BLOCK:
                cut = piece.find(b"\n") + 1  # a long line is a batch by itself
            if cut:
                with memoryview(piece) as whole:
                    self.rest.write(whole[:cut])
                yield self._build_batch()
                piece = piece[cut:]
            elif self.rest.tell() + len(piece) <= self.limit:
                self._add(piece)
                return
            else:
                batch, piece = self._skip(piece)
                yield batch

    def _read_last(self) -> Iterator[MessageBatch]:
        """Yield the line that begins in the split and ends after it."""
        while piece := self.file.read(_STEP if self.rest.tell() < BLOCK else BLOCK):
            cut = piece.find(b"\n") + 1
            if not cut and self.rest.tell() + len(piece) > self.limit:
                yield self._skip(piece)[0]
                return
            self._add(piece[:cut] if cut else piece)
            if cut:
                break
        yield self._build_batch()

    def _add(self, piece: bytes) -> None:
        """Append ``piece`` to the current line."""
        _make_room(self.rest.tell(), len(piece))
        self.rest.write(piece)

    def _build_batch(self) -> MessageBatch:
        """Return the lines read so far as a batch, and clear ``rest``."""
        size, buffer, self.rest = self.rest.tell(), self.rest, BytesIO()
        batch = _build_lines_batch(self.path, buffer, self.offset)
        self.offset += size
        return batch

    def _skip(self, piece: bytes) -> tuple[MessageBatch, bytes]:
        """Skip the current line, which is too long. Return its batch, and what was read after it within the split."""
        size = self.rest.tell() + len(piece)
        self.rest.write(piece[:KEPT])
        head, self.rest = bytes(self.rest.getbuffer()[:KEPT]), BytesIO()
        more, following, self.remaining = _to_newline(self.file, self.remaining)
        batch = build_too_long_batch(self.path, head, self.offset, size + more, self.limit)
        self.offset += size + more + 1
        return batch, following if self.remaining >= 0 else b""


def _make_room(size: int, more: int) -> None:
    """Release free memory if a message of ``size`` bytes becomes long by ``more`` bytes: processing it needs memory."""
    if size <= ALONE < size + more:
        release_memory()


def _seek(file: Readable, start: int) -> int:
    """Go to the first line that begins at ``start`` or later, and return its offset.

    A line that begins earlier belongs to the split before.
    """
    # Search from the byte before ``start``: if it is a newline, a line begins exactly at ``start``.
    file.seek(start - 1)
    offset = start + _to_newline(file, 0)[0]
    file.seek(offset)
    return offset


def _to_newline(file: Readable, remaining: int) -> tuple[int, bytes, int]:
    """Read to the end of the line. Return its number of bytes, what was read after it, and the bytes left to read.

    The bytes left are ``remaining`` minus the bytes read. They are negative if the line ends after these bytes, which
    are read first.
    """
    size = 0
    while piece := file.read(min(_STEP, remaining) if remaining > 0 else _STEP):
        remaining -= len(piece)
        place = piece.find(b"\n")
        if place >= 0:
            return size + place, piece[place + 1 :], remaining
        size += len(piece)
    return size, b"", remaining


def _build_lines_batch(path: str, buffer: BytesIO, offset: int) -> MessageBatch:
    size = buffer.tell()
    with buffer.getbuffer() as text:
        ended = text[-1] == _NEWLINE
    if size > _LONG:
        # Remove only the newline, so that the batch, the message and its dead letter can share the same bytes.
        buffer.truncate(size - ended)
        return replace(build_single_batch(path, buffer.getvalue(), offset), lines=True)
    if not ended:
        buffer.write(b"\n")
    block = buffer.getvalue()
    ends = np.frombuffer(load_module().line_ends(block), np.int64)
    starts = np.empty_like(ends)
    starts[0] = 0
    starts[1:] = ends[:-1] + 1
    return MessageBatch(path=path, content=block, starts=starts, ends=ends, positions=starts + offset, lines=True)


def _build_table(values: Mapping[bytes, int]) -> npt.NDArray[np.int8]:
    table = np.zeros(256, np.int8)
    for characters, value in values.items():
        table[list(characters)] = value
    return table


_DEPTHS: Final = _build_table({b"[{": 1, b"]}": -1})
_IS_STRUCTURAL: Final = _build_table({b"[{]},": 1}).astype(bool)


def read_array_batches(path: str, file: Readable, limit: int = MAX_MESSAGE) -> Iterator[MessageBatch]:
    """Yield the elements of the JSON array in ``file``. A position is the index of an element.

    A file without an array is one message. The rest of an array that is cut off is one unreadable message, and so is
    content after the array. An element of more than ``limit`` bytes is a batch with an error and the beginning of the
    element. Raises ``DamagedFile`` if not even the beginning of the file can be read.
    """
    file, _ = open_utf8(path, file)
    first = _read_first_piece(file)
    if not first.startswith(b"["):
        whole, size = _read_rest(file, first, limit)
        if whole and size <= limit:
            yield build_single_batch(path, whole, 0)
        elif whole:
            yield build_too_long_batch(path, whole, 0, size, limit)
        return
    scan, number, pending, lost = _Scan(), 0, [b""], _Lost()
    damage: list[DamagedFile] = []
    for piece in filter(None, chain([first[1:]], _read_until_damage(file, damage))):
        ends, close = scan.find_boundaries(piece)
        pending.append(piece)
        if not len(ends):
            size = sum(map(len, pending))
            _make_room(size - len(piece), len(piece))
            if lost.size or size > limit:
                lost.add(pending)
                pending = []
            continue
        data = b"".join(pending)
        ends += len(data) - len(piece)
        if lost.size:
            lost.add([data[: int(ends[0])]])
            yield build_too_long_batch(path, lost.head, number, lost.size, limit)
            data, ends = data[int(ends[0]) + 1 :], ends[1:] - (ends[0] + 1)
            lost, number = _Lost(), number + 1
        batch = _split_elements(path, data, ends, number)
        if close and number == 0 and len(batch) == 1 and not batch.raw(0):
            batch = _split_elements(path, data, ends[:0], 0)  # the array is empty
        if len(batch):
            yield batch
        number += len(batch)
        pending = [data[int(ends[-1]) + 1 :] if len(ends) else data]
        if close:
            yield from _read_following(path, file, pending[0], number, limit)
            return
    remainder = (lost.head or b"".join(pending)).strip(BLANK)
    cut_off = DamagedFile(path, "the file ends inside of its JSON array: it is cut off")
    yield (damage or [cut_off])[0].to_batch(number, remainder)


def _read_until_damage(file: Readable, damage: list[DamagedFile]) -> Iterator[bytes]:
    """Yield the rest of a file, about ``BLOCK`` bytes at once, up to damage, which is appended to ``damage``."""
    try:
        while piece := file.read(BLOCK):
            yield piece
    except DamagedFile as error:
        damage.append(error)


def _read_first_piece(file: Readable) -> bytes:
    """Return a piece of the file that begins with the first non-blank byte; empty if the file has only blanks."""
    while piece := file.read(BLOCK):
        if text := piece.lstrip(BLANK):
            return text
    return b""


@dataclass(slots=True)
class _Lost:
    """The beginning and size of an element that is too long."""

    head: bytes = b""
    size: int = 0

    def add(self, pieces: Sequence[bytes]) -> None:
        """Add pieces of the element to the size, and to the beginning as long as that is short."""
        if len(self.head) < KEPT:
            self.head = (self.head + b"".join(pieces))[:KEPT]
        self.size += sum(map(len, pieces))


@dataclass(slots=True)
class _Scan:
    """The state of scanning an array: nesting depth, inside a string or not, after a backslash or not."""

    depth: int = 0
    in_string: bool = False
    escaping: bool = False

    def find_boundaries(self, piece: bytes) -> tuple[Offsets, bool]:
        """Return the offsets in ``piece`` at which elements end, and True if the array ends.

        An element ends at a comma or at the end of the array.
        """
        text = np.frombuffer(piece, np.uint8)
        quotes = self._find_quotes(text)
        places = np.flatnonzero(_IS_STRUCTURAL[text])
        # A character after an odd number of quotes is inside of a string, and not part of the structure.
        places = places[(np.searchsorted(quotes, places) + self.in_string) % 2 == 0]
        characters = text[places]
        depths = self.depth + np.cumsum(_DEPTHS[characters], dtype=np.int64)
        closing = np.flatnonzero(depths < 0)
        last = int(closing[0]) if len(closing) else len(places)
        commas = places[:last][(characters[:last] == _COMMA) & (depths[:last] == 0)]
        self.in_string ^= len(quotes) % 2 == 1
        self.depth = int(depths[-1]) if len(depths) else self.depth
        return np.append(commas, places[last : last + 1]), len(closing) > 0

    def _find_quotes(self, text: npt.NDArray[np.uint8]) -> Offsets:
        """Return the positions of quotes that begin or end strings, because they are not escaped by a backslash."""
        quotes = np.flatnonzero(text == _QUOTE)
        escapes = np.flatnonzero(text == _ESCAPE)
        if self.escaping:
            escapes = np.append(-1, escapes)  # the backslash at the end of the previous piece
        self.escaping = False
        if not len(escapes):
            return quotes
        breaks = np.flatnonzero(np.diff(escapes) > 1)
        firsts = escapes[np.append(0, breaks + 1)]
        lasts = escapes[np.append(breaks, len(escapes) - 1)]
        escaped = lasts[(lasts - firsts) % 2 == 0] + 1
        # The piece ends with a backslash that escapes the first character of the next one.
        self.escaping = bool(len(escaped)) and int(escaped[-1]) == len(text)
        return np.setdiff1d(quotes, escaped, assume_unique=True)


def _split_elements(path: str, data: bytes, ends: Offsets, number: int) -> MessageBatch:
    """Return the elements of ``data`` that end at ``ends``, without surrounding blanks.

    The first has index ``number``.
    """
    bounds = [_trim_element(data, start + 1, end) for start, end in pairwise([-1, *ends.tolist()])]
    # The native module reads only contiguous arrays.
    starts, ends = np.array(bounds, np.int64).reshape(-1, 2).T.copy()
    positions = np.arange(number, number + len(ends), dtype=np.int64)
    data = data[: int(ends[-1])] if len(ends) else b""  # what follows belongs to the batch of the next element
    return MessageBatch(path=path, content=data, starts=starts, ends=ends, positions=positions)


def _trim_element(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Return start and end of the element without surrounding blanks. The usual case, one leading blank, is fast."""
    if start < end and data[start] in BLANK:
        start += 1
    if start < end and data[start] not in BLANK and data[end - 1] not in BLANK:
        return start, end
    element = data[start:end].rstrip(BLANK)
    end = start + len(element)
    return end - len(element.lstrip(BLANK)), end


def _read_following(path: str, file: Readable, head: bytes, number: int, limit: int) -> Iterator[MessageBatch]:
    content, _ = _read_rest(file, head, limit)
    if content:
        yield DamagedFile(path, "bytes follow the JSON array").to_batch(number, content)


def _read_rest(file: Readable, head: bytes, limit: int) -> tuple[bytes, int]:
    """Return ``head`` and the rest of the file without surrounding blanks, and its size.

    If this is more than ``limit`` bytes, only the beginning is returned.
    """
    content = bytearray(head.lstrip(BLANK))
    size = len(content)
    while piece := file.read(BLOCK):
        text = piece if content else piece.lstrip(BLANK)
        size += len(text)
        if size <= limit:
            content += text
        else:
            del content[KEPT:]
    return (bytes(content.rstrip(BLANK)), len(content)) if size <= limit else (bytes(content), size)


class CloudEventLines:
    """A source of files with one structured CloudEvent in each line. Blank lines are skipped."""

    name = "cloudevents-jsonl"
    divisible = True
    endings: tuple[str, ...] = JSON_ENDINGS
    cloudevents_json = True

    def read(self, split: Split) -> Iterator[MessageBatch]:
        """Yield the lines that begin in the split."""
        return read_line_batches(split)

    def message(self, batch: MessageBatch, index: int) -> Message:
        """Return the line at ``index`` as a structured CloudEvent. Raises ``UnreadableMessage``."""
        return build_structured_message(batch, index)


class CloudEventBatch:
    """A source of files with a JSON array of structured CloudEvents. A file without an array counts as one message."""

    name = "cloudevents-batch"
    divisible = False
    endings: tuple[str, ...] = (".json",)
    cloudevents_json = True

    def read(self, split: Split) -> Iterator[MessageBatch]:
        """Yield the elements of the JSON array in the file. A position is the index of an element."""
        with open_input(split) as file:
            yield from read_array_batches(split.path, file, split.limit)

    def message(self, batch: MessageBatch, index: int) -> Message:
        """Return the element at ``index`` as a structured CloudEvent. Raises ``UnreadableMessage``."""
        return build_structured_message(batch, index)


def build_structured_message(batch: MessageBatch, index: int, content_type: str = JSON_FORMAT) -> Message:
    """Return the message at ``index``, whose body is a structured CloudEvent of the type ``content_type``.

    Raises ``UnreadableMessage`` if the batch has an error.
    """
    if batch.error:
        raise UnreadableMessage(batch.error)
    return Message(protocol="", content_type=content_type, body=batch.raw(index))


class _Request(msgspec.Struct):
    method: str
    path: str
    headers: dict[str, str | list[str]] = {}
    body: str | None = None
    body_base64: bytes | None = None


_decoder: Final = msgspec.json.Decoder(_Request)
_HTTP: Final = "HTTP"


class HttpLines:
    """A source of files with a logged HTTP request as JSON in each line.

    The value of a header is text, or a list of texts if the header was sent several times.
    """

    name = "http-jsonl"
    divisible = True
    endings: tuple[str, ...] = (*JSON_ENDINGS, ".log")
    cloudevents_json = False

    def read(self, split: Split) -> Iterator[MessageBatch]:
        """Yield the lines that begin in the split."""
        for batch in read_line_batches(split):
            yield replace(batch, binary=True, transport=_HTTP)

    def message(self, batch: MessageBatch, index: int) -> Message:
        """Return the request in the line at ``index``. Raises ``UnreadableMessage``."""
        if batch.error:
            raise UnreadableMessage(batch.error)
        logged = _parse_request(batch.raw(index))
        return request(logged.method, logged.path, _iterate_headers(logged), _decode_body(logged))


def _parse_request(line: bytes) -> _Request:
    """Return the logged request in ``line``. Raises ``UnreadableMessage``."""
    try:
        logged = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableMessage(f"not a request as JSON: {error}") from None
    if logged.body is not None and logged.body_base64 is not None:
        raise UnreadableMessage("a request has either body or body_base64")
    return logged


def _iterate_headers(logged: _Request) -> Iterator[tuple[str, str]]:
    for name, value in logged.headers.items():
        if isinstance(value, str):
            yield name, value
        else:
            yield from ((name, item) for item in value)


def _decode_body(logged: _Request) -> bytes | None:
    return logged.body_base64 if logged.body is None else logged.body.encode()


def request_records(batch: MessageBatch) -> pa.RecordBatch:
    """Return logged requests as rows of ``RECORD_COLUMNS``, for reading events in binary mode.

    The column ``key`` has the methods. ``value`` is null for lines that are not requests, and for requests without a
    path or body.
    """
    methods: list[str | None] = []
    targets: list[str | None] = []
    bodies: list[bytes | None] = []
    ends, names, values = [0], list[str](), list[str]()
    for index in range(len(batch)):
        method = target = body = None
        try:
            logged = _parse_request(batch.raw(index))
        except UnreadableMessage:
            pass
        else:
            method, target, body = logged.method.upper(), logged.path, _decode_body(logged) if logged.path else None
            for name, value in _iterate_headers(logged):
                names.append(name)
                values.append(value)
        methods.append(method)
        targets.append(target)
        bodies.append(body)
        ends.append(len(names))
    headers = [pa.array(names, pa.string()), pa.array(values, pa.string()).cast(pa.binary())]
    listed = RECORD_TYPES.field("headers").type
    columns = {
        "protocol": pa.array([_HTTP] * len(batch), pa.string()),
        "source": pa.array([batch.path] * len(batch), pa.string()),
        "position": pa.array(batch.positions),
        "address": pa.array(targets, pa.string()),
        "key": pa.array(methods, pa.string()).cast(pa.binary()),
        "value": pa.array(bodies, pa.binary()),
        "headers": pa.ListArray.from_arrays(
            pa.array(ends, pa.int32()), pa.StructArray.from_arrays(headers, fields=list(listed.value_type)), type=listed
        ),
    }
    arrays = [columns.get(field.name, pa.nulls(len(batch), field.type)) for field in RECORD_TYPES]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORD_TYPES)


JSONL: Final = CloudEventLines()
BATCH: Final = CloudEventBatch()
HTTP_JSONL: Final = HttpLines()

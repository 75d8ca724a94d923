"""Sources for files of CloudEvents in Protobuf: events with a length prefix, or one batch message.

The encoding of a batch message is a sequence of events, each after a tag and its length. Therefore both kinds of files
are read event by event, and appended batches are read as one batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from signalbook.messages import Message
from signalbook.messages.eventformats.base import PROTOBUF_FORMAT
from signalbook.pipeline.limits import MAX_MESSAGE
from signalbook.pipeline.sources.base import DAMAGED, KEPT, UNREADABLE, DamagedFile, MessageBatch, Split
from signalbook.pipeline.sources.files import BLOCK, build_structured_message
from signalbook.pipeline.sources.input_file import Readable, open_input

MAX_EVENT: Final = MAX_MESSAGE
_LONGEST_VARINT: Final = 10
# The tag of field 1 of a batch, which is followed by a length.
_EVENTS: Final = b"\x0a"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufEvents:
    """A source of files in which each event follows ``tag`` and its length as a varint.

    A position is a byte offset in the file.
    """

    name: str
    tag: bytes
    divisible: bool = False
    endings: tuple[str, ...] = (".pb", ".binpb", ".bin", ".protobuf")
    cloudevents_json: bool = False

    def read(self, split: Split) -> Iterator[MessageBatch]:
        """Yield the events of the file. Content after damage is one unreadable message."""
        with open_input(split) as file:
            yield from _read_batches(split.path, file, self.tag)

    def message(self, batch: MessageBatch, index: int) -> Message:
        """Return the event at ``index`` as a structured CloudEvent. Raises ``UnreadableMessage``."""
        return build_structured_message(batch, index, PROTOBUF_FORMAT)


STREAM: Final = ProtobufEvents(name="cloudevents-protobuf", tag=b"")
BATCH: Final = ProtobufEvents(name="cloudevents-protobuf-batch", tag=_EVENTS)


def _read_batches(path: str, file: Readable, tag: bytes) -> Iterator[MessageBatch]:
    offset, remainder, problem = 0, b"", ""
    try:
        while not problem and (piece := file.read(max(BLOCK, len(remainder)))):
            data = remainder + piece
            bounds, end, problem = _split_events(data, tag)
            if bounds:
                yield _build_batch(path, data[:end], bounds, offset)
            offset += end
            remainder = data[end:]
        if remainder:
            # without valid lengths the boundaries of later events cannot be found
            problem = problem or "the file ends inside of an event: it is cut off"
            content, size = _to_end(file, remainder)
            if size > MAX_EVENT:
                problem += f"; of more than {MAX_EVENT} bytes from here on the first {KEPT} are kept"
            # If so much is unreadable from the beginning on, the file has another format.
            rule = UNREADABLE if offset == 0 and size > MAX_EVENT else DAMAGED
            yield DamagedFile(path, problem, rule).to_batch(offset, content)
    except DamagedFile as damage:
        if damage.rule == UNREADABLE:
            raise
        yield damage.to_batch(offset, remainder)


def _split_events(data: bytes, tag: bytes) -> tuple[list[tuple[int, int, int]], int, str]:
    """Return the offsets (tag, event, end) of complete events, the offset after them, and the problem there or ""."""
    events: list[tuple[int, int, int]] = []
    place = 0
    while place < len(data):
        if not data.startswith(tag, place):
            return events, place, "a field that no batch of CloudEvents has"
        start, length = _read_varint(data, place + len(tag))
        if start < 0:
            return events, place, "" if length < 0 else "the length of an event is no varint"
        if length > MAX_EVENT:
            return events, place, f"an event of {length} bytes; at most {MAX_EVENT} are read"
        if start + length > len(data):
            break
        events.append((place, start, start + length))
        place = start + length
    return events, place, ""


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    """Return the offset after the varint at ``place``, and its value.

    The offset is -1 for an invalid varint; the value then is -1 if it is cut off, or 0 if it is too long.
    """
    value = 0
    for index in range(_LONGEST_VARINT):
        if place + index >= len(data):
            return -1, -1
        byte = data[place + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return place + index + 1, value
    return -1, 0


def _build_batch(path: str, data: bytes, bounds: list[tuple[int, int, int]], offset: int) -> MessageBatch:
    places, starts, ends = np.array(bounds, np.int64).T
    return MessageBatch(path=path, content=data, starts=starts, ends=ends, positions=places + offset)


def _to_end(file: Readable, head: bytes) -> tuple[bytes, int]:
    """Return ``head`` and the rest of the file, and its size.

    If it is larger than ``MAX_EVENT``, only the beginning is returned, and the size may be too small.
    """
    content = bytearray(head)
    while len(content) <= MAX_EVENT and (piece := file.read(BLOCK)):
        content += piece
    size = len(content)
    return bytes(content if size <= MAX_EVENT else content[:KEPT]), size

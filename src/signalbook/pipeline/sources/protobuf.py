"""Files of CloudEvents in Protobuf: each with its length before it, or all in one batch message.

A batch message is on the wire nothing but events, each with a tag and its length before it. So neither is ever read
whole, and batches that were appended to one another are one batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from signalbook.messages import Message
from signalbook.messages.eventformats.base import PROTOBUF_FORMAT
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources import files
from signalbook.pipeline.sources.base import MAX_MESSAGE, MessageBatch, Split, one_message
from signalbook.pipeline.sources.files import BLOCK, Bytes, structured

MAX_EVENT: Final = MAX_MESSAGE
_LONGEST_VARINT: Final = 10
# Field 1 of a batch, with its length to follow.
_EVENTS: Final = b"\x0a"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufEvents:
    """Events in a file, each behind ``tag`` and its length as a varint; a position is a byte offset in the file."""

    name: str
    tag: bytes
    divisible: bool = False
    cloudevents_json: bool = False

    def read(self, split: Split) -> Iterator[MessageBatch]:
        """The file's events. Raises ``PipelineError`` for one beyond ``MAX_EVENT`` bytes."""
        with files.reading(split.path) as file:
            yield from _batches(split.path, file, self.tag)

    def message(self, batch: MessageBatch, index: int) -> Message:
        """The event as a structured one of a file. Raises ``Unreadable``."""
        return structured(batch, index, PROTOBUF_FORMAT)


STREAM: Final = ProtobufEvents(name="cloudevents-protobuf", tag=b"")
BATCH: Final = ProtobufEvents(name="cloudevents-protobuf-batch", tag=_EVENTS)


def _batches(path: str, file: Bytes, tag: bytes) -> Iterator[MessageBatch]:
    offset, rest, problem = 0, b"", ""
    while not problem and (piece := file.read(max(BLOCK, len(rest)))):
        data = rest + piece
        bounds, end, problem = _cut(data, tag)
        if bounds:
            yield _batch(path, data[:end], bounds, offset)
        offset += end
        rest = data[end:]
    if rest:
        # what follows has no boundaries that could be found again
        rest = _to_end(path, file, rest, offset)
        yield one_message(path, rest, offset, error=problem or "the file ends inside of an event: it is cut off")


def _cut(data: bytes, tag: bytes) -> tuple[list[tuple[int, int, int]], int, str]:
    """The places of whole events (of the tag, the event, its end), where the next one is, and what is wrong there."""
    found: list[tuple[int, int, int]] = []
    place = 0
    while place < len(data):
        if not data.startswith(tag, place):
            return found, place, "a field that no batch of CloudEvents has"
        start, length = _varint(data, place + len(tag))
        if start < 0:
            return found, place, "" if length < 0 else "the length of an event is no varint"
        if length > MAX_EVENT:
            return found, place, f"an event of {length} bytes; at most {MAX_EVENT} are read"
        if start + length > len(data):
            break
        found.append((place, start, start + length))
        place = start + length
    return found, place, ""


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """The place behind a varint, and its value; places below 0: it is cut off (value -1) or too long (value 0)."""
    value = 0
    for index in range(_LONGEST_VARINT):
        if place + index >= len(data):
            return -1, -1
        byte = data[place + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return place + index + 1, value
    return -1, 0


def _batch(path: str, data: bytes, bounds: list[tuple[int, int, int]], offset: int) -> MessageBatch:
    places, starts, ends = np.array(bounds, np.int64).T
    return MessageBatch(path=path, content=data, starts=starts, ends=ends, positions=places + offset)


def _to_end(path: str, file: Bytes, rest: bytes, offset: int) -> bytes:
    content = bytearray(rest)
    while piece := file.read(BLOCK):
        content += piece
        if len(content) > MAX_EVENT:
            raise PipelineError(
                f"{path}: from byte {offset} on there are no events, but more than {MAX_EVENT} bytes; "
                "is this a file of CloudEvents in Protobuf?"
            )
    return bytes(content)

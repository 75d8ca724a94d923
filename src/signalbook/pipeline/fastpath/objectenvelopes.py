"""Envelopes by way of an object for each: what there is without the native module."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final, Literal

import msgspec
import numpy as np
import pyarrow as pa

from signalbook.pipeline.fastpath.batch import Block, Extension
from signalbook.pipeline.fastpath.texts import is_text, too_deep
from signalbook.pipeline.sources.base import MessageBatch, Offsets
from signalbook.values import MAX_DEPTH

# After a block that had to be decoded line by line, so many more go the same way at once.
_CAUTION: Final = 8
_OPENING, _CLOSING = b"{}"
_data: Final = attrgetter("data")


class ObjectEnvelopes:
    """Takes events apart that have no attributes but these, of which the first ``needed`` are those that all have."""

    def __init__(self, attributes: Sequence[str], needed: int, extensions: Sequence[str]) -> None:
        self._caution = 0
        self._attributes = attrgetter(*attributes)
        self._count = len(attributes)
        self._extensions = extensions
        self._decoder = _decoder(attributes, needed, extensions)

    def decode(self, frame: MessageBatch) -> tuple[Block, list[int]]:
        """The frame's events, and the indices of messages that are not taken."""
        strange = too_deep(frame.content, frame.starts, frame.ends, MAX_DEPTH + 1) | _no_text(frame)
        events = None if strange else self._all_lines(frame)
        if events is not None:
            return self._block(frame, events, np.arange(len(events))), []
        events, indices, refused = self._one_by_one(frame, strange)
        return self._block(frame, events, np.array(indices, np.int64)), refused

    def _block(self, frame: MessageBatch, events: Sequence[Any], indices: Offsets) -> Block:
        columns = zip(*map(self._attributes, events), strict=True) if events else [()] * self._count
        found = {name: [getattr(event, f"ext_{name}") for event in events] for name in self._extensions}
        return Block(
            frame,
            [pa.array(values, pa.string()) for values in columns],
            {name: Extension.of(values) for name, values in found.items() if values.count(None) < len(values)},
            _joined(list(map(_data, events))),
            indices,
        )

    def _all_lines(self, frame: MessageBatch) -> list[Any] | None:
        """All events by one call, where each line is sure to be one value.

        A newline between two braces lies between two values, for inside of one there would be a comma. So if all
        newlines do, there are as many values as lines only if each line is one.
        """
        if self._caution:
            self._caution -= 1
            return None
        if not (frame.lines and _braced(frame)):
            return None
        try:
            events: list[Any] = self._decoder.decode_lines(frame.content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._caution = _CAUTION
            return None
        return events if len(events) == len(frame) else None

    def _one_by_one(self, frame: MessageBatch, strange: set[int]) -> tuple[list[Any], list[int], list[int]]:
        decode = self._decoder.decode
        events, indices, refused = [], [], list(strange)
        for index, (start, end) in enumerate(zip(frame.starts.tolist(), frame.ends.tolist(), strict=True)):
            if index in strange:
                continue
            try:
                events.append(decode(frame.content[start:end]))
                indices.append(index)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                refused.append(index)
        return events, indices, refused


def _joined(data: Sequence[msgspec.Raw]) -> pa.BinaryArray:
    """All in one array; one by one Arrow would want them as bytes."""
    offsets = np.zeros(len(data) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, data), np.int64, len(data)), out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), len(data), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(data))])


def _no_text(frame: MessageBatch) -> set[int]:
    """The indices of messages that are no UTF-8; the decoder does not look into data."""
    if frame.content.isascii() or is_text(frame.content):
        return set()
    return {index for index in range(len(frame)) if not is_text(frame.raw(index))}


def _braced(frame: MessageBatch) -> bool:
    """Whether each line begins with an opening brace and ends with a closing one."""
    if not (frame.starts < frame.ends).all():
        return False
    text = np.frombuffer(frame.content, np.uint8)
    return bool((text[frame.starts] == _OPENING).all() and (text[frame.ends - 1] == _CLOSING).all())


def _decoder(attributes: Sequence[str], needed: int, extensions: Sequence[str]) -> msgspec.json.Decoder[Any]:
    fields: list[Any] = [
        *((name, str) for name in attributes[:needed]),
        ("specversion", Literal["1.0"]),
        ("data", msgspec.Raw),
        *((name, str | None, None) for name in attributes[needed:]),
        *((f"ext_{name}", str | int | bool | None, None) for name in extensions),
    ]
    renamed = {f"ext_{name}": name for name in extensions}
    envelope = msgspec.defstruct("Envelope", fields, forbid_unknown_fields=True, gc=False, rename=renamed)
    return msgspec.json.Decoder(envelope)

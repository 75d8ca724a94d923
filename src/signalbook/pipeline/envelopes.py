"""Envelopes of structured JSON CloudEvents: a frame of them into columns, their data left as it is.

This is the quick way only: an event it does not take is not wrong, but goes the thorough way. The native module takes
them apart without an object for each; where it is not installed, objects do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from signalbook.messages.cloudevents import CORE
from signalbook.pipeline import columns, native
from signalbook.pipeline.blocks import Block, Extension, Kinds
from signalbook.pipeline.objectenvelopes import ObjectEnvelopes
from signalbook.pipeline.sources.base import MessageBatch

# Attributes that have columns of their own; the first are those that every event has.
ATTRIBUTES: Final = tuple(name.removeprefix("ce_") for name in columns.ENVELOPE.names[:-1])
_NEEDED: Final = 3
_EXTENSION: Final = re.compile(r"[a-z0-9]{1,64}", re.ASCII)
# Members of a JSON event that are no context attributes.
_OTHERS: Final = frozenset({"data", "data_base64"})
MOST_EXTENSIONS: Final = 64


class _Decoder(Protocol):
    def decode(self, frame: MessageBatch, /) -> tuple[Block, list[int]]:
        """The frame's events, and the indices of messages that are not taken."""
        ...


class Envelopes:
    """Decodes events with the extension attributes met so far; new ones are learnt from events that are refused."""

    def __init__(self) -> None:
        self._extensions: tuple[str, ...] = ()
        self._decoder = _decoder(())

    def decode(self, frame: MessageBatch) -> tuple[Block, list[int]]:
        """The frame's events, and the indices of messages that are not taken."""
        return self._decoder.decode(frame)

    def learn(self, attributes: Mapping[str, Any]) -> None:
        """Take note of the extension attributes of an event that came the thorough way."""
        known = self._extensions
        new = [name for name in attributes if name not in CORE and name not in known and name not in _OTHERS]
        if new and len(known) + len(new) <= MOST_EXTENSIONS and all(map(_EXTENSION.fullmatch, new)):
            self._extensions = (*known, *new)
            self._decoder = _decoder(self._extensions)


class NativeEnvelopes:
    """Takes events apart that have no other extension attributes than these."""

    def __init__(self, extensions: Sequence[str]) -> None:
        self._extensions = extensions
        self._envelopes = native.module().Envelopes(ATTRIBUTES, _NEEDED, extensions)

    def decode(self, frame: MessageBatch) -> tuple[Block, list[int]]:
        """The frame's events, and the indices of messages that are not taken."""
        bounds = map(np.ascontiguousarray, (frame.starts, frame.ends))
        try:
            refused, members = self._envelopes.read(frame.content, *bounds)
        except ValueError:  # something is wrong in there, or with the frame: not with the events
            return Block.empty(frame, len(ATTRIBUTES)), list(range(len(frame)))
        count = len(frame) - len(refused)
        found = [_array(pa.string() if place else pa.binary(), column) for place, (column, _) in enumerate(members)]
        last = 1 + len(ATTRIBUTES)
        extensions = zip(self._extensions, found[last:], members[last:], strict=True)
        return Block(
            frame,
            found[1:last],
            {
                name: Extension(texts, _kinds(kinds))
                for name, texts, (_, kinds) in extensions
                if texts.null_count < count
            },
            found[0],
            np.delete(np.arange(len(frame)), refused) if refused else np.arange(count),
        ), refused


def _array(type: pa.DataType, column: tuple[int, int, list[bytes | None], list[Any]]) -> pa.Array:
    count, nulls, buffers, _ = column
    return pa.Array.from_buffers(type, count, [None if part is None else pa.py_buffer(part) for part in buffers], nulls)


def _kinds(kinds: bytes | None) -> Kinds | None:
    return None if kinds is None else np.frombuffer(kinds, np.uint8)


def _decoder(extensions: Sequence[str]) -> _Decoder:
    return ObjectEnvelopes(ATTRIBUTES, _NEEDED, extensions) if native.module() is None else NativeEnvelopes(extensions)

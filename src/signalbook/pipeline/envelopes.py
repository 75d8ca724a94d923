"""Envelopes of structured JSON CloudEvents: decoded in one go, their data left as it is.

This is the quick way only: an event it does not take is not wrong, but goes the thorough way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from signalbook.messages.cloudevents import CORE
from signalbook.pipeline import columns
from signalbook.pipeline.sources.base import Frame
from signalbook.values import MAX_DEPTH, JSONError, parse_json

# Attributes that have columns of their own, and those that every event has.
ATTRIBUTES: Final = tuple(name.removeprefix("ce_") for name in columns.ENVELOPE.names[:-1])
_NEEDED: Final = ("id", "source", "type")
_EXTENSION: Final = re.compile(r"[a-z0-9]{1,64}", re.ASCII)
# Members of a JSON event that are no context attributes.
_OTHERS: Final = frozenset({"data", "data_base64"})
MOST_EXTENSIONS: Final = 64
# After a block that had to be decoded line by line, so many more go the same way at once.
_CAUTION: Final = 8
_OPENING, _CLOSING = b"{}"
# What tells a brace from the bracket of the same side.
_CASE: Final = np.uint8(ord("{") ^ ord("["))


class Envelopes:
    """Decodes events with the extension attributes met so far; new ones are learnt from events that are refused."""

    def __init__(self) -> None:
        self.extensions: tuple[str, ...] = ()
        self._caution = 0
        self._decoder = _decoder(())

    def decode(self, frame: Frame) -> tuple[list[Any], list[int] | None, list[int]]:
        """The frame's events, the index of each (``None``: all of them, in order), and those that are not taken."""
        strange = too_deep(frame.block, frame.starts, frame.ends, MAX_DEPTH + 1) | _no_text(frame)
        events = None if strange else self._all_lines(frame)
        return self._one_by_one(frame, strange) if events is None else (events, None, [])

    def learn(self, attributes: Mapping[str, Any]) -> None:
        """Take note of the extension attributes of an event that came the thorough way."""
        new = [name for name in attributes if name not in CORE and name not in self.extensions and name not in _OTHERS]
        if new and len(self.extensions) + len(new) <= MOST_EXTENSIONS and all(map(_EXTENSION.fullmatch, new)):
            self.extensions = (*self.extensions, *new)
            self._decoder = _decoder(self.extensions)

    def _all_lines(self, frame: Frame) -> list[Any] | None:
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
            events: list[Any] = self._decoder.decode_lines(frame.block)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._caution = _CAUTION
            return None
        return events if len(events) == len(frame) else None

    def _one_by_one(self, frame: Frame, strange: set[int]) -> tuple[list[Any], list[int], list[int]]:
        decode = self._decoder.decode
        events, indices, refused = [], [], list(strange)
        for index, (start, end) in enumerate(zip(frame.starts.tolist(), frame.ends.tolist(), strict=True)):
            if index in strange:
                continue
            try:
                events.append(decode(frame.block[start:end]))
                indices.append(index)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                refused.append(index)
        return events, indices, refused


def too_deep(block: Any, starts: npt.NDArray[Any], ends: npt.NDArray[Any], depth: int) -> set[int]:
    """The indices of texts nested deeper than ``depth``, in a block of bytes; typed decoders do not look everywhere.

    An event may be one level deeper than its data. Most texts have too few brackets to be too deep.
    """
    text = np.frombuffer(block, np.uint8)
    brackets = np.flatnonzero((text | _CASE) == _OPENING)
    counts = np.searchsorted(brackets, ends) - np.searchsorted(brackets, starts)
    many = np.flatnonzero(counts >= depth).tolist()
    return {index for index in many if not _is_shallow(bytes(block[int(starts[index]) : int(ends[index])]), depth)}


def _no_text(frame: Frame) -> set[int]:
    """The indices of messages that are no UTF-8; the decoder does not look into data."""
    if frame.block.isascii() or is_text(frame.block):
        return set()
    return {index for index in range(len(frame)) if not is_text(frame.raw(index))}


def is_text(raw: bytes) -> bool:
    """Whether bytes are UTF-8."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_shallow(raw: bytes, depth: int) -> bool:
    try:
        parse_json(raw, max_depth=depth)
    except JSONError:
        return False
    return True


def _braced(frame: Frame) -> bool:
    """Whether each line begins with an opening brace and ends with a closing one."""
    if not (frame.starts < frame.ends).all():
        return False
    text = np.frombuffer(frame.block, np.uint8)
    return bool((text[frame.starts] == _OPENING).all() and (text[frame.ends - 1] == _CLOSING).all())


def _decoder(extensions: Iterable[str]) -> msgspec.json.Decoder[Any]:
    fields: list[Any] = [
        *((name, str) for name in _NEEDED),
        ("specversion", Literal["1.0"]),
        ("data", msgspec.Raw),
        *((name, str | None, None) for name in ATTRIBUTES if name not in _NEEDED),
        *((f"ext_{name}", str | int | bool | None, None) for name in extensions),
    ]
    renamed = {f"ext_{name}": name for name in extensions}
    envelope = msgspec.defstruct("Envelope", fields, forbid_unknown_fields=True, gc=False, rename=renamed)
    return msgspec.json.Decoder(envelope)

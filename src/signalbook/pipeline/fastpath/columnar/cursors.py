"""Where in its bytes the decoder is, for many payloads at once, and the reading of what binary formats share."""

from __future__ import annotations

from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

# Nothing reads further beyond the end of a payload before that is noticed.
_PADDING: Final = np.zeros(16, np.uint8)
_MORE: Final = 0x80
_LAST_SHIFT: Final = 63


# Rounds over lists that all steps of a decoder may make together: lists in lists multiply.
_ROUNDS: Final = 2000


class Rounds:
    """How many rounds are left."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _ROUNDS

    def spend(self) -> bool:
        """Make one, if there is one left."""
        self.left -= 1
        return self.left >= 0


class Cursors:
    """A place in each of some payloads that lie one behind the other in ``block``.

    ``bad`` are those that did not go on as they should. They are read on like the others, within their bounds, and what
    was read of them means nothing.
    """

    __slots__ = ("at", "bad", "block", "end", "rounds")

    def __init__(self, block: npt.NDArray[np.uint8], at: Numbers, end: Numbers, rounds: Rounds) -> None:
        self.block = block
        self.at = at
        self.end = end
        self.rounds = rounds
        self.bad: Mask = np.zeros(len(at), np.bool_)

    @classmethod
    def of(cls, payloads: pa.BinaryArray) -> Self:
        """At the beginning of each payload; none may be null."""
        _, offsets, content = payloads.buffers()
        bounds = np.frombuffer(offsets, np.int32, len(payloads) + 1, payloads.offset * 4).astype(np.int64)
        text = np.frombuffer(content or b"", np.uint8)[bounds[0] : bounds[-1]]
        bounds -= bounds[0]
        return cls(np.concatenate([text, _PADDING]), bounds[:-1].copy(), bounds[1:], Rounds())

    def __len__(self) -> int:
        return len(self.at)

    def some(self, numbers: Numbers) -> Cursors:
        """Those with these numbers, in ascending order, to be read on by themselves until ``join``."""
        return Cursors(self.block, self.at[numbers], self.end[numbers], self.rounds)

    def within(self, start: Numbers, end: Numbers) -> Cursors:
        """Each from ``start`` to ``end`` of its payload."""
        return Cursors(self.block, start.copy(), end.copy(), self.rounds)

    def join(self, part: Cursors, numbers: Numbers) -> None:
        """Go on where ``some`` of these came to."""
        self.at[numbers] = part.at
        self.bad[numbers] |= part.bad

    def refuse(self, which: Mask) -> None:
        """These are bad."""
        self.bad |= which

    def byte(self) -> npt.NDArray[np.uint8]:
        """One byte."""
        found = self.block[self.at]
        self._go(self.at + 1)
        return found

    def varint(self) -> npt.NDArray[np.uint64]:
        """A number of 64 bits in groups of seven, the lowest first."""
        at = self.at
        byte = self.block[at]
        value = byte.astype(np.uint64)
        at = at + 1
        left = np.flatnonzero(byte >= _MORE)
        if len(left):
            value &= np.uint64(_MORE - 1)
            self._longer(value, at, left)
        self._go(at)
        return value

    def _longer(self, value: npt.NDArray[np.uint64], at: Numbers, left: Numbers) -> None:
        """The groups behind the first of those that have more."""
        for shift in range(7, _LAST_SHIFT + 1, 7):
            byte = self.block[np.minimum(at[left], len(self.block) - 1)]
            value[left] |= (byte & np.uint8(_MORE - 1)).astype(np.uint64) << np.uint64(shift)
            at[left] += 1
            if shift == _LAST_SHIFT:
                self.bad[left[byte > 1]] = True
                return
            left = left[byte >= _MORE]
            if not len(left):
                return

    def canonical(self) -> npt.NDArray[np.uint64]:
        """The same, in no more bytes than it takes."""
        before = self.at
        value = self.varint()
        more = self.at - before - 1
        if more.any():
            self.refuse((more > 0) & (value >> (7 * more).astype(np.uint64) == 0))
        return value

    def zigzag(self) -> npt.NDArray[np.int64]:
        """A signed number whose sign is its lowest bit."""
        return signed(self.varint())

    def fixed(self, kind: str) -> Numbers:
        """A number of a fixed width; ``kind`` is numpy's name for it."""
        size = np.dtype(kind).itemsize
        windows: Numbers = np.ndarray((len(self.block) - size + 1,), f"V{size}", self.block.data, 0, (1,))
        found: Numbers = windows[self.at].view(kind)
        self._go(self.at + size)
        return found

    def chunk(self, lengths: npt.NDArray[np.int64]) -> tuple[Numbers, Numbers]:
        """The bounds of so many bytes, and go behind them."""
        outside = (lengths < 0) | (lengths > self.end - self.at)
        if outside.any():
            self.refuse(outside)
            lengths = np.where(outside, 0, lengths)
        start = self.at
        self.at = start + lengths
        return start, self.at

    def binary(self, lengths: npt.NDArray[np.int64]) -> pa.Array:
        """So many bytes of each."""
        start, end = self.chunk(lengths)
        if not len(start):
            return pa.array([], pa.binary())
        # every second value is what lies between two that are wanted
        offsets = np.empty(2 * len(start), np.int32)
        offsets[0::2], offsets[1::2] = start, end
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.block)]
        return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers).take(
            pa.array(np.arange(0, len(offsets), 2))
        )

    def text(self, lengths: npt.NDArray[np.int64]) -> pa.Array:
        """So many bytes of each, which have to be UTF-8."""
        found = self.binary(lengths)
        try:
            return found.cast(pa.string())
        except pa.ArrowInvalid:
            texts = [_text(value) for value in found.to_pylist()]
            self.refuse(np.array([text is None for text in texts], np.bool_))
            return pa.array([text or "" for text in texts], pa.string())

    def _go(self, at: Numbers) -> None:
        over = at > self.end
        if over.any():
            self.refuse(over)
            at = np.minimum(at, self.end)
        self.at = at


def signed(value: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Numbers whose sign is their lowest bit."""
    found: npt.NDArray[np.int64] = (value >> np.uint64(1)).view(np.int64) ^ -(value & np.uint64(1)).view(np.int64)
    return found


def spread(found: pa.Array, present: Mask) -> pa.Array:
    """``found`` in the places that are ``present``, null elsewhere."""
    if len(found) == len(present):
        return found
    places = np.cumsum(present) - 1
    return found.take(pa.array(places, mask=~present))


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None

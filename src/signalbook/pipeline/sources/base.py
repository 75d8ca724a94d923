"""What a source adapter offers: pieces of work for the driver to hand out, and messages out of each of them.

A source is an object that keeps to the ``Source`` protocol and is named in the entry-point group
``signalbook.sources``; ``registry.py`` finds it. The driver cuts the input into splits, Spark schedules them, and the
adapter reads its split in the worker's own process: no message crosses from the JVM to Python and back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from signalbook.messages import Message

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Bytes ``start`` to ``end`` of a file; messages that begin in there belong to it."""

    path: str
    start: int
    end: int

    @property
    def size(self) -> int:
        """Length in bytes, as they lie on disk."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A handful of raw messages in one block of bytes: the canonical frame between sources and processing.

    Message ``i`` is ``block[starts[i]:ends[i]]`` and lies at ``positions[i]`` in ``path``. With ``lines`` the block is
    nothing but those messages, each ended by a newline.
    """

    path: str
    block: bytes
    starts: Offsets
    ends: Offsets
    positions: Offsets
    lines: bool = False

    def __len__(self) -> int:
        return len(self.starts)

    def raw(self, index: int) -> bytes:
        """The bytes of one message, as they were read."""
        return self.block[self.starts[index] : self.ends[index]]


class Source(Protocol):
    """A way messages lie in files."""

    name: str
    # whether a file may be cut into several splits
    divisible: bool
    # whether each message is one structured CloudEvent in JSON, and so fit for the fast path
    cloudevents_json: bool

    def frames(self, split: Split) -> Iterator[Frame]:
        """The split's messages in bounded pieces. Raises ``PipelineError`` for a file that cannot be read."""
        ...

    def message(self, frame: Frame, index: int) -> Message:
        """One of them as a message of its protocol. Raises ``Unreadable`` if its bytes are none."""
        ...


class Unreadable(ValueError):
    """Bytes that are no message; the text says why."""

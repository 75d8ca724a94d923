"""Messages that are too long to be looked at: of each the beginning is kept, and reading goes on behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from signalbook.pipeline.sources.base import Frame, one_message

KEPT: Final = 64 * 1024
"""Bytes that a dead letter has of a message that is too long."""
_RULE: Final = "too_long"


def too_long(path: str, head: bytes, position: int, size: int, limit: int) -> Frame:
    """A frame of a message of ``size`` bytes that begins with ``head`` and cannot be read."""
    fault = f"a message of {size} bytes; at most {limit} are read (max_message_bytes); the first {KEPT} are kept"
    return replace(one_message(path, head[:KEPT], position, fault), rule=_RULE)


def bounded(frames: Iterable[Frame], limit: int) -> Iterator[Frame]:
    """The same messages, those beyond ``limit`` bytes each in a frame of its own that says so."""
    for frame in frames:
        if len(frame.block) <= limit or frame.fault or not len(frame):
            yield frame
        else:
            yield from _apart(frame, limit)


def _apart(frame: Frame, limit: int) -> Iterator[Frame]:
    sizes = frame.ends - frame.starts
    long = sizes > limit
    edges = np.flatnonzero(np.diff(long, prepend=not long[0], append=not long[-1])).tolist()
    for start, end in pairwise(edges):
        if not long[start]:
            yield _part(frame, start, end)
            continue
        for index in range(start, end):
            head = frame.block[frame.starts[index] : min(frame.ends[index], frame.starts[index] + KEPT)]
            yield too_long(frame.path, head, int(frame.positions[index]), int(sizes[index]), limit)


def _part(frame: Frame, start: int, end: int) -> Frame:
    """The messages from one index to another."""
    first, last = int(frame.starts[start]), int(frame.ends[end - 1])
    return replace(
        frame,
        block=frame.block[first : last + frame.lines],
        starts=frame.starts[start:end] - first,
        ends=frame.ends[start:end] - first,
        positions=frame.positions[start:end],
        records=None if frame.records is None else frame.records.slice(start, end - start),
    )

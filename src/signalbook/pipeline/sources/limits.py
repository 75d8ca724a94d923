"""Messages that are too long to be looked at: of each the beginning is kept, and reading goes on behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from signalbook.pipeline.sources.base import MessageBatch, one_message

KEPT: Final = 64 * 1024
"""Bytes that a dead letter has of a message that is too long."""
_RULE: Final = "too_long"


def too_long(path: str, head: bytes, position: int, size: int, limit: int) -> MessageBatch:
    """A batch of a message of ``size`` bytes that begins with ``head`` and cannot be read."""
    error = f"a message of {size} bytes; at most {limit} are read (max_message_bytes); the first {KEPT} are kept"
    return replace(one_message(path, head[:KEPT], position, error), rule=_RULE)


def within_limit(batches: Iterable[MessageBatch], limit: int) -> Iterator[MessageBatch]:
    """The same messages, those beyond ``limit`` bytes each in a batch of its own that says so."""
    for batch in batches:
        if len(batch.content) <= limit or batch.error or not len(batch):
            yield batch
        else:
            yield from _apart(batch, limit)


def _apart(batch: MessageBatch, limit: int) -> Iterator[MessageBatch]:
    sizes = batch.ends - batch.starts
    long = sizes > limit
    edges = np.flatnonzero(np.diff(long, prepend=not long[0], append=not long[-1])).tolist()
    for start, end in pairwise(edges):
        if not long[start]:
            yield _part(batch, start, end)
            continue
        for index in range(start, end):
            head = batch.content[batch.starts[index] : min(batch.ends[index], batch.starts[index] + KEPT)]
            yield too_long(batch.path, head, int(batch.positions[index]), int(sizes[index]), limit)


def _part(batch: MessageBatch, start: int, end: int) -> MessageBatch:
    """The messages from one index to another."""
    first, last = int(batch.starts[start]), int(batch.ends[end - 1])
    return replace(
        batch,
        content=batch.content[first : last + batch.lines],
        starts=batch.starts[start:end] - first,
        ends=batch.ends[start:end] - first,
        positions=batch.positions[start:end],
        records=None if batch.records is None else batch.records.slice(start, end - start),
    )

"""The contract of a source: messages in batches, from files or from where Spark reads them.

A source is an object that keeps to one of the protocols below and is named in the entry-point group
``signalbook.sources``; ``registry.py`` finds it. Of a ``FileSource`` the driver cuts the input into splits, Spark
schedules them, and the adapter reads its split in the worker's own process: no message crosses from the JVM to Python
and back. A ``RecordSource`` has Spark bring records, from a broker or a table, as rows of ``records.COLUMNS``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from signalbook import plugins
from signalbook.messages import Message
from signalbook.pipeline.errors import PipelineError

Offsets = npt.NDArray[np.int64]
# What a message weighs at least, in bytes: one without any takes memory, too.
LIGHTEST: Final = 128
MAX_MESSAGE: Final = 256 * 1024 * 1024
"""Bytes of the longest message that is read, where a job says nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Bytes ``start`` to ``end`` of a file; messages that begin in there belong to it.

    Of messages beyond ``limit`` bytes a source need not keep more than their beginning (``limits.py``).
    """

    path: str
    start: int
    end: int
    limit: int = MAX_MESSAGE

    @property
    def size(self) -> int:
        """Length in bytes, as they lie on disk."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class MessageLocation:
    """Where a message was read; ``element`` counts the events of a batched message."""

    path: str
    position: int
    element: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageBatch:
    """A batch of raw messages, one after the other in ``content``: what sources hand to processing.

    Message ``i`` is ``content[starts[i]:ends[i]]`` and lies at ``positions[i]`` in ``path``. With ``lines`` the content
    is nothing but those messages, each ended by a newline; a blank line is no message. ``records`` are the rows of
    ``records.COLUMNS`` they came as, if they did; those of a ``binary`` batch are no structured events in JSON, but may
    be events in binary mode. With ``slow_path`` they are not for the fast path, whatever the source says. An ``error``
    says why nothing in the batch can be read, and ``rule`` is what a dead letter calls that.
    """

    path: str
    content: bytes
    starts: Offsets
    ends: Offsets
    positions: Offsets
    lines: bool = False
    records: pa.RecordBatch | None = None
    binary: bool = False
    slow_path: bool = False
    error: str = ""
    rule: str = "unreadable"

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def weight(self) -> int:
        """About how many bytes of memory its messages take: of records, headers and keys too."""
        return max(len(self.content) if self.records is None else self.records.nbytes, len(self) * LIGHTEST)

    def raw(self, index: int) -> bytes:
        """The bytes of one message, as they were read."""
        return self.content[self.starts[index] : self.ends[index]]

    def location(self, index: int) -> MessageLocation:
        """Where one message was read."""
        return MessageLocation(self.path, int(self.positions[index]))


def one_message(path: str, content: bytes, position: int, error: str = "") -> MessageBatch:
    """A batch of a single message."""
    zero = np.zeros(1, np.int64)
    return MessageBatch(
        path=path,
        content=content,
        starts=zero,
        ends=zero + len(content),
        positions=zero + position,
        slow_path=bool(error),
        error=error,
    )


class Source(Protocol):
    """What all sources have."""

    name: str
    # whether each message may be one structured CloudEvent in JSON, and so fit for the fast path
    cloudevents_json: bool

    def message(self, batch: MessageBatch, index: int) -> Message:
        """One message of a batch as a message of its protocol. Raises ``UnreadableMessage`` if its bytes are none."""
        ...


class FileSource(Source, Protocol):
    """A format of files that hold messages."""

    # whether a file may be cut into several splits
    divisible: bool

    def read(self, split: Split) -> Iterator[MessageBatch]:
        """The split's messages in batches of bounded size. Raises ``PipelineError`` for a file that cannot be read."""
        ...


@runtime_checkable
class RecordSource(Source, Protocol):
    """Messages that Spark reads from a broker or a table.

    ``inputs`` say where they are, ``options`` are for Spark's connector.
    """

    # the protocol of all its messages
    protocol: str
    # what Spark needs for it: names of Maven artifacts, without the versions of Scala and Spark
    packages: tuple[str, ...]

    def load(self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str]) -> DataFrame:
        """All messages there are now, as ``records.COLUMNS``. Raises ``PipelineError``."""
        ...

    def load_stream(
        self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str], most: int, home: Path
    ) -> DataFrame:
        """The messages there are and those to come, as a streaming DataFrame of ``records.COLUMNS``.

        ``most`` messages go into one batch, where the source can tell; ``home`` is a folder of the stream's own, which
        lasts and all workers share. Raises ``PipelineError``.
        """
        ...


class UnreadableMessage(ValueError):
    """Bytes that are no message; the text says why."""


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
            yield _slice(batch, start, end)
            continue
        for index in range(start, end):
            head = batch.content[batch.starts[index] : min(batch.ends[index], batch.starts[index] + KEPT)]
            yield too_long(batch.path, head, int(batch.positions[index]), int(sizes[index]), limit)


def _slice(batch: MessageBatch, start: int, end: int) -> MessageBatch:
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


GROUP: Final = "signalbook.sources"


def find_source(name: str) -> FileSource | RecordSource:
    """The source called ``name``. Raises ``PipelineError`` if there is none, or not all that it takes."""
    offered = _offered()
    if name not in offered:
        raise PipelineError(f"there is no input format {name!r}; there are: {', '.join(sorted(offered))}")
    try:
        found: FileSource | RecordSource = plugins.load(offered[name])
        return found
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("signalbook"):
            raise
        raise PipelineError(_lacking(offered[name], str(error.name))) from None


def file_source(name: str) -> FileSource:
    """The source called ``name``, which reads files. Raises ``PipelineError``."""
    source = find_source(name)
    if isinstance(source, RecordSource):
        raise PipelineError(f"{name} reads no files: this takes an input format of files")
    return source


def record_source(name: str) -> RecordSource:
    """The source called ``name``, which Spark reads, and so can follow. Raises ``PipelineError``."""
    source = find_source(name)
    if isinstance(source, RecordSource):
        return source
    raise PipelineError(f"{name} is an input format of files, which are no stream: read them by pipeline run")


def source_names() -> tuple[str, ...]:
    """The names of all sources."""
    return tuple(sorted(_offered()))


def _lacking(point: EntryPoint, module: str) -> str:
    if module.startswith("pyspark."):
        return f"the input format {point.name} takes a newer Spark, 4.2 at least: pip install -U 'signalbook[pipeline]'"
    extra = ",".join(("pipeline", *point.extras))
    return f"the input format {point.name} takes the package {module!r}: pip install 'signalbook[{extra}]'"


def _offered() -> Mapping[str, EntryPoint]:
    return plugins.offered(GROUP, "input format", plugins.lower)

"""The contract of a source: messages in batches, from files or from where Spark reads them.

A source is an object that keeps to one of the protocols below and is named in the entry-point group
``signalbook.sources``; ``find_source`` finds it. Of a ``FileSource`` the driver cuts the input into splits, Spark
schedules them, and the adapter reads its split in the worker's own process: no message crosses from the JVM to Python
and back. A ``RecordSource`` has Spark bring records, from a broker or a table, as rows of ``RECORD_COLUMNS``.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import EntryPoint
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from signalbook import plugins
from signalbook.messages import Message
from signalbook.pipeline import arrays, columns
from signalbook.pipeline.arrays import HeaderNames
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.limits import MAX_MESSAGE
from signalbook.pipeline.places import Place, Storage
from signalbook.values import MAX_VALUES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUP: Final = "signalbook.sources"
Offsets = npt.NDArray[np.int64]
# What a message weighs at least, in bytes: one without any takes memory, too.
LIGHTEST: Final = 128
# What stands between messages in text.
BLANK: Final = b" \t\r\n"
# A message that is longer goes alone, and the slow path, which bounds what becomes of it in memory. One that is not has
# no more values than JSON may have: each takes two bytes.
ALONE: Final = 2 * MAX_VALUES
# Of the GNU library; others have nothing like it, and most need nothing.
_trim: Final = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
KEPT: Final = 64 * 1024
"""Bytes that a dead letter has of a message that is too long."""
_TOO_LONG: Final = "too_long"
DAMAGED: Final = "damaged_file"
"""The rule of dead letters that say from where on a file cannot be read."""
UNREADABLE: Final = "unreadable_file"
"""That of those which stand for a whole file, or all of a split."""
RECORD_COLUMNS: Final = (
    "protocol string, source string, position long, address string, partition int, key binary, value binary, "
    "headers array<struct<name: string, value: binary>>, received_at timestamp"
)
"""A message as Spark brings it; all but ``protocol``, ``source`` and ``position`` may be null.

``source`` and ``position`` are where it can be found again, ``address`` the topic or subject it was sent to. Messages
of no protocol, which is empty then, are structured CloudEvents in JSON where no header says otherwise.
"""
RECORD_TYPES: Final = pa.schema(
    [
        ("protocol", pa.string()),
        ("source", pa.string()),
        ("position", pa.int64()),
        ("address", pa.string()),
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))),
        ("received_at", columns.TIMESTAMP),
    ]
)
"""The same as Arrow has them."""
ATTRIBUTE_PREFIX: Final = "ce_"
"""What goes before the names of context attributes in headers of records of Kafka, and of no protocol."""
NOWHERE: Final = -1
"""The position of a message of which nobody knows where it was."""
_BATCH_BYTES: Final = 1 << 20
CASELESS: Final = frozenset({"HTTP", "NATS"})
"""Protocols whose names of headers have no case."""
# Protocols in which a header says how a message is encoded; to others it is one like any other.
_ENCODED: Final = frozenset({"", "HTTP", "KAFKA", "NATS"})
# Protocols whose messages have a topic or subject, be it an empty one.
_ADDRESSED: Final = frozenset({"KAFKA", "MQTT/5.0", "NATS"})
_CONTENT_TYPE: Final = "content-type"
_CONTENT_ENCODING: Final = "content-encoding"
_EVENT_TYPES: Final = (b"application/cloudevents+json", b"application/cloudevents+json; charset=utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Bytes ``start`` to ``end`` of a file; messages that begin in there belong to it.

    Of messages beyond ``limit`` bytes a source need not keep more than their beginning (``limits.py``). ``storage`` is
    how a file in a store is reached; it is set where the split is read, and not in the plan, which is written down.
    """

    path: str
    start: int
    end: int
    limit: int = MAX_MESSAGE
    storage: Storage = field(default_factory=Storage)

    @property
    def size(self) -> int:
        """Length in bytes, as they lie on disk."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class MessageLocation:
    """The place where a message was read. ``element`` counts the events of a batched message."""

    path: str
    position: int | None
    element: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageBatch:
    """A batch of raw messages, one after the other in ``content``: what sources hand to processing.

    Message ``i`` is ``content[starts[i]:ends[i]]`` and lies at ``positions[i]`` in ``path``. With ``lines`` the content
    is nothing but those messages, each of several ended by a newline; a blank line is no message. ``records`` are the
    rows of ``RECORD_COLUMNS`` they came as, if they did; those of a ``binary`` batch are no structured events in JSON,
    but may be events in binary mode, and so may requests in lines, which came by ``transport``. Those of an ``encoded``
    one are such events in a content encoding that a header states. With ``slow_path`` they are not for the fast path,
    whatever the source says. An ``error`` says why nothing in the batch can be read, and
    ``rule`` is what a dead letter calls that.
    """

    path: str
    content: bytes
    starts: Offsets
    ends: Offsets
    positions: Offsets
    lines: bool = False
    records: pa.RecordBatch | None = None
    binary: bool = False
    encoded: bool = False
    transport: str = ""
    slow_path: bool = False
    error: str = ""
    rule: str = "unreadable"
    # The columns of records, once a row was asked for: Arrow takes as long to give them as to give a row.
    _columns: dict[str, pa.Array] = field(init=False, repr=False, compare=False, default_factory=dict)
    # How the headers of records are named, in lower case and as they are, once somebody asked.
    _header_names: dict[bool, HeaderNames] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def protocol(self) -> str:
        """The protocol that all of its messages came by, empty for those of files."""
        return self.transport if self.records is None else _find_protocol(self.records)

    @property
    def weight(self) -> int:
        """About how many bytes of memory its messages take: of records, headers and keys too."""
        return max(len(self.content) if self.records is None else self.records.nbytes, len(self) * LIGHTEST)

    def raw(self, index: int) -> bytes:
        """The bytes of one message, as they were read."""
        return self.content[self.starts[index] : self.ends[index]]

    def is_blank(self, index: int) -> bool:
        """Return True for a blank line, which is not a message."""
        return self.lines and self.records is None and not self.raw(index).strip(BLANK)

    def record(self, index: int, *names: str) -> dict[str, Any]:
        """The row one message came as, or these columns of it; headers take longest."""
        assert self.records is not None
        if not self._columns:
            self._columns.update(zip(self.records.schema.names, self.records.columns, strict=True))
        return {name: self._columns[name][index].as_py() for name in names or self._columns}

    def header_names(self, *, folded: bool) -> HeaderNames:
        """Return the names of the headers, in lower case if ``folded``."""
        assert self.records is not None
        if folded not in self._header_names:
            self._header_names[folded] = HeaderNames.of(self.records.column("headers"), folded=folded)
        return self._header_names[folded]

    def location(self, index: int) -> MessageLocation:
        """Return the place where a message was read."""
        position = int(self.positions[index])
        return MessageLocation(self.path, None if position == NOWHERE else position)


def split_range(start: int, end: int, parts: int) -> list[tuple[int, int]]:
    """The range in so many parts of about equal size, each with its start and end."""
    return list(pairwise(start + (end - start) * part // parts for part in range(parts + 1)))


def build_single_batch(path: str, content: bytes, position: int, error: str = "") -> MessageBatch:
    """Return a batch of a single message."""
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
    """The common interface of all sources."""

    name: str
    # whether each message may be one structured CloudEvent in JSON, and so fit for the fast path
    cloudevents_json: bool

    def message(self, batch: MessageBatch, index: int) -> Message:
        """Return a message of a batch. Raises ``UnreadableMessage`` if its bytes are not one."""
        ...


class FileSource(Source, Protocol):
    """A format of files that hold messages."""

    # whether a file may be cut into several splits
    divisible: bool
    # of which names files are read where a folder is given, without that of a packed one; empty for all
    endings: tuple[str, ...]

    def read(self, split: Split) -> Iterator[MessageBatch]:
        """The split's messages in batches of bounded size, and what is damaged as a batch with its error.

        Raises ``DamagedFile`` for a file of which nothing can be read, and ``PipelineError`` for one that may be
        readable the next time.
        """
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
        """Load all current messages as ``RECORD_COLUMNS``. Raises ``PipelineError``."""
        ...

    def load_stream(
        self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str], most: int, home: Place
    ) -> DataFrame:
        """The messages there are and those to come, as a streaming DataFrame of ``RECORD_COLUMNS``.

        ``most`` messages go into one batch, where the source can count; ``home`` is the stream's own place in the
        output. Raises ``PipelineError``.
        """
        ...


@runtime_checkable
class Explaining(Protocol):
    """The additional methods of a ``RecordSource`` that can explain failures of its connector."""

    def explain_failure(self, failure: str, inputs: Sequence[str]) -> str:
        """Return a failure of Spark's in one line with advice; empty if it is not one of the connector's."""
        ...


@contextmanager
def explain_failures(source: Source, inputs: Sequence[str]) -> Iterator[None]:
    """Raise ``PipelineError`` in the words of ``source``, if it has an explanation."""
    try:
        yield
    except PipelineError as error:
        words = source.explain_failure(str(error), inputs) if isinstance(source, Explaining) else ""
        if not words:
            raise
        raise PipelineError(words) from error


class UnreadableMessage(ValueError):
    """Bytes that are no message; the text says why."""


class DamagedFile(PipelineError):
    """A file that cannot be read from some place on, for good. ``why`` is about the file, ``rule`` for dead letters.

    ``content`` are bytes of it to keep, where the rule is ``UNREADABLE``: nothing in it can be read.
    """

    def __init__(self, path: str, why: str, rule: str = DAMAGED, content: bytes = b"") -> None:
        super().__init__(f"cannot read {path}: {why}")
        self.path = path
        self.why = why
        self.rule = rule
        self.content = content[:KEPT]

    def to_batch(self, position: int, content: bytes) -> MessageBatch:
        """Return the damage as a message that cannot be read, with the content that is at hand."""
        return replace(build_single_batch(self.path, content, position, self.why), rule=self.rule)


def read_split(source: FileSource, split: Split, *, stop: bool = False) -> Iterator[MessageBatch]:
    """Yield the messages of a split, with damage as unreadable messages; with ``stop`` damage is raised instead.

    Raises ``PipelineError``.
    """
    try:
        for batch in source.read(split):
            if stop and batch.rule == DAMAGED:
                raise PipelineError(f"cannot read {batch.path}: at {batch.positions[0]}: {batch.error}")
            # Handed over, not kept: a huge message has to be gone when its rows are written.
            holder = [batch]
            del batch
            yield holder.pop()
    except DamagedFile as damage:
        if stop:
            raise PipelineError(str(damage)) from damage
        yield damage.to_batch(split.start, damage.content)


def find_source(name: str) -> FileSource | RecordSource:
    """Return the source called ``name``. Raises ``PipelineError`` if it is unknown or lacks a dependency."""
    offered = _list_offered()
    if name not in offered:
        raise PipelineError(f"there is no input format {name!r}; there are: {', '.join(sorted(offered))}")
    try:
        source: FileSource | RecordSource = plugins.load(offered[name])
        return source
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("signalbook"):
            raise
        raise PipelineError(_explain_missing(offered[name], str(error.name))) from None


def find_file_source(name: str) -> FileSource:
    """Return the source called ``name``, which reads files. Raises ``PipelineError``."""
    source = find_source(name)
    if isinstance(source, RecordSource):
        raise PipelineError(f"{name} reads no files: this takes an input format of files")
    return source


def find_record_source(name: str) -> RecordSource:
    """The source called ``name``, which Spark reads, and so can follow. Raises ``PipelineError``."""
    source = find_source(name)
    if isinstance(source, RecordSource):
        return source
    raise PipelineError(f"{name} is an input format of files, which are no stream: read them by pipeline run")


def _explain_missing(point: EntryPoint, module: str) -> str:
    if module.startswith("pyspark."):
        return f"the input format {point.name} takes a newer Spark, 4.2 at least: pip install -U 'pyspark>=4.2'"
    advice = plugins.install("pipeline", *point.extras)
    return f"the input format {point.name} takes the package {module!r}: {advice}"


def _list_offered() -> Mapping[str, EntryPoint]:
    return plugins.offered(GROUP, "input format", plugins.lower)


def build_too_long_batch(path: str, head: bytes, position: int, size: int, limit: int) -> MessageBatch:
    """Return a batch of a message of ``size`` bytes that begins with ``head`` and cannot be read."""
    error = f"a message of {size} bytes; at most {limit} are read (max_message_bytes); the first {KEPT} are kept"
    return replace(build_single_batch(path, head[:KEPT], position, error), rule=_TOO_LONG)


def release_memory() -> None:
    """Return free memory to the system, which allocators would keep for more objects.

    That is for what needs much memory at once. What a task leaves is best kept for the next one: to get it anew, page
    by page, takes a tenth of a task's time or more, and Spark ends workers that had nothing to do for a minute.
    """
    pa.default_memory_pool().release_unused()
    if _trim is not None:
        _trim(0)


def separate_too_long(batches: Iterable[MessageBatch], limit: int) -> Iterator[MessageBatch]:
    """Yield the same messages; each message beyond ``limit`` bytes is a batch of its own with an error."""
    for batch in batches:
        if len(batch.content) > limit and len(batch) and not batch.error:
            yield from _separate(batch, limit)
        else:
            holder = [batch]
            del batch
            yield holder.pop()


def _separate(batch: MessageBatch, limit: int) -> Iterator[MessageBatch]:
    sizes = batch.ends - batch.starts
    long = sizes > limit
    # Where short and long messages alternate; the first and the last place are always among the edges.
    edges = np.flatnonzero(np.diff(long, prepend=not long[0], append=not long[-1])).tolist()
    for start, end in pairwise(edges):
        if not long[start]:
            yield _slice(batch, start, end)
            continue
        for index in range(start, end):
            head = batch.content[batch.starts[index] : min(batch.ends[index], batch.starts[index] + KEPT)]
            yield build_too_long_batch(batch.path, head, int(batch.positions[index]), int(sizes[index]), limit)


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


def read_record_batches(records: pa.RecordBatch, *, stop: bool = False) -> Iterator[MessageBatch]:
    """Yield the messages of rows of ``RECORD_COLUMNS``, in batches of about a megabyte.

    Structured CloudEvents in JSON, by their content type, are in batches of their own, for the fast path, and so are
    those in a content encoding. What is damaged is one that cannot be read; with ``stop`` it is raised instead, as
    ``PipelineError``.
    """
    # Sessions may have larger types for texts, and times in zones of their own.
    typed_records = records if records.schema.types == RECORD_TYPES.types else records.cast(RECORD_TYPES)
    for piece in _split_pieces(_drop_invalid_times(typed_records)):
        if _find_protocol(piece) in (DAMAGED, UNREADABLE):
            yield from _read_damages(piece, stop=stop)
            continue
        folded = _find_protocol(piece) in CASELESS
        names = HeaderNames.of(piece.column("headers"), folded=folded)
        plain, encoded = find_structured_events(piece, names)
        # Three batches at most, so that the order of records is kept within each kind; between kinds it means nothing.
        for rows, to_batch in (
            (plain, _build_event_batch),
            (encoded, partial(_build_other_batch, encoded=True)),
            (~(plain | encoded), _build_other_batch),
        ):
            if rows.all():
                batch = to_batch(piece)
                batch._header_names[folded] = names
                yield batch
            elif rows.any():
                yield to_batch(piece.filter(pa.array(rows)))


def _read_damages(records: pa.RecordBatch, *, stop: bool) -> Iterator[MessageBatch]:
    for row in records.to_pylist():
        damage = DamagedFile(row["source"], row["address"], row["protocol"])
        if stop:
            raise PipelineError(str(damage)) from damage
        yield damage.to_batch(row["position"], b"")


def _drop_invalid_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with null for times outside of the range of dates, which confused units produce."""
    index = batch.schema.get_field_index("received_at")
    times = batch.column(index)
    moments = times.view(pa.int64())
    first, last = columns.MICROSECONDS
    sound = pc.and_(pc.greater_equal(moments, first), pc.less_equal(moments, last))
    if pc.all(sound).as_py():
        return batch
    return batch.set_column(index, "received_at", pc.if_else(sound, times, None))


def find_structured_events(
    records: pa.RecordBatch, headers: HeaderNames
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which records certainly are structured CloudEvents in JSON, unencoded, and which have an encoding."""
    present: npt.NDArray[np.bool_] = records.column("value").is_valid().to_numpy(zero_copy_only=False)
    if not headers.numbers:
        # Without a content type a body is an event as well, unless a protocol would say so.
        none = np.zeros_like(present)
        return (none if _find_protocol(records) else present), none
    listed = records.column("headers")
    rows = pc.list_parent_indices(listed).to_numpy()

    def count(places: Offsets) -> Offsets:
        return np.bincount(rows[places], minlength=len(records))

    typed = headers.find_places([_CONTENT_TYPE])
    # Only these: to look for every header's value among texts takes longer than all else here.
    types = listed.flatten().field("value").take(pa.array(typed))
    event = pc.is_in(types, pa.array(_EVENT_TYPES, pa.binary())).to_numpy(zero_copy_only=False)
    once = (count(typed) == 1) & (count(typed[event]) == 1)
    if not _find_protocol(records):
        # Unless attributes are beside it.
        attribute_places = headers.find_places(name for name in headers.numbers if name.startswith(ATTRIBUTE_PREFIX))
        once |= (count(typed) == 0) & (count(attribute_places) == 0)
    encodings, once = count(headers.find_places([_CONTENT_ENCODING])), once & present
    return once & (encodings == 0), once & (encodings == 1) & (_find_protocol(records) in _ENCODED)


def build_transport_arrays(records: pa.RecordBatch, names: HeaderNames) -> list[pa.Array]:
    """Return the first arrays of ``columns.TRANSPORT``: all but the place of a message in its source.

    ``names`` are those of the headers, in lower case where they land so (``arrays.LOWERED``).
    """
    protocol = _find_protocol(records)
    header_arrays = arrays.build_header_arrays(protocol, records.column("headers"), names)
    protocols = records.column("protocol") if protocol else pa.nulls(len(records), pa.string())
    # Sources of other protocols keep something else in this column.
    keys = records.column("key") if protocol == arrays.KAFKA else pa.nulls(len(records), pa.binary())
    moments = records.column("received_at").cast(columns.TIMESTAMP)
    return [protocols, read_addresses(records), keys, *header_arrays, moments]


def read_addresses(records: pa.RecordBatch) -> pa.Array:
    """Return the topics, subjects or paths of records; an empty text without one."""
    addresses, protocol = records.column("address"), _find_protocol(records)
    if protocol == "HTTP":
        targets = pc.if_else(pc.equal(addresses.fill_null(""), ""), "/", addresses)
        return pc.replace_substring_regex(targets, r"(?s)\?.*", "")
    return addresses.fill_null("") if protocol in _ADDRESSED else addresses


def _find_protocol(records: pa.RecordBatch) -> str:
    return str(records.column("protocol")[0].as_py()) if len(records) else ""


def _split_pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield neighbouring records of one source and protocol, up to the size of a batch."""
    if not len(batch):
        return
    runs = [pc.run_end_encode(batch.column(name)).run_ends.to_numpy() for name in ("source", "protocol")]
    sizes = pc.binary_length(batch.column("value")).fill_null(0).to_numpy()
    # A batch ends where another megabyte begins, so that batches are bounded but for one huge message.
    filled = np.cumsum(sizes) // _BATCH_BYTES
    edges = np.unique(np.concatenate([[0], *runs, np.flatnonzero(np.diff(filled)) + 1])).tolist()
    for start, end in pairwise(edges):
        yield batch.slice(start, end - start)


def _build_event_batch(records: pa.RecordBatch) -> MessageBatch:
    values = [value or b"" for value in records.column("value").to_pylist()]
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    ends = np.cumsum(lengths + 1) - 1
    return MessageBatch(
        path=records.column("source")[0].as_py(),
        content=b"\n".join(values) + b"\n",
        starts=ends - lengths,
        ends=ends,
        positions=records.column("position").to_numpy(),
        lines=True,
        records=records,
    )


def _build_other_batch(records: pa.RecordBatch, *, encoded: bool = False) -> MessageBatch:
    values = pc.fill_null(records.column("value").cast(pa.binary()), b"")
    offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
    content = values.buffers()[2]
    return MessageBatch(
        path=records.column("source")[0].as_py(),
        content=b"" if content is None else content[int(offsets[0]) : int(offsets[-1])].to_pybytes(),
        starts=offsets[:-1] - offsets[0],
        ends=offsets[1:] - offsets[0],
        positions=records.column("position").to_numpy(),
        records=records,
        binary=not encoded,
        encoded=encoded,
    )

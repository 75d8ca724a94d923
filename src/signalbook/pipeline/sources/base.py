"""The interfaces of sources, which read messages in batches from files, or from a broker or table through Spark.

A source is an object that implements one of the protocols below and is registered in the entry-point group
``signalbook.sources``; ``find_source`` returns it by name. For a ``FileSource`` the driver cuts the input into splits
and Spark schedules them. Each Python worker reads its splits itself, so that no message crosses from the JVM to Python
and back. For a ``RecordSource`` Spark reads records from a broker or a table, as rows of ``RECORD_COLUMNS``.
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
from signalbook.pipeline.arrays import HeaderNames, Offsets
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.limits import MAX_MESSAGE
from signalbook.pipeline.places import Place, Storage
from signalbook.values import MAX_VALUES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUP: Final = "signalbook.sources"
# The least memory, in bytes, that a message is assumed to take: an empty message takes memory, too.
LIGHTEST: Final = 128
# The whitespace that may separate messages in text.
BLANK: Final = b" \t\r\n"
# Bytes. A longer message is a batch by itself and takes the slow path, which limits the memory that it needs. A message
# within this limit cannot have more than ``MAX_VALUES`` JSON values, because each value takes at least two bytes.
ALONE: Final = 2 * MAX_VALUES
# A function of the GNU C library. Other C libraries have no such function, and most do not need one.
_trim: Final = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
KEPT: Final = 64 * 1024
"""The number of bytes of a too long message that its dead letter keeps."""
_TOO_LONG: Final = "too_long"
DAMAGED: Final = "damaged_file"
"""The rule of a dead letter that reports the position from which a file cannot be read."""
UNREADABLE: Final = "unreadable_file"
"""The rule of a dead letter that stands for a whole unreadable file or split."""
RECORD_COLUMNS: Final = (
    "protocol string, source string, position long, address string, partition int, key binary, value binary, "
    "headers array<struct<name: string, value: binary>>, received_at timestamp"
)
"""The columns in which Spark delivers messages. Only ``protocol``, ``source`` and ``position`` are never null.

``source`` and ``position`` say where the message can be read again, ``address`` is the topic or subject it was sent to.
Messages with an empty ``protocol`` are structured CloudEvents in JSON unless a header says otherwise.
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
"""``RECORD_COLUMNS`` as an Arrow schema."""
ATTRIBUTE_PREFIX: Final = "ce_"
"""The prefix of headers that hold context attributes, in Kafka records and in records without a protocol."""
NOWHERE: Final = -1
"""The position of a message whose place in its source is unknown."""
_BATCH_BYTES: Final = 1 << 20
CASELESS: Final = frozenset({"HTTP", "NATS"})
"""The protocols whose header names are case-insensitive."""
# Protocols in which the header ``content-encoding`` states the encoding of a message. Elsewhere it has no meaning.
_ENCODED: Final = frozenset({"", "HTTP", "KAFKA", "NATS"})
# Protocols whose messages always have a topic or subject, which may be empty.
_ADDRESSED: Final = frozenset({"KAFKA", "MQTT/5.0", "NATS"})
_CONTENT_TYPE: Final = "content-type"
_CONTENT_ENCODING: Final = "content-encoding"
_EVENT_TYPES: Final = (b"application/cloudevents+json", b"application/cloudevents+json; charset=utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The bytes ``start`` to ``end`` of a file. Messages that begin in this range belong to the split.

    A source may keep only the beginning of messages of more than ``limit`` bytes (``limits.py``). ``storage`` has the
    settings of the store that holds the file. It is set only where the split is read, because the plan of
    splits is written to disk.
    """

    path: str
    start: int
    end: int
    limit: int = MAX_MESSAGE
    storage: Storage = field(default_factory=Storage)

    @property
    def size(self) -> int:
        """The length of the split in bytes on disk, before decompression."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class MessageLocation:
    """The place where a message was read.

    ``position`` is None if it is unknown. ``element`` is the index of an event in a batched message, otherwise None.
    """

    path: str
    position: int | None
    element: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageBatch:
    """A batch of raw messages, one after the other in ``content``, as sources pass them to processing.

    Message ``i`` is ``content[starts[i]:ends[i]]`` and was read at ``positions[i]`` of ``path``. With ``lines`` the
    content has only these messages, separated by newlines, and a blank line is not a message. ``records`` are the rows
    of ``RECORD_COLUMNS`` that Spark delivered, None for messages from files. Messages of a ``binary`` batch are not
    structured JSON events, but may be events in binary mode; ``transport`` is their protocol if they are logged
    requests. Messages of an ``encoded`` batch are structured JSON events in a content encoding that a header states.
    With ``slow_path`` the batch is kept from the fast path, whatever the source declares. A nonempty ``error`` says why
    nothing in the batch can be read; its dead letter has the rule ``rule``.
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
    # The columns of ``records``, cached by the first call of ``record``: fetching a column from Arrow is slow.
    _columns: dict[str, pa.Array] = field(init=False, repr=False, compare=False, default_factory=dict)
    # The header names of ``records``, cached by whether they are in lower case.
    _header_names: dict[bool, HeaderNames] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def protocol(self) -> str:
        """The protocol that all messages of the batch came by; empty for messages from files."""
        return self.transport if self.records is None else _find_protocol(self.records)

    @property
    def weight(self) -> int:
        """The approximate memory of the messages in bytes, with headers and keys of records."""
        return max(len(self.content) if self.records is None else self.records.nbytes, len(self) * LIGHTEST)

    def raw(self, index: int) -> bytes:
        """Return the bytes of the message at ``index``, as they were read."""
        return self.content[self.starts[index] : self.ends[index]]

    def is_blank(self, index: int) -> bool:
        """Return True for a blank line, which is not a message."""
        return self.lines and self.records is None and not self.raw(index).strip(BLANK)

    def record(self, index: int, *names: str) -> dict[str, Any]:
        """Return the row of the message at ``index``: the columns ``names``, or all. Reading ``headers`` is slow."""
        assert self.records is not None
        if not self._columns:
            self._columns.update(zip(self.records.schema.names, self.records.columns, strict=True))
        return {name: self._columns[name][index].as_py() for name in names or self._columns}

    def header_names(self, *, folded: bool) -> HeaderNames:
        """Return the header names of all records, in lower case if ``folded``."""
        assert self.records is not None
        if folded not in self._header_names:
            self._header_names[folded] = HeaderNames.of(self.records.column("headers"), folded=folded)
        return self._header_names[folded]

    def location(self, index: int) -> MessageLocation:
        """Return the place where the message at ``index`` was read."""
        position = int(self.positions[index])
        return MessageLocation(self.path, None if position == NOWHERE else position)


def split_range(start: int, end: int, parts: int) -> list[tuple[int, int]]:
    """Return the range cut into ``parts`` parts of about equal size, each as its start and end."""
    return list(pairwise(start + (end - start) * part // parts for part in range(parts + 1)))


def build_single_batch(path: str, content: bytes, position: int, error: str = "") -> MessageBatch:
    """Return a batch of the single message ``content``, which is unreadable if there is an ``error``."""
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
    # True if each message may be a structured CloudEvent in JSON, which the fast path can process
    cloudevents_json: bool

    def message(self, batch: MessageBatch, index: int) -> Message:
        """Return the message at ``index`` of ``batch``. Raises ``UnreadableMessage`` if its bytes are not a message."""
        ...


@runtime_checkable
class FileSource(Source, Protocol):
    """The interface of a source that reads files in one format."""

    # True if a file may be cut into several splits
    divisible: bool
    # the file name suffixes to read if the input is a folder, without those of compression; empty means all files
    endings: tuple[str, ...]

    def read(self, split: Split) -> Iterator[MessageBatch]:
        """Yield the messages of ``split`` in batches of bounded size. A damaged part is a batch with an error.

        Raises ``DamagedFile`` if nothing in the file can be read, and ``PipelineError`` for errors that may pass.
        """
        ...


@runtime_checkable
class RecordSource(Source, Protocol):
    """The interface of a source whose messages Spark reads from a broker or a table.

    In its methods ``inputs`` are the addresses of the messages, ``options`` the options for Spark's connector.
    """

    # the protocol of all messages of the source
    protocol: str
    # the Maven artifacts that Spark needs for the connector, without the versions of Scala and Spark
    packages: tuple[str, ...]

    def load(self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str]) -> DataFrame:
        """Return all current messages as a DataFrame of ``RECORD_COLUMNS``. Raises ``PipelineError``."""
        ...

    def load_stream(
        self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str], most: int, home: Place
    ) -> DataFrame:
        """Return current and future messages as a streaming DataFrame of ``RECORD_COLUMNS``.

        A batch has at most ``most`` messages, if the source can limit batches. ``home`` is the folder of this stream
        in the output. Raises ``PipelineError``.
        """
        ...


@runtime_checkable
class Explaining(Protocol):
    """The interface of a ``RecordSource`` that can explain failures of its connector."""

    def explain_failure(self, failure: str, inputs: Sequence[str]) -> str:
        """Return Spark's ``failure`` as one line with advice; empty if the connector did not cause the failure."""
        ...


@contextmanager
def explain_failures(source: Source, inputs: Sequence[str]) -> Iterator[None]:
    """Replace the text of a ``PipelineError`` raised in the context by the explanation of ``source``, if any."""
    try:
        yield
    except PipelineError as error:
        words = source.explain_failure(str(error), inputs) if isinstance(source, Explaining) else ""
        if not words:
            raise
        raise PipelineError(words) from error


class UnreadableMessage(ValueError):
    """The error for bytes that are not a message; its text says why."""


class DamagedFile(PipelineError):
    """The error for a file that is permanently unreadable from some position on.

    ``why`` is the reason and ``rule`` the rule of the dead letter. With the rule ``UNREADABLE`` nothing in the file can
    be read; ``content`` then is the beginning of the file, of which the dead letter keeps ``KEPT`` bytes.
    """

    def __init__(self, path: str, why: str, rule: str = DAMAGED, content: bytes = b"") -> None:
        super().__init__(f"cannot read {path}: {why}")
        self.path = path
        self.why = why
        self.rule = rule
        self.content = content[:KEPT]

    def to_batch(self, position: int, content: bytes) -> MessageBatch:
        """Return the damage as a batch of one unreadable message with ``content``, the bytes read at ``position``."""
        return replace(build_single_batch(self.path, content, position, self.why), rule=self.rule)


def read_split(source: FileSource, split: Split, *, stop: bool = False) -> Iterator[MessageBatch]:
    """Yield the messages of a split. Damage is yielded as unreadable messages, or raised if ``stop`` is set.

    Raises ``PipelineError``.
    """
    try:
        for batch in source.read(split):
            if stop and batch.rule == DAMAGED:
                raise PipelineError(f"cannot read {batch.path}: at {batch.positions[0]}: {batch.error}")
            # Keep no reference to the batch: the memory of a huge message must be free when its rows are written.
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
    """Return the file source called ``name``. Raises ``PipelineError`` if it is unknown or not a file source."""
    source = find_source(name)
    if isinstance(source, FileSource):
        return source
    raise PipelineError(f"{name} reads no files: this takes an input format of files")


def find_record_source(name: str) -> RecordSource:
    """Return the record source called ``name``. Raises ``PipelineError`` if it is unknown or reads files."""
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
    """Return a batch of one message that exceeds ``limit``: it has ``size`` bytes and begins with ``head``."""
    error = f"a message of {size} bytes; at most {limit} are read (max_message_bytes); the first {KEPT} are kept"
    return replace(build_single_batch(path, head[:KEPT], position, error), rule=_TOO_LONG)


def release_memory() -> None:
    """Return the free memory that allocators hold to the system.

    Call this only before work that needs much memory at once. Memory that a task leaves is best kept for the next task:
    requesting it again, page by page, takes a tenth of a task's time or more, and Spark ends workers after an idle
    minute anyway.
    """
    pa.default_memory_pool().release_unused()
    if _trim is not None:
        _trim(0)


def separate_too_long(batches: Iterable[MessageBatch], limit: int) -> Iterator[MessageBatch]:
    """Yield the same messages, but each message of more than ``limit`` bytes as a separate batch with an error."""
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
    # The indices at which runs of short and of long messages begin. They include index 0 and the end.
    edges = np.flatnonzero(np.diff(long, prepend=not long[0], append=not long[-1])).tolist()
    for start, end in pairwise(edges):
        if not long[start]:
            yield _slice(batch, start, end)
            continue
        for index in range(start, end):
            head = batch.content[batch.starts[index] : min(batch.ends[index], batch.starts[index] + KEPT)]
            yield build_too_long_batch(batch.path, head, int(batch.positions[index]), int(sizes[index]), limit)


def _slice(batch: MessageBatch, start: int, end: int) -> MessageBatch:
    """Return the messages ``start`` to before ``end`` as a batch."""
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

    Records whose content type says structured CloudEvents in JSON form separate batches for the fast path. Such events
    in a content encoding form separate batches, too. Damage is yielded as an unreadable message, or raised as
    ``PipelineError`` if ``stop`` is set.
    """
    # Spark sessions may be set to use larger text types and other time zones.
    typed_records = records if records.schema.types == RECORD_TYPES.types else records.cast(RECORD_TYPES)
    for piece in _split_pieces(_drop_invalid_times(typed_records)):
        if _find_protocol(piece) in (DAMAGED, UNREADABLE):
            yield from _read_damages(piece, stop=stop)
            continue
        folded = _find_protocol(piece) in CASELESS
        names = HeaderNames.of(piece.column("headers"), folded=folded)
        plain, encoded = find_structured_events(piece, names)
        # At most one batch for each of the three kinds, so that records keep their order within a kind. The order of
        # records of different kinds does not matter.
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
    """Return ``batch`` with null for times outside of the range of dates. Senders that mix up units produce them."""
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
    """Return two masks of ``records``: structured JSON CloudEvents without a content encoding, and with one.

    A record in neither mask may still be an event. ``headers`` are the header names of the records.
    """
    present: npt.NDArray[np.bool_] = records.column("value").is_valid().to_numpy(zero_copy_only=False)
    if not headers.numbers:
        # Without headers a body is a structured event only if there is no protocol: protocols state a content type.
        none = np.zeros_like(present)
        return (none if _find_protocol(records) else present), none
    listed = records.column("headers")
    rows = pc.list_parent_indices(listed).to_numpy()

    def count(places: Offsets) -> Offsets:
        return np.bincount(rows[places], minlength=len(records))

    typed = headers.find_places([_CONTENT_TYPE])
    # Compare only the values of content types: comparing all header values would take most of the time.
    types = listed.flatten().field("value").take(pa.array(typed))
    event = pc.is_in(types, pa.array(_EVENT_TYPES, pa.binary())).to_numpy(zero_copy_only=False)
    once = (count(typed) == 1) & (count(typed[event]) == 1)
    if not _find_protocol(records):
        # Without a protocol no content type is needed, but attributes in headers mean binary mode.
        attribute_places = headers.find_places(name for name in headers.numbers if name.startswith(ATTRIBUTE_PREFIX))
        once |= (count(typed) == 0) & (count(attribute_places) == 0)
    encodings, once = count(headers.find_places([_CONTENT_ENCODING])), once & present
    return once & (encodings == 0), once & (encodings == 1) & (_find_protocol(records) in _ENCODED)


def build_transport_arrays(records: pa.RecordBatch, names: HeaderNames) -> list[pa.Array]:
    """Return the arrays of ``columns.TRANSPORT`` except the last ones, which hold the place of a message in its source.

    ``names`` are the header names, in lower case for protocols whose headers land in lower case (``arrays.LOWERED``).
    """
    protocol = _find_protocol(records)
    header_arrays = arrays.build_header_arrays(protocol, records.column("headers"), names)
    protocols = records.column("protocol") if protocol else pa.nulls(len(records), pa.string())
    # Sources of other protocols use the column ``key`` for other values.
    keys = records.column("key") if protocol == arrays.KAFKA else pa.nulls(len(records), pa.binary())
    moments = records.column("received_at").cast(columns.TIMESTAMP)
    return [protocols, read_addresses(records), keys, *header_arrays, moments]


def read_addresses(records: pa.RecordBatch) -> pa.Array:
    """Return the topic, subject or path of each record.

    A missing address is an empty text or, for HTTP, ``/``. It stays null for protocols without addresses.
    """
    addresses, protocol = records.column("address"), _find_protocol(records)
    if protocol == "HTTP":
        targets = pc.if_else(pc.equal(addresses.fill_null(""), ""), "/", addresses)
        return pc.replace_substring_regex(targets, r"(?s)\?.*", "")
    return addresses.fill_null("") if protocol in _ADDRESSED else addresses


def _find_protocol(records: pa.RecordBatch) -> str:
    return str(records.column("protocol")[0].as_py()) if len(records) else ""


def _split_pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield runs of records that have the same source and protocol, each up to the size of a batch."""
    if not len(batch):
        return
    runs = [pc.run_end_encode(batch.column(name)).run_ends.to_numpy() for name in ("source", "protocol")]
    sizes = pc.binary_length(batch.column("value")).fill_null(0).to_numpy()
    # A batch ends where another megabyte begins, so that only a single huge message can make a batch larger.
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

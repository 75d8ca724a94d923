"""A source for streams of NATS JetStream.

Addresses are ``nats://HOST:PORT/STREAM[,STREAM]`` or ``nats://HOST:PORT/SUBJECT``, with TLS ``tls://``. Spark's
checkpoint stores the numbers of messages in their streams. Nothing is acknowledged, so that reading does not change a
stream for other readers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from signalbook.brokers.connection import BrokerUnavailable
from signalbook.brokers.nats import JetStream, JetStreamState, NATSConnection, StoredMessage
from signalbook.messages import Message
from signalbook.messages.bindings.nats import CONTENT_TYPES, message
from signalbook.messages.bindings.options import detect_format
from signalbook.pipeline import arrays
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import Place
from signalbook.pipeline.sources import brokers
from signalbook.pipeline.sources.base import MessageBatch, split_range
from signalbook.pipeline.sources.message_records import (
    MessageRecords,
    format_headers,
    format_references,
    join_texts,
    quote_texts,
    read_stated_texts,
    select_rows,
)

_INPUTS: Final = brokers.BrokerInputFormat(
    name="NATS",
    form="nats://HOST:PORT/STREAM",
    schemes={"nats": (4222, False), "tls": (4222, True)},
    options=("startingOffsets", "failOnDataLoss", "domain"),
)
_NO_STREAM_NAME: Final = frozenset(".*> \t\r\n")
_CHOICES: Final = {"startingOffsets": ("earliest", "latest"), "failOnDataLoss": ("true", "false")}
_LEAST: Final = 10_000
_ATTEMPTS: Final = 3

StreamOffsets = dict[str, list[Any]]
"""By name of the stream: the number of the last message that was read, and the creation time of the stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenStream:
    """A stream to be read. A nonempty ``subject``, which may have wildcards, selects the messages to read."""

    state: JetStreamState
    subject: str = ""

    def build_offset(self, number: int) -> list[Any]:
        """Return the offset after the message with this ``number``."""
        return [number, self.state.created]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRange(InputPartition):
    """The messages ``start`` to ``end`` (included) of a stream, for one task."""

    stream: str
    subject: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NATSStreams:
    """The streams of one broker that the inputs name, directly or by a subject that they store."""

    broker: brokers.BrokerInput

    @classmethod
    def of(cls, inputs: Sequence[str], options: Mapping[str, str]) -> NATSStreams:
        """Return the streams that ``inputs`` and ``options`` state. Raises ``PipelineError`` for invalid ones."""
        broker = _INPUTS.read(inputs, options)
        if not broker.names:
            raise PipelineError(f"name the streams of {broker}, as {_INPUTS.form}, or a subject that a stream holds")
        for option, values in _CHOICES.items():
            if broker.options.get(option, values[0]) not in values:
                raise PipelineError(f"the option {option} is {' or '.join(values)}")
        return cls(broker=broker)

    @property
    def latest(self) -> bool:
        """True if reading begins after the messages that exist at the start."""
        return self.broker.options.get("startingOffsets") == "latest"

    def choose_streams(self) -> dict[str, ChosenStream]:
        """Return the streams by name. Raises ``PipelineError`` if they do not exist or cannot be read."""
        streams: dict[str, ChosenStream] = {}
        for chosen in self.broker.retry(self._find_streams):
            state = chosen.state
            if state.name in streams:
                raise PipelineError(f"the stream {state.name} is named twice: name it, or one subject in it")
            if state.retention != "limits":
                raise PipelineError(
                    f"the stream {state.name} at {self.broker} drops each message once its reader has had it "
                    f"(retention {state.retention}): read one with retention limits that has this one as its source"
                )
            streams[state.name] = chosen
        return streams

    def split(self, start: StreamOffsets, end: StreamOffsets, tasks: int) -> list[StreamRange]:
        """Return the messages between two offsets, divided into ranges for about ``tasks`` tasks.

        Raises ``PipelineError`` if some of the messages are no longer in their stream.
        """
        chosen, ranges = self.choose_streams(), list[StreamRange]()
        for name, (last, created) in end.items():
            before = start[name][0] if name in start else chosen[name].state.first - 1 if name in chosen else -1
            if last <= before:
                continue
            if name not in chosen:
                raise PipelineError(f"a batch with the stream {name} was begun: name it too, so that the batch can end")
            self.check_complete(chosen[name].state, before, [last, created])
            # Each task opens a connection, which costs more than reading a few messages.
            count = max(1, min(tasks, (last - before) // _LEAST))
            ranges += [
                StreamRange(stream=name, subject=chosen[name].subject, start=first + 1, end=last)
                for first, last in split_range(before, last, count)
            ]
        return ranges

    def read(self, part: StreamRange) -> Iterator[list[StoredMessage]]:
        """Yield lists of the messages of ``part``. A lost connection is replaced. Raises ``PipelineError``."""
        last_read = part.start - 1
        attempts = iter(range(_ATTEMPTS))
        while True:
            try:
                with self._connect() as jetstream:
                    for messages in jetstream.read(part.stream, last_read + 1, part.end, part.subject):
                        yield messages
                        # Set only after the caller took them: a new connection continues from here.
                        last_read = messages[-1].number
                        attempts = iter(range(_ATTEMPTS))
                    return
            except BrokerUnavailable as error:
                if next(attempts, None) is None:
                    raise PipelineError(f"NATS at {self.broker}: {error or type(error).__name__}") from None
                self.broker.retry(self._find_streams)  # wait until the broker is available again

    def check_complete(self, state: JetStreamState, before: int, last_offset: list[Any]) -> None:
        """Raise ``PipelineError`` if the stream was created anew, or messages after the number ``before`` are gone.

        ``last_offset`` is an offset that the stream must have reached. Missing messages are accepted with the option
        ``failOnDataLoss = false``.
        """
        where, (last, created) = f"the stream {state.name} at {self.broker}", last_offset
        why = f"ends with message {state.last}, and {last} were there before" if state.last < last else ""
        if created != state.created:
            why = f"is of {state.created}, and the one that was read of {created}"
        if why:
            raise PipelineError(
                f"{where} {why}: it was made anew; give the stream of the pipeline another name to land what it holds "
                "now"
            )
        if state.first > before + 1 and self.broker.options.get("failOnDataLoss") != "false":
            raise PipelineError(
                f"{where} begins with message {state.first}, and {before + 1} was to be next: those between were "
                "dropped unread; keep more in it, and go on without them by the option failOnDataLoss = false"
            )

    def _find_streams(self) -> list[ChosenStream]:
        with self._connect() as jetstream:
            return [self._find_stream(jetstream, name) for name in self.broker.names]

    def _find_stream(self, jetstream: JetStream, name: str) -> ChosenStream:
        """Return the stream called ``name``, or else the only stream that stores the subject ``name``.

        Raises ``PipelineError`` if there is neither.
        """
        state = None if _NO_STREAM_NAME & set(name) else jetstream.stream(name)
        if state is not None:
            return ChosenStream(state=state)
        holders = jetstream.streams_of(name)
        state = jetstream.stream(holders[0]) if len(holders) == 1 else None
        if state is None:
            raise PipelineError(
                f"NATS at {self.broker} has no stream {name!r} and {', '.join(holders) or 'none'} with such a subject: "
                "only what one stream of JetStream keeps can be read; name it, or make it"
            )
        return ChosenStream(state=state, subject=name)

    @contextmanager
    def _connect(self) -> Iterator[JetStream]:
        """Yield a new connection, which the context closes.

        Raises ``PipelineError`` if the server refuses a request.
        """
        with self.broker.convert_refusals():
            connection = NATSConnection.open(self.broker.settings)
            try:
                yield JetStream(connection, self.broker.options.get("domain", ""))
            finally:
                connection.close()


# Seconds between two requests for the state of streams: Spark queries the latest offset without a pause.
_PAUSE: Final = 0.2


class Nats:
    """The source ``nats``. By its headers, a message is an event in structured or binary mode, or has no envelope."""

    name = "nats"
    protocol = "NATS"
    packages = ()
    cloudevents_json = True

    def load(self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str]) -> DataFrame:
        """Return all current messages of the streams. Raises ``PipelineError``."""
        NATSStreams.of(inputs, options)
        return brokers.load_rows(session, session.read, _Source, inputs, options)

    def load_stream(
        self,
        session: SparkSession,
        inputs: Sequence[str],
        options: Mapping[str, str],
        most: int,
        home: Place,  # noqa: ARG002 - the broker keeps the messages
    ) -> DataFrame:
        """Return messages from the first on, unless ``options`` or a checkpoint say otherwise.

        Raises ``PipelineError``.
        """
        NATSStreams.of(inputs, options)
        return brokers.load_rows(session, session.readStream, _Source, inputs, options, most=most)

    def message(self, batch: MessageBatch, index: int) -> Message:
        """Return the message at ``index``, with subject, headers and time from the stream."""
        row = batch.record(index)
        headers = arrays.list_text_pairs(row["headers"])
        return message(
            row["address"],
            row["value"],
            headers,
            received_at=row["received_at"],
            reference=f"{batch.path}/{row['position']}",
        )

    def to_records(self, batch: MessageBatch, indices: Sequence[int]) -> MessageRecords:
        """Return the dead-letter records of the messages at ``indices``."""
        rows = select_rows(batch, indices)
        listed, subjects = rows.column("headers"), rows.column("address")
        names, folded = (arrays.HeaderNames.of(listed, folded=folded) for folded in (False, True))
        stated = [
            read_stated_texts(listed, folded, name, arrays.decode_escaped)
            for name in (*CONTENT_TYPES, "content-encoding")
        ]
        bare = pc.equal(pc.list_value_length(listed).fill_null(0), 0)
        implied = [detect_format(body) for body in pc.if_else(bare, rows.column("value"), None).to_pylist()]
        headers = format_headers(listed, names, readable=True)
        return MessageRecords.of(
            "NATS",
            rows,
            addresses=subjects,
            content_types=pc.coalesce(*stated[:-1], pa.array(implied, pa.string())),
            encodings=stated[-1],
            references=format_references(batch.path, rows.column("position")),
            sections=join_texts('{"subject":', quote_texts(subjects), ',"headers":', headers, "}"),
        )


SOURCE: Final = Nats()


class _Source(brokers.BrokerDataSource):
    """The data source for Spark."""

    @classmethod
    def name(cls) -> str:
        """Return the name in Spark."""
        return "signalbook-nats"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        return _Batch(self.request, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return _Stream(self.request, schema)


class _Rows:
    """The common part of the readers: it reads ranges of streams as rows."""

    def __init__(self, request: brokers.ReadRequest, schema: StructType) -> None:
        self._request = request
        self._schema = schema
        self._streams = NATSStreams.of(request.inputs, request.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of ``partition`` as rows of ``RECORD_COLUMNS``."""
        assert isinstance(partition, StreamRange)
        for messages in self._streams.read(partition):
            yield brokers.build_rows(
                self._schema,
                protocol=[SOURCE.protocol] * len(messages),
                source=[f"nats:{partition.stream}"] * len(messages),
                position=[message.number for message in messages],
                address=[message.subject for message in messages],
                value=[message.payload for message in messages],
                headers=[brokers.build_header_rows(message.headers) for message in messages],
                received_at=[message.time // 1000 for message in messages],
            )


class _Batch(_Rows, DataSourceReader):
    """The reader of all current messages."""

    def partitions(self) -> Sequence[InputPartition]:
        """Return all messages of all streams, divided into ranges for tasks."""
        end = {name: chosen.build_offset(chosen.state.last) for name, chosen in self._streams.choose_streams().items()}
        return self._streams.split({}, end, self._request.tasks) or [StreamRange(stream="", subject="", start=1, end=0)]


class _Stream(_Rows, brokers.BrokerStreamReader):
    """The reader of a stream of messages."""

    _end: dict[str, int] | None = None
    _asked = 0.0

    def initialOffset(self) -> StreamOffsets:  # noqa: N802
        """Return the offsets after the last messages if ``startingOffsets`` is ``latest``, otherwise an empty mapping.

        A stream without an offset is read from its first message at the time of the batch.
        """
        chosen = self._streams.choose_streams()
        if not self._streams.latest:
            return {}
        return {name: stream.build_offset(stream.state.last) for name, stream in chosen.items()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Make the stream end after the messages that exist now."""
        self._end = {name: chosen.state.last for name, chosen in self._streams.choose_streams().items()}

    def latestOffset(self, start: StreamOffsets, limit: ReadLimit) -> StreamOffsets:  # noqa: N802
        """Return the offsets at which the next batch ends. A ``limit`` is divided equally between the streams."""
        time.sleep(max(0.0, self._asked + _PAUSE - time.monotonic()))
        chosen = self._streams.choose_streams()
        self._asked = time.monotonic()
        # Each stream gets an equal share of the limit of the batch, so that no stream waits for another.
        share = max(1, limit.max_rows // len(chosen)) if isinstance(limit, ReadMaxRows) else None
        offsets = dict(start)
        for name, stream in chosen.items():
            last = stream.state.last if self._end is None else self._end.get(name, 0)
            offset = start.get(name) or stream.build_offset(stream.state.first - 1)
            before = offset[0]
            self._streams.check_complete(stream.state, before, offset)
            first = max(before, stream.state.first - 1)  # deleted messages do not count for the share
            offsets[name] = stream.build_offset(max(before, last if share is None else min(last, first + share)))
        return offsets

    def partitions(self, start: StreamOffsets, end: StreamOffsets) -> Sequence[InputPartition]:
        """Return the messages between two offsets, divided into ranges for tasks."""
        return self._streams.split(start, end, self._request.tasks)

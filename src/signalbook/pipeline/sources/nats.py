"""Streams of NATS JetStream: ``nats://HOST:PORT/STREAM[,STREAM]`` or ``nats://HOST:PORT/SUBJECT``; ``tls://`` with TLS.

Messages have numbers in their stream, which are what Spark's checkpoint keeps; nothing is acknowledged, so that the
stream is as it was for everybody else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from signalbook.messages import Message
from signalbook.messages.bindings.nats import message
from signalbook.pipeline import headers
from signalbook.pipeline.sources import connected
from signalbook.pipeline.sources.base import MessageBatch
from signalbook.pipeline.sources.natsstreams import Offsets, Piece, Streams

# Spark asks for news again and again.
_PAUSE: Final = 0.2


class Nats:
    """Messages of streams, events in structured or binary mode by their headers, or of no envelope at all."""

    name = "nats"
    protocol = "NATS"
    packages = ()
    cloudevents_json = True

    def load(self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str]) -> DataFrame:
        """All that the streams hold now."""
        Streams.of(inputs, options)
        return connected.brought(session, session.read, _Source, inputs, options)

    def load_stream(
        self,
        session: SparkSession,
        inputs: Sequence[str],
        options: Mapping[str, str],
        most: int,
        home: Path,  # noqa: ARG002 - the broker keeps the messages
    ) -> DataFrame:
        """From the first message on, unless ``options`` say otherwise or a checkpoint knows better."""
        Streams.of(inputs, options)
        return connected.brought(session, session.readStream, _Source, inputs, options, most=most)

    def message(self, batch: MessageBatch, index: int) -> Message:
        """The message, with all that the stream says of it."""
        assert batch.records is not None
        row = batch.records.slice(index, 1).to_pylist()[0]
        named = [(name, value.decode(errors="backslashreplace")) for name, value in headers.pairs(row["headers"])]
        return message(
            row["address"],
            row["value"],
            named,
            received_at=row["received_at"],
            reference=f"{batch.path}/{row['position']}",
        )


SOURCE: Final = Nats()


class _Source(connected.Connected):
    """As Spark sees it."""

    @classmethod
    def name(cls) -> str:
        """What Spark calls it."""
        return "signalbook-nats"

    def reader(self, schema: StructType) -> DataSourceReader:
        """For a batch."""
        return _Batch(self.told, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """For a stream."""
        return _Stream(self.told, schema)


class _Rows:
    """Reads pieces."""

    def __init__(self, told: connected.Told, schema: StructType) -> None:
        self._told = told
        self._schema = schema
        self._streams = Streams.of(told.inputs, told.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of ``records.COLUMNS``."""
        assert isinstance(partition, Piece)
        for messages in self._streams.read(partition):
            yield connected.batch(
                self._schema,
                protocol=[SOURCE.protocol] * len(messages),
                source=[f"nats:{partition.stream}"] * len(messages),
                position=[message.number for message in messages],
                address=[message.subject for message in messages],
                value=[message.payload for message in messages],
                headers=[connected.pairs(message.headers) for message in messages],
                received_at=[message.time // 1000 for message in messages],
            )


class _Batch(_Rows, DataSourceReader):
    """All that there is now."""

    def partitions(self) -> Sequence[InputPartition]:
        """Pieces of all streams."""
        end = {name: chosen.offset(chosen.state.last) for name, chosen in self._streams.chosen().items()}
        return self._streams.pieces({}, end, self._told.tasks) or [Piece(stream="", subject="", start=1, end=0)]


class _Stream(_Rows, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What there is from time to time."""

    _end: dict[str, int] | None = None
    _asked = 0.0

    def initialOffset(self) -> Offsets:  # noqa: N802
        """Behind the last messages, or nothing: which are the first is asked when a batch is planned."""
        chosen = self._streams.chosen()
        return {name: each.offset(each.state.last) for name, each in chosen.items()} if self._streams.latest else {}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The messages there are now will be the last."""
        self._end = {name: chosen.state.last for name, chosen in self._streams.chosen().items()}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """As many as the stream was told."""
        return ReadMaxRows(self._told.most) if self._told.most else ReadAllAvailable()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        """How far the next batch goes: of each stream its share at most, where there is a limit."""
        time.sleep(max(0.0, self._asked + _PAUSE - time.monotonic()))
        chosen = self._streams.chosen()
        self._asked = time.monotonic()
        share = max(1, limit.max_rows // len(chosen)) if isinstance(limit, ReadMaxRows) else None
        found = dict(start)
        for name, each in chosen.items():
            last = each.state.last if self._end is None else self._end.get(name, 0)
            known = start.get(name) or each.offset(each.state.first - 1)
            before = known[0]
            self._streams.whole(each.state, before, known)
            first = max(before, each.state.first - 1)  # what is gone is no part of a share
            found[name] = each.offset(max(before, last if share is None else min(last, first + share)))
        return found

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """Pieces of what lies between."""
        return self._streams.pieces(start, end, self._told.tasks)

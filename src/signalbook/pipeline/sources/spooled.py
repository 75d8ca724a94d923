"""Brokers that give each message once: received into a spool in the stream's own folder, from which Spark reads.

Offsets are numbers in the spool; what Spark has committed is trimmed. The spool is written by the process in which
Spark asks for offsets, on the driver's machine, and read by tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources import base, brokers, spool
from signalbook.pipeline.sources.base import RecordSource
from signalbook.pipeline.sources.brokers import BrokerSettings
from signalbook.pipeline.sources.spool import RECEIVED, MessageSpool, ReceivingConnection, SpoolReceiver

SPOOL_LIMIT: Final = "maxSpoolBytes"
"""The option of how much may wait."""
_LIMIT: Final = 4 * 1024**3
_LEAST: Final = 10_000
_ROWS: Final = 1_000

Offset = dict[str, int]
"""The number in the spool of the first message that was not read."""


class SpoolingSource(RecordSource, Protocol):
    """A source whose messages are received once."""

    # what may pass: the connection is made anew
    passing: tuple[type[Exception], ...]

    def broker(self, inputs: Sequence[str], options: Mapping[str, str]) -> BrokerSettings:
        """Where the messages are. Raises ``PipelineError`` for addresses and options that are none."""

    def connect(self, inputs: Sequence[str], options: Mapping[str, str], spool: MessageSpool) -> ReceivingConnection:
        """A connection on which messages come. Raises ``PipelineError`` where the broker refuses."""


def refuse_batch(source: RecordSource) -> DataFrame:
    """A batch there is not. Raises ``PipelineError``."""
    raise PipelineError(
        f"{source.name} gives each message once, so that there is no batch to repeat: land what is there now by "
        "`signalbook pipeline stream --once`"
    )


def load_spooled_stream(
    source: SpoolingSource,
    session: SparkSession,
    inputs: Sequence[str],
    options: Mapping[str, str],
    most: int,
    home: Path,
) -> DataFrame:
    """The messages as they come, by way of a spool in ``home``. Raises ``PipelineError``."""
    spool_limit(source.broker(inputs, options).options)
    place = str(home.absolute() / RECEIVED)
    return brokers.load_rows(
        session, session.readStream, _Source, inputs, options, most=most, source=source.name, home=place
    )


def spool_limit(options: Mapping[str, str]) -> int:
    """How many bytes may wait in a spool. Raises ``PipelineError``."""
    text = options.get(SPOOL_LIMIT, str(_LIMIT))
    if not (text.isdecimal() and int(text)):
        raise PipelineError(f"the option {SPOOL_LIMIT} is a whole number of bytes, not {text!r}")
    return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece(InputPartition):
    """Messages of a spool for one task, from ``start`` to before ``end``; ``source`` is what they are said to be of."""

    folder: str
    source: str
    protocol: str
    start: int
    end: int


class _Source(brokers.BrokerDataSource):
    """As Spark sees it."""

    @classmethod
    def name(cls) -> str:
        """What Spark calls it."""
        return "signalbook-received"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """For a stream."""
        return _Stream(self.told, schema)


class _Stream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Nothing is opened before Spark asks for an offset: tasks have one of these too, for reading alone."""

    _spool: MessageSpool | None = None
    _receiver: SpoolReceiver | None = None
    _end: int | None = None
    _known = False

    def __init__(self, told: brokers.ReadRequest, schema: StructType) -> None:
        self._told = told
        self._schema = schema

    def initialOffset(self) -> Offset:  # noqa: N802
        """The first message that waits."""
        return {"number": self._opened().begin}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What the broker has for us now is the last."""
        self._end = self._receiving().settled()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """As many as the stream was told."""
        return ReadMaxRows(self._told.most) if self._told.most else ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """How far the next batch goes."""
        end = self._receiving().end if self._end is None else self._end
        before = start["number"]
        if not self._known:
            self._check(before)
        self._opened().trim(before)  # Spark says what it has committed not before there is something new
        return {"number": min(end, before + limit.max_rows) if isinstance(limit, ReadMaxRows) else end}

    def _check(self, before: int) -> None:
        """Raise ``PipelineError`` for a spool that is not the one in which ``before`` messages had been."""
        found = self._opened().found
        if found < before:
            raise PipelineError(
                f"{self._told.home} ended with message {found}, and {before} were there before: put back what was in "
                "it, or give the stream another name"
            )
        self._known = True

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Pieces of what lies between."""
        first, last, source = start["number"], end["number"], _source(self._told)
        count = max(1, min(self._told.tasks, (last - first) // _LEAST))
        memory = self._opened().memory()
        name = f"{source.name}:{memory.name if memory else ''}"
        bounds = [first + (last - first) * part // count for part in range(count + 1)]
        return [
            _Piece(folder=self._told.home, source=name, protocol=source.protocol, start=begin, end=stop)
            for begin, stop in pairwise(bounds)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of ``records.COLUMNS``."""
        assert isinstance(partition, _Piece)
        waiting = spool.read_messages(Path(partition.folder), partition.start, partition.end)
        while found := list(islice(waiting, _ROWS)):
            messages = [message for _, message in found]
            yield brokers.rows_batch(
                self._schema,
                protocol=[partition.protocol] * len(found),
                source=[partition.source] * len(found),
                position=[number for number, _ in found],
                address=[message.address for message in messages],
                key=[message.key for message in messages],
                value=[message.value for message in messages],
                headers=[brokers.header_rows(message.headers) for message in messages],
                received_at=[message.received_at for message in messages],
            )

    def commit(self, end: Offset) -> None:
        """What was landed need not wait any longer."""
        self._opened().trim(end["number"])

    def stop(self) -> None:
        """Receive no more."""
        if self._receiver is not None:
            self._receiver.stop()
        if self._spool is not None:
            self._spool.close()
        self._receiver = self._spool = None

    def _opened(self) -> MessageSpool:
        if self._spool is None:
            self._spool = MessageSpool(Path(self._told.home), limit=spool_limit(_asked(self._told)))
        return self._spool

    def _receiving(self) -> SpoolReceiver:
        if self._receiver is None:
            told, source, opened = self._told, _source(self._told), self._opened()
            patience = source.broker(told.inputs, told.options).timeout
            self._receiver = SpoolReceiver(
                opened, lambda: source.connect(told.inputs, told.options, opened), source.passing, patience
            )
        return self._receiver


def _asked(told: brokers.ReadRequest) -> Mapping[str, str]:
    """All options, those of addresses, too."""
    return _source(told).broker(told.inputs, told.options).options


def _source(told: brokers.ReadRequest) -> SpoolingSource:
    found: SpoolingSource = base.record_source(told.source)  # type: ignore[assignment]  # it named itself
    return found

"""Brokers that give each message once: received into a spool in the output, from which Spark reads.

Offsets are numbers in the spool; what Spark has committed is trimmed. The spool is written by the process in which
Spark asks for offsets, on the driver's machine, and read by tasks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from signalbook.brokers.connection import BrokerUnavailable
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import Place, place_of
from signalbook.pipeline.sources import base, brokers, spool
from signalbook.pipeline.sources.base import RecordSource, split_range
from signalbook.pipeline.sources.brokers import BrokerInput
from signalbook.pipeline.sources.spool import RECEIVED, MessageSpool, Segment, SpooledMessage

SPOOL_LIMIT: Final = "maxSpoolBytes"
"""The option of how much may wait."""
_LIMIT: Final = 4 * 1024**3
_LEAST: Final = 10_000
# Messages that a task has in hand at a time, and of large ones so many bytes.
_ROWS: Final = 1_000
_ROWS_BYTES: Final = 32 * 1024 * 1024
_LOOK: Final = 0.5
_PAUSE: Final = 0.5
_JOIN_SECONDS: Final = 10.0
# What a broker has for us comes at once; so many looks without anything are the end of what there is now.
_QUIET: Final = 4
# So many messages wait in memory for room in the spool: more than a broker gives that are to be confirmed. With so many
# bytes of them no more are taken.
_HELD: Final = 1_000
_HELD_BYTES: Final = 64 * 1024 * 1024
# Where each time that something is written is a request, what comes is gathered: for so many seconds, until nothing
# comes for so long, as where a broker waits for confirmations, or until there are as many as brokers give without.
_GATHERED: Final = 0.1
_STILL: Final = 0.02
_MOST: Final = 500
# Which part of its time a look has to take: one may end early without anything, as for what is no message.
_WHOLE: Final = 0.9

Offset = dict[str, int]
"""The number in the spool of the first message that was not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedMessage:
    """A message that came; ``token`` is what it is confirmed by."""

    message: SpooledMessage
    token: Any


class ReceivingConnection(Protocol):
    """A connection on which messages come. For one thread."""

    def receive(self, seconds: float) -> Sequence[ReceivedMessage]:
        """Return the messages that arrive within ``seconds``, perhaps none."""

    def confirm(self, messages: Sequence[ReceivedMessage]) -> None:
        """Confirm messages, so that the broker forgets them."""

    def keep_alive(self) -> None:
        """Show the broker now and then that this side still is, while nothing is taken from it."""

    def close(self) -> None:
        """Hang up, whatever state it is in; raises nothing."""


class SpoolReceiver:
    """A thread that keeps a connection made by ``connect``, and makes another where the broker was unavailable.

    Each message lasts in the spool before it is confirmed: what is lost in between comes again. Everybody else may ask
    for ``end``, which raises ``PipelineError`` once nothing more will come: for any other error, or when the broker was
    away for ``patience`` seconds.
    """

    def __init__(self, spool: MessageSpool, connect: Callable[[], ReceivingConnection], patience: float) -> None:
        self._spool = spool
        self._connect = connect
        self._patience = patience
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._quiet = 0
        self._connected = False
        self._thread = threading.Thread(target=self._work, name="receiver", daemon=True)
        self._thread.start()

    @property
    def end(self) -> int:
        """The number behind the last message that is written."""
        if isinstance(self._failure, PipelineError):
            raise self._failure
        if self._failure is not None:
            raise PipelineError(f"receiving ended: {type(self._failure).__name__}: {self._failure}")
        return self._spool.end

    def wait_for_end(self) -> int:
        """Return ``end`` once the broker is silent for a moment, or after the longest wait."""
        deadline = time.monotonic() + self._patience
        while True:
            end = self.end
            if self._quiet >= _QUIET or (self._connected and time.monotonic() > deadline):
                return end
            # Polled, not signalled: silence is what is waited for, and nothing announces it.
            self._over.wait(_LOOK / 5)

    def stop(self) -> None:
        """End, with what is at hand written and confirmed; a connection that is being made is not waited for."""
        self._over.set()
        self._thread.join(_JOIN_SECONDS)

    def _work(self) -> None:
        away = time.monotonic()
        while not self._over.is_set():
            try:
                connection = self._connect()
                try:
                    self._receive(connection)
                finally:
                    if self._connected:
                        away, self._connected = time.monotonic(), False
                    connection.close()
            except BrokerUnavailable as error:
                if time.monotonic() - away > self._patience:
                    self._failure = PipelineError(f"the broker is away: {error or type(error).__name__}")
                    return
                self._quiet = 0
                self._over.wait(_PAUSE)
            except BaseException as error:
                self._failure = error
                return

    def _receive(self, connection: ReceivingConnection) -> None:
        # What the spool has no room for stays unconfirmed: the broker then holds back what comes behind it. Messages
        # that need no confirmation would all come nevertheless, so that the connection ends at some number of them.
        held = list[ReceivedMessage]()
        while not self._over.is_set() and len(held) <= _HELD:
            began = time.monotonic()
            received = self._receive_more(connection, held)
            held += received
            written = held[: self._spool.append([arrived.message for arrived in held])]
            if written:
                connection.confirm(written)
                del held[: len(written)]
            # Not before: a broker that takes connections and ends each of them at once is away nevertheless.
            self._connected = True
            still = not received and time.monotonic() - began > _WHOLE * _LOOK
            self._quiet = self._quiet + 1 if still else 0
        self._over.wait(_PAUSE)  # what comes and need not be confirmed may come as fast again

    def _receive_more(
        self, connection: ReceivingConnection, held: Sequence[ReceivedMessage]
    ) -> Sequence[ReceivedMessage]:
        """Receive messages unless too much is ``held``: then they wait at the broker or on their way."""
        if sum(arrived.message.weight for arrived in held) >= _HELD_BYTES:
            self._over.wait(_LOOK)
            connection.keep_alive()
            return []
        received = connection.receive(_LOOK)
        if not received or not self._spool.costly:
            return received
        return [*received, *self._collect_more(connection, _MOST - len(received))]

    def _collect_more(self, connection: ReceivingConnection, most: int) -> list[ReceivedMessage]:
        """Receive further messages that arrive at once."""
        messages, deadline = list[ReceivedMessage](), time.monotonic() + _GATHERED
        while len(messages) < most and (seconds_left := deadline - time.monotonic()) > 0:
            more = connection.receive(min(seconds_left, _STILL))
            if not more:
                break
            messages += more
        return messages


@runtime_checkable
class SpoolingSource(RecordSource, Protocol):
    """A source whose messages are received once."""

    packages: tuple[str, ...] = ()

    def load(self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str]) -> DataFrame:  # noqa: ARG002
        """There is no batch to repeat. Raises ``PipelineError``."""
        raise PipelineError(
            f"{self.name} gives each message once, so that there is no batch to repeat: land what is there now by "
            "`signalbook pipeline stream --once`"
        )

    def load_stream(
        self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str], most: int, home: Place
    ) -> DataFrame:
        """The messages as they come, by way of a spool in ``home``. Raises ``PipelineError``."""
        parse_spool_limit(self.parse_broker(inputs, options).options)
        kind, existing = _ReceivedDataSource, home / RECEIVED
        return brokers.load_rows(
            session, session.readStream, kind, inputs, options, most=most, source=self.name, spool=existing
        )

    def parse_broker(self, inputs: Sequence[str], options: Mapping[str, str]) -> BrokerInput:
        """Return the broker of the messages. Raises ``PipelineError`` for invalid addresses and options."""

    def connect(self, inputs: Sequence[str], options: Mapping[str, str], spool: MessageSpool) -> ReceivingConnection:
        """A connection on which messages come. Raises ``PipelineError`` where the broker refuses."""


def parse_spool_limit(options: Mapping[str, str]) -> int:
    """Return the maximum number of bytes in a spool. Raises ``PipelineError``."""
    text = options.get(SPOOL_LIMIT, str(_LIMIT))
    if not (text.isdecimal() and int(text)):
        raise PipelineError(f"the option {SPOOL_LIMIT} is a whole number of bytes, not {text!r}")
    return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SpoolRange(InputPartition):
    """Messages of a spool for one task, from ``start`` to before ``end``; ``source`` is what they are said to be of."""

    source: str
    protocol: str
    start: int
    end: int
    segments: tuple[Segment, ...]


class _ReceivedDataSource(brokers.BrokerDataSource):
    """The data source for Spark."""

    @classmethod
    def name(cls) -> str:
        """Return the name in Spark."""
        return "signalbook-received"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a stream."""
        return _Stream(self.request, schema)


class _Stream(brokers.BrokerStreamReader):
    """The reader of a stream. It opens nothing before Spark asks for an offset, because tasks have one, too."""

    _spool: MessageSpool | None = None
    _receiver: SpoolReceiver | None = None
    _end: int | None = None
    _last = False
    _known = False

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the number of the first waiting message."""
        return {"number": self._open_spool().begin}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Prepare to stop after the messages that the broker has now."""
        self._last = True

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the end of the next batch."""
        before = start["number"]
        if not self._known:
            self._check(before)  # first: what was received into another spool would be confirmed and found by nobody
        if self._last and self._end is None:
            self._end = self._start_receiver().wait_for_end()
        end = self._start_receiver().end if self._end is None else self._end
        self._open_spool().trim(before)  # Spark says what it has committed not before there is something new
        return {"number": min(end, before + limit.max_rows) if isinstance(limit, ReadMaxRows) else end}

    def _check(self, before: int) -> None:
        """Raise ``PipelineError`` for a spool that is not the one in which ``before`` messages had been."""
        spooled = self._open_spool().initial_end
        if spooled < before:
            raise PipelineError(
                f"{self._request.spool} has had {spooled} messages, and the stream has read {before}: restore it, "
                "or give the stream another name"
            )
        self._known = True

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return ranges of the messages between two offsets."""
        first, last, source = start["number"], end["number"], _find_source(self._request)
        # Below so many messages another task costs more than it saves.
        count = max(1, min(self._request.tasks, (last - first) // _LEAST))
        opened = self._open_spool()
        session = opened.read_session()
        name = f"{source.name}:{session.name if session else ''}"
        return [
            _SpoolRange(
                source=name,
                protocol=source.protocol,
                start=begin,
                end=stop,
                segments=opened.find_segments(begin, stop),
            )
            for begin, stop in split_range(first, last, count)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield rows of ``RECORD_COLUMNS``."""
        assert isinstance(partition, _SpoolRange)
        waiting = spool.read_messages(self._place, partition.segments, partition.start, partition.end)
        for portion in _split_portions(waiting):
            messages = [message for _, message in portion]
            yield brokers.build_rows(
                self._schema,
                protocol=[partition.protocol] * len(portion),
                source=[partition.source] * len(portion),
                position=[number for number, _ in portion],
                address=[message.address for message in messages],
                key=[message.key for message in messages],
                value=[message.value for message in messages],
                headers=[brokers.build_header_rows(message.headers) for message in messages],
                received_at=[message.received_at for message in messages],
            )

    def commit(self, end: Offset) -> None:
        """Remove landed messages from the spool."""
        self._open_spool().trim(end["number"])

    def stop(self) -> None:
        """Receive no more."""
        if self._receiver is not None:
            self._receiver.stop()  # before the spool: what it has at hand is still written and confirmed
        if self._spool is not None:
            self._spool.close()
        self._receiver = self._spool = None

    def _open_spool(self) -> MessageSpool:
        if self._spool is None:
            request = self._request
            options = (
                _find_source(request).parse_broker(request.inputs, request.options).options
            )  # those of addresses, too
            self._spool = MessageSpool(self._place, limit=parse_spool_limit(options))
        return self._spool

    @property
    def _place(self) -> Place:
        return place_of(self._request.spool, self._request.storage)

    def _start_receiver(self) -> SpoolReceiver:
        if self._receiver is None:
            request, source, opened = self._request, _find_source(self._request), self._open_spool()
            patience = source.parse_broker(request.inputs, request.options).settings.timeout
            self._receiver = SpoolReceiver(
                opened, lambda: source.connect(request.inputs, request.options, opened), patience
            )
        return self._receiver


def _split_portions(waiting: Iterable[tuple[int, SpooledMessage]]) -> Iterator[list[tuple[int, SpooledMessage]]]:
    portion, size = list[tuple[int, SpooledMessage]](), 0
    for number, message in waiting:
        portion.append((number, message))
        size += message.weight
        if len(portion) >= _ROWS or size >= _ROWS_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _find_source(request: brokers.ReadRequest) -> SpoolingSource:
    source: SpoolingSource = base.find_record_source(request.source)  # type: ignore[assignment]  # it named itself
    return source

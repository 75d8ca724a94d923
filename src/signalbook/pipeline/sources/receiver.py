"""Sources for brokers that deliver each message only once. Messages are received into a spool, from which Spark reads.

Offsets are numbers of messages in the spool. Messages that Spark has committed are deleted. The process on the driver's
machine in which Spark queries offsets writes the spool; tasks read it.
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
"""The option for the maximum size of the spool in bytes."""
_LIMIT: Final = 4 * 1024**3
# Messages. A task for fewer costs more than it saves.
_LEAST: Final = 10_000
# A task reads this many messages at a time, or messages of this many bytes.
_ROWS: Final = 1_000
_ROWS_BYTES: Final = 32 * 1024 * 1024
_LOOK: Final = 0.5
_PAUSE: Final = 0.5
_JOIN_SECONDS: Final = 10.0
# A broker sends waiting messages at once. After this many empty calls of ``receive`` no more are waiting.
_QUIET: Final = 4
# This many messages may wait in memory for room in the spool, more than a broker sends unconfirmed. Above this many
# bytes, no more messages are received.
_HELD: Final = 1_000
_HELD_BYTES: Final = 64 * 1024 * 1024
# If each write of the spool is a request to a store, messages are collected first: for ``_GATHERED`` seconds, until
# nothing arrives for ``_STILL`` seconds because the broker waits for confirmations, or until there are ``_MOST``
# messages, as many as brokers send unconfirmed.
_GATHERED: Final = 0.1
_STILL: Final = 0.02
_MOST: Final = 500
# The share of its time that an empty ``receive`` must take to count as silence. It ends early for other packets.
_WHOLE: Final = 0.9

Offset = dict[str, int]
"""The number in the spool of the first message that was not yet read, by the key ``number``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedMessage:
    """A received message. ``token`` is the broker client's object with which the message is confirmed."""

    message: SpooledMessage
    token: Any


class ReceivingConnection(Protocol):
    """The interface of a connection that receives messages, for use by one thread."""

    def receive(self, seconds: float) -> Sequence[ReceivedMessage]:
        """Return the messages that arrive within ``seconds``, perhaps none."""

    def confirm(self, messages: Sequence[ReceivedMessage]) -> None:
        """Confirm messages, so that the broker forgets them."""

    def keep_alive(self) -> None:
        """Send a sign of life to the broker if one is due, without receiving messages."""

    def close(self) -> None:
        """Close the connection, whatever its state. Raises nothing."""


class SpoolReceiver:
    """A thread that receives messages into ``spool``.

    It opens a connection with ``connect``, and a new one if the broker becomes unavailable. A message is confirmed only
    when it is durable in the spool; if the thread fails before, the broker sends the message again. The thread ends at
    any other error, or when the broker was unavailable for ``patience`` seconds. Then ``end`` raises ``PipelineError``.
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
        """The number after the last message in the spool. Raises ``PipelineError`` if receiving has failed."""
        if isinstance(self._failure, PipelineError):
            raise self._failure
        if self._failure is not None:
            raise PipelineError(f"receiving ended: {type(self._failure).__name__}: {self._failure}")
        return self._spool.end

    def wait_for_end(self) -> int:
        """Wait until the broker sends no more messages, and return ``end``. Raises the error of ``end``.

        After ``patience`` seconds, return as soon as there is a connection.
        """
        deadline = time.monotonic() + self._patience
        while True:
            end = self.end
            if self._quiet >= _QUIET or (self._connected and time.monotonic() > deadline):
                return end
            # Poll, because no event announces that the broker has become silent.
            self._over.wait(_LOOK / 5)

    def stop(self) -> None:
        """End the thread, and wait for it at most ``_JOIN_SECONDS``.

        Messages that the thread has just received are written and confirmed first, if the spool has room.
        """
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
        # Messages for which the spool has no room stay unconfirmed, so that the broker sends no more. Messages that
        # need no confirmation would still arrive, so the connection ends when too many are held.
        held = list[ReceivedMessage]()
        while not self._over.is_set() and len(held) <= _HELD:
            began = time.monotonic()
            received = self._receive_more(connection, held)
            held += received
            written = held[: self._spool.append([arrived.message for arrived in held])]
            if written:
                connection.confirm(written)
                del held[: len(written)]
            # Set only now: a broker that accepts connections and ends them at once is unavailable, too.
            self._connected = True
            still = not received and time.monotonic() - began > _WHOLE * _LOOK
            self._quiet = self._quiet + 1 if still else 0
        self._over.wait(_PAUSE)  # messages without confirmation may arrive as fast on the next connection

    def _receive_more(
        self, connection: ReceivingConnection, held: Sequence[ReceivedMessage]
    ) -> Sequence[ReceivedMessage]:
        """Return received messages. Receive none if ``held`` is too large; then messages wait at the broker."""
        if sum(arrived.message.weight for arrived in held) >= _HELD_BYTES:
            self._over.wait(_LOOK)
            connection.keep_alive()
            return []
        received = connection.receive(_LOOK)
        if not received or not self._spool.costly:
            return received
        return [*received, *self._collect_more(connection, _MOST - len(received))]

    def _collect_more(self, connection: ReceivingConnection, most: int) -> list[ReceivedMessage]:
        """Return up to ``most`` further messages that arrive without a pause."""
        messages, deadline = list[ReceivedMessage](), time.monotonic() + _GATHERED
        while len(messages) < most and (seconds_left := deadline - time.monotonic()) > 0:
            more = connection.receive(min(seconds_left, _STILL))
            if not more:
                break
            messages += more
        return messages


@runtime_checkable
class SpoolingSource(RecordSource, Protocol):
    """The base of sources whose broker delivers each message only once."""

    packages: tuple[str, ...] = ()

    def load(self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str]) -> DataFrame:  # noqa: ARG002
        """Raise ``PipelineError``: messages are delivered only once, so a batch could not be repeated."""
        raise PipelineError(
            f"{self.name} gives each message once, so that there is no batch to repeat: land what is there now by "
            "`signalbook pipeline stream --once`"
        )

    def load_stream(
        self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str], most: int, home: Place
    ) -> DataFrame:
        """Return messages as they arrive, through a spool in the folder ``home``. Raises ``PipelineError``."""
        parse_spool_limit(self.parse_broker(inputs, options).options)
        kind, existing = _ReceivedDataSource, home / RECEIVED
        return brokers.load_rows(
            session, session.readStream, kind, inputs, options, most=most, source=self.name, spool=existing
        )

    def parse_broker(self, inputs: Sequence[str], options: Mapping[str, str]) -> BrokerInput:
        """Return the broker that ``inputs`` name. Raises ``PipelineError`` for invalid addresses and options."""

    def connect(self, inputs: Sequence[str], options: Mapping[str, str], spool: MessageSpool) -> ReceivingConnection:
        """Return a connection that receives messages. ``spool`` stores the session at the broker.

        Raises ``PipelineError`` if the broker refuses, and ``BrokerUnavailable`` for errors that may pass.
        """


def parse_spool_limit(options: Mapping[str, str]) -> int:
    """Return the maximum size of a spool in bytes. Raises ``PipelineError`` for an invalid option."""
    text = options.get(SPOOL_LIMIT, str(_LIMIT))
    if not (text.isdecimal() and int(text)):
        raise PipelineError(f"the option {SPOOL_LIMIT} is a whole number of bytes, not {text!r}")
    return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SpoolRange(InputPartition):
    """The messages ``start`` to before ``end`` of a spool, for one task.

    ``source`` is the source column of their rows.
    """

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
        return _Stream(self.request, schema)


class _Stream(brokers.BrokerStreamReader):
    """The reader of a stream. It opens the spool only when Spark queries an offset: tasks have a reader, too."""

    _spool: MessageSpool | None = None
    _receiver: SpoolReceiver | None = None
    _end: int | None = None
    _last = False
    _known = False

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the number of the first waiting message."""
        return {"number": self._open_spool().begin}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Make the stream end after the messages that the broker has now."""
        self._last = True

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the end of the next batch."""
        before = start["number"]
        if not self._known:
            # Check before receiving: messages received into a wrong spool would be confirmed, but never read.
            self._check(before)
        if self._last and self._end is None:
            self._end = self._start_receiver().wait_for_end()
        end = self._start_receiver().end if self._end is None else self._end
        self._open_spool().trim(before)  # Spark calls ``commit`` only when there are new messages
        return {"number": min(end, before + limit.max_rows) if isinstance(limit, ReadMaxRows) else end}

    def _check(self, before: int) -> None:
        """Raise ``PipelineError`` if the spool has had fewer than ``before`` messages, so that it is another spool."""
        spooled = self._open_spool().initial_end
        if spooled < before:
            raise PipelineError(
                f"{self._request.spool} has had {spooled} messages, and the stream has read {before}: restore it, "
                "or give the stream another name"
            )
        self._known = True

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the messages between two offsets, divided into ranges for tasks."""
        first, last, source = start["number"], end["number"], _find_source(self._request)
        # For fewer messages another task costs more than it saves.
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
        """Yield the messages of ``partition`` as rows of ``RECORD_COLUMNS``."""
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
        """Delete the messages before ``end``, which have landed, from the spool."""
        self._open_spool().trim(end["number"])

    def stop(self) -> None:
        """End receiving, and close the spool."""
        if self._receiver is not None:
            # Stop the receiver before the spool: it still writes and confirms the messages in memory.
            self._receiver.stop()
        if self._spool is not None:
            self._spool.close()
        self._receiver = self._spool = None

    def _open_spool(self) -> MessageSpool:
        if self._spool is None:
            request = self._request
            broker = _find_source(request).parse_broker(request.inputs, request.options)
            # The options of the broker include those in addresses.
            self._spool = MessageSpool(self._place, limit=parse_spool_limit(broker.options))
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
    # A spooling source wrote its own name.
    source: SpoolingSource = base.find_record_source(request.source)  # type: ignore[assignment]
    return source

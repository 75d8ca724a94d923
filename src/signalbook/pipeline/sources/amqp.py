"""Queues of AMQP 1.0: ``amqp://HOST:PORT/ADDRESS``; ``amqps://`` with TLS.

A message is accepted once it is written; what was not accepted when a connection ends is given again.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpcore
from pyspark.sql import DataFrame, SparkSession

from signalbook.brokers.amqp.connection import AMQPConnection, AMQPRefused
from signalbook.brokers.amqp.links import AMQPDelivery, AMQPReceiver
from signalbook.brokers.amqp.messages import sections, taken_apart
from signalbook.brokers.amqp.types import AMQPError, Described, Timestamp, encode
from signalbook.messages import Message
from signalbook.messages.bindings.amqp import message
from signalbook.pipeline import headers
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.landing.rows import address
from signalbook.pipeline.sources import brokers, spooled
from signalbook.pipeline.sources.base import MessageBatch
from signalbook.pipeline.sources.spool import (
    MessageSpool,
    ReceivedMessage,
    ReceivingConnection,
    SessionMemory,
    SpooledMessage,
)

_KIND: Final = brokers.BrokerKind(
    name="AMQP 1.0",
    form="amqp://HOST:PORT/ADDRESS",
    schemes={"amqp": (5672, False), "amqps": (5671, True)},
    options=(spooled.SPOOL_LIMIT,),
)
# Conditions that may be others in a moment.
_PASSING: Final = ("amqp:connection:", "amqp:internal-error", "amqp:resource-limit-exceeded", "amqp:link:detach-forced")
_MOST: Final = 500
_BEAT: Final = 2.0
_MORE: Final = 0.01
_PARTING: Final = 5.0
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Amqp:
    """Messages of one node, mostly a queue."""

    name = "amqp"
    protocol = "AMQP/1.0"
    packages: tuple[str, ...] = ()
    cloudevents_json = True
    passing: tuple[type[Exception], ...] = (AMQPError, httpcore.NetworkError, httpcore.TimeoutException)

    def load(self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str]) -> DataFrame:  # noqa: ARG002
        """There is none. Raises ``PipelineError``."""
        return spooled.refuse_batch(self)

    def load_stream(
        self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str], most: int, home: Path
    ) -> DataFrame:
        """What waits at the node, and what comes."""
        return spooled.load_spooled_stream(self, session, inputs, options, most, home)

    def message(self, batch: MessageBatch, index: int) -> Message:
        """The message, with all its sections; of bytes that were none, those."""
        assert batch.records is not None
        row = batch.records.slice(index, 1).to_pylist()[0]
        return _message(row["key"] or b"", row["value"], row["received_at"], reference=batch.path)

    def broker(self, inputs: Sequence[str], options: Mapping[str, str]) -> brokers.BrokerSettings:
        """Where the messages are. Raises ``PipelineError``."""
        return _wanted(inputs, options)[0]

    def connect(self, inputs: Sequence[str], options: Mapping[str, str], spool: MessageSpool) -> ReceivingConnection:
        """A connection on which messages come. Raises ``PipelineError`` and what may pass."""
        broker, node = _wanted(inputs, options)
        memory = spool.memory()
        if memory is None or memory.what != (node,):
            memory = spool.remember(SessionMemory(name=f"{broker}/{node}#{secrets.token_hex(3)}", what=(node,)))
        return _Link(broker, node, memory.name)


SOURCE: Final = Amqp()


class _Link:
    """A connection with one link, attached."""

    def __init__(self, broker: brokers.BrokerSettings, node: str, name: str) -> None:
        self._timeout = broker.timeout
        self._opened = broker.stream()
        host, stream, self._deadline = self._opened.__enter__()
        try:
            self._connection, self._receiver = self._attach(broker, host, stream, node, name)
        except AMQPRefused as error:
            self._hang_up()
            if error.condition.startswith(_PASSING):
                raise
            raise PipelineError(f"{broker}, {node}: {error}") from None
        except BaseException:
            self._hang_up()
            raise
        self._shown = time.monotonic()

    def receive(self, seconds: float) -> Sequence[ReceivedMessage]:
        """What comes, a few hundred messages at most."""
        found: list[AMQPDelivery] = []
        self._show()
        try:
            self._deadline.restart(seconds)
            while len(found) < _MOST and self._connection.look():
                self._deadline.restart(self._timeout)
                delivery = self._receiver.take()
                found += [delivery] if delivery else []
                self._deadline.restart(_MORE if found else seconds)
        except httpcore.ReadTimeout:
            pass
        return [ReceivedMessage(message=_spooled(delivery.content), token=delivery) for delivery in found]

    def confirm(self, arrivals: Sequence[ReceivedMessage]) -> None:
        """Accept."""
        self._deadline.restart(self._timeout)
        self._receiver.accept([arrival.token for arrival in arrivals])

    def close(self) -> None:
        """Say good-bye, and hang up once the broker knows of all that was accepted."""
        self._deadline.restart(_PARTING)
        with suppress(*SOURCE.passing):
            self._connection.part()
        self._hang_up()

    def _attach(
        self, broker: brokers.BrokerSettings, host: str, stream: httpcore.NetworkStream, node: str, name: str
    ) -> tuple[AMQPConnection, AMQPReceiver]:
        if broker.secure:
            stream = broker.encrypted(host, stream)
        user, password = broker.login
        connection = AMQPConnection(stream, host=host, container=f"signalbook-{name}", user=user, password=password)
        return connection, AMQPReceiver(connection, node, name, _MOST)

    def _show(self) -> None:
        """Brokers end connections on which nothing was said for long."""
        if time.monotonic() - self._shown > _BEAT:
            self._deadline.restart(self._timeout)
            self._connection.beat()
            self._shown = time.monotonic()

    def _hang_up(self) -> None:
        self._opened.__exit__(None, None, None)


def _wanted(inputs: Sequence[str], options: Mapping[str, str]) -> tuple[brokers.BrokerSettings, str]:
    broker, addresses = _KIND.read(inputs, options)
    if len(addresses) != 1:
        raise PipelineError(f"name one address of {broker}, as {_KIND.form}; others are streams of their own")
    return broker, addresses[0]


def _spooled(content: bytes) -> SpooledMessage:
    """A message as it waits: its body, and the other sections as they were sent; what is none as it came."""
    now = time.time_ns() // 1000
    try:
        around, body = taken_apart(content)
        value = _bytes(body)
        found = _message(around, value)
        named = headers.encoded(headers.carried(found))
    except AMQPError:
        return SpooledMessage(address=None, value=content, received_at=now)
    return SpooledMessage(address=address(found), value=value, headers=named, key=around, received_at=now)


def _message(around: bytes, value: bytes, received_at: datetime | None = None, reference: str = "") -> Message:
    known = {name: _plain(fields) for name, fields in sections(around).items()}
    return message(value, known, received_at=received_at, reference=reference)


def _bytes(body: Any) -> bytes:
    """A body as bytes: of data sections those, of a text its encoding, of other values that of AMQP."""
    if body is None or isinstance(body, bytes):
        return body or b""
    return body.encode() if isinstance(body, str) else encode(body)


def _plain(value: Any) -> Any:
    """A value as Python has it."""
    if isinstance(value, Timestamp):
        return _time(value)
    if isinstance(value, Described):
        return _plain(value.value)
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, bool):
        return value
    plain = next((kind for kind in (int, str) if isinstance(value, kind)), None)
    return value if plain is None else plain(value)


def _time(value: int) -> datetime | int:
    try:
        return _EPOCH + timedelta(milliseconds=value)
    except OverflowError:
        return int(value)

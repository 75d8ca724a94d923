"""Queues of AMQP 1.0: ``amqp://HOST:PORT/ADDRESS``; ``amqps://`` with TLS.

A message is accepted once it is written; what was not accepted when a connection ends is given again.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from signalbook.brokers.amqp.connection import AMQPDelivery, AMQPReceiver
from signalbook.brokers.amqp.messages import AMQPError, body_bytes, split_body
from signalbook.brokers.connection import BrokerTimeout
from signalbook.messages import Message
from signalbook.pipeline import arrays
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.landing.rows import find_address
from signalbook.pipeline.sources import brokers, receiver
from signalbook.pipeline.sources.amqp_sections import build_message, read_sections
from signalbook.pipeline.sources.base import MessageBatch
from signalbook.pipeline.sources.message_records import MessageRecords, format_reference, select_rows
from signalbook.pipeline.sources.receiver import ReceivedMessage, ReceivingConnection, SpoolingSource
from signalbook.pipeline.sources.spool import MessageSpool, SpooledMessage, SpoolSession

_INPUTS: Final = brokers.BrokerInputFormat(
    name="AMQP 1.0",
    form="amqp://HOST:PORT/ADDRESS",
    schemes={"amqp": (5672, False), "amqps": (5671, True)},
    options=(receiver.SPOOL_LIMIT,),
)
_MOST: Final = 500
_HEARTBEAT: Final = 2.0
# Of those that come one after the other: seconds of silence behind which they are given on, and of all together.
_MORE: Final = 0.01
_TOGETHER: Final = 0.1


class Amqp(SpoolingSource):
    """Messages of one node, mostly a queue: what waits there, and what comes."""

    name = "amqp"
    protocol = "AMQP/1.0"
    cloudevents_json = True

    def message(self, batch: MessageBatch, index: int) -> Message:
        """Return the message with all its sections; undecodable messages are returned as bytes."""
        row = batch.record(index, "key", "value", "received_at")
        return build_message(row["key"] or b"", row["value"], row["received_at"], reference=batch.path)

    def to_records(self, batch: MessageBatch, indices: Sequence[int]) -> MessageRecords:
        """Return the records of many messages for dead letters."""
        rows = select_rows(batch, indices)
        sections, content_types, encodings = read_sections(rows.column("key").cast(pa.binary()))
        return MessageRecords.of(
            self.protocol,
            rows,
            addresses=rows.column("address"),
            content_types=content_types,
            encodings=encodings,
            references=format_reference(batch.path, len(rows)),
            sections=sections,
        )

    def parse_broker(self, inputs: Sequence[str], options: Mapping[str, str]) -> brokers.BrokerInput:
        """Return the broker of the messages. Raises ``PipelineError``."""
        return _read_input(inputs, options)

    def connect(self, inputs: Sequence[str], options: Mapping[str, str], spool: MessageSpool) -> ReceivingConnection:
        """A connection on which messages come. Raises ``PipelineError`` and what may pass."""
        broker = _read_input(inputs, options)
        (node,) = broker.names
        session = spool.read_session()
        if session is None or session.receives != (node,):
            name = f"{broker}/{node}#{secrets.token_hex(3)}"
            session = spool.remember(SpoolSession(name=name, receives=(node,)))
        with broker.convert_refusals():
            return _Connection(broker, node, session.name)


SOURCE: Final = Amqp()


class _Connection:
    """A connection with one link, attached."""

    def __init__(self, broker: brokers.BrokerInput, node: str, name: str) -> None:
        self._receiver = AMQPReceiver.open(broker.settings, address=node, name=name, most=_MOST)
        self._connection = self._receiver.connection
        self._heartbeat = time.monotonic()

    def receive(self, seconds: float) -> Sequence[ReceivedMessage]:
        """Return the messages that arrive, at most a few hundred."""
        deliveries: list[AMQPDelivery] = []
        end = math.inf  # before there is a message: a large one that is on its way is no silence
        self.keep_alive()
        try:
            self._connection.limit(seconds)
            while len(deliveries) < _MOST and time.monotonic() < end and self._connection.has_frame():
                self._connection.limit()
                delivery = self._receiver.take()
                if (
                    delivery and not deliveries
                ):  # where they come one by one without a pause, the first has waited enough
                    end = time.monotonic() + _TOGETHER
                deliveries += [delivery] if delivery else []
                self._connection.limit(_MORE if deliveries else seconds)
        except BrokerTimeout:
            pass  # nothing is lost: a frame that came in part is kept
        # without its content, which would be in memory twice where messages wait
        return [
            ReceivedMessage(message=_build_spooled_message(arrived.content), token=replace(arrived, content=b""))
            for arrived in deliveries
        ]

    def confirm(self, messages: Sequence[ReceivedMessage]) -> None:
        """Accept messages."""
        self._connection.limit()
        self._receiver.accept([message.token for message in messages])

    def keep_alive(self) -> None:
        """Say something: brokers end connections on which nothing was said for long."""
        if time.monotonic() - self._heartbeat > _HEARTBEAT:
            self._connection.limit()
            self._connection.send_heartbeat()
            self._heartbeat = time.monotonic()

    def close(self) -> None:
        """Say good-bye, and hang up once the broker knows of all that was accepted."""
        self._connection.close(drain=True)


def _read_input(inputs: Sequence[str], options: Mapping[str, str]) -> brokers.BrokerInput:
    broker = _INPUTS.read(inputs, options)
    if len(broker.names) != 1:
        raise PipelineError(f"name one address of {broker}, as {_INPUTS.form}; others are streams of their own")
    return broker


def _build_spooled_message(content: bytes) -> SpooledMessage:
    """Return a message as the spool keeps it: body and other sections apart, or whole if it is not a message."""
    now = time.time_ns() // 1000
    try:
        around, body = split_body(content)
        value = body_bytes(body)
        parsed = build_message(around, value)
        headers = arrays.encode_headers(arrays.list_headers(parsed))
    except AMQPError:
        return SpooledMessage(address=None, value=content, received_at=now)
    return SpooledMessage(address=find_address(parsed), value=value, headers=headers, key=around, received_at=now)

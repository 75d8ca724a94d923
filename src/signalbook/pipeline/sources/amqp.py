"""A source for queues of AMQP 1.0: ``amqp://HOST:PORT/ADDRESS``, with TLS ``amqps://``.

A message is accepted when it is written to the spool. When a connection ends, the broker delivers messages that were
not accepted again.
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
from signalbook.messages.message import find_address
from signalbook.pipeline import arrays
from signalbook.pipeline.errors import PipelineError
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
# ``receive`` returns messages after this many seconds of silence, and at the latest this long after the first message.
_MORE: Final = 0.01
_TOGETHER: Final = 0.1


class Amqp(SpoolingSource):
    """The source ``amqp``: the waiting and future messages of one node, usually a queue."""

    name = "amqp"
    protocol = "AMQP/1.0"
    cloudevents_json = True

    def message(self, batch: MessageBatch, index: int) -> Message:
        """Return the message at ``index`` with its sections. The body of an undecodable message is all its bytes."""
        row = batch.record(index, "key", "value", "received_at")
        return build_message(row["key"] or b"", row["value"], row["received_at"], reference=batch.path)

    def to_records(self, batch: MessageBatch, indices: Sequence[int]) -> MessageRecords:
        """Return the dead-letter records of the messages at ``indices``."""
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
        """Return the broker that ``inputs`` name. Raises ``PipelineError`` for invalid addresses and options."""
        return _read_input(inputs, options)

    def connect(self, inputs: Sequence[str], options: Mapping[str, str], spool: MessageSpool) -> ReceivingConnection:
        """Return a connection that receives messages.

        Raises ``PipelineError``, and ``BrokerUnavailable`` for errors that may pass.
        """
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
    """A connection with one link, which receives messages of ``node``."""

    def __init__(self, broker: brokers.BrokerInput, node: str, name: str) -> None:
        self._receiver = AMQPReceiver.open(broker.settings, address=node, name=name, most=_MOST)
        self._connection = self._receiver.connection
        self._heartbeat = time.monotonic()

    def receive(self, seconds: float) -> Sequence[ReceivedMessage]:
        """Return the messages that arrive within ``seconds``, at most a few hundred."""
        deliveries: list[AMQPDelivery] = []
        end = math.inf  # no limit before the first message: a large message may still be arriving
        self.keep_alive()
        try:
            self._connection.limit(seconds)
            while len(deliveries) < _MOST and time.monotonic() < end and self._connection.has_frame():
                self._connection.limit()
                delivery = self._receiver.take()
                # If messages arrive without a pause, the first must not wait longer.
                if delivery and not deliveries:
                    end = time.monotonic() + _TOGETHER
                deliveries += [delivery] if delivery else []
                self._connection.limit(_MORE if deliveries else seconds)
        except BrokerTimeout:
            pass  # nothing is lost: a partial frame stays in memory
        # drop the content of the delivery, which would be in memory twice while messages wait
        return [
            ReceivedMessage(message=_build_spooled_message(arrived.content), token=replace(arrived, content=b""))
            for arrived in deliveries
        ]

    def confirm(self, messages: Sequence[ReceivedMessage]) -> None:
        """Accept messages, so that the broker forgets them."""
        self._connection.limit()
        self._receiver.accept([message.token for message in messages])

    def keep_alive(self) -> None:
        """Send a heartbeat if one is due, because brokers close connections on which nothing is sent for long."""
        if time.monotonic() - self._heartbeat > _HEARTBEAT:
            self._connection.limit()
            self._connection.send_heartbeat()
            self._heartbeat = time.monotonic()

    def close(self) -> None:
        """Close the connection after the broker has read all acceptances."""
        self._connection.close(drain=True)


def _read_input(inputs: Sequence[str], options: Mapping[str, str]) -> brokers.BrokerInput:
    broker = _INPUTS.read(inputs, options)
    if len(broker.names) != 1:
        raise PipelineError(f"name one address of {broker}, as {_INPUTS.form}; others are streams of their own")
    return broker


def _build_spooled_message(content: bytes) -> SpooledMessage:
    """Return a message in the form for the spool: the body, and the other sections as ``key``.

    If ``content`` is not a valid message, the whole ``content`` becomes the body.
    """
    now = time.time_ns() // 1000
    try:
        around, body = split_body(content)
        value = body_bytes(body)
        parsed = build_message(around, value)
        headers = arrays.encode_headers(arrays.list_headers(parsed))
    except AMQPError:
        return SpooledMessage(address=None, value=content, received_at=now)
    return SpooledMessage(address=find_address(parsed), value=value, headers=headers, key=around, received_at=now)

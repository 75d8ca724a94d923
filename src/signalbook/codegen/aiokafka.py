"""Generated messages to and from Kafka, by the producer and consumer of aiokafka that a program has."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from signalbook.codegen.runtime import MessageHandlers, OnUnexpected
from signalbook.messages import Message, Outbound, bind
from signalbook.messages.bindings.kafka import record
from signalbook.values import JSON


class AsyncProducer(Protocol):
    """The needed part of ``aiokafka.AIOKafkaProducer``."""

    async def send_and_wait(self, topic: str, *args: Any, **kwargs: Any) -> Any:
        """Send a record, and wait until Kafka has it."""


class AsyncTypedProducer:
    """A producer for built messages. ``endpoint`` has what their definitions leave open, such as the topic."""

    def __init__(self, producer: AsyncProducer, endpoint: Mapping[str, JSON] | None = None) -> None:
        self._producer = producer
        self._endpoint = endpoint or {"protocol": "KAFKA"}

    async def send(self, outbound: Outbound, context: Mapping[str, str] | None = None) -> Any:
        """Send a message, and return its ``RecordMetadata`` once Kafka has it.

        Raises ``OutboundError``, and what aiokafka raises.

        ``context`` is for placeholders of the endpoint that the message does not have.
        """
        message = bind(outbound, self._endpoint, context)
        sections = message.sections
        return await self._producer.send_and_wait(
            sections["topic"],
            value=message.body,
            key=sections["key"],
            partition=sections.get("partition"),
            headers=list(sections["headers"]),
        )


class AsyncTypedReceiver:
    """A receiver that calls handlers with the records that a program takes from its consumer.

    A record that is of no definition goes to ``on_unexpected``; without that it is raised. Offsets are the consumer's.
    """

    def __init__(self, handlers: MessageHandlers, on_unexpected: OnUnexpected | None = None) -> None:
        self._handlers = handlers
        self._on_unexpected = on_unexpected

    def __call__(self, found: Any) -> None:
        """Take an ``aiokafka.ConsumerRecord``. Raises ``UnexpectedMessage``, and what handlers raise."""
        self._handlers.receive(received(found), self._on_unexpected)


def received(consumed: Any) -> Message:
    """An ``aiokafka.ConsumerRecord`` as ``parse`` takes it."""
    return record(
        consumed.topic,
        consumed.value,
        [(name, value or b"") for name, value in consumed.headers or ()],
        key=consumed.key,
        partition=consumed.partition,
        offset=consumed.offset,
        received_at=datetime.fromtimestamp(consumed.timestamp / 1000, UTC) if consumed.timestamp >= 0 else None,
    )

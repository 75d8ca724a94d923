"""Generated messages to and from Kafka, by the producer and consumer of confluent-kafka that a program has."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from signalbook.codegen.runtime import MessageHandlers, OnUnexpected
from signalbook.errors import SignalbookError
from signalbook.messages import Message, Outbound, bind
from signalbook.messages.bindings.kafka import record
from signalbook.values import JSON, format_count


class ProduceFailed(SignalbookError):
    """The error for records that Kafka did not accept."""


class ConsumeFailed(SignalbookError):
    """The error that Kafka's consumer reports instead of a record."""


class ConfluentProducer(Protocol):
    """The needed part of ``confluent_kafka.Producer``."""

    def produce(self, topic: str, *args: Any, **kwargs: Any) -> None:
        """Put a record in the queue."""

    def flush(self, timeout: float = ...) -> int:
        """Wait until the queue is sent; how many records are left."""

    def poll(self, timeout: float = ...) -> int:
        """Call what waits to be called."""


class ConfluentConsumer(Protocol):
    """The needed part of ``confluent_kafka.Consumer``."""

    def poll(self, timeout: float = ...) -> Any:
        """The next record, or None."""


class TypedProducer:
    """A producer for built messages. ``endpoint`` has what their definitions leave open, such as the topic."""

    def __init__(self, producer: ConfluentProducer, endpoint: Mapping[str, JSON] | None = None) -> None:
        self._producer = producer
        self._endpoint = endpoint or {"protocol": "KAFKA"}
        self._failures: list[str] = []

    def send(self, outbound: Outbound, context: Mapping[str, str] | None = None) -> None:
        """Put a message in the queue. Raises ``OutboundError``, and ``BufferError`` while the queue is full.

        ``context`` is for placeholders of the endpoint that the message does not have.
        """
        message = bind(outbound, self._endpoint, context)
        sections = message.sections
        chosen = {} if sections.get("partition") is None else {"partition": sections["partition"]}
        self._producer.produce(
            sections["topic"],
            value=message.body,
            key=sections["key"],
            headers=list(sections["headers"]),
            on_delivery=self._record_failure,
            **chosen,
        )
        self._producer.poll(0)

    def flush(self, timeout: float = 30.0) -> None:
        """Wait until all is delivered. Raises ``ProduceFailed`` for what was not, in ``timeout`` seconds or at all."""
        undelivered = self._producer.flush(timeout)
        failures, self._failures = self._failures, []
        if undelivered:
            records = format_count(undelivered, "record is", "records are")
            failures.append(f"{records} not delivered after {timeout:g} seconds")
        if failures:
            raise ProduceFailed("; ".join(dict.fromkeys(failures)))

    def _record_failure(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failures.append(str(error))


class TypedConsumer:
    """A consumer that calls handlers with the records of a subscribed consumer of confluent-kafka.

    A record that is of no definition goes to ``on_unexpected``; without that it ends ``poll``. Offsets are the
    consumer's: nothing is committed here but by its own settings.
    """

    def __init__(
        self, consumer: ConfluentConsumer, handlers: MessageHandlers, on_unexpected: OnUnexpected | None = None
    ) -> None:
        self._consumer = consumer
        self._handlers = handlers
        self._on_unexpected = on_unexpected

    def poll(self, timeout: float = 1.0) -> bool:
        """Take the next record, waiting ``timeout`` seconds at most; whether there was one.

        Raises ``ConsumeFailed``, ``UnexpectedMessage``, and what handlers raise.
        """
        message = self._consumer.poll(timeout)
        if message is None:
            return False
        if message.error() is not None:
            raise ConsumeFailed(str(message.error()))
        self._handlers.receive(received(message), self._on_unexpected)
        return True


def received(message: Any) -> Message:
    """A ``confluent_kafka.Message`` as ``parse`` takes it."""
    kind, milliseconds = message.timestamp()
    return record(
        message.topic(),
        message.value(),
        [(name, value or b"") for name, value in message.headers() or ()],
        key=message.key(),
        partition=message.partition(),
        offset=message.offset(),
        received_at=datetime.fromtimestamp(milliseconds / 1000, UTC) if kind else None,
    )

"""Events sent to a topic of Kafka, each entered with the place where it must end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from signalbook.demo.traffic import TOKEN, Place, Template, delivery_id

if TYPE_CHECKING:
    from kafka import KafkaProducer

_STRUCTURED: Final = [("content-type", b"application/cloudevents+json")]
_PATIENCE_MS: Final = 300_000
_PATIENCE: Final = dict.fromkeys(("bootstrap_timeout_ms", "max_block_ms", "delivery_timeout_ms"), _PATIENCE_MS)


class Topic:
    """A topic that only this sends to.

    ``due`` has for each record, by partition and offset, the xid of the message whose table it must land in, or the
    reason that it must be sidelined for.
    """

    def __init__(self, producer: KafkaProducer, name: str) -> None:
        self.name = name
        self.due: dict[Place, str] = {}
        self._producer = producer
        self._partitions = len(producer.partitions_for(name))  # asked for, it is made
        self._numbers = count()

    def send(self, templates: Sequence[Template]) -> list[Place]:
        """Send an event of each template, structured CloudEvents, and wait until Kafka has them; their places."""
        waiting = [(template, self._send(template)) for template in templates]
        self._producer.flush()
        return [self._enter(template, future.get()) for template, future in waiting]

    def _send(self, template: Template) -> Any:
        number = next(self._numbers)
        value = template.line.replace(TOKEN, delivery_id(number))
        return self._producer.send(self.name, value, headers=_STRUCTURED, partition=number % self._partitions)

    def _enter(self, template: Template, record: Any) -> Place:
        place = (f"kafka:{self.name}/{record.partition}", int(record.offset))
        self.due[place] = template.reason or template.definition
        return place


@contextmanager
def topic(servers: str, name: str) -> Iterator[Topic]:
    """A new topic of the cluster at ``servers``; each record is in it once."""
    from kafka import KafkaProducer

    with KafkaProducer(bootstrap_servers=servers, enable_idempotence=True, **_PATIENCE) as producer:
        yield Topic(producer, name)

"""Generated messages through a real Kafka."""

from datetime import time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer
from tests.brokers.program import Broker
from tests.codegen.conftest import DOCUMENT, GROUP
from tests.codegen.packages import generated, imported, ordering

from signalbook.codegen.kafka import ProduceFailed, TypedConsumer, TypedProducer
from signalbook.codegen.runtime import TypedMessage, UnexpectedMessage
from signalbook.messages import Message


def test_produced_messages_are_consumed_by_type(kafka: Broker, tmp_path: Path) -> None:
    """Two kinds on one topic, and a record of no kind among them."""
    generated(tmp_path, DOCUMENT)
    servers, topic = f"127.0.0.1:{kafka.ports['plain']}", f"orders-{uuid4().hex[:8]}"
    placed_seen: list[TypedMessage[Any]] = []
    rides_seen: list[TypedMessage[Any]] = []
    unexpected: list[tuple[Message, UnexpectedMessage]] = []
    with imported(tmp_path) as modules:
        placed, ride = modules[GROUP + "order.placed"], modules[GROUP + "class"]
        from messages.definitions import handlers  # type: ignore[import-not-found] # made just now

        confluent = Producer({"bootstrap.servers": servers})
        producer = TypedProducer(confluent, {"protocol": "KAFKA", "protocoloptions": {"topic": topic, "key": "{shop}"}})
        order = placed._types.OrderPlaced(kind="again", total=2.5)
        producer.send(placed.build(order, shop="7"))
        confluent.produce(topic, b"who knows")
        producer.send(placed.build(order, shop="8"))
        producer.flush()
        with_city = TypedProducer(confluent)
        fare = ride.MESSAGE.typed_of({"n": 1, "fare": Decimal("1.50"),
                                      "at": time(1), "tags": {}})  # fmt: skip
        with_city.send(ride.build(fare, city=topic))
        with_city.flush()

        table = handlers("/messagegroups/shop.orders")
        table.on(placed.MESSAGE)(placed_seen.append)
        table.on(ride.MESSAGE)(rides_seen.append)
        consumer = Consumer({"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic, f"rides.{topic}"])
        typed = TypedConsumer(consumer, table, lambda message, error: unexpected.append((message, error)))
        for _ in range(120):
            typed.poll(0.5)
            if len(placed_seen) + len(rides_seen) + len(unexpected) == 4:
                break
        consumer.close()
    placed_seen.sort(key=lambda message_seen: message_seen.context["shop"])  # keys choose partitions
    assert [(message_seen.payload, message_seen.context["shop"]) for message_seen in placed_seen] == [
        (order, "7"),
        (order, "8"),
    ]
    assert [message_seen.message.sections["key"] for message_seen in placed_seen] == [b"7", b"8"]
    assert [(message_seen.payload, message_seen.context["city"]) for message_seen in rides_seen] == [(fare, topic)]
    assert [(message.body, error.rejected is not None) for message, error in unexpected] == [(b"who knows", True)]


def test_undelivered_message_is_an_error(tmp_path: Path) -> None:
    with ordering(tmp_path) as orders:
        nowhere = Producer({"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 200, "log_level": 0})
        producer = TypedProducer(nowhere, {"protocol": "KAFKA", "protocoloptions": {"topic": "t"}})
        producer.send(orders.placed.build(orders.order, shop="7"))
        with pytest.raises(ProduceFailed, match=r"timed out|not delivered"):
            producer.flush(5)

"""Generated messages through a real Kafka, with aiokafka."""

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest
from tests.brokers.program import Broker
from tests.codegen.packages import ordering

from signalbook.codegen.aiokafka import AsyncTypedProducer, AsyncTypedReceiver
from signalbook.messages import Message

aiokafka = pytest.importorskip("aiokafka")


def test_produced_messages_are_consumed_by_type(kafka: Broker, tmp_path: Path) -> None:
    servers, topic = f"127.0.0.1:{kafka.ports['plain']}", f"orders-{uuid4().hex[:8]}"
    unexpected: list[Message] = []
    with ordering(tmp_path) as orders:

        async def run() -> None:
            receiver = AsyncTypedReceiver(orders.handlers, lambda message, _: unexpected.append(message))
            async with aiokafka.AIOKafkaProducer(bootstrap_servers=servers) as producer:
                options = {"topic": topic, "key": "{shop}"}
                typed = AsyncTypedProducer(producer, {"protocol": "KAFKA", "protocoloptions": options})
                await typed.send(orders.placed.build(orders.order, shop="7"))
                await producer.send_and_wait(topic, b"who knows")
            settings = {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}
            async with aiokafka.AIOKafkaConsumer(topic, **settings) as consumer:
                while len(orders.seen) + len(unexpected) < 2:
                    receiver(await asyncio.wait_for(consumer.getone(), 300))

        asyncio.run(run())
    orders.check("key", b"7")
    assert [message.body for message in unexpected] == [b"who knows"]

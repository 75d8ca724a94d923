"""Generated messages through a real Kafka, with aiokafka."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.brokers.program import Broker
from tests.codegen.conftest import DOCUMENT, GROUP
from tests.codegen.packages import generated, imported

from signalbook.codegen.aiokafka import AsyncTypedProducer, AsyncTypedReceiver
from signalbook.codegen.runtime import TypedMessage
from signalbook.messages import Message

aiokafka = pytest.importorskip("aiokafka")


def test_what_is_produced_is_consumed_by_its_type(kafka: Broker, tmp_path: Path) -> None:
    generated(tmp_path, DOCUMENT)
    servers, topic = f"127.0.0.1:{kafka.ports['plain']}", f"orders-{uuid4().hex[:8]}"
    seen: list[TypedMessage[Any]] = []
    others: list[Message] = []
    with imported(tmp_path) as modules:
        placed = modules[GROUP + "order.placed"]
        from messages.definitions import handlers  # type: ignore[import-not-found] # made just now

        table = handlers("/messagegroups/shop.orders")
        table.on(placed.MESSAGE)(seen.append)
        order = placed._types.OrderPlaced(kind="again", total=2.5)

        async def run() -> None:
            receiver = AsyncTypedReceiver(table, lambda message, _: others.append(message))
            async with aiokafka.AIOKafkaProducer(bootstrap_servers=servers) as producer:
                options = {"topic": topic, "key": "{shop}"}
                typed = AsyncTypedProducer(producer, {"protocol": "KAFKA", "protocoloptions": options})
                await typed.send(placed.build(order, shop="7"))
                await producer.send_and_wait(topic, b"who knows")
            settings = {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}
            async with aiokafka.AIOKafkaConsumer(topic, **settings) as consumer:
                while len(seen) + len(others) < 2:
                    receiver(await asyncio.wait_for(consumer.getone(), 300))

        asyncio.run(run())
    assert [(each.payload, each.context["shop"]) for each in seen] == [(order, "7")]
    assert seen[0].message.sections["key"] == b"7"
    assert [message.body for message in others] == [b"who knows"]

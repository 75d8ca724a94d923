"""Generated messages through a real NATS server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import nats as nats_client
from tests.brokers.program import Broker
from tests.codegen.conftest import DOCUMENT, GROUP
from tests.codegen.packages import generated, imported

from signalbook.codegen.nats import TypedNatsPublisher, TypedNatsReceiver
from signalbook.codegen.runtime import TypedMessage
from signalbook.messages import Message


def test_what_is_published_is_received_by_its_type(nats: Broker, tmp_path: Path) -> None:
    generated(tmp_path, DOCUMENT)
    seen: list[TypedMessage[Any]] = []
    others: list[Message] = []
    with imported(tmp_path) as modules:
        placed = modules[GROUP + "order.placed"]
        from messages.definitions import handlers  # type: ignore[import-not-found] # made just now

        table = handlers("/messagegroups/shop.orders")
        table.on(placed.MESSAGE)(seen.append)
        order = placed._types.OrderPlaced(kind="again", total=2.5)
        subject = f"orders.{uuid4().hex[:8]}"

        async def run() -> None:
            connection = await nats_client.connect(f"nats://127.0.0.1:{nats.ports['plain']}")
            both = asyncio.Event()

            def other(message: Message, _: Exception) -> None:
                others.append(message)
                both.set()

            await connection.subscribe(f"{subject}.>", cb=TypedNatsReceiver(table, other).receive)
            options = {"subject": f"{subject}.{{shop}}"}
            publisher = TypedNatsPublisher(connection, {"protocol": "NATS", "protocoloptions": options})
            await publisher.send(placed.build(order, shop="7"))
            await connection.publish(f"{subject}.x", b"who knows")
            await asyncio.wait_for(both.wait(), 300)
            await connection.close()

        asyncio.run(run())
    assert [(each.payload, each.context["shop"]) for each in seen] == [(order, "7")]
    assert seen[0].message.sections["subject"] == f"{subject}.7"
    assert [message.body for message in others] == [b"who knows"]

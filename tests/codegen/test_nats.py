"""Generated messages through a real NATS server."""

import asyncio
from pathlib import Path
from uuid import uuid4

import nats as nats_client
from tests.brokers.program import Broker
from tests.codegen.packages import ordering

from signalbook.codegen.nats import TypedNatsPublisher, TypedNatsReceiver
from signalbook.messages import Message


def test_published_messages_are_received_by_type(nats: Broker, tmp_path: Path) -> None:
    unexpected: list[Message] = []
    subject = f"orders.{uuid4().hex[:8]}"
    with ordering(tmp_path) as orders:

        async def run() -> None:
            connection = await nats_client.connect(f"nats://127.0.0.1:{nats.ports['plain']}")
            both = asyncio.Event()

            def other(message: Message, _: Exception) -> None:
                unexpected.append(message)
                both.set()

            await connection.subscribe(f"{subject}.>", cb=TypedNatsReceiver(orders.handlers, other).receive)
            options = {"subject": f"{subject}.{{shop}}"}
            publisher = TypedNatsPublisher(connection, {"protocol": "NATS", "protocoloptions": options})
            await publisher.send(orders.placed.build(orders.order, shop="7"))
            await connection.publish(f"{subject}.x", b"who knows")
            await asyncio.wait_for(both.wait(), 300)
            await connection.close()

        asyncio.run(run())
    orders.check("subject", f"{subject}.7")
    assert [message.body for message in unexpected] == [b"who knows"]

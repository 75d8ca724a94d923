"""Generated messages through a real MQTT broker."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from tests.brokers.program import Broker
from tests.codegen.conftest import DOCUMENT, GROUP
from tests.codegen.packages import generated, imported

from signalbook.codegen.mqtt import PublishFailed, TypedMqttPublisher, TypedMqttReceiver
from signalbook.codegen.runtime import TypedMessage
from signalbook.messages import Message


@pytest.mark.parametrize("protocol", ["MQTT/5.0", "MQTT/3.1.1"])
def test_what_is_published_is_received_by_its_type(mosquitto: Broker, tmp_path: Path, protocol: str) -> None:
    generated(tmp_path, DOCUMENT)
    seen: list[TypedMessage[Any]] = []
    others: list[Message] = []
    topic = f"orders/{uuid4().hex[:8]}"
    with imported(tmp_path) as modules:
        placed = modules[GROUP + "order.placed"]
        from messages.definitions import handlers  # type: ignore[import-not-found] # made just now

        table = handlers("/messagegroups/shop.orders")
        table.on(placed.MESSAGE)(seen.append)
        version = MQTTProtocolVersion.MQTTv5 if protocol == "MQTT/5.0" else MQTTProtocolVersion.MQTTv311
        client = Client(CallbackAPIVersion.VERSION2, protocol=version)
        client.on_message = TypedMqttReceiver(table, lambda message, _: others.append(message), protocol=protocol)
        subscribed: list[Any] = []
        client.on_subscribe = lambda *given: subscribed.append(given)
        client.connect("127.0.0.1", mosquitto.ports["plain"])
        client.loop_start()
        try:
            client.subscribe(f"{topic}/#", qos=1)
            _until(lambda: bool(subscribed))
            options = {"topic": f"{topic}/{{shop}}", "qos": 1}
            publisher = TypedMqttPublisher(client, {"protocol": protocol, "protocoloptions": options})
            order = placed._types.OrderPlaced(kind="again", total=2.5)
            publisher.send(placed.build(order, shop="7")).wait_for_publish(300)
            client.publish(f"{topic}/x", b"who knows", qos=1)
            _until(lambda: bool(seen and others))
        finally:
            client.disconnect()
            client.loop_stop()
    assert [(each.payload, each.context["shop"]) for each in seen] == [(order, "7")]
    assert seen[0].message.sections["topic_name"] == f"{topic}/7"
    assert [message.body for message in others] == [b"who knows"]


def test_without_a_connection(tmp_path: Path) -> None:
    generated(tmp_path, DOCUMENT)
    with imported(tmp_path) as modules:
        placed = modules[GROUP + "order.placed"]
        client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
        publisher = TypedMqttPublisher(client, {"protocol": "MQTT/5.0", "protocoloptions": {"topic": "t"}})
        with pytest.raises(PublishFailed, match="t: the client did not take"):
            publisher.send(placed.build(placed._types.OrderPlaced(kind="new", total=1), shop="7"))


def _until(done: Any) -> None:
    for _ in range(6000):
        if done():
            return
        time.sleep(0.05)
    raise AssertionError("nothing came")

"""Generated messages through a real MQTT broker."""

import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from tests.brokers.program import Broker
from tests.codegen.packages import ordering

from signalbook.codegen.mqtt import PublishFailed, TypedMqttPublisher, TypedMqttReceiver
from signalbook.messages import Message


@pytest.mark.parametrize("protocol", ["MQTT/5.0", "MQTT/3.1.1"])
def test_published_messages_are_received_by_type(mosquitto: Broker, tmp_path: Path, protocol: str) -> None:
    unexpected: list[Message] = []
    topic = f"orders/{uuid4().hex[:8]}"
    with ordering(tmp_path) as orders:
        version = MQTTProtocolVersion.MQTTv5 if protocol == "MQTT/5.0" else MQTTProtocolVersion.MQTTv311
        client = Client(CallbackAPIVersion.VERSION2, protocol=version)
        take = orders.handlers
        client.on_message = TypedMqttReceiver(take, lambda message, _: unexpected.append(message), protocol=protocol)
        subscribed: list[Any] = []
        client.on_subscribe = lambda *arguments: subscribed.append(arguments)
        client.connect("127.0.0.1", mosquitto.ports["plain"])
        client.loop_start()
        try:
            client.subscribe(f"{topic}/#", qos=1)
            _until(lambda: bool(subscribed))
            options = {"topic": f"{topic}/{{shop}}", "qos": 1}
            publisher = TypedMqttPublisher(client, {"protocol": protocol, "protocoloptions": options})
            publisher.send(orders.placed.build(orders.order, shop="7")).wait_for_publish(300)
            client.publish(f"{topic}/x", b"who knows", qos=1)
            _until(lambda: bool(orders.seen and unexpected))
        finally:
            client.disconnect()
            client.loop_stop()
    orders.check("topic_name", f"{topic}/7")
    assert [message.body for message in unexpected] == [b"who knows"]


def test_without_a_connection(tmp_path: Path) -> None:
    with ordering(tmp_path) as orders:
        client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
        publisher = TypedMqttPublisher(client, {"protocol": "MQTT/5.0", "protocoloptions": {"topic": "t"}})
        with pytest.raises(PublishFailed, match="t: the client did not take"):
            publisher.send(orders.placed.build(orders.order, shop="7"))


def _until(is_done: Any) -> None:
    for _ in range(6000):
        if is_done():
            return
        time.sleep(0.05)
    raise AssertionError("nothing came")

"""MQTT against mosquitto: what arrives, by version and setting, and what a broker's no looks like."""

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from tests.brokers.certificates import Certificates
from tests.brokers.deliveries import EVENT_TYPE, events, parsed, plain, policy, subscription
from tests.brokers.program import Broker, StartBroker

from signalbook.events.sinks.base import DeliveryError
from signalbook.events.sinks.mqtt import FACTORY
from signalbook.events.subscription import Credential

SCHEME = "mqtt://127.0.0.1"


@contextmanager
def listening(broker: Broker, topic: str) -> Iterator[queue.Queue[MQTTMessage]]:
    """Yield a queue with the retained messages of a topic and the new ones."""
    messages: queue.Queue[MQTTMessage] = queue.Queue()
    ready: queue.Queue[bool] = queue.Queue()
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
    client.on_message = lambda _client, _data, message: messages.put(message)
    client.on_subscribe = lambda *_: ready.put(True)
    client.connect("127.0.0.1", broker.ports["plain"])
    client.loop_start()
    try:
        client.subscribe(topic, qos=2)
        ready.get(timeout=300)
        yield messages
    finally:
        client.disconnect()
        client.loop_stop()


def deliver(broker: Broker, protocol: str, count: int = 3, **settings: Any) -> None:
    sink = FACTORY.open(subscription(protocol, f"{SCHEME}:{broker.ports['plain']}", **settings), policy(broker))
    try:
        sink.send(events(count))
    finally:
        sink.close()


@pytest.mark.parametrize("protocol", ["MQTT3", "MQTT5"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_events_arrive_once_and_in_order(mosquitto: Broker, protocol: str, qos: int) -> None:
    """The number of events exceeds that of messages in flight (D-30 qos)."""
    topic = f"order/{protocol}/{qos}"
    with listening(mosquitto, topic) as messages:
        deliver(mosquitto, protocol, 250, topicname=topic, qos=qos)
        got = [messages.get(timeout=300) for _ in range(250)]
        assert parsed([message.payload for message in got]) == events(250)
        assert {message.qos for message in got} == {qos}
        assert messages.empty()


def test_message_of_version_5_has_the_content_type(mosquitto: Broker) -> None:
    """D-30 expiry, userproperties; the binding's Content Type (3.2.1)."""
    with listening(mosquitto, "five") as messages:
        deliver(mosquitto, "MQTT5", 1, topicname="five", expiry=3600, userproperties={"tenant": "größe"})
        message = messages.get(timeout=300)
    properties: Any = message.properties
    assert properties.ContentType == EVENT_TYPE
    assert properties.MessageExpiryInterval <= 3600
    assert properties.UserProperty == [("tenant", "größe")]
    assert (message.qos, message.retain) == (1, False)


def test_a_message_of_version_3_is_the_event_alone(mosquitto: Broker) -> None:
    """The binding's 3.2: with MQTT 3.1.1 the JSON format is implied."""
    with listening(mosquitto, "three") as messages:
        deliver(mosquitto, "MQTT3", 1, topicname="three")
        message = messages.get(timeout=300)
    assert not hasattr(message.properties, "ContentType")
    assert parsed([message.payload]) == events(1)


def test_last_event_is_retained_on_request(mosquitto: Broker) -> None:
    """D-30 retain."""
    deliver(mosquitto, "MQTT5", 3, topicname="kept", retain=True)
    with listening(mosquitto, "kept") as messages:
        message = messages.get(timeout=300)
    assert message.retain
    assert parsed([message.payload]) == events(1, start=2)


def test_a_user_is_taken_by_the_password(mosquitto: Broker) -> None:
    """D-31 PLAIN."""
    place = f"{SCHEME}:{mosquitto.ports['password']}"
    sink = FACTORY.open(subscription("MQTT5", place, plain(), topicname="x"), policy(mosquitto))
    sink.send(events(1))
    sink.close()


@pytest.mark.parametrize("protocol", ["MQTT3", "MQTT5"])
@pytest.mark.parametrize("credential", [plain("wrong"), None])
def test_wrong_passwords_are_reported(mosquitto: Broker, protocol: str, credential: Credential | None) -> None:
    place = f"{SCHEME}:{mosquitto.ports['password']}"
    sink = FACTORY.open(subscription(protocol, place, credential, topicname="x"), policy(mosquitto))
    with pytest.raises(DeliveryError, match=r"the broker does not take the connection: Not authorized") as caught:
        sink.send(events(1))
    assert "wrong" not in str(caught.value)


def test_tls_checks_the_name(mosquitto: Broker, certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    place = subscription("MQTT5", f"mqtts://localhost:{mosquitto.ports['tls']}", topicname="x")
    sink = FACTORY.open(place, policy(mosquitto))
    with pytest.raises(DeliveryError, match="certificate verify failed"):
        sink.send(events(1))
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    sink.send(events(1))
    sink.close()


def test_a_broker_that_comes_back_is_used_again(own_server: StartBroker) -> None:
    mosquitto = own_server("mosquitto")
    place = subscription("MQTT5", f"{SCHEME}:{mosquitto.ports['plain']}", topicname="again")
    sink = FACTORY.open(place, policy(mosquitto))
    sink.send(events(1))
    mosquitto.stop()
    try:
        with pytest.raises(DeliveryError, match=r"127\.0\.0\.1:\d+ cannot be reached"):
            sink.send(events(1, start=1))
    finally:
        mosquitto.start()
    with listening(mosquitto, "again") as messages:
        sink.send(events(2, start=1))
        assert parsed([messages.get(timeout=300).payload for _ in range(2)]) == events(2, start=1)
    sink.close()

"""AMQP 1.0 against ActiveMQ Artemis: messages, links, users, and what a broker's no looks like."""

import queue
from typing import Any

import pytest
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion
from tests.brokers.amqp.receiver import Receiver
from tests.brokers.certificates import Certificates
from tests.brokers.deliveries import EVENT_TYPE, events, parsed, plain, policy, subscription
from tests.brokers.program import Broker, StartBroker

from signalbook.events.sinks.amqp import FACTORY
from signalbook.events.sinks.base import DeliveryError
from signalbook.events.subscription import Credential
from signalbook.values import JSONObject


def address(broker: Broker, listener: str = "plain", scheme: str = "amqp", host: str = "127.0.0.1") -> str:
    return f"{scheme}://{host}:{broker.ports[listener]}"


def deliver(
    broker: Broker, sent: list[JSONObject], place: str = "", credential: Credential | None = None, **settings: Any
) -> None:
    sink = FACTORY.open(subscription("AMQP", place or address(broker), credential, **settings), policy(broker))
    try:
        sink.send(sent)
    finally:
        sink.close()


def bodies(broker: Broker, queue: str, count: int) -> list[bytes]:
    with Receiver(broker.ports["plain"], queue) as receiver:
        return [receiver.take().body for _ in range(count)]


@pytest.mark.parametrize("mode", ["unsettled", "settled", None])
def test_events_arrive_once_and_in_order(artemis: Broker, mode: str | None) -> None:
    """The number of events exceeds the credit of the broker (D-30 sendersettlementmode)."""
    settings: dict[str, Any] = {"sendersettlementmode": mode} if mode else {}
    deliver(artemis, events(100), address=f"order.{mode}", **settings)
    assert parsed(bodies(artemis, f"order.{mode}", 100)) == events(100)


def test_message_has_the_content_type(artemis: Broker) -> None:
    """D-30 address, in the path of the sink; the binding's 3.2.1."""
    deliver(artemis, events(1), f"{address(artemis)}/say.what%20it.is")
    with Receiver(artemis.ports["plain"], "say.what it.is") as receiver:
        message = receiver.take()
    assert message.properties["content-type"] == EVENT_TYPE
    assert message.durable
    assert parsed([message.body]) == events(1)


def test_links_have_names_and_properties(artemis: Broker) -> None:
    """D-30 linkname, linkproperties."""
    deliver(artemis, events(1), address="named", linkname="changes", linkproperties={"tenant": "größe"})
    assert len(bodies(artemis, "named", 1)) == 1


def test_a_reader_of_another_protocol_sees_the_event(artemis: Broker) -> None:
    """The broker understands what is sent, not only our own reader."""
    received: queue.Queue[MQTTMessage] = queue.Queue()
    ready: queue.Queue[bool] = queue.Queue()
    client = Client(CallbackAPIVersion.VERSION2)
    client.on_message = lambda _client, _data, message: received.put(message)
    client.on_subscribe = lambda *_: ready.put(True)
    client.connect("127.0.0.1", artemis.ports["plain"])
    client.loop_start()
    client.subscribe("seen", qos=1)
    ready.get(timeout=300)
    deliver(artemis, events(1), address="seen")
    assert parsed([received.get(timeout=300).payload]) == events(1)
    client.disconnect()
    client.loop_stop()


def test_an_event_larger_than_a_frame_arrives(artemis: Broker) -> None:
    sent = events(3, data="x" * 200_000)
    deliver(artemis, sent, address="large")
    assert parsed(bodies(artemis, "large", 3)) == sent


def test_full_queue_reports_the_accepted_messages(artemis: Broker) -> None:
    with pytest.raises(DeliveryError, match="amqp:resource-limit-exceeded") as caught:
        deliver(artemis, events(5), address="small")
    assert caught.value.delivered == 2
    assert parsed(bodies(artemis, "small", 2)) == events(2)


def test_unauthorized_address_is_an_error(artemis: Broker) -> None:
    with pytest.raises(DeliveryError, match=r"the broker ended the link: amqp:unauthorized-access"):
        deliver(artemis, events(1), address="refused.changes")


def test_a_user_is_taken_by_the_password(artemis: Broker) -> None:
    """D-31 PLAIN."""
    deliver(artemis, events(1), credential=plain(), address="mine")
    assert len(bodies(artemis, "mine", 1)) == 1


def test_wrong_password_is_reported(artemis: Broker) -> None:
    with pytest.raises(DeliveryError, match="the broker does not take the user and the password") as caught:
        deliver(artemis, events(1), credential=plain("not-it"), address="mine")
    assert "not-it" not in str(caught.value)


def test_tls_checks_the_name(artemis: Broker, certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    place = address(artemis, "tls", "amqps", "localhost")
    with pytest.raises(DeliveryError, match="certificate verify failed"):
        deliver(artemis, events(1), place, address="safe")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    deliver(artemis, events(1), place, address="safe")
    assert len(bodies(artemis, "safe", 1)) == 1


@pytest.mark.merge
def test_a_broker_that_comes_back_is_used_again(own_server: StartBroker) -> None:
    artemis = own_server("artemis")
    sink = FACTORY.open(subscription("AMQP", address(artemis), address="again"), policy(artemis))
    sink.send(events(1))
    artemis.stop()
    try:
        with pytest.raises(DeliveryError, match=r"127\.0\.0\.1:\d+ cannot be reached"):
            sink.send(events(1, start=1))
    finally:
        artemis.start()
    sink.send(events(2, start=1))
    sink.close()
    assert parsed(bodies(artemis, "again", 2)) == events(2, start=1)

"""From a change in a real server, by a subscription, to each broker: the whole way."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from tests.brokers.amqp.receiver import Receiver
from tests.brokers.program import Broker
from tests.brokers.servers import PASSWORD, USER
from tests.events.sinks import test_kafka, test_mqtt, test_nats
from tests.serving import serving

from signalbook.values import JSONObject

pytestmark = pytest.mark.merge

CREDENTIAL = {"credentialtype": "PLAIN", "identifier": USER, "secret": PASSWORD}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with a registry of its own, that may deliver to this machine."""
    with serving(tmp_path_factory.mktemp("server"), "--allow-sinks", "127.0.0.0/8") as url:
        yield url


def until(is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def change(url: str, group: str, protocol: str, sink: str, **settings: Any) -> None:
    """Subscribe to what happens to a group, and let something happen; return when it was delivered."""
    place = {"protocol": protocol, "sink": sink, "protocolsettings": settings}
    filters = [{"prefix": {"subject": f"/schemagroups/{group}"}}]
    document = {**place, "sinkcredential": CREDENTIAL, "filters": filters}
    response = httpx.post(f"{url}/subscriptions", json=document, timeout=300)
    assert response.status_code == 201, response.text
    assert PASSWORD not in response.text
    assert httpx.put(f"{url}/schemagroups/{group}", json={"name": "größe"}, timeout=300).status_code == 201
    subscription_url = f"{url}/subscriptions/{response.json()['id']}"
    until(lambda: delivered(subscription_url) == 1)
    assert httpx.delete(subscription_url, timeout=300).status_code == 200


def delivered(subscription_url: str) -> int:
    return int(httpx.get(subscription_url, timeout=300).json()["status"]["delivered"])


def by_kafka(url: str, kafka: Broker) -> list[Any]:
    test_kafka.make_topic(kafka, "whole.way")
    change(url, "kafka", "KAFKA", test_kafka.address(kafka, "password"), topicname="whole.way")
    return [record.value for record in test_kafka.records(kafka, "whole.way", 1)]


def by_mqtt(url: str, mosquitto: Broker) -> list[Any]:
    sink = f"mqtt://127.0.0.1:{mosquitto.ports['password']}"
    with test_mqtt.listening(mosquitto, "whole/way") as messages:
        change(url, "mqtt", "MQTT5", sink, topicname="whole/way")
        return [messages.get(timeout=300).payload]


def by_nats(url: str, nats: Broker) -> list[Any]:
    def send() -> None:
        change(url, "nats", "NATS", test_nats.address(nats), subject="whole.way")

    return [message.data for message in test_nats.stored(nats, "WAY", "whole.way", send)]


def by_amqp(url: str, artemis: Broker) -> list[Any]:
    change(url, "amqp", "AMQP", f"amqp://127.0.0.1:{artemis.ports['plain']}/whole.way")
    with Receiver(artemis.ports["plain"], "whole.way") as receiver:
        return [receiver.take().body]


@pytest.mark.parametrize(
    ("broker", "way"),
    [("kafka", by_kafka), ("mosquitto", by_mqtt), ("nats", by_nats), ("artemis", by_amqp)],
    ids=["kafka", "mqtt", "nats", "amqp"],
)
def test_a_change_arrives(
    url: str, broker: str, way: Callable[[str, Broker], list[Any]], request: pytest.FixtureRequest
) -> None:
    (body,) = way(url, request.getfixturevalue(broker))
    event: JSONObject = json.loads(body)
    assert event["type"] == "io.xregistry.group.created"
    assert event["subject"] == f"/schemagroups/{way.__name__.removeprefix('by_')}"
    assert event["source"].rstrip("/") == url

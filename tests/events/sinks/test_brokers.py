"""What all sinks at brokers have to do alike: with sinks that are no brokers, with places, and with credentials."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.brokers.deliveries import events, plain, subscription

from signalbook.brokers.connection import BrokerError, BrokerRefused, BrokerSettings, BrokerUnavailable
from signalbook.events.sinks import base
from signalbook.events.sinks.base import DeliveryError, SinkPolicy
from signalbook.events.sinks.brokers import BrokerSink
from signalbook.events.subscription import Credential, Subscription, SubscriptionError
from signalbook.fetching import AllowList
from signalbook.values import JSONObject

TOPIC = {"topicname": "x"}
SETTINGS = {"KAFKA": TOPIC, "MQTT3": TOPIC, "MQTT5": TOPIC, "NATS": {"subject": "x"}, "AMQP": {"address": "x"}}
SCHEMES = {"KAFKA": "kafka", "MQTT3": "mqtt", "MQTT5": "mqtt", "NATS": "nats", "AMQP": "amqp"}
SECURE = {"KAFKA": "kafkas", "MQTT3": "mqtts", "MQTT5": "mqtts", "NATS": "tls", "AMQP": "amqps"}
LOCAL_SINKS = {protocol: f"{scheme}://127.0.0.1:9" for protocol, scheme in SCHEMES.items()}
LOCAL = SinkPolicy(allow=AllowList(["127.0.0.1/32", "broker.example:1883"]), timeout=300)


def made(protocol: str, sink: str, credential: Credential | None = None) -> Subscription:
    return subscription(protocol, sink, credential, **SETTINGS[protocol])


@contextmanager
def answering(reply: bytes | None) -> Iterator[int]:
    """The port of a server that says this to everybody and hangs up, or that says nothing and does not."""
    over = threading.Event()

    def serve(server: socket.socket) -> None:
        connections = []
        while not over.is_set():
            connection, _ = server.accept()
            connections.append(connection)
            if reply is not None:
                with suppress(OSError):  # nobody has to listen to the end
                    connection.sendall(reply)
                    connection.shutdown(socket.SHUT_WR)
        for connection in connections:
            connection.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            over.set()
            socket.create_connection(server.getsockname()).close()
            thread.join()


@pytest.mark.parametrize("schemes", [SCHEMES, SECURE], ids=["open", "tls"])
@pytest.mark.parametrize(
    "reply", [None, b"", b"SSH-2.0-OpenSSH_9.9\r\n", b"\xff" * 5000], ids=lambda said: str(said)[:12]
)
@pytest.mark.parametrize("protocol", SETTINGS)
def test_server_of_another_protocol_is_an_error(protocol: str, reply: bytes | None, schemes: dict[str, str]) -> None:
    policy = LOCAL if reply is not None else replace(LOCAL, timeout=0.1)
    with answering(reply) as port:
        sink = base.find_sink(protocol).open(made(protocol, f"{schemes[protocol]}://127.0.0.1:{port}"), policy)
        with pytest.raises(DeliveryError, match="127") as caught:
            sink.send(events(1))
        sink.close()
        assert caught.value.delivered == 0


@pytest.mark.parametrize("protocol", SETTINGS)
@pytest.mark.parametrize(
    ("sink", "complaint"),
    [
        ("{scheme}://127.0.0.2", "neither public nor among"),
        ("{secure}://10.0.0.1", "neither public nor among"),
        ("{secure}://[::1]", "neither public nor among"),
        ("{secure}://[::ffff:10.0.0.1]", "neither public nor among"),
        ("{secure}://localhost", "--allow-sinks localhost:"),
        ("{secure}://169.254.169.254", "neither public nor among"),
        ("{scheme}://broker.example", "without TLS only places that the operator names"),
        ("{scheme}://93.184.215.14", "without TLS only places that the operator names"),
        ("{secure}://user:secret@broker.example", "names and passwords go into sinkcredential"),
        ("{secure}://broker.example?x=1", "a query or fragment means nothing"),
        ("{secure}://broker.example#x", "a query or fragment means nothing"),
        ("{secure}://", "it takes a URI"),
        ("{secure}://broker.example:port", "it takes a URI"),
        ("{secure}://broker.example/%ff", "it takes a URI"),
        ("{secure}://bröker.example", "it takes a URI"),
        ("https://broker.example", "it takes a URI"),
        ("broker.example", "it takes a URI"),
    ],
)
def test_a_place_that_events_may_not_go_to(protocol: str, sink: str, complaint: str) -> None:
    place = sink.format(scheme=SCHEMES[protocol], secure=SECURE[protocol])
    with pytest.raises(SubscriptionError, match=f"^/sink: .*{complaint}") as caught:
        base.find_sink(protocol).check(made(protocol, place), SinkPolicy(allow=AllowList(["127.0.0.1"])))
    assert "secret@" not in str(caught.value)


@pytest.mark.parametrize(
    ("protocol", "scheme", "port"),
    [
        ("KAFKA", "kafka", 9092),
        ("KAFKA", "kafkas", 9093),
        ("MQTT3", "mqtt", 1883),
        ("MQTT5", "mqtts", 8883),
        ("NATS", "nats", 4222),
        ("NATS", "tls", 4222),
        ("AMQP", "amqp", 5672),
        ("AMQP", "amqps", 5671),
    ],
)
def test_a_sink_without_a_port_has_the_port_of_its_scheme(protocol: str, scheme: str, port: int) -> None:
    allowed = SinkPolicy(allow=AllowList([f"10.0.0.1:{port}"]))
    base.find_sink(protocol).check(made(protocol, f"{scheme}://10.0.0.1"), allowed)


@pytest.mark.parametrize(
    ("protocol", "settings", "place"),
    [
        *(("KAFKA", {"topicname": name}, "topicname") for name in ("a/b", "..", "__consumer_offsets", "x" * 250, 7)),
        ("KAFKA", {}, "topicname"),
        ("KAFKA", {**TOPIC, "acks": "2"}, "acks"),
        ("KAFKA", {**TOPIC, "acks": True}, "acks"),
        ("KAFKA", {**TOPIC, "partitionkeyextractor": "$.data.x"}, "partitionkeyextractor"),
        ("KAFKA", {**TOPIC, "clientid": "a b"}, "clientid"),
        ("KAFKA", {**TOPIC, "linger": 5}, "linger"),
        *(("MQTT5", {"topicname": name}, "topicname") for name in ("", "a/#", "a/+/b", "$SYS/x", "a\0b", "x" * 2000)),
        ("MQTT5", {}, "topicname"),
        ("MQTT5", {**TOPIC, "qos": 3}, "qos"),
        ("MQTT5", {**TOPIC, "qos": True}, "qos"),
        ("MQTT5", {**TOPIC, "retain": 1}, "retain"),
        ("MQTT5", {**TOPIC, "expiry": -1}, "expiry"),
        ("MQTT5", {**TOPIC, "userproperties": {"a": 1}}, "userproperties/a"),
        ("MQTT5", {**TOPIC, "userproperties": []}, "userproperties"),
        ("MQTT3", {**TOPIC, "expiry": 5}, "expiry"),
        ("MQTT3", {**TOPIC, "userproperties": {}}, "userproperties"),
        ("MQTT3", {**TOPIC, "topic": "y"}, "topic"),
        *(("NATS", {"subject": name}, "subject") for name in ("", "a.*", "a.>", "a..b", ".a", "a.", "a b", "ä", 5)),
        ("NATS", {"subject": "$JS.API.STREAM.PURGE.X"}, "subject"),
        ("NATS", {}, "subject"),
        ("AMQP", {}, "address"),
        ("AMQP", {"address": ""}, "address"),
        ("AMQP", {"address": ["x"]}, "address"),
        ("AMQP", {"address": "x", "linkname": "a\nb"}, "linkname"),
        ("AMQP", {"address": "x", "sendersettlementmode": "mixed"}, "sendersettlementmode"),
        ("AMQP", {"address": "x", "linkproperties": {"a": {}}}, "linkproperties/a"),
        ("AMQP", {"address": "x", "linkproperties": {"größe": "x"}}, "linkproperties/größe"),
        ("AMQP", {"address": "x", "linkproperties": dict.fromkeys(map(str, range(65)), "")}, "linkproperties"),
        ("AMQP", {"address": "x", "qos": 1}, "qos"),
    ],
)
def test_invalid_settings_are_rejected(protocol: str, settings: dict[str, Any], place: str) -> None:
    with pytest.raises(SubscriptionError, match=f"^/protocolsettings/{place}: "):
        base.find_sink(protocol).check(subscription(protocol, LOCAL_SINKS[protocol], **settings), LOCAL)


@pytest.mark.parametrize(
    ("protocol", "path", "settings", "complaint"),
    [
        ("KAFKA", "/a", {"topicname": "a"}, "/protocolsettings/topicname: .* not in both"),
        ("KAFKA", "/a%20b", {}, "/sink: that is no name of a topic"),
        ("AMQP", "/a", {"address": "a"}, "/protocolsettings/address: .* not in both"),
        ("AMQP", "/a%0Ab", {}, "/sink: its path has control characters"),
    ],
)
def test_place_of_events_is_named_once(protocol: str, path: str, settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SubscriptionError, match=f"^{complaint}"):
        base.find_sink(protocol).check(subscription(protocol, LOCAL_SINKS[protocol] + path, **settings), LOCAL)


@pytest.mark.parametrize("protocol", ["MQTT5", "NATS"])
def test_a_path_means_nothing_where_the_setting_is_required(protocol: str) -> None:
    with pytest.raises(SubscriptionError, match=r"^/sink: a path means nothing here"):
        base.find_sink(protocol).check(made(protocol, f"{SECURE[protocol]}://broker.example/topic"), LOCAL)


@pytest.mark.parametrize("protocol", SETTINGS)
@pytest.mark.parametrize(
    ("credential", "place"),
    [
        (Credential(credentialtype="ACCESSTOKEN", secrets={"accesstoken": "x"}), "credentialtype"),
        (Credential(credentialtype="PLAIN", secrets={"secret": "x"}), "identifier"),
        (Credential(credentialtype="PLAIN", members={"identifier": "x"}), "secret"),
        (plain("a\0b"), "secret"),
        (plain("x" * 5000), "secret"),
    ],
)
def test_unsupported_credentials_are_rejected(protocol: str, credential: Credential, place: str) -> None:
    """Brokers support PLAIN only (D-31)."""
    with pytest.raises(SubscriptionError, match=f"^/sinkcredential/{place}: "):
        base.find_sink(protocol).check(made(protocol, f"{SECURE[protocol]}://broker.example", credential), LOCAL)


@pytest.mark.parametrize("protocol", SETTINGS)
def test_invalid_stored_subscription_is_not_delivered(protocol: str) -> None:
    with pytest.raises(DeliveryError, match=r"^/sink: "):
        base.find_sink(protocol).open(made(protocol, "https://broker.example"), LOCAL)


def test_the_examples_of_the_page_are_subscriptions() -> None:
    page = (Path(__file__).parents[3] / "docs" / "sinks.md").read_text(encoding="utf-8")
    examples = [json.loads(body) for body in re.findall(r"-d '(\{.*?\n\})'", page, re.DOTALL)]
    assert [example["protocol"] for example in examples] == ["KAFKA", "MQTT5", "NATS", "AMQP"]
    for example in examples:
        example_subscription = subscription(
            example["protocol"], example["sink"], plain(), **example["protocolsettings"]
        )
        base.find_sink(example["protocol"]).check(example_subscription, LOCAL)


class Recorder:
    """A connection that fails as a test says, after so many events, and remembers what it took."""

    def __init__(self, failures: list[tuple[BrokerError, int]]) -> None:
        self.failures = failures
        self.taken: list[JSONObject] = []
        self.connections = 0

    settings = BrokerSettings(servers=(("h", 1),), secure=False)

    def encode(self, event: JSONObject) -> JSONObject:
        return event

    def publish(self, sent: Sequence[JSONObject]) -> Iterator[None]:
        failure, count = self.failures.pop(0) if self.failures else (None, len(sent))
        for event in sent[:count]:
            self.taken.append(event)
            yield
        if failure is not None:
            raise failure

    def close(self) -> None: ...

    def connect(self) -> Recorder:
        self.connections += 1
        return self


def test_remaining_events_are_sent_over_a_new_connection() -> None:
    recorder = Recorder([])
    sink = BrokerSink(recorder)
    sink.send(events(1))
    recorder.failures = [(BrokerUnavailable("gone"), 2)]
    sink.send(events(5, start=1))
    assert recorder.taken == events(6)
    assert recorder.connections == 2


def test_a_new_connection_that_fails_too_counts_all_that_was_taken() -> None:
    recorder = Recorder([])
    sink = BrokerSink(recorder)
    sink.send(events(1))
    recorder.failures = [(BrokerUnavailable("gone"), 2), (BrokerRefused("full"), 1)]
    with pytest.raises(DeliveryError, match="full") as caught:
        sink.send(events(5, start=1))
    assert caught.value.delivered == 3
    assert recorder.taken == events(4)


@pytest.mark.parametrize("failure", [BrokerUnavailable("gone"), BrokerRefused("full")])
def test_a_failure_of_a_new_connection_is_for_the_relay(failure: BrokerError) -> None:
    recorder = Recorder([(failure, 1)])
    sink = BrokerSink(recorder)
    with pytest.raises(DeliveryError) as caught:
        sink.send(events(2))
    assert (str(caught.value), caught.value.delivered) == (str(failure), 1)
    sink.send(events(1, start=1))
    assert recorder.taken == events(2)
    assert recorder.connections == 2

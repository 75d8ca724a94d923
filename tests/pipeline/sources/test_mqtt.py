"""Topic filters, messages as they wait, and sessions at a real broker that must not lose anything."""

import multiprocessing
import os
import re
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from paho.mqtt import publish
from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from tests.brokers.program import Broker

from signalbook.messages.bindings.mqtt import V5
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import LocalPlace
from signalbook.pipeline.sources.base import build_single_batch
from signalbook.pipeline.sources.mqtt import MQTT3, MQTT5, Mqtt
from signalbook.pipeline.sources.spool import MessageSpool, SpoolSession

PATIENCE = 300
_numbers = count(1)


@pytest.mark.parametrize(
    ("inputs", "options", "words"),
    [
        (["mqtt://h"], {}, "name the topics of h:1883"),
        (["mqtt://h/a/#/b"], {}, "'a/#/b' is no topic filter"),
        (["mqtt://h/a+"], {}, "'a+' is no topic filter"),
        (["mqtt://h/a%00"], {}, "no topic filter"),
        (["mqtt://h/a"], {"sessionExpiry": "week"}, "a whole number of seconds"),
        (["mqtt://h/a"], {"failOnDataLoss": "no"}, "failOnDataLoss is true or false"),
        (["nats://h/a"], {}, "no address of MQTT: it looks like mqtt://HOST:PORT/TOPIC/FILTER"),
    ],
)
def test_invalid_address_is_rejected(inputs: list[str], options: dict[str, str], words: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(words)):
        MQTT5.parse_broker(inputs, options)


@pytest.mark.parametrize("path", ["#", "a/#", "+/a/+", "/a", "a//b", "$share/g/a", "größe"])
def test_valid_topic_filters_are_accepted(path: str) -> None:
    assert str(MQTT5.parse_broker([f"mqtts://h/{path}"], {})) == "h:8883"


def test_a_message_has_all_its_properties() -> None:
    """K-7, K-36."""
    received = MQTTMessage(1, b"store/17")
    received.payload, received.qos, received.retain = b"{}", 1, True
    received.properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    received.properties.ContentType = "application/json"
    received.properties.CorrelationData = b"\xff\x00"
    received.properties.PayloadFormatIndicator = 1
    received.properties.UserProperty = [("eventType", "com.ex.sale"), ("eventType", "b"), ("content-type", "x")]
    spooled = MQTT5.build_spooled(received)
    assert spooled.headers[:2] == (("content-type", b"application/json"), ("eventType", b"com.ex.sale"))
    row = {"address": "store/17", "key": spooled.key, "value": b"{}", "received_at": None}
    batch = build_single_batch("mqtt5:me", b"{}", 5)
    message = MQTT5.message(replace(batch, records=pa.RecordBatch.from_pylist([row])), 0)
    assert (message.protocol, message.content_type, message.body) == (V5, "application/json", b"{}")
    assert message.sections == {
        "topic_name": "store/17",
        "qos": 1,
        "retain": True,
        "content_type": "application/json",
        "correlation_data": b"\xff\x00",
        "payload_format_indicator": 1,
        "user_properties": (("eventType", "com.ex.sale"), ("eventType", "b"), ("content-type", "x")),
    }


@pytest.fixture
def topic() -> str:
    return f"topics/{os.getpid()}/{next(_numbers)}"


def send(broker: Broker, topic: str, *payloads: bytes, qos: int = 1, retain: bool = False) -> None:
    port = broker.ports["plain"]
    messages = [{"topic": topic, "payload": payload, "qos": qos, "retain": retain} for payload in payloads]
    publish.multiple(messages, "127.0.0.1", port, protocol=MQTTProtocolVersion.MQTTv5)  # type: ignore[arg-type]


def urls(broker: Broker, *topics: str) -> list[str]:
    return [f"mqtt://127.0.0.1:{broker.ports['plain']}/{topic}?timeout={PATIENCE}" for topic in topics]


def received(
    source: Mqtt, inputs: Sequence[str], spool: MessageSpool, number: int, *, confirm: bool = True
) -> list[bytes]:
    """Return ``number`` messages that arrive over a new connection."""
    connection = source.connect(inputs, {}, spool)
    values: list[bytes] = []
    deadline = time.monotonic() + PATIENCE
    try:
        while len(values) < number and time.monotonic() < deadline:
            received_now = connection.receive(0.5)
            values += [received_message.message.value for received_message in received_now]
            if confirm:
                connection.confirm(received_now)
    finally:
        connection.close()
    return values


@pytest.mark.parametrize("source", [MQTT3, MQTT5])
def test_unconfirmed_message_is_delivered_again(
    mosquitto: Broker, spool: MessageSpool, topic: str, source: Mqtt
) -> None:
    """Messages sent while nobody listens are kept; those with QoS 2 are received with QoS 1, and none without a
    session.
    """
    inputs = urls(mosquitto, f"{topic}/#")
    assert received(source, inputs, spool, 0) == []
    send(mosquitto, f"{topic}/a", b"1", b"2", qos=1)
    send(mosquitto, f"{topic}/a", b"3", qos=2)
    assert received(source, inputs, spool, 3, confirm=False) == [b"1", b"2", b"3"]
    assert received(source, inputs, spool, 3) == [b"1", b"2", b"3"]
    send(mosquitto, f"{topic}/b", b"4")
    assert received(source, inputs, spool, 1) == [b"4"]


def test_a_retained_message_comes_once(mosquitto: Broker, spool: MessageSpool, topic: str) -> None:
    """The session is subscribed once, and not with each connection."""
    send(mosquitto, topic, b"kept", retain=True)
    assert received(MQTT5, urls(mosquitto, topic), spool, 1) == [b"kept"]
    send(mosquitto, topic, b"new")
    assert received(MQTT5, urls(mosquitto, topic), spool, 1) == [b"new"]


def test_other_topics_of_the_same_stream(mosquitto: Broker, spool: MessageSpool, topic: str) -> None:
    received(MQTT5, urls(mosquitto, f"{topic}/a"), spool, 0)
    received(MQTT5, urls(mosquitto, f"{topic}/b"), spool, 0)
    send(mosquitto, f"{topic}/a", b"a")
    send(mosquitto, f"{topic}/b", b"b")
    assert received(MQTT5, urls(mosquitto, f"{topic}/b"), spool, 1) == [b"b"]


def test_forgotten_session_is_an_error_unless_loss_is_accepted(
    mosquitto: Broker, spool: MessageSpool, topic: str
) -> None:
    """Told each time until somebody says that it may be; then everything is subscribed anew."""
    spool.remember(SpoolSession(name=f"gone-{os.getpid()}-{next(_numbers)}", receives=(topic,)))
    inputs = urls(mosquitto, topic)
    for _ in range(2):
        with pytest.raises(PipelineError, match=r"forgot the session gone-.*failOnDataLoss = false"):
            MQTT5.connect(inputs, {}, spool)
    MQTT5.connect(inputs, {"failOnDataLoss": "false"}, spool).close()
    send(mosquitto, topic, b"1")
    assert received(MQTT5, inputs, spool, 1) == [b"1"]


def test_a_killed_receiver_confirms_nothing(mosquitto: Broker, spool: MessageSpool, topic: str, tmp_path: Path) -> None:
    """The message is in the spool, and is delivered once more, since the broker does not know."""
    inputs = urls(mosquitto, topic)
    received(MQTT5, inputs, spool, 0)
    spool.close()
    send(mosquitto, topic, b"1")

    def write_and_die() -> None:
        with MessageSpool(LocalPlace(tmp_path / "spool")) as own_spool:
            connection = MQTT5.connect(inputs, {}, own_spool)
            while not (received_now := connection.receive(0.5)):
                pass
            own_spool.append([received_message.message for received_message in received_now])
            os.kill(os.getpid(), signal.SIGKILL)

    child = multiprocessing.get_context("fork").Process(target=write_and_die, daemon=True)
    child.start()
    child.join(PATIENCE)
    assert child.exitcode == -signal.SIGKILL
    with MessageSpool(LocalPlace(tmp_path / "spool"), patience=PATIENCE) as after:
        assert after.end == 1
        assert received(MQTT5, inputs, after, 1) == [b"1"]


@pytest.mark.parametrize(
    ("listener", "options", "words"),
    [
        ("password", {"user": "alice", "password": "not-it-3"}, "does not take the connection: "),
        ("tls", {}, "is not trusted: "),
    ],
)
def test_refusal_of_the_broker_is_reported(
    mosquitto: Broker, spool: MessageSpool, listener: str, options: dict[str, str], words: str
) -> None:
    scheme = "mqtts" if listener == "tls" else "mqtt"
    with pytest.raises(PipelineError, match=words) as caught:
        MQTT5.connect([f"{scheme}://127.0.0.1:{mosquitto.ports[listener]}/a"], options, spool)
    assert "not-it-3" not in str(caught.value)

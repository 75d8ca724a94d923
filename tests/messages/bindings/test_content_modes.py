"""The content modes of CloudEvents in all protocols: which mode a message is in, and its attributes in binary mode."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.messages.bindings import amqp, http, kafka, mqtt, nats
from signalbook.messages.bindings.base import Binding, find_binding
from signalbook.messages.cloudevents import CloudEvent, Mode
from signalbook.messages.eventformats import EventError
from signalbook.messages.message import Message
from signalbook.messages.properties import PropertyError

CE = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
JSON_EVENT = b'{"specversion":"1.0","id":"1","source":"/s","type":"t"}'
JSON, PLAIN = ("Content-Type", "application/json"), ("Content-Type", "text/plain")
STRUCTURED = "application/cloudevents+json"
HTTP_CE = [("ce-specversion", "1.0"), ("CE-ID", "1"), ("Ce-Source", "/s"), ("ce-type", "t")]
KAFKA_CE = [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t")]
NATS_CE = [("ce-specversion", "1.0"), ("Ce-Id", "1"), ("ce-source", "/s"), ("ce-type", "t")]
MQTT_CE = tuple(CE.items())


def post(*headers: tuple[str, str]) -> Message:
    return http.request("POST", "/", list(headers), b"")


def record(*headers: tuple[str, bytes]) -> Message:
    return kafka.record("x", b"", list(headers))


def nats_message(*headers: tuple[str, str], body: bytes = b"") -> Message:
    return nats.message("x", body, list(headers))


def publish(**sections: Any) -> Message:
    return mqtt.publish(mqtt.V5, JSON_EVENT, sections)


def amqp_message(separator: str = "_", content_type: str | None = None, **attributes: Any) -> Message:
    properties = {f"cloudEvents{separator}{name}": value for name, value in {**CE, **attributes}.items()}
    return amqp.message(b"", {"properties": {"content-type": content_type}, "application-properties": properties})


def find(protocol: str) -> Binding:
    binding = find_binding(protocol)
    assert binding is not None
    return binding


def mode_of(message: Message) -> Mode:
    binding = find(message.protocol)
    return binding.mode(message, binding.values(message))


def attributes_of(message: Message) -> dict[str, Any]:
    binding = find(message.protocol)
    return dict(binding.attributes(message, binding.values(message)))


def list_rows(rows_by_protocol: Mapping[str, Sequence[tuple[Message, Any]]]) -> list[Any]:
    """Return the rows of all protocols as parameters, each named by its protocol and its number there."""
    return [
        pytest.param(*row, id=f"{protocol} {number}")
        for protocol, rows in rows_by_protocol.items()
        for number, row in enumerate(rows)
    ]


MODES: dict[str, list[tuple[Message, Mode]]] = {
    "HTTP": [
        (post(("Content-Type", "application/cloudevents+json; charset=utf-8")), Mode.STRUCTURED),
        (post(("Content-Type", "Application/CloudEvents+avro")), Mode.STRUCTURED),
        (post(("Content-Type", "application/cloudevents-batch+json")), Mode.BATCH),
        (post(("Content-Type", STRUCTURED), *HTTP_CE), Mode.STRUCTURED),
        (post(JSON, *HTTP_CE), Mode.BINARY),
        (post(*HTTP_CE), Mode.BINARY),
        (post(JSON, *HTTP_CE[1:]), Mode.NONE),  # binary only with all four
        (post(JSON), Mode.NONE),
    ],
    "KAFKA": [
        (record(("content-type", b"application/cloudevents+json; charset=UTF-8")), Mode.STRUCTURED),
        (record(("content-type", b"Application/CloudEvents+avro")), Mode.STRUCTURED),
        (record(("content-type", b"application/json"), *KAFKA_CE), Mode.BINARY),
        (record(*KAFKA_CE), Mode.BINARY),
        (record(*KAFKA_CE[1:]), Mode.NONE),
        (record(("Ce_Id", b"1"), *KAFKA_CE[:1], *KAFKA_CE[2:]), Mode.NONE),
        (record(("content-type", b"\xff")), Mode.NONE),
        (record(), Mode.NONE),
    ],
    "NATS": [
        (nats_message(("Content-Type", STRUCTURED), body=JSON_EVENT), Mode.STRUCTURED),
        (nats_message(("content-type", "APPLICATION/CloudEvents+json"), body=JSON_EVENT), Mode.STRUCTURED),
        (nats_message(*NATS_CE), Mode.BINARY),
        (nats_message(*NATS_CE, ("ce-datacontenttype", "text/plain")), Mode.BINARY),
        (nats_message(*NATS_CE[1:]), Mode.NONE),
        (nats_message(body=b" " + JSON_EVENT), Mode.STRUCTURED),  # without headers, as before NATS 2.2
        (nats_message(body=b'{"id":"1"}'), Mode.NONE),
        (nats_message(body=b"21.5"), Mode.NONE),
        (nats_message(), Mode.NONE),
    ],
    "MQTT/3.1.1": [
        (mqtt.publish(mqtt.V3, payload, {"topic_name": "a", "content_type": "text/plain"}), mode)
        for payload, mode in ((JSON_EVENT, Mode.STRUCTURED), (b"21.5", Mode.NONE), (b"{}", Mode.NONE))
    ],
    "MQTT/5.0": [  # whatever is in the payload
        (publish(content_type="application/cloudevents+json; charset=utf-8"), Mode.STRUCTURED),
        (publish(content_type="application/json", user_properties=MQTT_CE), Mode.BINARY),
        (publish(user_properties=MQTT_CE), Mode.BINARY),
        (publish(user_properties=MQTT_CE[1:]), Mode.NONE),
        (publish(), Mode.NONE),
    ],
    "AMQP/1.0": [
        (amqp.message(b"", {"properties": {"content-type": STRUCTURED}}), Mode.STRUCTURED),
        (amqp_message(), Mode.BINARY),
        (amqp_message(":"), Mode.BINARY),
        (amqp_message("-"), Mode.NONE),
        (amqp_message(content_type="application/json"), Mode.BINARY),
        (amqp.message(b"", {"application-properties": CE}), Mode.NONE),
        (amqp.message(b"", {}), Mode.NONE),
    ],
}


@pytest.mark.parametrize(("message", "mode"), list_rows(MODES))
def test_modes(message: Message, mode: Mode) -> None:
    """K-1, K-21, K.5"""
    assert mode_of(message) is mode


QUOTED = '"a \\"b\\" %25"'
DATE = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TYPED = {"time": DATE, "n": 5, "flag": True, "raw": b"\xff", "x": UUID(int=1)}
TYPED_VALUES = {"time": "2026-01-02T03:04:05Z", "n": 5, "flag": True, "raw": "/w==", "x": str(UUID(int=1))}
TEXT_TYPE = {"datacontenttype": "text/plain"}
ATTRIBUTES: dict[str, tuple[Message, dict[str, Any]]] = {
    "HTTP: decoded once after unquoting": (
        post(*HTTP_CE, ("ce-subject", "Euro%20%E2%82%AC%20%F0%9F%98%80"), ("ce-ext", QUOTED), ("X-Other", "x"), PLAIN),
        {"subject": "Euro € 😀", "ext": 'a "b" %', **TEXT_TYPE},
    ),
    "Kafka: unchanged UTF-8": (
        record(*KAFKA_CE, ("ce_subject", "Größe %25".encode()), ("other", b"x"), ("content-type", b"text/plain")),
        {"subject": "Größe %25", **TEXT_TYPE},
    ),
    "NATS: decoded once after unquoting": (
        nats_message(
            *NATS_CE, ("ce-subject", "Euro%20%E2%82%AC"), ("ce-ext", QUOTED), ("ce-datacontenttype", "text/plain")
        ),
        {"subject": "Euro €", "ext": 'a "b" %', **TEXT_TYPE},
    ),
    "MQTT: no prefix, but lower case": (
        publish(user_properties=(*MQTT_CE, ("subject", "größe"), ("Trace-Id", "x"), ("datacontenttype", "a/b"))),
        {"subject": "größe", "datacontenttype": "a/b"},
    ),
    "MQTT: content type wins": (
        publish(user_properties=(*MQTT_CE, ("datacontenttype", "a/b")), content_type="text/plain"),
        TEXT_TYPE,
    ),
    "AMQP: native types": (amqp_message("_", "text/plain", **TYPED), {**TYPED_VALUES, **TEXT_TYPE}),
    "AMQP: the other separator": (amqp_message(":", "text/plain", **TYPED), {**TYPED_VALUES, **TEXT_TYPE}),
}


@pytest.mark.parametrize(("message", "expected"), ATTRIBUTES.values(), ids=ATTRIBUTES)
def test_binary_attributes(message: Message, expected: dict[str, Any]) -> None:
    """K.5"""
    assert attributes_of(message) == {**CE, **expected}


TWO_SEPARATORS = {"application-properties": {"cloudEvents_id": "1", "cloudEvents:type": "t"}}
INVALID: dict[str, list[tuple[Message, str]]] = {
    "HTTP": [
        (post(*HTTP_CE, ("ce-subject", "%C0%A0")), "not as UTF-8"),
        (post(*HTTP_CE, ("ce-id", "2")), "occurs 2 times"),
        (post(*HTTP_CE, ("ce-datacontenttype", "a/b")), "drop ce-datacontenttype"),
    ],
    "KAFKA": [
        (record(*KAFKA_CE, ("ce_subject", b"\xc0\xa0")), "not in UTF-8"),
        (record(*KAFKA_CE, ("ce_id", b"2")), "occurs 2 times"),
        (record(*KAFKA_CE, ("ce_datacontenttype", b"a/b")), "drop ce_datacontenttype"),
    ],
    "NATS": [
        (nats_message(*NATS_CE, ("ce-subject", "%C0%A0")), "not as UTF-8"),
        (nats_message(*NATS_CE, ("ce-id", "2")), "occurs 2 times"),
    ],
    "MQTT/5.0": [(publish(user_properties=(*MQTT_CE, ("id", "2"))), "occurs 2 times")],
    "AMQP/1.0": [
        (amqp_message(datacontenttype="a/b"), "drop the other one"),
        (amqp_message(ext=[1]), "no simple value"),
        (amqp.message(b"", TWO_SEPARATORS), "some with cloudEvents:"),
    ],
}


@pytest.mark.parametrize(("message", "complaint"), list_rows(INVALID))
def test_invalid_attributes_are_rejected(message: Message, complaint: str) -> None:
    """K.5"""
    with pytest.raises(EventError, match=complaint) as caught:
        attributes_of(message)
    assert caught.value.reason == "invalid_cloudevent"


LETTERS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)
VISIBLE = LETTERS.filter(str.strip)


@pytest.mark.parametrize(
    ("protocol", "texts", "number", "flag"),
    [
        ("HTTP", VISIBLE, "5", "true"),
        ("KAFKA", LETTERS, "5", "true"),
        ("NATS", VISIBLE, "5", "true"),
        ("MQTT/5.0", st.text(min_size=1), "5", "true"),
        ("AMQP/1.0", LETTERS, 5, True),
    ],
    ids=["HTTP", "KAFKA", "NATS", "MQTT/5.0", "AMQP/1.0"],
)
@given(data=st.data())
def test_attributes_survive_encoding(
    protocol: str, texts: st.SearchStrategy[str], number: Any, flag: Any, data: st.DataObject
) -> None:
    """Only AMQP keeps the types (K-23)."""
    text = data.draw(texts)
    binding, head = find(protocol), {**CE, "id": text}
    attributes: dict[str, str | int | bool] = {**head, "n": 5, "b": True}
    for event, body, content_type in (
        (CloudEvent(attributes=attributes, value=[1]), b"[1]", {"datacontenttype": "application/json"}),
        (CloudEvent(attributes=attributes, body=b"x"), b"x", {}),
    ):
        encoded = binding.encode(event, Mode.BINARY)
        assert attributes_of(encoded) == {**head, "n": number, "b": flag, **content_type}
        assert (mode_of(encoded), encoded.body) == (Mode.BINARY, body)
        if protocol in ("HTTP", "NATS"):
            assert all(value.isascii() and value.isprintable() for _, value in encoded.sections["headers"])
        assert mode_of(binding.encode(event, Mode.STRUCTURED)) is Mode.STRUCTURED


def test_events_without_data() -> None:
    """K-23; an event without data is a record without a value."""
    event = CloudEvent(attributes=CE)
    assert [find(protocol).encode(event, Mode.BINARY).body for protocol in ("KAFKA", "AMQP/1.0")] == [None, None]
    assert mqtt.MQTT5.encode(event, Mode.BINARY).body == b""


def test_mqtt_3_has_only_the_structured_mode() -> None:
    """K-23"""
    assert mqtt.MQTT3.encode(CloudEvent(attributes=CE), Mode.BINARY).content_type == STRUCTURED


SHAPES: dict[str, list[tuple[str, Any]]] = {
    "HTTP": [("headers", headers) for headers in ("x", [1], [{"value": "x"}], [{"name": ""}])],
    "KAFKA": [("topic", 5), ("key", {}), ("key_base64", 5), ("headers", "x"), ("headers", [1])],
    "NATS": [("subject", 5), ("reply-to", []), ("headers", "x")],
    "MQTT/5.0": [("topic_name", 5), ("content_type", 5), ("user_properties", "x")],
    "AMQP/1.0": [("properties", []), ("application-properties", {"a": "x"})],
}


@pytest.mark.parametrize(
    ("protocol", "name", "value"), [(protocol, *option) for protocol, options in SHAPES.items() for option in options]
)
def test_options_of_the_wrong_shape(protocol: str, name: str, value: Any) -> None:
    with pytest.raises(PropertyError, match=rf"protocoloptions\.{name}"):
        find(protocol).properties({name: value})

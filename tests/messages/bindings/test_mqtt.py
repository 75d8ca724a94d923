from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.messages.bindings.mqtt import MQTT3, MQTT5, V3, V5, publish
from signalbook.messages.cloudevents import CloudEvent, Mode
from signalbook.messages.eventformats import EventError
from signalbook.messages.message import Message
from signalbook.messages.properties import PropertyError

CE = (("specversion", "1.0"), ("id", "1"), ("source", "/s"), ("type", "t"))
EVENT = b'{"specversion":"1.0","id":"1","source":"/s","type":"t"}'


def five(payload: bytes = b"", **sections: Any) -> Message:
    return publish(V5, payload, sections)


def mode(message: Message) -> Mode:
    return MQTT5.mode(message, MQTT5.values(message))


def attributes(message: Message) -> dict[str, Any]:
    return dict(MQTT5.attributes(message, MQTT5.values(message)))


def test_values_of_a_message_of_version_5() -> None:
    """Names of user properties are case-sensitive (K-7, K-20)."""
    message = five(
        topic_name="a/b", qos=1, retain=False, content_type="t/x", correlation_data=b"c", response_topic=None,
        user_properties=(("A", "1"), ("a", "2"), ("a", "3")),
    )  # fmt: skip
    assert MQTT5.values(message) == {
        "topic_name": "a/b", "qos": 1, "retain": False, "content_type": "t/x", "correlation_data": "c",
        "user_properties.A": ("1",), "user_properties.a": ("2", "3"),
    }  # fmt: skip
    assert (message.protocol, message.content_type) == ("MQTT/5.0", "t/x")
    assert MQTT5.values(five(correlation_data=b"\xff")) == {"correlation_data": b"\xff"}


def test_values_of_a_message_of_version_3() -> None:
    """A message of version 3 has no user properties (K-7)."""
    message = publish(V3, b"21.5", {"topic_name": "a/b", "qos": 0, "retain": True})
    assert MQTT3.values(message) == {"topic_name": "a/b", "qos": 0, "retain": True}
    assert MQTT3.identity(message, {}) == ""
    assert MQTT3.attributes(message, {}) == {}


@pytest.mark.parametrize(("payload", "expected"), [(EVENT, Mode.STRUCTURED), (b"21.5", Mode.NONE), (b"{}", Mode.NONE)])
def test_modes_of_version_3(payload: bytes, expected: Mode) -> None:
    """An event is in structured mode; other messages are no events (K-21, K-1)."""
    message = publish(V3, payload, {"topic_name": "a", "content_type": "text/plain"})
    assert MQTT3.mode(message, MQTT3.values(message)) is expected


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({"content_type": "application/cloudevents+json; charset=utf-8"}, Mode.STRUCTURED),
        ({"content_type": "application/json", "user_properties": CE}, Mode.BINARY),
        ({"user_properties": CE}, Mode.BINARY),
        ({"user_properties": CE[1:]}, Mode.NONE),
        ({}, Mode.NONE),
    ],
)
def test_modes_of_version_5(sections: dict[str, Any], expected: Mode) -> None:
    """The content of a payload does not matter (K-21, K.5 MQTT rows)."""
    assert mode(five(EVENT, **sections)) is expected


def test_binary_attributes() -> None:
    """Names have no prefix; the Content Type overrides a property of the same name (K.5 MQTT 5.0 row)."""
    more = (("subject", "größe"), ("Trace-Id", "x"), ("datacontenttype", "a/b"))
    assert attributes(five(user_properties=(*CE, *more), content_type="text/plain")) == {
        "specversion": "1.0", "id": "1", "source": "/s", "type": "t", "subject": "größe",
        "datacontenttype": "text/plain",
    }  # fmt: skip
    assert attributes(five(user_properties=(*CE, *more)))["datacontenttype"] == "a/b"


def test_duplicate_attribute_is_rejected() -> None:
    with pytest.raises(EventError, match="occurs 2 times"):
        attributes(five(user_properties=(*CE, ("id", "2"))))


@given(st.text(min_size=1))
def test_attributes_survive_encoding_as_user_properties(text: str) -> None:
    """Encoded attributes are decoded to the same values (K-23)."""
    event = CloudEvent(attributes={"specversion": "1.0", "id": text, "source": "/s", "type": "t", "b": True}, value=1)
    message = MQTT5.encode(event, Mode.BINARY)
    assert attributes(message) == {**event.attributes, "b": "true", "datacontenttype": "application/json"}
    assert (mode(message), message.body) == (Mode.BINARY, b"1")


def test_structured_encoding() -> None:
    """MQTT 3 supports only the structured mode (K-23)."""
    event = CloudEvent(attributes=dict(CE))
    assert mode(MQTT5.encode(event, Mode.STRUCTURED)) is Mode.STRUCTURED
    assert MQTT3.encode(event, Mode.BINARY).content_type == "application/cloudevents+json"
    assert MQTT5.encode(event, Mode.BINARY).body == b""


def test_options() -> None:
    """K-11, F.7 MQTT rows"""
    options = {
        "topic_name": "shops/{shop}", "qos": 1, "retain": False, "payload_format": 1, "message_expiry_interval": 5,
        "response_topic": "back", "correlation_data": "{order}", "content_type": "t/x", "user-properties": {"p": "x"},
    }  # fmt: skip
    normal, findings = MQTT5.normalise(options)
    assert findings == []
    declared = {entry.name: entry.role for entry in MQTT5.properties(normal)}
    assert declared == {
        "topic_name": "discriminator", "qos": "delivery", "retain": "delivery", "message_expiry_interval": "delivery",
        "payload_format_indicator": "plain", "response_topic": "plain", "correlation_data": "plain",
        "content_type": "plain", "user_properties.p": "discriminator",
    }  # fmt: skip
    three, _ = MQTT3.normalise({"topic_name": "a", "qos": 1})
    assert [entry.name for entry in MQTT3.properties(three)] == ["topic_name", "qos"]


def test_the_name_of_the_model_wins_over_its_alias() -> None:
    normal, _ = MQTT5.normalise({"payload_format": 0, "payload_format_indicator": 1})
    assert normal == {"payload_format_indicator": 1}


@pytest.mark.parametrize("options", [{"topic_name": 5}, {"content_type": 5}, {"user_properties": "x"}])
def test_options_of_the_wrong_shape(options: dict[str, Any]) -> None:
    with pytest.raises(PropertyError, match=r"protocoloptions\."):
        MQTT5.properties(options)

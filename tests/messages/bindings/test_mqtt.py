from typing import Any

from signalbook.messages.bindings.mqtt import MQTT3, MQTT5, V3, V5, publish
from signalbook.messages.message import Message


def five(payload: bytes = b"", **sections: Any) -> Message:
    return publish(V5, payload, sections)


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

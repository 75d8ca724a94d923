from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
import yaml

from signalbook.messages.bindings.amqp import BINDING, message
from signalbook.messages.cloudevents import CloudEvent, Mode
from signalbook.messages.eventformats import EventError
from signalbook.messages.message import Message
from signalbook.messages.properties import PropertyError

NAMES = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


def binary(separator: str = "_", content_type: str = "", **more: Any) -> Message:
    properties = {f"cloudEvents{separator}{name}": value for name, value in {**NAMES, **more}.items()}
    return message(b"", {"properties": {"content-type": content_type or None}, "application-properties": properties})


def mode(message_: Message) -> Mode:
    return BINDING.mode(message_, BINDING.values(message_))


def attributes(message_: Message) -> dict[str, Any]:
    return dict(BINDING.attributes(message_, BINDING.values(message_)))


def test_values_of_a_message() -> None:
    """K-7, K-20"""
    sections: dict[str, dict[str, Any]] = {
        "header": {"durable": True},
        "message-annotations": {"x-opt-key": "k"},
        "properties": {"message-id": 5, "subject": None, "content-type": "t/x", "content-encoding": "gzip"},
        "application-properties": {"A": 1, "a": True},
        "footer": {"sum": b"\xff"},
    }
    received = message(b"body", sections)
    assert BINDING.values(received) == {
        "header.durable": True, "message-annotations.x-opt-key": "k", "properties.message-id": 5,
        "properties.content-type": "t/x", "properties.content-encoding": "gzip", "application-properties.A": 1,
        "application-properties.a": True, "footer.sum": b"\xff",
    }  # fmt: skip
    assert (received.protocol, received.content_type, received.content_encoding) == ("AMQP/1.0", "t/x", "gzip")


@pytest.mark.parametrize(
    ("message_", "expected"),
    [
        (message(b"", {"properties": {"content-type": "application/cloudevents+json"}}), Mode.STRUCTURED),
        (binary(), Mode.BINARY),
        (binary(":"), Mode.BINARY),
        (binary("-"), Mode.NONE),
        (binary(content_type="application/json"), Mode.BINARY),
        (message(b"", {"application-properties": NAMES}), Mode.NONE),
        (message(b"", {}), Mode.NONE),
    ],
)
def test_modes(message_: Message, expected: Mode) -> None:
    """K-21, K.5 AMQP row"""
    assert mode(message_) is expected


@pytest.mark.parametrize("separator", ["_", ":"])
def test_binary_attributes(separator: str) -> None:
    """The values have native types or are strings (K.5 AMQP row)."""
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    attributes_ = attributes(binary(separator, "text/plain", time=at, n=5, flag=True, raw=b"\xff", x=UUID(int=1)))
    assert attributes_ == {
        **NAMES, "time": "2026-01-02T03:04:05Z", "n": 5, "flag": True, "raw": "/w==", "x": str(UUID(int=1)),
        "datacontenttype": "text/plain",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("message_", "complaint"),
    [
        (binary(datacontenttype="a/b"), "drop the other one"),
        (binary(ext=[1]), "no simple value"),
        (
            message(b"", {"application-properties": {"cloudEvents_id": "1", "cloudEvents:type": "t"}}),
            "some with cloudEvents:",
        ),
    ],
)
def test_invalid_attribute_properties_are_rejected(message_: Message, complaint: str) -> None:
    """A message uses one separator (K.5 AMQP row)."""
    with pytest.raises(EventError, match=complaint):
        attributes(message_)


def test_attributes_survive_encoding_as_properties() -> None:
    """The properties have an underscore prefix and keep their types (K-23)."""
    event = CloudEvent(attributes={**NAMES, "n": 5, "b": True}, value={"a": 1})
    encoded = BINDING.encode(event, Mode.BINARY)
    assert encoded.sections["application-properties"]["cloudEvents_n"] == 5
    assert attributes(encoded) == {**event.attributes, "datacontenttype": "application/json"}
    assert (mode(encoded), encoded.body) == (Mode.BINARY, b'{"a":1}')
    assert mode(BINDING.encode(event, Mode.STRUCTURED)) is Mode.STRUCTURED
    assert BINDING.encode(CloudEvent(attributes=NAMES), Mode.BINARY).body is None


@pytest.mark.parametrize(
    ("id", "identity"), [("m1", "m1"), (7, "7"), (UUID(int=1), str(UUID(int=1))), (b"\xff", "/w==")]
)
def test_message_id_is_the_identity(id: Any, identity: str) -> None:
    """The message id is the identity of a message (K-35)."""
    message_ = message(b"", {"properties": {"message-id": id}})
    assert BINDING.identity(message_, BINDING.values(message_)) == identity
    assert BINDING.identity(message(b"", {}), {}) == ""


def test_options() -> None:
    """F.7 AMQP rows: a media type is no symbol; the header is about delivery."""
    options, findings = BINDING.normalise(
        yaml.safe_load("""
        properties: {subject: {value: order}, to: {value: "shops/{shop}"},
          content-type: {value: application/json, type: symbol}, group-sequence: {value: "5"},
          creation-time: {required: true}}
        application-properties: {kind-of: {value: x}, any: {type: integer}}
        header: {durable: true, priority: 4, ttl: null}
        """)
    )
    assert findings == []
    declared = {entry.name: (entry.type, entry.role) for entry in BINDING.properties(options)}
    assert declared == {
        "properties.subject": ("string", "discriminator"),
        "properties.to": ("string", "plain"),
        "properties.content-type": ("string", "plain"),
        "properties.group-sequence": ("integer", "plain"),
        "properties.creation-time": ("timestamp", "plain"),
        "application-properties.kind-of": ("string", "discriminator"),
        "application-properties.any": ("integer", "plain"),
        "header.durable": ("boolean", "delivery"),
        "header.priority": ("integer", "delivery"),
    }


@pytest.mark.parametrize("options", [{"properties": []}, {"application-properties": {"a": "x"}}])
def test_options_of_the_wrong_shape(options: dict[str, Any]) -> None:
    with pytest.raises(PropertyError, match=r"protocoloptions\."):
        BINDING.properties(options)

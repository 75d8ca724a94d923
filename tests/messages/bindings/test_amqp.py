from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
import yaml

from signalbook.messages.bindings.amqp import BINDING, message
from signalbook.messages.cloudevents import CloudEvent, Mode
from signalbook.messages.definitions.properties import PropertyError
from signalbook.messages.eventformats import EventError
from signalbook.messages.message import Message

NAMES = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


def binary(separator: str = "_", content_type: str = "", **more: Any) -> Message:
    named = {f"cloudEvents{separator}{name}": value for name, value in {**NAMES, **more}.items()}
    return message(b"", {"properties": {"content-type": content_type or None}, "application-properties": named})


def mode(found: Message) -> Mode:
    return BINDING.mode(found, BINDING.values(found))


def attributes(found: Message) -> dict[str, Any]:
    return dict(BINDING.attributes(found, BINDING.values(found)))


def test_what_a_message_carries() -> None:
    """K-7, K-20"""
    sections: dict[str, dict[str, Any]] = {
        "header": {"durable": True},
        "message-annotations": {"x-opt-key": "k"},
        "properties": {"message-id": 5, "subject": None, "content-type": "t/x", "content-encoding": "gzip"},
        "application-properties": {"A": 1, "a": True},
        "footer": {"sum": b"\xff"},
    }
    found = message(b"body", sections)
    assert BINDING.values(found) == {
        "header.durable": True, "message-annotations.x-opt-key": "k", "properties.message-id": 5,
        "properties.content-type": "t/x", "properties.content-encoding": "gzip", "application-properties.A": 1,
        "application-properties.a": True, "footer.sum": b"\xff",
    }  # fmt: skip
    assert (found.protocol, found.content_type, found.content_encoding) == ("AMQP/1.0", "t/x", "gzip")


@pytest.mark.parametrize(
    ("found", "expected"),
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
def test_modes(found: Message, expected: Mode) -> None:
    """K-21, K-5 AMQP row"""
    assert mode(found) is expected


@pytest.mark.parametrize("separator", ["_", ":"])
def test_binary_attributes(separator: str) -> None:
    """K-5 AMQP row: native types as well as strings."""
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    found = attributes(binary(separator, "text/plain", time=at, n=5, flag=True, raw=b"\xff", x=UUID(int=1)))
    assert found == {
        **NAMES, "time": "2026-01-02T03:04:05Z", "n": 5, "flag": True, "raw": "/w==", "x": str(UUID(int=1)),
        "datacontenttype": "text/plain",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        (binary(datacontenttype="a/b"), "drop the other one"),
        (binary(ext=[1]), "no simple value"),
        (
            message(b"", {"application-properties": {"cloudEvents_id": "1", "cloudEvents:type": "t"}}),
            "some with cloudEvents:",
        ),
    ],
)
def test_properties_that_are_no_attributes(found: Message, complaint: str) -> None:
    """K-5 AMQP row: one separator per message."""
    with pytest.raises(EventError, match=complaint):
        attributes(found)


def test_attributes_survive_the_way_through_properties() -> None:
    """K-23: with their types, after an underscore."""
    event = CloudEvent(attributes={**NAMES, "n": 5, "b": True}, value={"a": 1})
    found = BINDING.encode(event, Mode.BINARY)
    assert found.sections["application-properties"]["cloudEvents_n"] == 5
    assert attributes(found) == {**event.attributes, "datacontenttype": "application/json"}
    assert (mode(found), found.body) == (Mode.BINARY, b'{"a":1}')
    assert mode(BINDING.encode(event, Mode.STRUCTURED)) is Mode.STRUCTURED
    assert BINDING.encode(CloudEvent(attributes=NAMES), Mode.BINARY).body is None


@pytest.mark.parametrize(
    ("id", "identity"), [("m1", "m1"), (7, "7"), (UUID(int=1), str(UUID(int=1))), (b"\xff", "/w==")]
)
def test_a_message_is_known_by_its_id(id: Any, identity: str) -> None:
    """K-35"""
    found = message(b"", {"properties": {"message-id": id}})
    assert BINDING.identity(found, BINDING.values(found)) == identity
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

"""Messages: sections to bytes and back."""

from typing import Any

import pytest
from tests.brokers.amqp.receiver import from_bytes

from signalbook.brokers.amqp.messages import (
    AMQPError,
    AMQPMessage,
    DescribedValue,
    Symbol,
    Ulong,
    body_bytes,
    encode,
    sections,
    split_body,
    to_bytes,
)


def section(code: int, value: Any) -> bytes:
    return encode(DescribedValue(Ulong(code), value))


@pytest.mark.parametrize(
    "message",
    [
        AMQPMessage(),
        AMQPMessage(body=b"x" * 1000, durable=True),
        AMQPMessage(body=b"{}", properties={"content-type": "application/json", "to": "changes", "group-sequence": 5}),
        AMQPMessage(application_properties={"cloudEvents_id": "1", "cloudEvents_time": True}),
    ],
)
def test_messages_survive_a_round_trip(message: AMQPMessage) -> None:
    assert from_bytes(to_bytes(message)) == message


def test_a_content_type_is_a_symbol() -> None:
    assert encode(Symbol("text/plain")) in to_bytes(AMQPMessage(properties={"content-type": "text/plain"}))


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (section(0x75, b"a") + section(0x75, b"b"), b"ab"),
        (section(0x77, {"a": 1}), {"a": 1}),
        (section(0x76, [1, 2]), [1, 2]),
        (section(0x71, {}) + section(0x72, {}) + section(0x75, b"a") + section(0x78, {}), b"a"),
        (b"", b""),
    ],
)
def test_bodies_of_every_kind_are_read(data: bytes, body: Any) -> None:
    assert from_bytes(data).body == body


@pytest.mark.parametrize(
    "data",
    [
        b"\x40",
        encode(DescribedValue(Symbol("amqp:data:binary"), b"a")),
        section(0x75, "a"),
        section(0x73, {}),
        section(0x74, []),
        section(0x75, b"a")[:-1],
    ],
)
def test_invalid_message_is_rejected(data: bytes) -> None:
    with pytest.raises(AMQPError):
        from_bytes(data)


def test_sections_around_a_body_are_preserved() -> None:
    head, foot = section(0x70, [True, None, 5]), section(0x78, {"a": 1})
    properties = section(0x73, ["id-1", None, "to"]) + section(0x74, {"x": 1}) + section(0x72, {Symbol("y"): None})
    around, body = split_body(head + properties + section(0x75, b"a") + section(0x75, b"b") + foot)
    assert (around, body) == (head + properties + foot, b"ab")
    assert sections(around) == {
        "header": {"durable": True, "ttl": 5},
        "properties": {"message-id": "id-1", "to": "to"},
        "application-properties": {"x": 1},
        "message-annotations": {},
        "footer": {"a": 1},
    }


@pytest.mark.parametrize(
    "data", [b"\x40", section(0x75, b"a"), section(0x73, {}), section(0x74, []), section(0x99, [])]
)
def test_invalid_section_is_rejected(data: bytes) -> None:
    with pytest.raises(AMQPError):
        sections(data)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (None, b""),
        (b"", b""),
        (b"\0", b"\0"),
        ("text", b"text"),
        ([1], encode([1])),
        ({"a": True}, encode({"a": True})),
    ],
)
def test_every_body_is_bytes(body: Any, expected: bytes) -> None:
    assert body_bytes(body) == expected


def test_a_body_of_no_type_of_amqp() -> None:
    with pytest.raises(AMQPError):
        body_bytes(object())

"""Generated messages through a real AMQP 1.0 broker."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.brokers.program import Broker
from tests.codegen.packages import generated, imported, ordering

from signalbook.codegen.amqp import TypedAmqpReceiver, TypedAmqpSender, received
from signalbook.messages import Message

proton = pytest.importorskip("proton", reason="tools/setup could not build python-qpid-proton")

SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
NATIVE: dict[str, Any] = {
    "protocol": "AMQP/1.0",
    "protocoloptions": {
        "header": {"durable": True, "priority": 7, "ttl": 60_000},
        "properties": {
            "message-id": {"type": "uritemplate", "value": "{id}", "required": True},
            "subject": {"value": "measured"},
            "user-id": {"type": "binary", "value": "bWU="},
            "creation-time": {"type": "timestamp", "value": "2026-01-02T03:04:05.006Z"},
            "group-sequence": {"type": "integer", "value": 3},
        },
        "application-properties": {
            "station": {"type": "uritemplate", "value": "{station}"},
            "level": {"type": "integer", "value": 5},
            "since": {"type": "timestamp", "value": "2026-01-02T03:04:05.006Z"},
        },
        "message-annotations": {"x-opt-kind": {"value": "probe"}},
    },
    "dataschemaformat": "JsonSchema/draft-07",
    "dataschema": SCHEMA,
}


@pytest.fixture
def link(artemis: Broker) -> Any:
    """A connection to the broker, and the name of a queue that is empty."""
    from proton.utils import BlockingConnection

    connection = BlockingConnection(f"amqp://127.0.0.1:{artemis.ports['plain']}", timeout=60, allowed_mechs="ANONYMOUS")
    try:
        yield connection, f"orders.{uuid4().hex[:8]}"
    finally:
        connection.close()


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_sent_messages_are_received_by_type(link: Any, tmp_path: Path, mode: str) -> None:
    unexpected: list[Message] = []
    connection, queue = link
    with ordering(tmp_path) as orders:
        sender = connection.create_sender(queue)
        typed = TypedAmqpSender(sender, {"protocol": "AMQP/1.0", "envelopeoptions": {"mode": mode}})
        typed.send(orders.placed.build(orders.order, shop="7"))
        sender.send(proton.Message(body="who knows"))
        receiver = connection.create_receiver(queue)
        receive = TypedAmqpReceiver(orders.handlers, lambda message, _: unexpected.append(message))
        for _ in range(2):
            receive(receiver.receive())
            receiver.accept()
    assert [(message_seen.payload, message_seen.context["shop"]) for message_seen in orders.seen] == [
        (orders.order, "7")
    ]
    assert [message.body for message in unexpected] == [b"who knows"]


def test_all_sections_survive_a_round_trip(link: Any, tmp_path: Path) -> None:
    generated(tmp_path, {"messagegroups": {"air": {"messages": {"m": NATIVE}}}})
    connection, queue = link
    with imported(tmp_path) as modules:
        measured = modules["/messagegroups/air/messages/m"]
        built = measured.build(measured._types.M(n=1), id="a-1", station="north")
        TypedAmqpSender(connection.create_sender(queue)).send(built)
        message = connection.create_receiver(queue).receive()
        assert measured.parse(received(message)).payload.n == 1
    moment = datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=UTC)
    sections = received(message).sections
    assert sections["header"].items() >= {"durable": True, "priority": 7, "ttl": 60_000}.items()
    assert sections["properties"] == {
        "message-id": "a-1", "subject": "measured", "user-id": b"me", "content-type": "application/json",
        "creation-time": moment, "group-sequence": 3,
    }  # fmt: skip
    assert sections["application-properties"] == {"station": "north", "level": 5, "since": moment}
    assert sections["message-annotations"]["x-opt-kind"] == "probe"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (None, b""),
        ("text", b"text"),
        (b"\0", b"\0"),
        ([1], b"\xc0\x03\x01\x55\x01"),
        ({"a": True}, b"\xc1\x05\x02\xa1\x01a\x41"),
    ],
)
def test_bodies_are_those_of_the_pipeline(body: Any, expected: bytes) -> None:
    assert received(proton.Message(body=body)).body == expected


def test_values_are_pythons_own() -> None:
    number = UUID(int=1)
    properties = {"w": proton.ulong(1), "s": proton.symbol("s"), "u": number, "t": proton.timestamp(1)}
    properties["f"] = proton.float32(0.5)
    sections = received(proton.Message(id=number, correlation_id=0, properties=properties)).sections
    values = sections["application-properties"]
    assert values == {"w": 1, "s": "s", "u": number, "t": datetime.fromtimestamp(0.001, UTC), "f": 0.5}
    assert {type(value) for value in values.values()} == {int, str, UUID, datetime, float}
    assert sections["properties"] == {"message-id": number, "correlation-id": 0}


def test_times_that_python_has_not_are_numbers() -> None:
    sections = received(proton.Message(properties={"t": proton.timestamp(2**62)}, creation_time=2.0**50)).sections
    assert sections == {"properties": {"creation-time": 2**50 * 1000}, "application-properties": {"t": 2**62}}

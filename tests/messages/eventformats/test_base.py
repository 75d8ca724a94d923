import pytest

from signalbook.messages import Accepted, Contract, Message
from signalbook.messages.bindings import http, kafka
from signalbook.messages.cloudevents import CloudEvent
from signalbook.messages.eventformats import JSON_EVENTS, EventError, find_format


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/cloudevents+json; charset=utf-8", "JsonEventFormat"),
        ("APPLICATION/CloudEvents+JSON", "JsonEventFormat"),
        ("application/cloudevents-batch+json", "JsonEventFormat"),
        ("application/cloudevents+avro", "AvroEventFormat"),
        ("application/cloudevents+protobuf; charset=x", "ProtobufEventFormat"),
        ("application/cloudevents-batch+protobuf", "ProtobufEventFormat"),
    ],
)
def test_formats_are_found_by_media_type(content_type: str, expected: str) -> None:
    """K-21, K-22"""
    assert type(find_format(content_type)).__name__ == expected


def test_a_format_is_made_once() -> None:
    assert find_format("application/cloudevents+avro") is find_format("application/cloudevents+avro")
    assert find_format("application/cloudevents+json") is JSON_EVENTS


@pytest.mark.parametrize("content_type", ["application/cloudevents+xml", "application/cloudevents"])
def test_a_format_nothing_reads(content_type: str) -> None:
    """An unknown event format is an error (K-21)."""
    with pytest.raises(EventError) as caught:
        find_format(content_type)
    assert caught.value.reason == "unsupported_format"


EVENT = CloudEvent(attributes={"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, body=b"\x06one")
DEFINITION = {
    "envelope": "CloudEvents/1.0",
    "envelopemetadata": {"type": {"value": "t"}},
    "dataschemaformat": "Avro/1.11",
    "dataschema": '"string"',
}


@pytest.mark.parametrize("content_type", ["application/cloudevents+avro", "application/cloudevents+protobuf"])
def test_structured_events_of_any_protocol_take_part(content_type: str) -> None:
    """HTTP, Kafka and files use the same decoder (K-21, K-22)."""
    contract = Contract.compile({"/g/m/a": DEFINITION}, lambda _: None)
    body = find_format(content_type).encode(EVENT)
    for message in (
        http.request("POST", "/", [("content-type", content_type)], body),
        kafka.record("topic", body, [("content-type", content_type.encode())]),
        Message(content_type=content_type, body=body),
    ):
        (outcome,) = contract.process(message)
        assert isinstance(outcome, Accepted)
        assert outcome.data == "one"


def test_events_of_a_protobuf_batch_are_checked_separately() -> None:
    """K-22, K-47"""
    contract = Contract.compile({"/g/m/a": DEFINITION}, lambda _: None)
    encoded = find_format("application/cloudevents+protobuf").encode(EVENT)
    body = b"".join(b"\x0a" + bytes([len(part)]) + part for part in (encoded, b"\xff", encoded))
    outcomes = contract.process(Message(content_type="application/cloudevents-batch+protobuf", body=body))
    assert [type(outcome).__name__ for outcome in outcomes] == ["Accepted", "Rejected", "Accepted"]

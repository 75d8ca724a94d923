from typing import Any

import pytest
from google.protobuf import message_factory

from signalbook.formats.protobuf import FORMAT
from signalbook.messages.eventformats import EventError
from signalbook.messages.eventformats.protobuf import ProtobufEventFormat

PROTOBUF = ProtobufEventFormat()
HEAD: dict[str, Any] = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
DOCUMENT = b"""
syntax = "proto3";
import "google/protobuf/any.proto";
import "google/protobuf/timestamp.proto";
message Event {
  string id = 1; string source = 2; string spec_version = 3; string type = 4;
  map<string, Value> attributes = 5;
  oneof data { bytes binary_data = 6; string text_data = 7; google.protobuf.Any proto_data = 8; }
  message Value {
    oneof attr {
      bool ce_boolean = 1; int32 ce_integer = 2; string ce_string = 3; bytes ce_bytes = 4;
      string ce_uri = 5; string ce_uri_ref = 6; google.protobuf.Timestamp ce_timestamp = 7;
    }
  }
}
message Batch { repeated Event events = 1; }
"""


@pytest.fixture(scope="module")
def event_type() -> Any:
    return message_factory.GetMessageClass(FORMAT.parse(DOCUMENT, "Protobuf", link="Event").descriptor)


def event(kind: Any, **more: Any) -> Any:
    return kind(id="1", source="/s", spec_version="1.0", type="t", **more)


def failure(body: bytes) -> tuple[str, str]:
    with pytest.raises(EventError) as caught:
        PROTOBUF.decode(body)
    return caught.value.reason.value, caught.value.findings[0].path


def test_attributes_have_their_types(event_type: Any) -> None:
    """The types are those of the .proto file of the format, as another compiler writes it (K-22)."""
    values: dict[str, Any] = {
        "n": {"ce_integer": -5}, "flag": {"ce_boolean": False}, "raw": {"ce_bytes": b"\x01\x02"}, "gone": {},
        "dataschema": {"ce_uri": "http://x/y"}, "ref": {"ce_uri_ref": "/y"}, "subject": {"ce_string": "é"},
        "time": {"ce_timestamp": {"seconds": 1767323045, "nanos": 120_000_000}},
        "early": {"ce_timestamp": {"seconds": -62_135_596_800}},
    }  # fmt: skip
    decoded = PROTOBUF.decode(event(event_type, attributes=values).SerializeToString())
    assert decoded.attributes == {
        **HEAD, "n": -5, "flag": False, "raw": "AQI=", "dataschema": "http://x/y", "ref": "/y", "subject": "é",
        "time": "2026-01-02T03:04:05.12Z", "early": "0001-01-01T00:00:00Z",
    }  # fmt: skip
    assert decoded.payload() is None


@pytest.mark.parametrize(
    ("data", "body"),
    [
        ({}, None),
        ({"binary_data": b"\xff"}, b"\xff"),
        ({"binary_data": b""}, b""),
        ({"text_data": "é"}, "é".encode()),
        ({"proto_data": {"type_url": "type.googleapis.com/a.B", "value": b"\x08\x01"}}, b"\x08\x01"),
    ],
)
def test_data(event_type: Any, data: Any, body: bytes | None) -> None:
    """The data of an event is text, bytes or a message (K-22)."""
    assert PROTOBUF.decode(event(event_type, **data).SerializeToString()).body == body


def test_a_type_url_as_dataschema_gets_the_scheme_it_lacks(event_type: Any) -> None:
    """The format wants the type URL there, CloudEvents an absolute URI."""
    url = "type.googleapis.com/a.B"
    body = event(event_type, proto_data={"type_url": url}, attributes={"dataschema": {"ce_uri": url}})
    assert PROTOBUF.decode(body.SerializeToString()).attributes["dataschema"] == f"https://{url}"


@pytest.mark.parametrize("body", [b"\xff" * 20, b"\x0a\x05ab", b"\x0a\x01\xff", b'{"id":"1"}', b"\x0b" * 10_000])
def test_undecodable_bytes_are_rejected(body: bytes) -> None:
    """The bytes are garbage, truncated, not UTF-8, of another format, or have groups without end (K-22, K-44)."""
    assert failure(body) == ("decode_error", "")


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"attributes": {"id": {"ce_string": "2"}}}, "id"),
        ({"attributes": {"Time": {"ce_string": "x"}}}, "Time"),
        ({"attributes": {"time": {"ce_string": "x"}}}, "time"),
        ({"attributes": {"time": {"ce_timestamp": {"seconds": 2**60}}}}, "time"),
        ({"attributes": {"time": {"ce_timestamp": {"nanos": -1}}}}, "time"),
    ],
)
def test_invalid_attributes_are_rejected(event_type: Any, more: Any, path: str) -> None:
    """Messages with invalid attributes are rejected (K-24)."""
    assert failure(event(event_type, **more).SerializeToString()) == ("invalid_cloudevent", path)


def test_empty_message_is_invalid() -> None:
    """An empty message lacks the required attributes (K-24)."""
    assert failure(b"") == ("invalid_cloudevent", "specversion")


def test_a_batch_comes_apart(event_type: Any) -> None:
    """A batch is split into its events (K-22)."""
    kind = message_factory.GetMessageClass(FORMAT.parse(DOCUMENT, "Protobuf", link="Batch").descriptor)
    events = [event(event_type).SerializeToString(), event(event_type, text_data="x").SerializeToString()]
    batch: Any = kind()
    for event_ in events:
        batch.events.add().ParseFromString(event_)
    assert PROTOBUF.split(batch.SerializeToString()) == events
    assert PROTOBUF.split(b"") == []


@pytest.mark.parametrize("body", [b"\x0a\xff", b"[]", b"\xff"])
def test_invalid_batch_is_rejected(body: bytes) -> None:
    with pytest.raises(EventError, match="not a CloudEventBatch"):
        PROTOBUF.split(body)

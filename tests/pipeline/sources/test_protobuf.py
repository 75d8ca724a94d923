from collections.abc import Callable
from pathlib import Path

import pytest
from tests.pipeline.sources.test_avro import ReadMessage, messages_of

from signalbook.messages.cloudevents import CloudEvent
from signalbook.messages.eventformats import find_format
from signalbook.pipeline.sources import protobuf
from signalbook.pipeline.sources.base import Split
from signalbook.pipeline.sources.protobuf import BATCH, STREAM, ProtobufEvents

FORMAT = find_format("application/cloudevents+protobuf")
EVENTS = [
    FORMAT.encode(CloudEvent(attributes={"specversion": "1.0", "id": str(i), "source": "/s", "type": "t"}, body=body))
    for i, body in enumerate([b"", b"x" * 300, None, b"\n"])
]
Read = Callable[..., list[ReadMessage]]


def delimited(*events: bytes, tag: bytes = b"") -> bytes:
    """Return each event after its length as a varint."""
    return b"".join(tag + varint(len(event)) + event for event in events)


def varint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + varint(value >> 7)


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Return a function that reads the messages of a file with the given content: bytes, position and error."""

    def messages(content: bytes, source: ProtobufEvents = STREAM, name: str = "events.pb") -> list[ReadMessage]:
        path = tmp_path / name
        path.write_bytes(content)
        return list(messages_of(source, Split(path=str(path), start=0, end=len(content))))

    return messages


@pytest.mark.parametrize(("source", "tag"), [(STREAM, b""), (BATCH, b"\x0a")])
@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_events_are_found_at_any_block_size(
    read: Read, monkeypatch: pytest.MonkeyPatch, source: ProtobufEvents, tag: bytes, block: int
) -> None:
    """A position is where the tag and length of an event begin (K-22)."""
    monkeypatch.setattr(protobuf, "BLOCK", block)
    content = delimited(*EVENTS, tag=tag)
    messages = read(content, source)
    assert [raw for raw, _, _ in messages] == EVENTS
    assert all(
        content[position:].startswith(delimited(raw, tag=tag)) and not fault for raw, position, fault in messages
    )


def test_batches_contain_each_byte_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Reports and progress count the bytes of batches."""
    monkeypatch.setattr(protobuf, "BLOCK", 100)
    path = tmp_path / "events.pb"
    path.write_bytes(delimited(*EVENTS))
    batches = STREAM.read(Split(path=str(path), start=0, end=path.stat().st_size))
    assert sum(len(batch.content) for batch in batches) == path.stat().st_size


def test_batch_message_is_read_as_a_file(read: Read) -> None:
    """The batch of the format equals the content of such a file (K-22)."""
    content = delimited(*EVENTS, tag=b"\x0a")
    assert find_format("application/cloudevents-batch+protobuf").split(content) == EVENTS


@pytest.mark.parametrize("source", [STREAM, BATCH])
def test_an_empty_file_has_no_events(read: Read, source: ProtobufEvents) -> None:
    assert read(b"", source) == []


@pytest.mark.parametrize(
    ("source", "damaged", "words"),
    [
        (STREAM, b"\x05abc", "cut off"),
        (STREAM, b"\xff", "cut off"),
        (STREAM, b"\xff" * 12, "no varint"),
        (STREAM, b"\xff\xff\xff\xff\x7f" + b"x", "at most"),
        (BATCH, b"\x0a\x05abc", "cut off"),
        (BATCH, b"\x12\x01x", "no batch"),
        (BATCH, b'{"specversion": "1.0"}', "no batch"),
    ],
)
def test_damaged_rest_is_one_message(read: Read, source: ProtobufEvents, damaged: bytes, words: str) -> None:
    good = delimited(EVENTS[1], tag=source.tag)
    (first, _, none), (raw, position, fault) = read(good + damaged, source)
    assert (first, none, raw, position) == (EVENTS[1], "", damaged, len(good))
    assert words in fault


def test_a_file_of_something_else_is_not_read_to_its_end(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf, "MAX_EVENT", 1000)
    monkeypatch.setattr(protobuf, "BLOCK", 100)
    monkeypatch.setattr(protobuf, "KEPT", 10)
    ((raw, position, fault),) = read(b"\xff" * 5000)
    assert (raw, position) == (b"\xff" * 10, 0)
    assert "of more than 1000 bytes from here on the first 10 are kept" in fault

import pytest

from signalbook.messages.bindings.files import BINDING
from signalbook.messages.cloudevents import CloudEvent, Mode
from signalbook.messages.eventformats import JSON_EVENTS
from signalbook.messages.message import Message


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/cloudevents+json", Mode.STRUCTURED),
        ("application/cloudevents-batch+json", Mode.BATCH),
        ("application/json", Mode.NONE),
    ],
)
def test_modes(content_type: str, expected: Mode) -> None:
    """The content type determines the mode (K-21)."""
    message = Message(content_type=content_type, body=b"{}")
    assert BINDING.mode(message, BINDING.values(message)) is expected


def test_events_are_written_as_lines() -> None:
    """An event is written as one line of JSON (K-23)."""
    event = CloudEvent(attributes={"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, value={"a": "\n"})
    message = BINDING.encode(event, Mode.BINARY)
    assert b"\n" not in (message.body or b"")
    assert JSON_EVENTS.decode(message.body or b"").value == {"a": "\n"}

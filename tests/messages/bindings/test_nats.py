from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.messages.bindings.nats import BINDING, message
from signalbook.messages.cloudevents import CloudEvent, Mode
from signalbook.messages.eventformats import EventError
from signalbook.messages.message import Message
from signalbook.messages.properties import PropertyError

CE = [("ce-specversion", "1.0"), ("Ce-Id", "1"), ("ce-source", "/s"), ("ce-type", "t")]
EVENT = b' {"specversion":"1.0","id":"1","source":"/s","type":"t"}'


def mode(message_: Message) -> Mode:
    return BINDING.mode(message_, BINDING.values(message_))


def attributes(message_: Message) -> dict[str, Any]:
    return dict(BINDING.attributes(message_, BINDING.values(message_)))


def test_values_of_a_message() -> None:
    """Names of headers are case-insensitive (K-7, K-20)."""
    received = message("orders.new", b"body", [("A", "1"), ("a", "2"), ("CONTENT-TYPE", "t/x")], reply_to="back")
    assert BINDING.values(received) == {
        "subject": "orders.new", "reply-to": "back", "headers.a": ("1", "2"), "headers.content-type": ("t/x",),
    }  # fmt: skip
    assert (received.protocol, received.content_type) == ("NATS", "t/x")
    assert BINDING.identity(received, {}) == ""


@pytest.mark.parametrize(
    ("headers", "payload", "expected"),
    [
        ([("Content-Type", "application/cloudevents+json")], EVENT, Mode.STRUCTURED),
        ([("content-type", "APPLICATION/CloudEvents+json")], EVENT, Mode.STRUCTURED),
        (CE, b"", Mode.BINARY),
        ([*CE, ("ce-datacontenttype", "text/plain")], b"", Mode.BINARY),
        (CE[1:], b"", Mode.NONE),
        ([], EVENT, Mode.STRUCTURED),
        ([], b'{"id":"1"}', Mode.NONE),
        ([], b"21.5", Mode.NONE),
        ([], b"", Mode.NONE),
    ],
)
def test_modes(headers: list[tuple[str, str]], payload: bytes, expected: Mode) -> None:
    """Events without headers, as before NATS 2.2, are structured (K-21, K.5 NATS row)."""
    assert mode(message("x", payload, headers)) is expected


def test_binary_attributes() -> None:
    """Values are percent-decoded once after unquoting; datacontenttype has a header like the others (K.5 NATS row)."""
    more = [("ce-subject", "Euro%20%E2%82%AC"), ("ce-ext", '"a \\"b\\" %25"'), ("ce-datacontenttype", "text/plain")]
    assert attributes(message("x", b"", [*CE, *more])) == {
        "specversion": "1.0", "id": "1", "source": "/s", "type": "t", "subject": "Euro €", "ext": 'a "b" %',
        "datacontenttype": "text/plain",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("header", "complaint"), [(("ce-subject", "%C0%A0"), "not as UTF-8"), (("ce-id", "2"), "occurs 2 times")]
)
def test_invalid_attribute_headers_are_rejected(header: tuple[str, str], complaint: str) -> None:
    with pytest.raises(EventError, match=complaint):
        attributes(message("x", b"", [*CE, header]))


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip))
def test_attributes_survive_encoding_as_headers(text: str) -> None:
    """Encoded attributes are decoded to the same values (K-23)."""
    event = CloudEvent(attributes={"specversion": "1.0", "id": text, "source": "/s", "type": "t"}, value=[1])
    encoded = BINDING.encode(event, Mode.BINARY)
    assert all(value.isascii() and value.isprintable() for _, value in encoded.sections["headers"])
    assert attributes(encoded) == {**event.attributes, "datacontenttype": "application/json"}
    assert (mode(encoded), encoded.body) == (Mode.BINARY, b"[1]")
    assert mode(BINDING.encode(event, Mode.STRUCTURED)) is Mode.STRUCTURED


@pytest.mark.parametrize("reply", ["reply", "reply-to"])
def test_options(reply: str) -> None:
    """A placeholder matches a word between dots (K-11, F.7 NATS rows)."""
    normal, findings = BINDING.normalise({"subject": "orders.{shop}", reply: "back", "headers": {"H": "x"}})
    assert findings == []
    declared = {entry.name: entry for entry in BINDING.properties(normal)}
    assert list(declared) == ["subject", "reply-to", "headers.h"]
    assert (declared["subject"].separator, declared["subject"].role) == (".", "discriminator")


@pytest.mark.parametrize("options", [{"subject": 5}, {"reply-to": []}, {"headers": "x"}])
def test_options_of_the_wrong_shape(options: dict[str, Any]) -> None:
    with pytest.raises(PropertyError, match=r"protocoloptions\."):
        BINDING.properties(options)

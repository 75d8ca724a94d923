from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.messages.bindings.kafka import BINDING, record
from signalbook.messages.cloudevents import CloudEvent, Mode
from signalbook.messages.eventformats import EventError
from signalbook.messages.message import Message
from signalbook.messages.properties import PropertyError

CE = [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t")]


def mode(message: Message) -> Mode:
    return BINDING.mode(message, BINDING.values(message))


def attributes(message: Message) -> dict[str, Any]:
    return dict(BINDING.attributes(message, BINDING.values(message)))


def test_values_of_a_record() -> None:
    """Names of headers are case-sensitive; values that are no text stay bytes (K-7, K-20)."""
    headers = [("A", b"1"), ("a", b"2"), ("a", b"\xff"), ("content-type", b"t/x"), ("content-encoding", b"gzip")]
    message = record("orders", b"body", headers, key=b"k1", partition=3, offset=7)
    assert BINDING.values(message) == {
        "topic": "orders", "partition": 3, "key": "k1", "key_base64": b"k1", "headers.A": ("1",),
        "headers.a": ("2", b"\xff"), "headers.content-type": ("t/x",), "headers.content-encoding": ("gzip",),
    }  # fmt: skip
    assert (message.protocol, message.content_type, message.content_encoding) == ("KAFKA", "t/x", "gzip")
    assert BINDING.identity(message, {}) == "orders/3/7"


def test_a_record_without_key_or_place() -> None:
    message = record("orders", None)
    assert BINDING.values(message) == {"topic": "orders"}
    assert BINDING.identity(message, {}) == ""


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("content-type", b"application/cloudevents+json; charset=UTF-8")], Mode.STRUCTURED),
        ([("content-type", b"Application/CloudEvents+avro")], Mode.STRUCTURED),
        ([("content-type", b"application/json"), *CE], Mode.BINARY),
        (CE, Mode.BINARY),
        (CE[1:], Mode.NONE),
        ([("Ce_Id", b"1"), *CE[:1], *CE[2:]], Mode.NONE),
        ([("content-type", b"\xff")], Mode.NONE),
        ([], Mode.NONE),
    ],
)
def test_modes(headers: list[tuple[str, bytes]], expected: Mode) -> None:
    """K-21, K.5 KAFKA row"""
    assert mode(record("x", b"", headers)) is expected


def test_binary_attributes() -> None:
    """The values are unchanged UTF-8 (K.5 KAFKA row)."""
    headers = [*CE, ("ce_subject", "Größe %25".encode()), ("other", b"x"), ("content-type", b"text/plain")]
    assert attributes(record("x", b"", headers)) == {
        "specversion": "1.0", "id": "1", "source": "/s", "type": "t", "subject": "Größe %25",
        "datacontenttype": "text/plain",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (("ce_subject", b"\xc0\xa0"), "not in UTF-8"),
        (("ce_id", b"2"), "occurs 2 times"),
        (("ce_datacontenttype", b"a/b"), "drop ce_datacontenttype"),
    ],
)
def test_invalid_attribute_headers_are_rejected(header: tuple[str, bytes], message: str) -> None:
    with pytest.raises(EventError, match=message):
        attributes(record("x", b"", [*CE, header]))


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_attributes_survive_encoding_as_headers(text: str) -> None:
    """Encoded attributes are decoded to the same values (K-23)."""
    event = CloudEvent(attributes={"specversion": "1.0", "id": text, "source": "/s", "type": "t", "n": 5}, body=b"x")
    message = BINDING.encode(event, Mode.BINARY)
    assert attributes(message) == {"specversion": "1.0", "id": text, "source": "/s", "type": "t", "n": "5"}
    assert mode(message) is Mode.BINARY


def test_encoding() -> None:
    """K-23; an event without data is a record without value."""
    event = CloudEvent(attributes={"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, value={"a": 1})
    assert BINDING.encode(event, Mode.BINARY).content_type == "application/json"
    assert mode(BINDING.encode(event, Mode.STRUCTURED)) is Mode.STRUCTURED
    assert BINDING.encode(CloudEvent(attributes=event.attributes), Mode.BINARY).body is None


@pytest.mark.parametrize("headers", [{"h": "x"}, {"h": {"value": "x"}}, {"h": {"name": "h", "value": "x"}}])
def test_headers_may_be_written_in_several_ways(headers: dict[str, Any]) -> None:
    """K-11, F.7 KAFKA rows"""
    options = {"topic": "orders.{shop}", "key": "{order}", "partition": 1, "headers": headers}
    normal, findings = BINDING.normalise(options)
    assert findings == []
    declared = {entry.name: entry for entry in BINDING.properties(normal)}
    assert list(declared) == ["topic", "key", "partition", "headers.h"]
    assert [declared[name].role for name in declared] == ["discriminator", "plain", "delivery", "discriminator"]


def test_a_key_may_be_bytes() -> None:
    """F.7 KAFKA key_base64"""
    (declared,) = BINDING.properties({"key_base64": "/w=="})
    assert (declared.name, declared.type, declared.value) == ("key_base64", "binary", "/w==")


@pytest.mark.parametrize("options", [{"topic": 5}, {"key": {}}, {"key_base64": 5}, {"headers": "x"}, {"headers": [1]}])
def test_options_of_the_wrong_shape(options: dict[str, Any]) -> None:
    with pytest.raises(PropertyError, match=r"protocoloptions\."):
        BINDING.properties(options)

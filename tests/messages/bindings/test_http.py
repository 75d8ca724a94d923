from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.messages.bindings.http import BINDING, request
from signalbook.messages.cloudevents import CloudEvent, Mode
from signalbook.messages.eventformats import EventError
from signalbook.messages.message import Message
from signalbook.messages.properties import PropertyError

CE = [("ce-specversion", "1.0"), ("CE-ID", "1"), ("Ce-Source", "/s"), ("ce-type", "t")]


def mode(message: Message) -> Mode:
    return BINDING.mode(message, BINDING.values(message))


def attributes(message: Message) -> dict[str, Any]:
    return dict(BINDING.attributes(message, BINDING.values(message)))


def test_values_of_a_request() -> None:
    """Names of headers are case-insensitive, names of parameters are case-sensitive (K-7, K-20)."""
    message = request("post", "/a/b?x=1&X=2&x=", [("A", "1"), ("a", "2"), ("Content-Type", "t/x")], b"body")
    assert BINDING.values(message) == {
        "method": "POST", "path": "/a/b", "query.x": ("1", ""), "query.X": ("2",), "headers.a": ("1", "2"),
        "headers.content-type": ("t/x",),
    }  # fmt: skip
    assert (message.protocol, message.content_type, message.body) == ("HTTP", "t/x", b"body")


def test_values_of_a_response() -> None:
    """A response has a status and headers (K-7)."""
    message = Message(protocol="HTTP", sections={"status": "202", "headers": (("X-A", "1"),)})
    assert BINDING.values(message) == {"status": "202", "headers.x-a": ("1",)}


@pytest.mark.parametrize(
    ("content_type", "headers", "expected"),
    [
        ("application/cloudevents+json; charset=utf-8", [], Mode.STRUCTURED),
        ("Application/CloudEvents+avro", [], Mode.STRUCTURED),
        ("application/cloudevents-batch+json", [], Mode.BATCH),
        ("application/cloudevents+json", CE, Mode.STRUCTURED),
        ("application/json", CE, Mode.BINARY),
        ("", CE, Mode.BINARY),
        ("application/json", CE[1:], Mode.NONE),  # binary only with all four
        ("application/json", [], Mode.NONE),
    ],
)
def test_modes(content_type: str, headers: list[tuple[str, str]], expected: Mode) -> None:
    """Content type and headers determine the mode (K-21)."""
    head = [("Content-Type", content_type)] if content_type else []
    assert mode(request("POST", "/", head + headers, b"")) is expected


def test_binary_attributes() -> None:
    """Values are percent-decoded once after unquoting; the content type is datacontenttype (K.5 HTTP row)."""
    more = [("ce-subject", "Euro%20%E2%82%AC%20%F0%9F%98%80"), ("ce-ext", '"a \\"b\\" %25"'), ("X-Other", "x")]
    attributes_ = attributes(request("POST", "/", [*CE, *more, ("Content-Type", "text/plain")], b"x"))
    assert attributes_ == {
        "specversion": "1.0", "id": "1", "source": "/s", "type": "t", "subject": "Euro € 😀", "ext": 'a "b" %',
        "datacontenttype": "text/plain",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (("ce-subject", "%C0%A0"), "not as UTF-8"),
        (("ce-id", "2"), "occurs 2 times"),
        (("ce-datacontenttype", "a/b"), "drop ce-datacontenttype"),
    ],
)
def test_invalid_attribute_headers_are_rejected(header: tuple[str, str], message: str) -> None:
    """K.5 HTTP row"""
    with pytest.raises(EventError, match=message) as caught:
        attributes(request("POST", "/", [*CE, header], b""))
    assert caught.value.reason == "invalid_cloudevent"


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip))
def test_attributes_survive_encoding_as_headers(text: str) -> None:
    """Encoded attributes are decoded to the same values (K-23)."""
    event = CloudEvent(attributes={"specversion": "1.0", "id": text, "source": "/s", "type": "t", "n": 5}, body=b"x")
    message = BINDING.encode(event, Mode.BINARY)
    assert all(value.isascii() and value.isprintable() for _, value in message.sections["headers"])
    assert attributes(message) == {"specversion": "1.0", "id": text, "source": "/s", "type": "t", "n": "5"}
    assert mode(message) is Mode.BINARY


def test_encoding_states_the_content_type_json_implies() -> None:
    """JSON data gets the content type application/json (K-23)."""
    event = CloudEvent(attributes={"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, value={"a": 1})
    assert BINDING.encode(event, Mode.BINARY).content_type == "application/json"
    assert mode(BINDING.encode(event, Mode.STRUCTURED)) is Mode.STRUCTURED


@pytest.mark.parametrize(
    "options",
    [
        {"query": [{"name": "a", "value": "1"}], "headers": [{"name": "H", "value": "x"}]},
        {"query": {"a": "1"}, "headers": {"H": {"value": "x"}}},
    ],
)
def test_maps_and_lists_mean_the_same(options: dict[str, Any]) -> None:
    """K-11, F.7 HTTP rows"""
    normal, findings = BINDING.normalise({**options, "method": "post", "status": 200})
    assert findings == []
    assert (normal["method"], normal["status"]) == ("POST", "200")
    assert [item["name"] for item in normal["query"]] == ["a"]
    assert {declared.name for declared in BINDING.properties(normal)} == {"method", "status", "query.a", "headers.h"}


@pytest.mark.parametrize("headers", ["x", [1], [{"value": "x"}], [{"name": ""}]])
def test_options_of_the_wrong_shape(headers: Any) -> None:
    with pytest.raises(PropertyError, match=r"protocoloptions\.headers"):
        BINDING.properties({"headers": headers})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"method": "POST", "status": "200"}, {"exclusive"}),
        ({"method": "PO ST"}, {"value"}),
        ({"status": "999"}, {"value"}),
        ({"method": "PURGE"}, set()),
        ({"status": "200"}, set()),
    ],
)
def test_lint(options: dict[str, Any], expected: set[str]) -> None:
    """The option status excludes method (K-13, F.7)."""
    assert {finding.rule for finding in BINDING.lint(options)} == expected

from typing import Any

import pytest

from signalbook.messages.bindings.kafka import BINDING, record


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

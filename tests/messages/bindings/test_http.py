from typing import Any

import pytest

from signalbook.messages.bindings.http import BINDING, request
from signalbook.messages.message import Message


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

"""URIs and pointers."""

from __future__ import annotations

import pytest

from signalbook.formats.jsonschema.references import absolute, fragment_of, lookup, uri_of


@pytest.mark.parametrize(
    ("base", "reference", "document"),
    [
        ("https://example.com/a", "#/b", "https://example.com/a"),
        ("https://example.com/a", "b#/c", "https://example.com/b"),
        ("urn:a:b", "#/c", "urn:a:b"),
        ("https://example.com/x/a", "/y", "https://example.com/y"),
        ("https://example.com/a", "", "https://example.com/a"),
    ],
)
def test_references_become_absolute(base: str, reference: str, document: str) -> None:
    assert absolute(base, reference) == document


def test_pointers_are_followed() -> None:
    assert lookup({"a/b": [{"~": 3}]}, "/a~1b/0/~0") == 3
    assert lookup([1], "/1") is True
    assert lookup({}, "/none") is True
    assert lookup(5, "") == 5


def test_fragments_are_quoted_both_ways() -> None:
    uri = uri_of("https://example.com/a", "/x y/ü$")
    assert " " not in uri
    assert fragment_of(uri) == "/x y/ü$"

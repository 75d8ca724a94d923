from __future__ import annotations

import weakref

import pytest

from signalbook.messages.payloads.content import implied_content_type, is_implied, same_content_type


@pytest.mark.parametrize(
    ("declared", "actual", "expected"),
    [
        ("text/plain; charset=utf-8", "TEXT/Plain;CharSet=UTF-8", True),
        ("application/json", "application/json; charset=utf-8", True),  # more parameters than declared
        ("application/json; charset=utf-8", "application/json", False),
        ("multipart/x; boundary=A", "multipart/x; boundary=a", False),
        ('a/b; p="q"', "a/b;p=q", True),
        ("application/json", "text/json", False),
    ],
)
def test_declared_parameters_are_a_required_subset(declared: str, actual: str, expected: bool) -> None:
    """F-14, K-20"""
    assert same_content_type(declared, actual) is expected


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        ("JSONSchema/Draft-07", "application/json"),
        ("JsonStructure/draft-04", "application/json"),
        ("XSD/1.1", "application/xml"),
        ("XMLSchema/1.1", "application/xml"),
        ("Avro/1.11", "application/avro"),
        ("Protobuf/3", "application/protobuf"),
        ("Own/1", ""),
    ],
)
def test_a_schema_format_implies_a_content_type(format: str, expected: str) -> None:
    """F-33"""
    assert implied_content_type(format) == expected


@pytest.mark.parametrize(
    ("implied", "actual", "expected"),
    [
        ("application/json", "application/vnd.x+json; v=1", True),
        ("application/xml", "text/xml", True),
        ("application/xml", "image/svg+xml", True),
        ("application/avro", "avro/binary", True),
        ("application/avro", "application/vnd.apache.avro", True),
        ("application/protobuf", "application/x-protobuf", True),
        ("application/protobuf", "application/vnd.google.protobuf", True),
        ("application/avro", "application/json", False),
        ("application/json", "text/plain", False),
    ],
)
def test_an_implied_type_has_several_names(implied: str, actual: str, expected: bool) -> None:
    """F-33"""
    assert is_implied(implied, actual) is expected


class Text(str):
    """Text that can be seen to be gone."""


def test_long_texts_are_not_remembered() -> None:
    """Thousands of megabytes would be."""
    text = Text("text/plain;x=" + "y" * 1000)
    seen = weakref.ref(text)
    assert same_content_type("text/plain", text)
    assert not is_implied("application/xml", text)
    del text
    assert seen() is None

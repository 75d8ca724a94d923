"""Protobuf documents as tokens."""

from __future__ import annotations

from base64 import b64encode

import pytest

from signalbook.confluent.protobuf import declared_syntax, descriptor_text, file_descriptor, numbers, tokens


def test_tokens_are_what_is_no_white_space_and_no_comment() -> None:
    text = 'syntax="proto3"; // a\r\nmessage A{/* b\n */string a=1 [x="// \\" c"];}'
    expected = ["syntax", "=", '"proto3"', ";", "message", "A", "{", "string", "a", "=", "1"]
    assert tokens(text) == [*expected, "[", "x", "=", '"// \\" c"', "]", ";", "}"]
    assert tokens("int32 ab = 1;") != tokens("int32 a b = 1;")


def test_numbers_are_those_of_no_name() -> None:
    assert numbers("message A1 { int32 a2 = 3; reserved 4 to 6; }") == {"3", "4", "6"}


@pytest.mark.parametrize(
    ("text", "syntax"),
    [
        ('/* syntax = "proto2"; */ syntax = "proto3"; message A {}', "proto3"),
        ("// a\nedition='2023';", "editions"),
        ('syntax="proto2";', "proto2"),
        ('message A { string syntax = 1; }  // syntax = "proto3";', "proto2"),
        ("", "proto2"),
    ],
)
def test_a_document_declares_its_syntax(text: str, syntax: str) -> None:
    assert declared_syntax(text) == syntax


FIELDS = "repeated int32 a = 1 [features.repeated_field_encoding = EXPANDED]; A b = 2; map<string, bytes> c = 3;"


@pytest.mark.parametrize(
    "text",
    [
        f'edition = "2023"; package p; message A {{ {FIELDS} reserved gone; }}',
        'edition = "2023"; message A { string a = 1 [features.field_presence = LEGACY_REQUIRED, deprecated = true]; }',
        'edition = "2023"; option features.enum_type = CLOSED; enum E { A = 1; reserved B; reserved 2 to 5; }',
        'edition = "2024"; export message A { int32 a = 1; } local enum B { B_A = 0; }',
    ],
)
def test_a_descriptor_with_an_edition_is_printed_whole(text: str) -> None:
    descriptor = file_descriptor(text, lambda _: None)
    printed = descriptor_text(b64encode(descriptor).decode())
    assert printed is not None
    assert file_descriptor(printed, lambda _: None) == descriptor

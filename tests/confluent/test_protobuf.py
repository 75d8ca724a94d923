"""Protobuf documents as tokens."""

from __future__ import annotations

from signalbook.confluent.protobuf import numbers, tokens


def test_tokens_are_what_is_no_white_space_and_no_comment() -> None:
    text = 'syntax="proto3"; // a\r\nmessage A{/* b\n */string a=1 [x="// \\" c"];}'
    expected = ["syntax", "=", '"proto3"', ";", "message", "A", "{", "string", "a", "=", "1"]
    assert tokens(text) == [*expected, "[", "x", "=", '"// \\" c"', "]", ";", "}"]
    assert tokens("int32 ab = 1;") != tokens("int32 a b = 1;")


def test_numbers_are_those_of_no_name() -> None:
    assert numbers("message A1 { int32 a2 = 3; reserved 4 to 6; }") == {"3", "4", "6"}

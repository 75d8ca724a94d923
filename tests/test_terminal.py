"""Texts of strangers on a terminal."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.terminal import strip_controls


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("order.placed", "order.placed"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("no\u00a0break\u3000wide", "no\u00a0break\u3000wide"),
        ("\x1b[31mred\x1b[0m", "[31mred[0m"),
        ("\x1b]0;title\x07", "]0;title"),
        ("\x9b31m\x90x\x9c", "31mx"),
        ("a\rb\x08c\x7fd\x00e\x85f", "abcdef"),
        ("\u202eevil\u2066\u200f\u061c\ufeff", "evil"),
        ("a\u2028b\u2029c", "abc"),
        ("\ud800x", "x"),
    ],
)
def test_control_characters_are_removed(text: str, expected: str) -> None:
    assert strip_controls(text) == expected


@given(st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp", "L", "Zs"])))
def test_result_contains_no_control_characters(text: str) -> None:
    stripped = strip_controls(text)
    categories = {unicodedata.category(char) for char in stripped if char not in "\n\t"}
    assert categories <= {"Lu", "Ll", "Lt", "Lm", "Lo", "Zs"}
    assert strip_controls(stripped) == stripped

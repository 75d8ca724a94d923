"""Texts of strangers on a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.terminal import strip_controls


@pytest.mark.parametrize(
    ("text", "shown"),
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
def test_what_is_left_of_a_text(text: str, shown: str) -> None:
    assert strip_controls(text) == shown


@given(st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp", "L", "Zs"])))
def test_nothing_that_controls_a_terminal_is_left(text: str) -> None:
    shown = strip_controls(text)
    assert {unicodedata.category(char) for char in shown if char not in "\n\t"} <= {"Lu", "Ll", "Lt", "Lm", "Lo", "Zs"}
    assert strip_controls(shown) == shown

"""Which patterns every language reads alike; that they do is tested in each language."""

import re

import pytest

from signalbook.codegen.base import Inexpressible
from signalbook.codegen.standalone.patterns import linear, portable


@pytest.mark.parametrize(
    "pattern",
    [
        "", "^a$", r"^[A-Z]{2}\d{4,}$", r"^(?:a|b)+?$", r"^(?!x)(?<year>\d{4})-(?=0)",
        r"[^\]\-a-z_~&]*", r"\u00e9\x41\u{1F600}", "é{2}", "(a|)?",
        r"^\p{L}+\P{Nd}$", r"a{2}b{2,3}?c*", r"^\d{3}\-\d{4}\@\.$", r"(a)\1", "^/shops/[^/]+$", r"\bword\b",
        r"^[\w.-]+$", "[a-]", r"[-\d]",
    ],
)  # fmt: skip
def test_portable_patterns_are_unchanged(pattern: str) -> None:
    assert portable(pattern) == pattern


def test_white_space_matches_ecma_262() -> None:
    patterns = [portable(pattern).replace(r"\u{10ffff}", "\U0010ffff") for pattern in (r"^\s$", r"^[\S_]$")]
    spaces, non_spaces = map(re.compile, patterns)
    every = {chr(code) for code in range(0x110000)}
    assert {character for character in every if spaces.match(character)} == every - {
        character for character in every if non_spaces.match(character)
    }
    assert all(spaces.match(character) for character in "\t\n\v\f\r \u00a0\ufeff\u2003")
    assert portable(r"\\s") == r"\\s"


def test_a_dot_is_anything_but_a_line_feed() -> None:
    assert portable(r"^.\.[.]+.*$") == r"^[^\n]\.[.]+[^\n]*$"


@pytest.mark.parametrize(
    "pattern",
    [
        "(?i)abc", "(?i:a)", "(?x) a", "(?s).", "(?P<n>a)", r"\Aa\z", "[[:alpha:]]", "[[a]b]", "a}", "a]", "x{1,2}{3}",
        "a++", "a*+", r"\x{41}", r"\pL", r"\p{Greek}", r"\p{IsGreek}", "[]a]", "[^]a]", "[a&&b]", "[a--b]", "[a~~b]",
        r"[\b]", r"\h", r"\v", r"[\w-.]", r"[a-\d]", r"[\p{L}-z]",
        r"\Z", "^*", "(?=a)*?+", "{2}", "*a", r"\é", "(?>a)", "(?#a)", "a\\", "[a", "|+",
    ],
)  # fmt: skip
def test_unportable_patterns_are_reported(pattern: str) -> None:
    with pytest.raises(Inexpressible, match=re.escape(pattern)):
        portable(pattern)


@pytest.mark.parametrize(
    "pattern", [r"^(?:a|b)+?$", r"(?<year>\d{4})", "(?:a{10}){100}", "(a{500})|(b{500})", r"\(?=a"]
)
def test_linear_patterns_are_accepted(pattern: str) -> None:
    assert linear(pattern) == portable(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *("(?=a)", "^(?!x)", "(?<=a)b", "(?<!a)b", r"(a)\1", "a{1001}", "a{0,1001}", "(?:a{10}){101}"),
        "(" * 200 + ")" * 200,
    ],
)
def test_nonlinear_patterns_are_rejected(pattern: str) -> None:
    with pytest.raises(Inexpressible, match=re.escape(pattern[:100])):
        linear(pattern)

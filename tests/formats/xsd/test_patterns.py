"""Patterns mean in the linear engine what they mean in Python's."""

import re

import pytest
from elementpath.regex import translate_pattern
from hypothesis import given, settings
from hypothesis import strategies as st

from signalbook import work
from signalbook.formats.xsd import FORMAT
from signalbook.formats.xsd.patterns import LinearPattern

PATTERNS = [
    "a", "a*b+c?", "(ab|c){2,3}", "[a-c]*", "[^a-c]", r"\d{3}-[A-Z]+", r"\D", r"[\w]+", r"[^\w]", r"\s", r"\S*",
    r"\i\c*", r"\I", ".", ".*", r"[\w-[a-m]]", r"\p{Lu}\p{Ll}*", r"\P{L}", r"\p{IsBasicLatin}", r"[+\-]?\d+(\.\d+)?",
    "a{0}",
    "", "|a", r"\n", r"[\t\n]", "^", "$", r"\^a\$", "a|b|", "[-a]", "[a-]", "()", r"[\d.]+", r"[^\d]",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_both_engines_agree(pattern: str) -> None:
    python = re.compile(translate_pattern(pattern, back_references=False, lazy_quantifiers=False, anchors=False))
    linear = LinearPattern(pattern, "1.0")

    @given(text=st.text(st.sampled_from("abcmzAZ09 -+.:\n\t\r^$\u0660é\U0001f600"), max_size=6))
    @settings(deadline=None)
    def agree(text: str) -> None:
        assert (linear.match(text) is None) == (python.match(text) is None)

    agree()


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [
        ("a{1500}", 1500, 1500),
        ("a{0,2500}", 0, 2500),
        ("a{1001,}", 1001, 9000),
        ("(a{100}){50}", 5000, 5000),
        ("((a{40,50}){5}){8}", 1600, 2000),
    ],
)
def test_repetitions_beyond_the_limit_of_the_engine(pattern: str, least: int, most: int) -> None:
    linear = LinearPattern(pattern, "1.0")
    assert [bool(linear.match("a" * count)) for count in (least - 1, least, most)] == [least == 0, True, True]
    assert not linear.match("a" * 10_000) or pattern.endswith(",}")
    assert not linear.match("a" * most + "b")


@pytest.mark.parametrize(
    ("pattern", "matches"), [(r"\P{Cs}", True), (r"\p{Cs}", False), (r"[\p{Co}\p{Cs}]", False), (r"[^\p{Cs}]", True)]
)
def test_surrogates_are_no_characters(pattern: str, matches: bool) -> None:
    linear = LinearPattern(pattern, "1.0")
    assert bool(linear.match("a")) == matches
    assert not linear.match("\ud800")


@pytest.mark.parametrize(
    "pattern", ["(a", "[b", "a{2,1}", r"\p{Nothing}", "((((a{1000}){1000}){1000}){1000})+", "a" * 10_001]
)
def test_invalid_pattern_is_rejected(pattern: str) -> None:
    with pytest.raises(ValueError):
        LinearPattern(pattern, "1.1")


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"\w", "_", False),
        (r"\w", "+", True),
        (r"\W", "_", True),
        (r"\s", "\xa0", False),
        (r"\S", "\x0b", True),
        (r"\d", "\u0660", True),
    ],
)
def test_character_classes_follow_xml_schema(pattern: str, text: str, matches: bool) -> None:
    """Part 2, appendix on regular expressions: letters, marks, numbers and symbols; four kinds of space."""
    assert bool(LinearPattern(pattern, "1.1").match(text)) == matches


def test_only_text_matches() -> None:
    with pytest.raises(TypeError):
        LinearPattern("a", "1.1").match(3)  # type: ignore[arg-type]


def test_patterns_are_work() -> None:
    """Hundreds of patterns of a few characters take the translation minutes."""
    budget = work.Work(steps=30_000, seconds=0)
    schema = "".join(f'<xs:pattern value="\\w{{0,99}}\\p{{L}}{{0,99}}{i}"/>' for i in range(1000))
    document = (
        '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:simpleType name="t"><xs:restriction '
        f'base="xs:string">{schema}</xs:restriction></xs:simpleType></xs:schema>'
    ).encode()
    with pytest.raises(work.Postponed), budget.in_turn():
        assert work.compute_or_postpone("it", lambda: FORMAT.check(document, "XSD/1.0"), size=len(document)) is None
    with pytest.raises(work.TooComplex):
        budget.work_out()

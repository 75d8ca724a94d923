"""Example texts for patterns: they match, and hostile patterns have none."""

import re

import pytest

from signalbook.formats.patternexamples import MAX_CHARS, make_example


@pytest.mark.parametrize(
    "pattern",
    [
        "^P[0-9]{10}$", r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$", r"^\d{4}-(0[1-9]|1[0-2])$", r"^[\w.-]+$", "^[a-z0-9-]{1,63}$",
        r"^\/a\/b$", "^(?:EUR|USD)$", "^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$", r"^(\w)\1$", r"^\S.*$",
    ],
)  # fmt: skip
def test_ordinary_patterns_have_examples(pattern: str) -> None:
    example = make_example(pattern)
    assert example is not None
    assert re.search(pattern, example)
    assert example.isprintable()


@pytest.mark.parametrize(
    ("pattern", "least", "most"), [("^[A-Z]+$", 3, 9), ("^[A-Z]{2,8}$", 4, 8), ("^[a-z]*-[a-z]*$", 5, 30)]
)
def test_lengths_count(pattern: str, least: int, most: int) -> None:
    example = make_example(pattern, least, most)
    assert example is not None
    assert least <= len(example) <= most


@pytest.mark.parametrize(
    "pattern",
    [
        "a{1000000}", "((a{99}){99}){99}", f"a{{{'9' * 100}}}", r"[\u0000-\uffff]{200}", "[\u0000-\uffff]{200}",
        "[a--b]", "[[a]", r"\p{Lu}", "(", r"(\1a)", r"[^\s\S]",
        "(a)" + "".join(rf"(\{group}\{group}\{group}\{group})" for group in range(1, 15)), "a" * 1000,
        "^(?:" + "(?:a|" * 40 + "b" + ")" * 40 + "x{600})$",
    ],
)  # fmt: skip
def test_hostile_and_unknown_patterns_have_no_example(pattern: str) -> None:
    assert make_example(pattern) is None


def test_open_repetitions_that_are_nested_stay_short() -> None:
    example = make_example("(" * 20 + "a" + "+)" * 20, 10)
    assert example is None or len(example) <= MAX_CHARS
    assert make_example("(" * 20 + "a" + "+)" * 20) == "a"

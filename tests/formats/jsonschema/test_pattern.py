import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.formats.jsonschema import FORMAT
from signalbook.formats.jsonschema.pattern import find_lengths, translate
from signalbook.values import dump_json

TEXTS = [
    *("", "a", "ab", "abc", "a\n", "\n", "A1", "1", "12", "٣", "é", "a-b", "a.b", "]", "-", "^", "_", "\\", "a b"),
    "\u2028",
]
TRANSLATED = [
    "^[a-z]+$", "^[A-Z]{2}$", "^\\d{1,3}$", "^\\w+$", "abc", "[^a-z]", "^.$", "^a?b?$", "^(a|b)c$", "^(?:ab|cd)$",
    "\\.", "^[\\d.-]+$", "^a{2,}$", "a$", "^", "$", "", "^\\$", "^[a\\-z]$", "^[^\\]]$",
]  # fmt: skip
LEFT = [
    "(a+)+$", "^(a+)+$", "^(a|a)*$", "^a*a*b$", "^(?=a)b", "(a)\\1", "\\s", "\\bx", "a|b", "^a+?$", "^a{1,5000}$",
    "a+b", "[[:alpha:]]", "[a&&b]", "(", "a{", "[", "\\", "^(a?){30}a{30}$", "^(a|b|c|d)(a|b|c|d)(a|b|c|d)(a|b|c|d)$",
    "\\p{L}", "[\\s]", "^[]a]$", "^a{3,2}$", "x" * 1001,
]  # fmt: skip


@pytest.mark.parametrize("pattern", TRANSLATED)
def test_translations_mean_the_same(pattern: str) -> None:
    translated = translate(pattern)
    assert translated is not None
    validator = FORMAT.parse(dump_json({"pattern": pattern}), "JsonSchema/draft-07").validator
    for text in TEXTS:
        assert bool(re.search(translated, text)) == validator.is_valid(text), (pattern, translated, text)


@pytest.mark.parametrize("pattern", LEFT)
def test_unsupported_pattern_is_not_translated(pattern: str) -> None:
    assert translate(pattern) is None


@given(st.text(alphabet="ab^$.|?*+()[]{}\\dw-,12", max_size=10), st.text(alphabet="ab1-\n", max_size=6))
def test_any_translation_means_the_same(pattern: str, text: str) -> None:
    translated = translate(pattern)
    if translated is not None and not FORMAT.check(dump_json({"pattern": pattern}), "JsonSchema/draft-07"):
        validator = FORMAT.parse(dump_json({"pattern": pattern}), "JsonSchema/draft-07").validator
        assert bool(re.search(translated, text)) == validator.is_valid(text)


@pytest.mark.parametrize(
    ("pattern", "lengths"),
    [
        ("^[A-Z]{3}$", (3, 3)),
        ("^[A-Z]{2,3}-\\d?$", (3, 5)),
        ("^a{2,}b$", (3, None)),
        ("^a+$", (1, None)),
        ("ab", (2, None)),
        ("^a", (1, None)),
        ("^$", (0, 0)),
        ("", (0, None)),
        ("^a\\$", (0, None)),
        ("^(a|b)$", (0, None)),
        ("^a|b$", (0, None)),
        ("^\\bab$", (0, None)),
        ("^a+?$", (0, None)),
    ],
)
def test_lengths_of_matching_texts_are_bounded(pattern: str, lengths: tuple[int, int | None]) -> None:
    assert find_lengths(pattern) == lengths
    check = FORMAT.parse(dump_json({"pattern": pattern}), "JsonSchema/draft/2020-12").validator
    sizes = {len(text) for text in TEXTS if check.is_valid(text)}
    assert all(lengths[0] <= size and (lengths[1] is None or size <= lengths[1]) for size in sizes)

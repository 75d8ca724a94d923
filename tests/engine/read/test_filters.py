import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signalbook.engine.read.filters import Operand, Operator, as_instant, make_comparison, sort_key

NOON = datetime(2030, 12, 19, 12, tzinfo=UTC)
LESS, EQUAL, AT_LEAST = Operator.LESS, Operator.EQUAL, Operator.AT_LEAST


@pytest.mark.parametrize(
    ("value", "relation", "text", "expected"),
    [
        (True, EQUAL, "true", True),
        (True, EQUAL, "True", False),
        (False, LESS, "true", True),
        (True, LESS, "5", False),
        (5, EQUAL, "5.0", True),
        (5, EQUAL, "05", True),
        (5, EQUAL, "5x", False),
        (5, EQUAL, "5*", False),
        (10, LESS, "9", False),
        (10, AT_LEAST, "1e1", True),
        (2**70, AT_LEAST, str(2**70), True),
        (1, LESS, "1e999", True),
        (1, EQUAL, "nan", False),
        (1.5, AT_LEAST, "-3", True),
        ("Foo", EQUAL, "fOO", True),
        ("stra\u00dfe", EQUAL, "STRASSE", True),
        ("9", LESS, "10", False),
        ("b", LESS, "C", True),
        ("2030-12-19T12:00:00Z", EQUAL, "2030-12-19T13:00:00+01:00", False),
        (NOON, EQUAL, "2030-12-19T13:00:00+01:00", True),
        (NOON, LESS, "2030-12-19T12:00:00.5Z", True),
        (NOON, EQUAL, "2030-12-19t*", True),
        (NOON, AT_LEAST, "2030-12", True),
        ({"a": 1}, EQUAL, "x", False),
        ([1], AT_LEAST, "0", False),
    ],
)
def test_relations(value: Any, relation: Operator, text: str, expected: bool) -> None:
    """R186, R187."""
    assert make_comparison(relation, Operand(text))(value) is expected


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("a*c", "abbc", True),
        ("a*c", "ac", True),
        ("a*c", "acd", False),
        ("*b*", "abc", True),
        ("a*a", "a", False),
        ("*ab*ab*", "abab", True),
        ("*ab*ab*", "aab", False),
        (r"a\*c", "a*c", True),
        (r"a\*c", "abc", False),
        (r"\\*", "\\*", True),
        ("**", "", True),
        ("*COOL*", "so cool!", True),
    ],
)
def test_wildcards(pattern: str, text: str, expected: bool) -> None:
    r"""The text ``\*`` is a star; any other backslash is itself (R188)."""
    assert Operand(pattern).matches(text) is expected


@settings(deadline=None)
@given(st.text("ab*", max_size=12), st.text("ab", max_size=20))
def test_wildcards_match_like_regular_expressions(pattern: str, text: str) -> None:
    """The wildcard * matches any characters (R188)."""
    expected = re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), text) is not None
    assert Operand(pattern).matches(text) is expected


def test_wildcards_match_without_backtracking() -> None:
    """A regular expression would need years for this text."""
    assert not Operand("*a" * 900 + "b").matches("a" * 100_000)


def test_order_of_types() -> None:
    """A missing value is the lowest (R214)."""
    values: list[Any] = [None, False, True, -1, 0.5, 2**80, NOON, "", "A", "b"]
    shuffled = values[5:] + values[:5]
    assert sorted(shuffled, key=sort_key) == values
    assert sort_key({"a": 1}) == sort_key([1]) == sort_key(None)


def test_instants() -> None:
    assert as_instant("2030-12-19T13:00:00+01:00") == NOON
    assert (as_instant("soon"), as_instant(5)) == ("soon", 5)

"""The matching language: each word where it holds and where it does not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xregistry_conformance.matching import ABSENT, compare

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text().filter(lambda text: not text.startswith("~")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text().filter(lambda key: key[:1] != "~"), inner, max_size=3)
    ),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("expected", "fits", "fails"),
    [
        (1, 1, 2),
        (1, 1.0, True),
        (True, True, 1),
        (None, None, ABSENT),
        ("text", "text", "Text"),
        ("~~any", "~any", "any"),
        ("~any", 0, None),
        ("~absent", ABSENT, None),
        ("~string", "", 1),
        ("~uint", 0, -1),
        ("~uint", 5, True),
        ("~integer", -1, 1.5),
        ("~number", 1.5, "1.5"),
        ("~boolean", False, 0),
        ("~object", {}, []),
        ("~array", [], {}),
        ("~timestamp", "2030-01-01T00:00:00Z", "2030-01-01T00:00:00+01:00"),
        ("~timestamp", "2030-01-01T00:00:00.5Z", "2030-01-01"),
        ("~url", "https://example.com/a", "/a"),
        ("~re ^a+$", "aaa", "ab"),
        ("~contains b", "abc", "ac"),
        ("~starts a", "abc", "bc"),
        ("~ends c", "abc", "ab"),
        ("~ci Text", "tEXT", "texts"),
        ("~instant 2030-01-01T01:00:00+01:00", "2030-01-01T00:00:00Z", "2030-01-01T01:00:00Z"),
        ("~gt five", 6, 5),
        ("~gt noon", "2030-01-01T12:00:01Z", "2030-01-01T12:00:00Z"),
        ("~ne five", 6, 5),
        ([1, 2], [1, 2], [2, 1]),
        ([1], [1], [1, 2]),
        ({"a": 1}, {"a": 1, "b": 2}, {"b": 2}),
        ({"a": "~absent"}, {}, {"a": None}),
        ({"a": {"b": "~uint"}}, {"a": {"b": 1}}, {"a": 1}),
        ({"~keys": ["b", "a"]}, {"a": 1, "b": 2}, {"a": 1}),
        ({"~order": ["b", "a"]}, {"b": 2, "a": 1}, {"a": 1, "b": 2}),
        ({"~size": 0}, {}, {"a": 1}),
        ({"~size": 1}, [1], []),
        ({"~each": "~uint"}, {"a": 1}, {"a": -1}),
        ({"~each": "~uint"}, [1, 2], [1, "2"]),
        ({"~has": [2, "~string"]}, [1, 2, "x"], [1, 2]),
        ({"~each": {"t": "~string"}, "a": {"n": 1}}, {"a": {"t": "", "n": 1}}, {"a": {"n": 1}}),
    ],
)
def test_words(expected: Any, fits: Any, fails: Any) -> None:
    variables = {"five": 5, "noon": "2030-01-01T12:00:00Z"}
    assert compare(expected, fits, variables) == []
    assert compare(expected, fails, variables)


def test_captures() -> None:
    variables: dict[str, Any] = {}
    assert not compare({"epoch": "~uint >first", "self": "~any >self"}, {"epoch": 3, "self": "x"}, variables)
    assert variables == {"first": 3, "self": "x"}
    assert compare({"epoch": "~uint >second"}, {"epoch": "no"}, variables)
    assert "second" not in variables


def test_mismatches_contain_the_path() -> None:
    (mismatch,) = compare({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, {})
    assert str(mismatch) == "/a/0/b: expected 1, got 2"


def test_unknown_word_is_an_error() -> None:
    with pytest.raises(ValueError, match="~nonsense is no word"):
        compare("~nonsense", 1, {})


@given(JSON)
def test_every_value_matches_itself(value: Any) -> None:
    assert compare(value, value, {}) == []


@given(JSON, JSON)
def test_comparing_never_fails(expected: Any, actual: Any) -> None:
    compare(expected, actual, {})

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signalbook.engine.read.paths import MAX_STEPS, Steps, Wild, find_values, read_path, write_path


@pytest.mark.parametrize(
    ("text", "steps", "remainder"),
    [
        ("name", ("name",), ""),
        ("a.b=c.d", ("a", "b"), "=c.d"),
        ("a['b.c']<5", ("a", "b.c"), "<5"),
        ('a["b"].c', ("a", "b", "c"), ""),
        ("['a']", ("a",), ""),
        ("a[0][12]!=x", ("a", 0, 12), "!=x"),
        ("a['0']", ("a", "0"), ""),
        ("a.*", ("a", Wild.KEY), ""),
        ("a[*].b", ("a", Wild.ITEM, "b"), ""),
        ("a['*']", ("a", "*"), ""),
        ("a['=<>']=1", ("a", "=<>"), "=1"),
        ("labels.a-b:c", ("labels", "a-b:c"), ""),
    ],
)
def test_reading(text: str, steps: Steps, remainder: str) -> None:
    """A path is read up to its operator and written back (R189)."""
    assert read_path(text) == (steps, remainder)
    assert read_path(write_path(steps)) == (steps, "")


@pytest.mark.parametrize(
    "text", ["", "=a", ".a", "a.", "a..b", "a[", "a[]", "a[-1]", "a[b]", "a['b]", "a['b'", "a b", "ab*", "*a", "a.[0]",
             "a'b", "a]", "a[0]b", "a\n", ".".join("a" * (MAX_STEPS + 1))]
)  # fmt: skip
def test_invalid_path_is_rejected(text: str) -> None:
    """Malformed paths are rejected (R196)."""
    with pytest.raises(ValueError, match="path"):
        read_path(text)


VALUE: dict[str, Any] = {"a": {"x": 1, "y": None, "*": 2}, "l": [3, [4], {"b": 5}], "n": None}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((), [VALUE]),
        (("a", "x"), [1]),
        (("a", "y"), []),
        (("n",), []),
        (("a", Wild.KEY), [1, 2]),
        (("a", "*"), [2]),
        (("l", 0), [3]),
        (("l", 9), []),
        (("l", "0"), []),
        (("l", Wild.ITEM), [3, [4], {"b": 5}]),
        (("l", Wild.KEY), []),
        (("a", Wild.ITEM), []),
        (("l", Wild.ITEM, Wild.ITEM), [4]),
        (("l", Wild.ITEM, "b"), [5]),
        (("a", 0), []),
    ],
)
def test_finding(steps: Steps, expected: list[Any]) -> None:
    """Null is no value, and an index is no key (R183, R189)."""
    assert list(find_values(VALUE, steps)) == expected


STEPS = st.one_of(
    st.text(min_size=1).filter(lambda text: "'" not in text), st.integers(0, 999), st.sampled_from(list(Wild))
)


@settings(deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=MAX_STEPS))
def test_writing_reads_back(steps: list[Any]) -> None:
    assert read_path(write_path(steps)) == (tuple(steps), "")

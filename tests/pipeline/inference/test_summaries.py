"""Summaries of values: bounded, and the same however they are put together."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.inference.conftest import VALUES, summary

from signalbook.pipeline.inference.summaries import (
    DEEPEST,
    DEEPEST_CASE,
    MOST_CASES,
    MOST_MEMBERS,
    MemoryBudget,
    ValueSummary,
)


@given(st.lists(VALUES, max_size=6), st.lists(VALUES, max_size=6))
def test_merging_is_seeing_both(first: list[Any], second: list[Any]) -> None:
    merged = summary(*first)
    merged.merge(summary(*second), MemoryBudget())
    assert msgspec.to_builtins(merged) == msgspec.to_builtins(summary(*first, *second))


@given(st.lists(VALUES, max_size=6))
def test_a_summary_travels(values: list[Any]) -> None:
    seen = summary(*values)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(seen), type=ValueSummary) == seen


def test_objects_with_very_many_names_are_bounded() -> None:
    seen = summary({str(number): number for number in range(MOST_MEMBERS + 5)})
    assert len(seen.members) == MOST_MEMBERS
    assert seen.others is not None
    assert seen.others.integers == 5


def test_without_room_nothing_new_is_remembered() -> None:
    seen, room = ValueSummary(), MemoryBudget(left=2000)
    for number in range(1000):
        seen.take({f"m{number}": {"x" * number: str(number)}}, room)
    assert len(msgspec.msgpack.encode(seen)) < 2000
    assert (seen.objects, seen.others is None) == (1000, False)


def test_very_deep_values_are_ignored() -> None:
    value: Any = 1
    for _ in range(1000):
        value = [value]
    seen, depth = summary(value), 0
    while seen.items is not None:
        seen, depth = seen.items, depth + 1
    assert depth == DEEPEST


def test_objects_are_separated_by_their_discriminator() -> None:
    seen = summary({"type": "a", "n": 1}, {"type": "b"}, {"type": "a", "n": None})
    assert seen.cases is not None
    expected = {"a": (2, ["n", "type"]), "b": (1, ["type"])}
    assert {text: (case.objects, sorted(case.members)) for text, case in seen.cases.items()} == expected
    assert seen.members == {}
    assert (seen.merge_cases().members["type"].texts.count, seen.merge_cases().members["n"].nulls) == (3, 1)


@pytest.mark.parametrize(
    "values",
    [
        [{"type": "a"}, {"n": 1}],
        [{"type": "a"}, {"kind": "a"}],
        [{"type": "a"}, {"type": 1}],
        [{"type": "a"}, {"type": "x" * 65}],
        [{"type": str(number)} for number in range(MOST_CASES + 1)],
    ],
    ids=["not in all", "another member", "no text", "long text", "too many"],
)
def test_member_that_is_not_in_all_objects_is_no_discriminator(values: list[Any]) -> None:
    for order in (values, values[::-1]):
        seen = summary(*order)
        assert (seen.cases, seen.by) == (None, "")
        assert sum(member.count for member in seen.members.values()) == len(values)


def test_strange_values_do_not_fill_the_memory() -> None:
    """Members that tell apart, within each other, make no more places than there is room for."""
    room, seen = MemoryBudget(left=50_000), ValueSummary()
    for number in range(2000):
        value: Any = {}
        for depth in range(12):
            value = {"type": f"t{number * (depth + 1) % 31}", "x": value}
        seen.take(value, room)
    assert len(msgspec.msgpack.encode(seen)) < 50_000
    assert seen.objects == 2000


def test_deep_objects_are_not_separated() -> None:
    value: Any = {"type": "a"}
    for _ in range(DEEPEST_CASE):
        value = {"type": "a", "x": value}
    seen, depth = summary(value), 0
    while seen.cases:
        seen, depth = seen.cases["a"].members["x"], depth + 1
    assert depth == DEEPEST_CASE
    assert seen.cases is None

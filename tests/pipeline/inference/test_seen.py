"""Summaries of values: bounded, and the same however they are put together."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.pipeline.inference.seen import DEEPEST, MOST_MEMBERS, MOST_TEXTS, Room, Seen, Texts

from .conftest import VALUES, summary


@given(st.lists(VALUES, max_size=6), st.lists(VALUES, max_size=6))
def test_merging_is_seeing_both(first: list[Any], second: list[Any]) -> None:
    merged = summary(*first)
    merged.merge(summary(*second), Room())
    assert msgspec.to_builtins(merged) == msgspec.to_builtins(summary(*first, *second))


@given(st.lists(VALUES, max_size=6))
def test_a_summary_travels(values: list[Any]) -> None:
    seen = summary(*values)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(seen), type=Seen) == seen


@pytest.mark.parametrize(
    ("texts", "formats"),
    [
        (["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.5+01:00"], ["date-time"]),
        (["2026-01-02"], ["date"]),
        (["2026-13-02"], []),
        (["0a0a0a0a-1111-2222-3333-444444444444"], ["uuid"]),
        (["a.b@example.com"], ["email"]),
        (["127.0.0.1", "8.8.8.8"], ["ipv4"]),
        (["256.0.0.1"], []),
        (["https://example.com/a", "urn:a://b"], ["uri"]),
        (["https://example.com/a", ""], []),
    ],
)
def test_formats_are_those_of_all_texts(texts: list[str], formats: list[str]) -> None:
    assert summary(*texts).texts.formats == formats


def test_texts_are_kept_while_they_are_few_and_short() -> None:
    assert summary("a", "b", "a").texts.values == {"a": 2, "b": 1}
    assert summary("x" * 1000).texts.values is None
    many = summary(*(str(number) for number in range(MOST_TEXTS + 1)))
    assert (many.texts.values, many.texts.count) == (None, MOST_TEXTS + 1)
    halves = [Texts(count=40, values={f"{half}{n}": 1 for n in range(40)}, formats=[]) for half in "ab"]
    halves[0].merge(halves[1], Room())
    assert halves[0].values is None


def test_objects_with_very_many_names_are_bounded() -> None:
    seen = summary({str(number): number for number in range(MOST_MEMBERS + 5)})
    assert len(seen.members) == MOST_MEMBERS
    assert seen.others is not None
    assert seen.others.integers == 5


def test_without_room_nothing_new_is_remembered() -> None:
    seen, room = Seen(), Room(left=2000)
    for number in range(1000):
        seen.take({f"m{number}": {"x" * number: str(number)}}, room)
    assert len(msgspec.msgpack.encode(seen)) < 2000
    assert (seen.objects, seen.others is None) == (1000, False)


def test_what_lies_very_deep_is_not_looked_at() -> None:
    value: Any = 1
    for _ in range(1000):
        value = [value]
    seen, depth = summary(value), 0
    while seen.items is not None:
        seen, depth = seen.items, depth + 1
    assert depth == DEEPEST

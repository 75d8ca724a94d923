"""Columns of batches: extension attributes, and numbers that stand for values."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.messages.cloudevents import Attribute, format_attribute
from signalbook.pipeline.processing.batch import ExtensionColumn, find_firsts, group_by_number, make_dense

MIXED: list[Attribute | None] = ["1", 1, True, "true", False, None, 1, -7]
KINDS = {str: 0, bool: 1, int: 2}
COLUMNS: list[list[Attribute | None]] = [[], [None, None], ["a", None, "", "a"], MIXED]


def make_column(values: list[Attribute | None]) -> ExtensionColumn:
    texts = [None if value is None else format_attribute(value) for value in values]
    kinds = np.array([KINDS.get(type(value), 0) for value in values], np.uint8)
    return ExtensionColumn(pa.array(texts, pa.string()), kinds if kinds.any() else None)


@pytest.mark.parametrize("values", COLUMNS)
def test_values_survive_a_round_trip(values: list[Attribute | None]) -> None:
    column = make_column(values)
    codes, distinct = column.encode()
    for again in ([column.value(number) for number in range(len(values))], [distinct[code] for code in codes.tolist()]):
        assert [(type(value), value) for value in again] == [(type(value), value) for value in values]
    assert len({(type(value), value) for value in distinct}) == len(distinct)


@pytest.mark.parametrize("values", COLUMNS)
def test_columns_are_joined(values: list[Attribute | None]) -> None:
    parts = [(make_column(values), len(values)), (None, 2), (make_column(["z"]), 1)]
    joined = ExtensionColumn.join(parts)
    assert [joined.value(number) for number in range(len(values) + 3)] == [*values, None, None, "z"]


@pytest.mark.parametrize("more", [1, 10**9])
@given(st.lists(st.integers(0, 30)))
def test_numbers_become_dense_and_grouped(more: int, raw: list[int]) -> None:
    numbers = np.array(raw, np.int64) * more
    distinct, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    places, count = make_dense(numbers, 31 * more)
    assert (places.tolist(), count) == (inverse.tolist(), len(distinct))
    assert find_firsts(places, count).tolist() == first.tolist()
    expected = [np.flatnonzero(numbers == number).tolist() for number in distinct]
    assert [group.tolist() for group in group_by_number(numbers, 31 * more)] == expected


def test_empty_array_has_no_numbers() -> None:
    assert make_dense(np.arange(0), 0)[1] == 0
    assert list(group_by_number(np.arange(0), 0)) == []

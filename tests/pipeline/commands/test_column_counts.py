"""Counts of the values of columns, and what becomes of them when they are merged."""

import math
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from signalbook.pipeline.commands.column_counts import RowCounts, count_rows

TIME = datetime(2026, 1, 2, 3, 4, 5, 600000, UTC)
NESTED = pa.struct([("b", pa.struct([("c", pa.string())]))])


def batches(kind: pa.DataType, *parts: list[Any]) -> list[pa.RecordBatch]:
    return [pa.record_batch({"a": pa.array(part, kind)}) for part in parts]


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (pa.int64(), [3, None, 1, 3], (3, 1, 3, 2)),
        (pa.float32(), [math.nan, 2.5, -1.0], (3, -1.0, 2.5, 3)),
        (pa.bool_(), [True, True], (2, True, True, 1)),
        (pa.string(), ["b", "", None, "\U0001f600", "\uffff"], (4, "", "\U0001f600", 4)),
        (pa.binary(), [b"\xff", b"\x00"], (2, b"\x00", b"\xff", 2)),
        (pa.decimal128(38, 18), [Decimal("1.5"), Decimal("-2")], (2, Decimal("-2"), Decimal("1.5"), 2)),
        (pa.date32(), [date(2026, 1, 2), date(1, 1, 1)], (2, date(1, 1, 1), date(2026, 1, 2), 2)),
        (pa.timestamp("us", "UTC"), [TIME, None], (1, TIME, TIME, 1)),
        (pa.list_(pa.int32()), [[1, 2], None, []], (2, 0, 2, 0)),
        (pa.map_(pa.string(), pa.int32()), [[("x", 1)], None], (1, 1, 1, 0)),
        (NESTED, [{"b": {"c": "x"}}, {"b": None}, None], (1, "x", "x", 1)),
        (pa.int32(), [], (0, None, None, 0)),
        (pa.int32(), [None], (0, None, None, 0)),
    ],
)
def test_columns_of_all_types(kind: pa.DataType, values: list[Any], expected: tuple[Any, ...]) -> None:
    columns = pa.schema([("a", kind)])
    whole = count_rows(columns, batches(kind, values))
    parts = RowCounts.of(columns)
    for value in values:
        parts.merge(pickle.loads(pickle.dumps(count_rows(columns, batches(kind, [value])))))
    for counts in (whole, parts, count_rows(columns, batches(kind, values[:1], values[1:]))):
        (column,) = counts.columns
        assert counts.rows == len(values)
        assert (column.present, column.least, column.most, column.distinct) == expected


def test_many_distinct_values_are_estimated_within_5_percent() -> None:
    columns = pa.schema([("a", pa.string())])
    numbers = [*range(60_000), *range(40_000)]
    parts = [[f"order-{number}" for number in numbers[at : at + 7_000]] for at in range(0, len(numbers), 7_000)]
    (column,) = count_rows(columns, batches(pa.string(), *parts)).columns
    assert column.present == 100_000
    assert 57_000 < column.distinct < 63_000


def test_distinct_count_does_not_exceed_the_row_count() -> None:
    columns = pa.schema([("a", pa.int64())])
    for count in (4_000, 4_096, 4_097, 5_000):
        (column,) = count_rows(columns, batches(pa.int64(), list(range(count)))).columns
        assert column.distinct <= count

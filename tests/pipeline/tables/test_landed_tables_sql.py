"""Columns as Spark's SQL says them."""

import pyarrow as pa
import pytest

from signalbook.pipeline.tables.evolution import select_readable
from signalbook.pipeline.tables.landed_tables import (
    JSON_TIMES,
    build_selection,
    convert_expression,
    format_ddl,
    format_spark_type,
)

INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.bool_(), "BOOLEAN"),
        (pa.timestamp("us", "UTC"), "TIMESTAMP"),
        (pa.decimal128(9, 2), "DECIMAL(9, 2)"),
        (pa.list_(INT), "ARRAY<INT>"),
        (pa.map_(TEXT, LONG), "MAP<STRING, BIGINT>"),
        (pa.struct([("a`b", INT), ("c", pa.list_(TEXT))]), "STRUCT<`a``b`: INT, `c`: ARRAY<STRING>>"),
    ],
)
def test_types(kind: pa.DataType, text: str) -> None:
    assert format_spark_type(kind) == text
    assert format_ddl(pa.schema([("x`y", kind)])) == f"`x``y` {text}"


@pytest.mark.parametrize(
    ("kind", "wanted_type", "text"),
    [
        (INT, INT, "c"),
        (INT, LONG, "CAST(c AS BIGINT)"),
        (INT, TEXT, "CAST(c AS STRING)"),
        (pa.list_(INT), TEXT, f"to_json(c, {JSON_TIMES})"),
        (pa.list_(INT), pa.list_(LONG), "transform(c, x0 -> CAST(x0 AS BIGINT))"),
        (pa.map_(TEXT, INT), pa.map_(TEXT, LONG), "transform_values(c, (k0, x0) -> CAST(x0 AS BIGINT))"),
        (
            pa.struct([("a", INT)]),
            pa.struct([("a", INT), ("it's", TEXT)]),
            "IF(c IS NULL, NULL, named_struct('a', c['a'], 'it\\'s', CAST(NULL AS STRING)))",
        ),
    ],
)
def test_a_column_in_another_type(kind: pa.DataType, wanted_type: pa.DataType, text: str) -> None:
    assert convert_expression("c", kind, wanted_type) == text


def test_times_of_day_are_left_out() -> None:
    at = pa.time64("us")
    columns = pa.schema(
        [
            ("a", INT),
            ("t", at),
            ("s", pa.struct([("t", at), ("b", INT)])),
            ("l", pa.list_(at)),
            ("m", pa.map_(TEXT, pa.struct([("t", at)]))),
            ("n", pa.map_(TEXT, INT)),
        ]
    )
    assert select_readable(columns) == pa.schema(
        [("a", INT), ("s", pa.struct([("b", INT)])), ("n", pa.map_(TEXT, INT))]
    )


def test_columns_are_found_in_any_case_of_letters() -> None:
    there, requested = pa.schema([("Total", INT)]), pa.schema([("total", INT), ("more", TEXT)])
    assert build_selection(there, requested) == ["`Total`", "CAST(NULL AS STRING)"]

"""Columns of tables in Spark's words, held to what Spark reads in them."""

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from signalbook.messages import CompiledDefinition, Contract
from signalbook.pipeline.tables.ddl import list_table_columns

XID = "/messagegroups/g/messages/m"
FIELDS: list[dict[str, Any]] = [
    {"name": "n", "type": ["null", "int"], "doc": "it's a `doc` -- with \\ and\nlines"},
    {"name": "fare", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}},
    {"name": "at", "type": {"type": "int", "logicalType": "time-millis"}},
    {"name": "ce_id", "type": {"type": "map", "values": {"type": "array", "items": "long"}}},
    {"name": "inner", "type": {"type": "record", "name": "I", "fields": [
        {"name": "on", "type": "boolean", "doc": "in 'it'"}]}},
    {"name": "kind", "type": {"type": "enum", "name": "E", "symbols": ["b", "a"]}},
]  # fmt: skip


def definition(**more: Any) -> CompiledDefinition:
    schema = {"type": "record", "name": "R", "fields": FIELDS}
    message = {"dataschemaformat": "Avro/1.11", "dataschema": schema, **more}
    return Contract.compile({XID: message}, lambda _: None).definitions[XID]


def test_spark_reads_the_landed_columns(spark_session: SparkSession) -> None:
    columns = list_table_columns(definition())
    read: Any = StructType.fromDDL(", ".join(column.definition for column in columns))
    assert read.names == [column.name for column in columns]
    assert [column.dataType.simpleString() for column in read] == [
        column.spark_type.simpleString() for column in columns
    ]
    assert read["n"].metadata == {"comment": "it's a `doc` -- with \\ and\nlines"}
    assert read["inner"].dataType["on"].metadata == {"comment": "in 'it'"}


def test_times_of_day_require_a_flag() -> None:
    assert "at" not in [column.name for column in list_table_columns(definition())]
    assert {column.name: column.type for column in list_table_columns(definition(), times=True)}["at"] == "TIME"


def test_required_columns() -> None:
    columns = {column.name: column for column in list_table_columns(definition(), times=True)}
    assert [columns[name].required for name in ("n", "fare", "ce_id_", "ce_id", "_batch", "_source")] == [
        False, True, True, False, True, False,
    ]  # fmt: skip
    assert columns["kind"].values == ("a", "b")

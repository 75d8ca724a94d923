"""Columns of one table as Spark's SQL, in the types that all tables of a definition share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

_TYPES: Final = {
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    pa.timestamp("us", "UTC"): "TIMESTAMP",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
}


def readable(columns: pa.Schema) -> pa.Schema:
    """``columns`` without times of day, at any depth: Spark has no type for them and refuses such a table."""
    return pa.schema(_readable(columns))


def _readable(fields: Iterable[pa.Field]) -> list[pa.Field]:
    kinds = ((field, _kind(field.type)) for field in fields)
    return [field.with_type(kind) for field, kind in kinds if kind is not None]


def _kind(kind: pa.DataType) -> pa.DataType | None:
    """The type without times of day; ``None`` if nothing is left of it."""
    if pa.types.is_time(kind):
        return None
    if pa.types.is_struct(kind):
        members = _readable(kind)
        return pa.struct(members) if members else None
    if pa.types.is_list(kind):
        item = _kind(kind.value_type)
        return None if item is None else pa.list_(kind.value_field.with_type(item))
    if pa.types.is_map(kind):
        value = _kind(kind.item_type)
        return None if value is None else pa.map_(kind.key_type, value)
    return kind


def quoted(name: str) -> str:
    """A name as an identifier."""
    return f"`{name.replace('`', '``')}`"


def spark_type(kind: pa.DataType) -> str:
    """The type of Spark's SQL for a column's type."""
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_list(kind):
        return f"ARRAY<{spark_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"MAP<{spark_type(kind.key_type)}, {spark_type(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{quoted(field.name)}: {spark_type(field.type)}' for field in kind)}>"
    return _TYPES.get(kind, "STRING")


def ddl(columns: pa.Schema) -> str:
    """The columns as a schema for ``spark.read.schema``."""
    return ", ".join(f"{quoted(field.name)} {spark_type(field.type)}" for field in columns)


def selection(there: pa.Schema, wanted: pa.Schema) -> list[str]:
    """An expression for each column of ``wanted``, over a table with the columns ``there``; null where it has none."""
    known = {field.name.lower(): field for field in there}
    found = []
    for field in wanted:
        own = known.get(field.name.lower())
        value = _null(field.type) if own is None else converted(quoted(own.name), own.type, field.type)
        found.append(f"{value} AS {quoted(field.name)}")
    return found


def converted(text: str, kind: pa.DataType, wanted: pa.DataType, depth: int = 0) -> str:
    """The expression ``text`` of one type, as an expression of another that ``evolution.as_text`` made of it."""
    if kind == wanted:
        return text
    if wanted == pa.string():
        nested = pa.types.is_struct(kind) or pa.types.is_list(kind) or pa.types.is_map(kind)
        return f"to_json({text})" if nested else f"CAST({text} AS STRING)"
    if pa.types.is_struct(kind):
        return f"IF({text} IS NULL, NULL, named_struct({_members(text, kind, wanted, depth)}))"
    item = f"x{depth}"
    if pa.types.is_list(kind):
        return f"transform({text}, {item} -> {converted(item, kind.value_type, wanted.value_type, depth + 1)})"
    if pa.types.is_map(kind):
        value = converted(item, kind.item_type, wanted.item_type, depth + 1)
        return f"transform_values({text}, (k{depth}, {item}) -> {value})"
    return f"CAST({text} AS {spark_type(wanted)})"


def _members(text: str, kind: pa.DataType, wanted: pa.DataType, depth: int) -> str:
    known = {field.name.lower(): field for field in kind}
    parts = []
    for field in wanted:
        own = known.get(field.name.lower())
        if own is None:
            value = _null(field.type)
        else:
            value = converted(f"{text}.{quoted(own.name)}", own.type, field.type, depth)
        parts.append(f"{_text(field.name)}, {value}")
    return ", ".join(parts)


def _null(kind: pa.DataType) -> str:
    return f"CAST(NULL AS {spark_type(kind)})"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"

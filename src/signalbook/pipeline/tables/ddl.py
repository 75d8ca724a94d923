"""The columns of a definition's table, described in Spark SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from signalbook.formats import Struct
from signalbook.messages import CompiledDefinition
from signalbook.pipeline import columns
from signalbook.pipeline.table_names import TableName, build_table_name, quote_name
from signalbook.pipeline.tables.evolution import select_readable
from signalbook.pipeline.tables.layout import find_layout
from signalbook.pipeline.tables.spark_sql import quote_identifier, quote_string


@dataclass(frozen=True, kw_only=True)
class TableColumn:
    """A column of a landed table. ``field`` is its Arrow field in the files.

    ``required`` is True if every row of a conforming message has a value. ``values`` are the only values that the
    definition allows, if it lists them and all are text, else empty.
    """

    field: pa.Field
    required: bool
    values: tuple[str, ...]

    @property
    def name(self) -> str:
        return str(self.field.name)

    @property
    def description(self) -> str:
        """The definition's description of the column."""
        return _read_doc(self.field)

    @cached_property
    def type(self) -> str:
        """The type of the column as Spark SQL shows it. It is not safe to use in a statement."""
        return _format_type(self.field.type, _format_shown_member)

    @property
    def definition(self) -> str:
        """The column's part of a CREATE TABLE statement: its name, its type and the descriptions."""
        data_type = _format_type(self.field.type, _format_defined_member)
        return f"{quote_identifier(self.name)} {data_type}{build_comment_clause(self.description)}"

    @property
    def spark_type(self) -> DataType:
        """The type in PySpark. There is no type for times of day."""
        data_type: DataType = from_arrow_type(self.field.type)
        return data_type

    @property
    def spark_source(self) -> str:
        """The Python expression that creates the type in PySpark."""
        return _build_type_source(self.spark_type)


def find_landing_table(definition: CompiledDefinition) -> TableName:
    """Return the first table in which messages of ``definition`` land."""
    return build_table_name(definition.xid)


def list_table_columns(definition: CompiledDefinition, *, times: bool = False) -> tuple[TableColumn, ...]:
    """Return the columns of the table in which messages of ``definition`` land.

    Columns with times of day are included only if ``times`` is True, because Spark has no type for them.
    """
    landed = columns.decode_constants(find_layout(definition).columns)
    members = tuple(_list_members(definition))
    required, values = _find_required(definition, members), _find_values(definition, members)
    return tuple(
        TableColumn(field=field, required=field.name in required, values=values.get(field.name, ()))
        for field in (landed if times else select_readable(landed))
    )


_ALWAYS: Final = frozenset(("ce_id", "ce_source", "ce_type"))
_KNOWN: Final = frozenset(("_definition", "_fingerprint", "_batch", "_landed_at"))


# A member of the payload: the name of its column, its own name, and True if it always has a value.
_Member: TypeAlias = tuple[str, str, bool]


def _list_members(definition: CompiledDefinition) -> Iterator[_Member]:
    table_layout = find_layout(definition)
    shape = table_layout.shape
    if isinstance(shape, Struct) and shape.fields and not shape.nullable:
        # The columns of the payload are in the order of its members, but some have other names than their members.
        start = len(columns.ENVELOPE)
        names = table_layout.columns.names[start : start + table_layout.width]
        for name, member in zip(names, shape.fields, strict=True):
            yield name, member.name, member.required and not member.shape.nullable


def _find_required(definition: CompiledDefinition, members: Iterable[_Member]) -> frozenset[str]:
    always_present = {column for column, _, always in members if always}
    return _KNOWN | always_present | (_ALWAYS if definition.is_event else frozenset())


def _find_values(definition: CompiledDefinition, members: Iterable[_Member]) -> dict[str, tuple[str, ...]]:
    constants = definition.constants
    constants_by_column = {column: constants[name] for column, name, _ in members if name in constants}
    texts = {
        column: tuple(sorted(map(str, values)))
        for column, values in constants_by_column.items()
        if _is_all_text(values)
    }
    return {column: values for column, values in texts.items() if values}


def _is_all_text(values: frozenset[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _read_doc(field: pa.Field) -> str:
    return str((field.metadata or {}).get(b"doc", b""), "utf-8", "replace")


def build_comment_clause(description: str, separator: str = " ") -> str:
    """Return ``separator`` and the COMMENT clause of a column or table; "" without a description."""
    return f"{separator}COMMENT {quote_string(description)}" if description else ""


def _format_type(kind: pa.DataType, write_member: Callable[[pa.Field], str]) -> str:
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(map(write_member, kind))}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{_format_type(kind.value_type, write_member)}>"
    if pa.types.is_map(kind):
        return f"MAP<{_format_type(kind.key_type, write_member)}, {_format_type(kind.item_type, write_member)}>"
    if pa.types.is_time(kind):
        return "TIME"
    spark_type: DataType = from_arrow_type(kind)
    return str(spark_type.simpleString()).upper()


def _format_shown_member(field: pa.Field) -> str:
    return f"{quote_name(field.name)}: {_format_type(field.type, _format_shown_member)}"


def _format_defined_member(field: pa.Field) -> str:
    data_type = _format_type(field.type, _format_defined_member)
    return f"{quote_identifier(field.name)}: {data_type}{build_comment_clause(_read_doc(field))}"


def _build_type_source(kind: DataType) -> str:
    """Return the Python expression that creates ``kind``. The ``repr`` of PySpark's types does not escape names."""
    match kind:
        case StructType():
            fields = (f"StructField({f.name!r}, {_build_type_source(f.dataType)}, {f.nullable})" for f in kind.fields)
            return f"StructType([{', '.join(fields)}])"
        case ArrayType():
            return f"ArrayType({_build_type_source(kind.elementType)}, {kind.containsNull})"
        case MapType():
            types = f"{_build_type_source(kind.keyType)}, {_build_type_source(kind.valueType)}"
            return f"MapType({types}, {kind.valueContainsNull})"
        case _:
            return repr(kind)

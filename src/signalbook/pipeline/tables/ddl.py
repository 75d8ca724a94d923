"""The table of a definition as SQL describes it: its columns, in Spark's words."""

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
from signalbook.pipeline.landing.rows import find_layout
from signalbook.pipeline.tables.evolution import readable
from signalbook.pipeline.tables.naming import TableName, quoted, table_name
from signalbook.pipeline.tables.spark_sql import identifier, string_literal


@dataclass(frozen=True, kw_only=True)
class TableColumn:
    """A column of a landed table; ``field`` is that of the files.

    ``required`` says that no row of a conforming message lacks a value, ``values`` are all that there may be, where
    they are few and all text.
    """

    field: pa.Field
    required: bool
    values: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the column."""
        return str(self.field.name)

    @property
    def description(self) -> str:
        """The definition's description of the column."""
        return _doc(self.field)

    @cached_property
    def type(self) -> str:
        """The type of the column as Spark SQL shows it, not safe to be a part of a statement."""
        return _type(self.field.type, _shown_member)

    @property
    def definition(self) -> str:
        """The column in a statement that creates the table: its name, its type and the descriptions."""
        return f"{identifier(self.name)} {_type(self.field.type, _defined_member)}{comment_clause(self.description)}"

    @property
    def spark_type(self) -> DataType:
        """The type in PySpark; none for times of day."""
        found: DataType = from_arrow_type(self.field.type)
        return found

    @property
    def spark_source(self) -> str:
        """The Python expression that makes the same type."""
        return _type_source(self.spark_type)


def landing_table(definition: CompiledDefinition) -> TableName:
    """The first table of a definition."""
    return table_name(definition.xid)


def table_columns(definition: CompiledDefinition, *, times: bool = False) -> tuple[TableColumn, ...]:
    """The columns of the table that the pipeline lands the messages of a definition in, without those of Spark's own.

    Times of day are there only if ``times``: Spark has no type for them.
    """
    landed = columns.written(find_layout(definition).columns)
    members = tuple(_members(definition))
    required, values = _required(definition, members), _values(definition, members)
    return tuple(
        TableColumn(field=field, required=field.name in required, values=values.get(field.name, ()))
        for field in (landed if times else readable(landed))
    )


_ALWAYS: Final = frozenset(("ce_id", "ce_source", "ce_type"))
_KNOWN: Final = frozenset(("_definition", "_fingerprint", "_batch", "_landed_at"))


# Column and name of a member of the payload, and whether it is always there.
_Member: TypeAlias = tuple[str, str, bool]


def _members(definition: CompiledDefinition) -> Iterator[_Member]:
    table_layout = find_layout(definition)
    shape = table_layout.shape
    if isinstance(shape, Struct) and shape.fields and not shape.nullable:
        # The columns of the payload are in the order of its members, but some have other names than their members.
        start = len(columns.ENVELOPE)
        names = table_layout.columns.names[start : start + table_layout.width]
        for name, member in zip(names, shape.fields, strict=True):
            yield name, member.name, member.required and not member.shape.nullable


def _required(definition: CompiledDefinition, members: Iterable[_Member]) -> frozenset[str]:
    found = {column for column, _, always in members if always}
    return _KNOWN | found | (_ALWAYS if definition.is_event else frozenset())


def _values(definition: CompiledDefinition, members: Iterable[_Member]) -> dict[str, tuple[str, ...]]:
    constants = definition.constants
    found = {column: constants[name] for column, name, _ in members if name in constants}
    texts = {column: tuple(sorted(map(str, values))) for column, values in found.items() if _all_text(values)}
    return {column: values for column, values in texts.items() if values}


def _all_text(values: frozenset[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _doc(field: pa.Field) -> str:
    return str((field.metadata or {}).get(b"doc", b""), "utf-8", "replace")


def comment_clause(description: str, separator: str = " ") -> str:
    """Return the COMMENT clause of a column or table behind ``separator``, "" without a description."""
    return f"{separator}COMMENT {string_literal(description)}" if description else ""


def _type(kind: pa.DataType, write_member: Callable[[pa.Field], str]) -> str:
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(map(write_member, kind))}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{_type(kind.value_type, write_member)}>"
    if pa.types.is_map(kind):
        return f"MAP<{_type(kind.key_type, write_member)}, {_type(kind.item_type, write_member)}>"
    if pa.types.is_time(kind):
        return "TIME"
    spark_type: DataType = from_arrow_type(kind)
    return str(spark_type.simpleString()).upper()


def _shown_member(field: pa.Field) -> str:
    return f"{quoted(field.name)}: {_type(field.type, _shown_member)}"


def _defined_member(field: pa.Field) -> str:
    return f"{identifier(field.name)}: {_type(field.type, _defined_member)}{comment_clause(_doc(field))}"


def _type_source(kind: DataType) -> str:
    """Return the Python expression that makes a type. The ``repr`` of PySpark's types does not escape names."""
    match kind:
        case StructType():
            fields = (f"StructField({f.name!r}, {_type_source(f.dataType)}, {f.nullable})" for f in kind.fields)
            return f"StructType([{', '.join(fields)}])"
        case ArrayType():
            return f"ArrayType({_type_source(kind.elementType)}, {kind.containsNull})"
        case MapType():
            return f"MapType({_type_source(kind.keyType)}, {_type_source(kind.valueType)}, {kind.valueContainsNull})"
        case _:
            return repr(kind)

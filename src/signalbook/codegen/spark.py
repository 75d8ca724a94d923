"""Tables as Spark describes them: statements that create them, and the same columns as ``StructType``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from signalbook.codegen.base import Generated, GeneratedFile, Generator, GeneratorInput
from signalbook.codegen.naming import constant_name, group_files, unique
from signalbook.codegen.python.formatting import format_python
from signalbook.messages import CompiledDefinition
from signalbook.pipeline.tables.ddl import TableColumn, build_comment_clause, find_landing_table, list_table_columns
from signalbook.pipeline.tables.spark_sql import quote_identifier

_Columns: TypeAlias = Mapping[str, tuple[TableColumn, ...]]
_FORMATS: Final = ("none", "iceberg", "delta", "parquet")
_SCHEMAS: Final = "schemas.py"
_TABLES: Final = "TABLES"
# The types that columns may have. The formatter removes the ones that the module does not use.
_SPARK_TYPES: Final = (
    *("ArrayType", "BinaryType", "BooleanType", "DateType", "DecimalType", "DoubleType", "FloatType", "IntegerType"),
    *("LongType", "MapType", "StringType", "StructField", "StructType", "TimestampType"),
)


def _generate_spark(input: GeneratorInput) -> Generated:
    """Return a file of statements for each group, and ``schemas.py`` for all."""
    table_format = input.option("format", _FORMATS)
    names = group_files(input.by_group)
    columns = {xid: list_table_columns(definition) for xid, definition in input.messages.items()}
    files = [
        GeneratedFile(
            path=f"{names[group]}.sql",
            content="\n".join(_write_statements(input, definitions, columns, table_format)).encode(),
            xids=tuple(definition.xid for definition in definitions),
        )
        for group, definitions in input.by_group.items()
    ]
    input.progress("formatting")
    schemas = format_python({_SCHEMAS: "\n".join(_write_schemas(input, columns))})[_SCHEMAS]
    files.append(GeneratedFile(path=_SCHEMAS, content=schemas, xids=tuple(input.messages)))
    return Generated(files=tuple(files))


def _write_statements(
    input: GeneratorInput, definitions: tuple[CompiledDefinition, ...], columns: _Columns, table_format: str
) -> Iterator[str]:
    yield from (f"-- {line}" for line in input.header(definition.xid for definition in definitions))
    yield ""
    groups = sorted({find_landing_table(definition).group for definition in definitions})
    yield from (f"CREATE NAMESPACE IF NOT EXISTS {quote_identifier(group)};" for group in groups)
    using = "" if table_format == "none" else f"\nUSING {table_format}"
    for definition in definitions:
        table = find_landing_table(definition)
        name = f"{quote_identifier(table.group)}.{quote_identifier(table.message)}"
        lines = ",\n".join(f"  {column.definition}" for column in columns[definition.xid])
        comment = build_comment_clause(str(definition.definition.get("description") or ""), "\n")
        yield f"\nCREATE TABLE IF NOT EXISTS {name} (\n{lines}\n){using}{comment};"
    yield ""


def _write_schemas(input: GeneratorInput, columns: _Columns) -> Iterator[str]:
    yield from (f"# {line}" for line in input.header(input.messages))
    yield '"""The columns of landed tables."""'
    yield f"from pyspark.sql.types import {', '.join(_SPARK_TYPES)}"
    names = unique(input.messages, constant_name, (_TABLES,))
    for xid in input.messages:
        yield f"{names[xid]} = StructType([{' '.join(map(_write_column, columns[xid]))}])"
    yield f"{_TABLES} = {{"
    for xid, definition in input.messages.items():
        yield f"{str(find_landing_table(definition))!r}: {names[xid]},"
    yield "}"


def _write_column(column: TableColumn) -> str:
    metadata = f", {{'comment': {column.description!r}}}" if column.description else ""
    return f"StructField({column.name!r}, {column.spark_source}, True{metadata}),"


GENERATOR: Final = Generator(
    summary="Spark SQL that makes the landed tables, and their columns as StructType",
    generate=_generate_spark,
    options={"format": "the table format in USING: none, iceberg, delta or parquet"},
)

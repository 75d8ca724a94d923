"""Tables as Spark describes them: statements that make them, and the same columns as ``StructType``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from signalbook.codegen.base import Generated, GeneratedFile, Generator, GeneratorInput
from signalbook.codegen.naming import constant_name, group_files, unique
from signalbook.codegen.python.formatting import format_python
from signalbook.messages import CompiledDefinition
from signalbook.pipeline.tables.ddl import TableColumn, landing_table, table_columns, text
from signalbook.pipeline.tables.naming import quoted

_Columns: TypeAlias = Mapping[str, tuple[TableColumn, ...]]
_FORMATS: Final = ("none", "iceberg", "delta", "parquet")
_SCHEMAS: Final = "schemas.py"
# Those that columns may have; which are not used is seen when the module is formatted.
_TYPES: Final = (
    *("ArrayType", "BinaryType", "BooleanType", "DateType", "DecimalType", "DoubleType", "FloatType", "IntegerType"),
    *("LongType", "MapType", "StringType", "StructField", "StructType", "TimestampType"),
)


def _generate(given: GeneratorInput) -> Generated:
    """A file of statements for each group, and ``schemas.py`` for all."""
    table_format = given.option("format", _FORMATS)
    names = group_files(given.by_group)
    columns = {xid: table_columns(each) for xid, each in given.messages.items()}
    files = [
        GeneratedFile(
            path=f"{names[group]}.sql",
            content="\n".join(_statements(given, definitions, columns, table_format)).encode(),
            xids=tuple(each.xid for each in definitions),
        )
        for group, definitions in given.by_group.items()
    ]
    given.progress("formatting")
    schemas = format_python({_SCHEMAS: "\n".join(_schemas(given, columns))})[_SCHEMAS]
    files.append(GeneratedFile(path=_SCHEMAS, content=schemas, xids=tuple(given.messages)))
    return Generated(files=tuple(files))


def _statements(
    given: GeneratorInput, definitions: tuple[CompiledDefinition, ...], columns: _Columns, table_format: str
) -> Iterator[str]:
    yield from (f"-- {line}" for line in given.header(each.xid for each in definitions))
    yield ""
    groups = sorted({landing_table(each).group for each in definitions})
    yield from (f"CREATE NAMESPACE IF NOT EXISTS {quoted(group)};" for group in groups)
    using = "" if table_format == "none" else f"\nUSING {table_format}"
    for each in definitions:
        name = landing_table(each)
        lines = []
        for column in columns[each.xid]:
            said = f" COMMENT {text(column.description)}" if column.description else ""
            lines.append(f"  {quoted(column.name)} {column.commented}{said}")
        said = f"\nCOMMENT {text(str(each.definition['description']))}" if each.definition.get("description") else ""
        listed = ",\n".join(lines)
        yield f"\nCREATE TABLE IF NOT EXISTS {quoted(name.group)}.{quoted(name.message)} (\n{listed}\n){using}{said};"
    yield ""


def _schemas(given: GeneratorInput, columns: _Columns) -> Iterator[str]:
    yield from (f"# {line}" for line in given.header(given.messages))
    yield '"""The columns of landed tables."""'
    yield f"from pyspark.sql.types import {', '.join(_TYPES)}"
    names = unique(given.messages, constant_name)
    for xid in given.messages:
        fields = []
        for column in columns[xid]:
            said = f", {{'comment': {column.description!r}}}" if column.description else ""
            fields.append(f"StructField({column.name!r}, {column.spark_type!r}, True{said}),")
        yield f"{names[xid]} = StructType([{' '.join(fields)}])"
    yield "TABLES = {"
    for xid, definition in given.messages.items():
        yield f"{str(landing_table(definition))!r}: {names[xid]},"
    yield "}"


GENERATOR: Final = Generator(
    summary="Spark SQL that makes the landed tables, and their columns as StructType",
    generate=_generate,
    options={"format": "the table format in USING: none, iceberg, delta or parquet"},
)

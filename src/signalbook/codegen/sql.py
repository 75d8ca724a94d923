"""Statements that make the landed tables elsewhere, in several dialects of SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

from sqlglot import exp, parse_one

from signalbook.codegen.base import Generated, GeneratedFile, Generator, GeneratorInput, Inexpressible, printable
from signalbook.codegen.naming import group_files, unique
from signalbook.messages import CompiledDefinition
from signalbook.pipeline.tables.ddl import TableColumn, find_landing_table, list_table_columns

_NO_NUL: Final = re.compile(r"\x00")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlDialect:
    """The differences of a dialect that its library does not handle."""

    name: str
    described: str = "{} COMMENT {}"
    table_described: str = "\nCOMMENT {}"
    apart: bool = False
    """Whether descriptions are statements of their own."""
    convert: Callable[[exp.DataType], exp.DataType] = lambda kind: kind
    plain_names: bool = False
    """Whether names have letters, digits and underscores alone."""
    refused_in_names: re.Pattern[str] = _NO_NUL
    """What the names of columns and members may not have, because the dialect or its shell has no escape for it."""
    escape_literal: Callable[[str], str] = lambda literal: literal
    """Escapes in a string literal what the library leaves."""


# What a NUMERIC of BigQuery has before and behind the point, at most.
_WHOLE_DIGITS: Final = 29
_SCALE: Final = 9
_MICROSECONDS: Final = 6


def _convert_for_bigquery(data_type: exp.DataType) -> exp.DataType:
    """BigQuery has no maps, no lists of lists, and two widths of decimals."""
    # By the values of types: a name would be parsed as SQL each time.
    if data_type.is_type(exp.DType.MAP):
        key, value = map(_convert_for_bigquery, data_type.expressions)
        return _build_list(key=key, value=value)
    if data_type.is_type(exp.DType.ARRAY):
        item = _convert_for_bigquery(data_type.expressions[0])
        return _build_list(element=item) if item.is_type(exp.DType.ARRAY) else _nest("ARRAY", [item])
    if data_type.is_type(exp.DType.STRUCT):
        members = [
            exp.ColumnDef(this=part.this, kind=_convert_for_bigquery(part.args["kind"]))
            for part in data_type.expressions
        ]
        return _nest("STRUCT", members)
    if data_type.is_type(exp.DType.DECIMAL):
        precision, scale = (int(part.name) for part in data_type.expressions)
        if precision - scale > _WHOLE_DIGITS or scale > _SCALE:
            return exp.DataType(this=exp.DType.BIGDECIMAL, expressions=data_type.expressions)
    return data_type


def _build_list(**members: exp.DataType) -> exp.DataType:
    """Return a list of structures."""
    columns = [exp.ColumnDef(this=exp.to_identifier(name, quoted=True), kind=kind) for name, kind in members.items()]
    return _nest("ARRAY", [_nest("STRUCT", columns)])


def _nest(name: str, expressions: list[exp.DataType] | list[exp.ColumnDef]) -> exp.DataType:
    return exp.DataType(this=exp.DType[name], expressions=expressions, nested=True)


def _convert_for_trino(data_type: exp.DataType) -> exp.DataType:
    """Times in microseconds, as the pipeline writes them; Trino's own are in milliseconds."""
    for node in data_type.find_all(exp.DataType):
        if node.is_type(exp.DType.TIMESTAMPTZ, exp.DType.TIME):
            node.set("expressions", [exp.DataTypeParam(this=exp.Literal.number(_MICROSECONDS))])
    return data_type


DIALECTS: Final[Mapping[str, SqlDialect]] = {
    each.name: each
    for each in (
        SqlDialect(name="duckdb", apart=True),
        SqlDialect(name="trino", convert=_convert_for_trino),
        SqlDialect(
            name="bigquery",
            described="{} OPTIONS(description={})",
            table_described="\nOPTIONS(description={})",
            convert=_convert_for_bigquery,
            plain_names=True,
            refused_in_names=re.compile(r"[!\"$()*,./;?@\[\]\\^`{}~\x00-\x1f\x7f\x85\u2028\u2029]"),
        ),
        SqlDialect(
            name="snowflake",
            table_described="\nCOMMENT = {}",
            # Snowflake CLI replaces <% name %>, &{ name } and &name everywhere in a file, by variables of its
            # environment too.
            refused_in_names=re.compile(r"<%|&\{|\x00"),
            escape_literal=lambda literal: literal.replace("<%", "\\x3c%").replace("&", "\\x26"),
        ),
    )
}


def _generate_sql(input: GeneratorInput) -> Generated:
    """A file of statements for each group and dialect."""
    choice = input.option("dialect", ("all", *DIALECTS))
    files: list[GeneratedFile] = []
    left_out: dict[str, str] = {}
    names = group_files(input.by_group)
    columns = {xid: list_table_columns(definition, times=True) for xid, definition in input.messages.items()}
    for dialect in DIALECTS.values() if choice == "all" else (DIALECTS[choice],):
        input.progress(f"writing {dialect.name}")
        schemas = unique(input.by_group, partial(_choose_schema_name, input, dialect))
        for group, definitions in input.by_group.items():
            tables, failed = _write_tables(dialect, schemas[group], definitions, columns)
            if tables:
                text = _write_text(input, dialect, schemas[group], tables)
                path = f"{dialect.name}/{names[group]}.sql"
                files.append(GeneratedFile(path=path, content=text.encode(), xids=tuple(tables)))
            left_out |= failed
    return Generated(files=tuple(files), left_out=left_out)


def _choose_schema_name(input: GeneratorInput, dialect: SqlDialect, group: str) -> str:
    name = find_landing_table(input.by_group[group][0]).group
    return _replace_special(name) if dialect.plain_names else name


def _write_tables(
    dialect: SqlDialect,
    schema: str,
    definitions: tuple[CompiledDefinition, ...],
    columns: Mapping[str, tuple[TableColumn, ...]],
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the statements for the table of each definition, and why some have none."""
    tables: dict[str, str] = {}
    left_out: dict[str, str] = {}
    landed = {definition.xid: find_landing_table(definition).message for definition in definitions}
    names = unique(landed, lambda xid: _replace_special(landed[xid])) if dialect.plain_names else landed
    for definition in definitions:
        try:
            tables[definition.xid] = "\n".join(
                _write_table(definition, columns[definition.xid], dialect, schema, names[definition.xid])
            )
        except Inexpressible as error:
            left_out[definition.xid] = f"{dialect.name}: {error}"
    return tables, left_out


def _write_text(input: GeneratorInput, dialect: SqlDialect, schema: str, tables: Mapping[str, str]) -> str:
    head = [*(f"-- {line}" for line in input.header(tables)), ""]
    head.append(f"CREATE SCHEMA IF NOT EXISTS {_quote(schema, dialect)};")
    return "\n\n".join(["\n".join(head), *tables.values()]) + "\n"


def _write_table(
    definition: CompiledDefinition, columns: tuple[TableColumn, ...], dialect: SqlDialect, schema: str, name: str
) -> Iterator[str]:
    """Raises ``Inexpressible``."""
    table = f"{_quote(schema, dialect)}.{_quote(name, dialect)}"
    lines = ",\n".join(f"  {_write_column(column, dialect)}" for column in columns)
    description = str(definition.definition.get("description") or "")
    clause = (
        "" if dialect.apart or not description else dialect.table_described.format(_write_literal(description, dialect))
    )
    yield f"CREATE TABLE IF NOT EXISTS {table} (\n{lines}\n){clause};"
    if dialect.apart:
        if description:
            yield f"COMMENT ON TABLE {table} IS {_write_literal(description, dialect)};"
        for column in columns:
            if column.description:
                place = f"{table}.{_quote(column.name, dialect)}"
                yield f"COMMENT ON COLUMN {place} IS {_write_literal(column.description, dialect)};"


def _write_column(column: TableColumn, dialect: SqlDialect) -> str:
    """Raises ``Inexpressible``."""
    _check_name(column.name, dialect)
    text = f"{_quote(column.name, dialect)} {_convert_type(column.type, dialect.name)}"
    if dialect.apart or not column.description:
        return text
    return dialect.described.format(text, _write_literal(column.description, dialect))


def _check_name(name: str, dialect: SqlDialect) -> None:
    if dialect.refused_in_names.search(name):
        raise Inexpressible(f"a column may not be named {name!r}")


# Messages have many columns in common, with types of hundreds of members: to read or write them again takes longer than
# all else.
@lru_cache(maxsize=4096)
def _convert_type(text: str, dialect: str) -> str:
    """Return a type of Spark's in a dialect. Raises ``Inexpressible``."""
    chosen = DIALECTS[dialect]
    parsed: exp.DataType = parse_one(text, read="spark", into=exp.DataType)
    for identifier in parsed.find_all(exp.Identifier):
        _check_name(identifier.name, chosen)
    return chosen.convert(parsed).sql(dialect)


@lru_cache(maxsize=4096)
def _quote(name: str, dialect: SqlDialect) -> str:
    return exp.to_identifier(name, quoted=True).sql(dialect.name)


@lru_cache(maxsize=4096)
def _write_literal(text: str, dialect: SqlDialect) -> str:
    return dialect.escape_literal(exp.Literal.string(printable(text)).sql(dialect.name))


def _replace_special(name: str) -> str:
    """Return a name of letters, digits and underscores."""
    return "".join(char if char.isascii() and char.isalnum() else "_" for char in name)


GENERATOR: Final = Generator(
    summary="SQL that makes the landed tables in DuckDB, Trino, BigQuery and Snowflake",
    generate=_generate_sql,
    options={"dialect": f"all, or one of {', '.join(DIALECTS)}"},
)

"""The tables of an output folder, and all those of a definition as one: a DataFrame, or the SQL of a view.

A definition has several tables once its columns changed in a way that no table follows. Where they disagree on a column
its values become text, those with members as JSON; a column that a table lacks is null there. Times of day are left
out, since Spark has no type for them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import cached_property, partial, reduce
from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from signalbook.pipeline.columns import DAY, LANDED_AT
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.journal import Journal, TableFormat, store_errors
from signalbook.pipeline.landing.staged_files import read_rows
from signalbook.pipeline.places import Place, Where, place_of, run_in_parallel
from signalbook.pipeline.spark import build_numbers, can_reach, unite_frames
from signalbook.pipeline.tables.base import DAY_OF_INSTANT, Tables
from signalbook.pipeline.tables.evolution import align_rows, match_columns, select_readable, unite
from signalbook.pipeline.tables.formats import open_tables
from signalbook.pipeline.tables.spark_sql import quote_identifier, quote_string
from signalbook.pipeline.tables.table_names import (
    DEAD_LETTERS,
    TABLES,
    TableName,
    find_definition,
    quote_name,
    restore_name,
)
from signalbook.values import JSONObject

_SUFFIX: Final = ".parquet"
# Into which the days of a table are dealt where Spark has to be shown each. About as many tasks read all of its rows,
# or more of so many files each: to begin a task takes Spark longer than it takes one to open some.
_FRAMES: Final = 64
_FILES: Final = 8
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


def format_spark_type(kind: pa.DataType, write_name: Callable[[str], str] = quote_identifier) -> str:
    """Return the Spark SQL type of a column, with the names of members written by ``write_name``."""
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_list(kind):
        return f"ARRAY<{format_spark_type(kind.value_type, write_name)}>"
    if pa.types.is_map(kind):
        return f"MAP<{format_spark_type(kind.key_type, write_name)}, {format_spark_type(kind.item_type, write_name)}>"
    if pa.types.is_struct(kind):
        members = (f"{write_name(field.name)}: {format_spark_type(field.type, write_name)}" for field in kind)
        return f"STRUCT<{', '.join(members)}>"
    return _TYPES.get(kind, "STRING")


def format_ddl(columns: pa.Schema) -> str:
    """Return the columns as a schema for ``spark.read.schema``, in which Spark substitutes no variables."""
    return ", ".join(f"{quote_name(field.name)} {format_spark_type(field.type, quote_name)}" for field in columns)


def build_selection(existing: pa.Schema, target: pa.Schema) -> list[str]:
    """Return an expression for each column of ``target``, over a table with the columns ``existing``.

    The expression is null for a column that the table lacks.
    """
    matches = match_columns(target, existing)
    expressions = []
    for field in target:
        source = matches.get(field.name)
        expressions.append(
            _build_null(field.type)
            if source is None
            else convert_expression(quote_identifier(source.name), source.type, field.type)
        )
    return expressions


def convert_expression(text: str, kind: pa.DataType, target_type: pa.DataType, depth: int = 0) -> str:
    """Return the expression ``text`` of one type as an expression of the type that ``evolution.as_text`` gave it."""
    if kind == target_type:
        return text
    if target_type == pa.string():
        return _as_text(text, kind)
    if pa.types.is_struct(kind):
        return f"IF({text} IS NULL, NULL, named_struct({_convert_members(text, kind, target_type, depth)}))"
    item = f"x{depth}"
    if pa.types.is_list(kind):
        value = convert_expression(item, kind.value_type, target_type.value_type, depth + 1)
        return f"transform({text}, {item} -> {value})"
    if pa.types.is_map(kind):
        value = convert_expression(item, kind.item_type, target_type.item_type, depth + 1)
        return f"transform_values({text}, (k{depth}, {item}) -> {value})"
    return f"CAST({text} AS {format_spark_type(target_type)})"


# By itself Spark writes milliseconds, in the zone of the session.
_TIME: Final = "yyyy-MM-dd\\'T\\'HH:mm:ss[.SSSSSS]"
JSON_TIMES: Final = f"map('timestampFormat', '{_TIME}[XXX]', 'timestampNTZFormat', '{_TIME}', 'timeZone', 'UTC')"
_FIRST_DAY: Final = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"


def _as_text(text: str, kind: pa.DataType) -> str:
    """Return the expression ``text`` as text: values with members as JSON, times with microseconds and a zone."""
    if pa.types.is_struct(kind) or pa.types.is_list(kind) or pa.types.is_map(kind):
        return f"to_json({text}, {JSON_TIMES})"
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        seconds = f"CAST(unix_micros({text}) AS DECIMAL(20, 0)) / 1000000"
        moment = f"{_FIRST_DAY} + make_dt_interval(0, 0, 0, {seconds})"
        return f"concat(replace(CAST({moment} AS STRING), ' ', 'T'), 'Z')"
    return f"CAST({text} AS STRING)"


def _convert_members(text: str, kind: pa.DataType, target_type: pa.DataType, depth: int) -> str:
    matches = match_columns(target_type, kind)
    parts = []
    for field in target_type:
        source = matches.get(field.name)
        if source is None:
            value = _build_null(field.type)
        else:
            value = convert_expression(f"{text}[{quote_string(source.name)}]", source.type, field.type, depth)
        parts.append(f"{quote_string(field.name)}, {value}")
    return ", ".join(parts)


def _build_null(kind: pa.DataType) -> str:
    return f"CAST(NULL AS {format_spark_type(kind)})"


@dataclass(frozen=True)
class LandedTables:
    """The tables of an output folder, in one format."""

    output: Place
    table_format: TableFormat

    @classmethod
    def of(cls, output: Where) -> LandedTables:
        """Return the tables in ``output``. Raises ``PipelineError`` if no batch has landed there."""
        journal = Journal.open_existing(output)
        table_format = journal.find_table_format()
        if table_format is None:
            raise PipelineError(f"nothing has landed in {journal.output} yet")
        return cls(journal.output, table_format)

    @cached_property
    def tables(self) -> Tables:
        """The tables as they are now."""
        return open_tables(self.output, self.table_format)

    def choose_tables(self, definitions: Sequence[str]) -> dict[str, TableName]:
        """Return the first table of each definition. Raises ``PipelineError`` for a definition without one."""
        existing = {find_definition(table): table for table in self._list_tables()}
        for xid in definitions:
            if xid not in existing:
                raise PipelineError(f"{self.output} has no table of {xid}; there are: {', '.join(existing) or 'none'}")
        if definitions:
            return {xid: existing[xid] for xid in definitions}
        # A batch that is being committed, or died, may have made the folder and no table yet.
        return {xid: table for xid, table in existing.items() if self.tables.find_versions(table)}

    def _list_tables(self) -> list[TableName]:
        """Return the first tables of all definitions with a folder. The journal would have to be read whole."""
        groups = self.output / TABLES
        with store_errors(self.output):
            names = groups.list_folders()
            inside = run_in_parallel(groups, lambda name: (groups / name).list_folders(), names)
            first_tables = {
                TableName(restore_name(name), restore_name(table)).first
                for name, tables in zip(names, inside, strict=True)
                for table in tables
            }
        return sorted(first_tables - {DEAD_LETTERS})

    def read_parts(self, table: TableName) -> dict[TableName, pa.Schema]:
        """Return the tables of a definition with their columns, oldest first."""
        parts = {
            version: select_readable(self.tables.read_columns(version)) for version in self.tables.find_versions(table)
        }
        if not parts:
            raise PipelineError(f"table {table} is gone: someone else dropped it; the next batch makes a new one")
        return parts

    def read_columns(self, table: TableName) -> pa.Schema:
        """Return the columns that the tables of a definition have together."""
        return unite_columns(self.read_parts(table).values())

    def read_small(self, table: TableName, *, max_bytes: int, max_files: int) -> Iterator[pa.RecordBatch] | None:
        """Return all rows of a definition for a reader without Spark.

        None if the definition has several tables, which Spark makes one, or larger ones than these limits.
        """
        parts = self.read_parts(table)
        if len(parts) > 1:
            return None
        ((version, columns),) = parts.items()
        places = [place_of(path, self.output.storage) for path in sorted(self.tables.find_live_paths(version))]
        if (
            len(places) > max_files
            or sum(run_in_parallel(self.output, lambda place: place.find_size(), places)) > max_bytes
        ):
            return None
        numbers = pa.record_batch({"number": pa.array(range(len(places)), pa.int64())})
        return read_files(places, columns, iter([numbers]))

    def read_frame(self, session: SparkSession, table: TableName, names: Sequence[str] | None = None) -> DataFrame:
        """Return all rows of the definition whose first table is ``table``, with all columns or those in ``names``.

        Raises ``PipelineError``.
        """
        parts = self.read_parts(table)
        all_columns = unite_columns(parts.values())
        selected = _select_names(names, [*all_columns.names, DAY], table)
        frames = []
        for version, columns in parts.items():
            try:
                # By all columns, since it takes those of other members to tell which member one is of.
                matches = match_columns(all_columns, columns)
                values = dict(zip(all_columns.names, build_selection(columns, all_columns), strict=True)) | {
                    DAY: quote_name(DAY)
                }
                # with the instant, which is the day of rows whose folder is none of a day
                read = {LANDED_AT, *(matches[name].name for name in selected if name in matches)}
                rows = self._read_rows(session, version, pa.schema([field for field in columns if field.name in read]))
                # Spark before 4.1 has no safe way to write every name behind AS: the columns are named afterwards.
                frames.append(rows.selectExpr(*(values[name] for name in selected)).toDF(*selected))
            except PySparkException as error:
                raise PipelineError(f"table {version} cannot be read: {error}") from error
        return unite_frames(frames)

    def _read_rows(self, session: SparkSession, table: TableName, columns: pa.Schema) -> DataFrame:
        """Return the rows of one table and their ``DAY``, read by Spark, or by its workers' Python.

        With a schema Spark opens no footers to find one, and columns that older files lack are null instead of missing.
        """
        paths, names, day = self.tables.find_paths(table), format_ddl(columns), f"{DAY_OF_INSTANT} AS {quote_name(DAY)}"
        if not paths:
            return session.createDataFrame([], names).selectExpr("*", day)
        if not can_reach(session, self.output):
            return self._read_rows_by_workers(session, table, columns)
        base = _find_base(paths) if self.tables.is_by_day(table) else ""
        if not base:
            return session.read.schema(names).parquet(*paths).selectExpr("*", day)
        return session.read.schema(f"{names}, {quote_name(DAY)} DATE").option("basePath", base).parquet(*paths)

    def _read_rows_by_workers(self, session: SparkSession, table: TableName, columns: pa.Schema) -> DataFrame:
        """Return the rows of a table as the workers' Python reads them. No filter of Spark reaches these frames.

        So each day has a frame of its own, with the day as a literal: Spark sees by itself that one has no row which a
        filter wants, and drops it from the plan. To plan a frame takes it tens of milliseconds; if there would be too
        many, each has some consecutive days.
        """
        days: dict[date | None, list[Place]] = defaultdict(list)
        by_day = self.tables.is_by_day(table)
        for path in sorted(self.tables.find_live_paths(table)):
            days[_parse_day(path) if by_day else None].append(place_of(path, self.output.storage))
        dealt, frames = _group_days(days), []
        for some in dealt:
            places = [place for day in some for place in days[day]]
            tasks = max(2, _FRAMES // len(dealt), len(places) // _FILES)
            rows = build_numbers(session, len(places), tasks).mapInArrow(
                partial(read_files, places, columns), format_ddl(columns)
            )
            frames.append(rows.selectExpr("*", f"{_build_day_expression(some)} AS {quote_name(DAY)}"))
        return unite_frames(frames)

    def build_view(self, table: TableName, catalog: str) -> str:
        """Return a statement of Spark's SQL that makes a view of the same rows."""
        parts = self.read_parts(table)
        all_columns = unite_columns(parts.values())
        queries = []
        for version, columns in parts.items():
            expressions = zip(
                build_selection(columns, all_columns), map(quote_identifier, all_columns.names), strict=True
            )
            select = ", ".join(f"{expression} AS {name}" for expression, name in expressions)
            day = f"{self.tables.build_day(version, catalog)} AS {quote_name(DAY)}"
            queries.append(f"SELECT {select}, {day}\nFROM {self.tables.build_source(version, catalog)}")
        query = "\nUNION ALL\n".join(queries)
        return f"CREATE OR REPLACE VIEW {quote_name(view_name(table))} AS\n{query}"


def read_files(
    places: Sequence[Place], columns: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The function for ``mapInArrow``: numbers of files in, their rows out, with these columns and no others read."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for _, rows in read_rows(places[number], "the table file", columns.names):
                yield from align_rows(pa.Table.from_batches([rows]), columns).to_batches()


def _select_names(names: Sequence[str] | None, existing: Sequence[str], table: TableName) -> list[str]:
    """Return the columns to show: all, or those of ``names`` in any case. Raises ``PipelineError``."""
    if names is None:
        return list(existing)
    names_by_lower = {name.lower(): name for name in existing}
    for name in names:
        if name.lower() not in names_by_lower:
            raise PipelineError(f"table {table} has no column {name!r}; there are: {', '.join(existing)}")
    return [names_by_lower[name.lower()] for name in dict.fromkeys(names)]


def _group_days(days: Iterable[date | None]) -> list[Sequence[date | None]]:
    """Return the days of each frame: one day, or several that follow each other. Files without a day are apart."""
    dated = sorted(day for day in days if day is not None)
    size = -(-len(dated) // _FRAMES) or 1
    parts: list[Sequence[date | None]] = [dated[at : at + size] for at in range(0, len(dated), size)]
    return [*parts, [None]] if None in days else parts


def _build_day_expression(days: Sequence[date | None]) -> str:
    """Return the day of a row that landed on one of ``days``, as SQL that lets Spark exclude other days."""
    if None in days:
        return DAY_OF_INSTANT
    if len(days) == 1:
        return f"DATE'{days[0]}'"
    branches = (f"WHEN DATE'{day}' THEN DATE'{day}'" for day in days)
    return f"CASE {DAY_OF_INSTANT} {' '.join(branches)} END"


def _parse_day(path: str) -> date | None:
    """Return the day that the folder of a file stands for; None if it stands for no day."""
    _, separator, tail = path.rpartition(f"/{DAY}=")
    with suppress(ValueError):
        return date.fromisoformat(tail.partition("/")[0]) if separator else None
    return None


def _find_base(paths: Sequence[str]) -> str:
    """Return the folder that has all of ``paths`` in folders of days below it; empty without such a folder."""
    if len(paths) == 1 and not paths[0].endswith(_SUFFIX):
        return paths[0]
    bases = {path.rpartition(f"/{DAY}=")[0] for path in paths}
    return bases.pop() if len(bases) == 1 else ""


def unite_columns(parts: Iterable[pa.Schema]) -> pa.Schema:
    """Return the columns that tables with these columns have together."""
    return reduce(unite, parts)


def view_name(table: TableName) -> str:
    """A name that Spark's own catalog takes: letters, digits and underscores."""
    return re.sub(r"\W", "_", f"{table.group}__{table.first.message}", flags=re.ASCII).lower()


def read(session: SparkSession, output: Where, definition: str, *, columns: Sequence[str] | None = None) -> DataFrame:
    """Return all landed messages of a definition (an xid) in ``output``, over all of its tables.

    Columns on which tables disagree are text; one that a table lacks is null there. ``landed_on`` is the day in UTC by
    which tables are divided: filters on it skip the files of other days. ``columns`` selects columns; in a store that
    Spark has no connector for, others are not read. Raises ``PipelineError``.
    """
    landed = LandedTables.of(output)
    return landed.read_frame(session, landed.choose_tables([definition])[definition], columns)


def views(output: Where, definitions: Sequence[str] = (), catalog: str = "") -> list[JSONObject]:
    """Return the SQL of views over all tables of each definition.

    Each has ``definition``, ``view``, ``tables`` and ``sql``; ``catalog`` is what Spark calls that of Iceberg tables,
    if that is not the name which pyiceberg has for it. Rows have ``landed_on`` as those of ``read`` do. Raises
    ``PipelineError``.
    """
    landed = LandedTables.of(output)
    return [
        {
            "definition": xid,
            "view": view_name(table),
            "tables": [str(version) for version in landed.read_parts(table)],
            "sql": landed.build_view(table, catalog),
        }
        for xid, table in landed.choose_tables(definitions).items()
    ]

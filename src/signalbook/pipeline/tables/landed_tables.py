"""Read the tables of an output folder: all tables of a definition as one DataFrame, or as the SQL of a view.

A definition has several tables if its columns once changed so that the table could not follow. If the tables have
different types for a column, its values become text, and values with members become JSON. A column that a table lacks
is null there. Columns with times of day are left out, because Spark has no type for them.
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
from signalbook.pipeline.places import Place, Where, place_of, run_in_parallel
from signalbook.pipeline.spark import build_numbers, can_reach, unite_frames
from signalbook.pipeline.table_names import DEAD_LETTERS, TABLES, TableName, find_definition, quote_name, restore_name
from signalbook.pipeline.tables.base import DAY_OF_INSTANT, Tables
from signalbook.pipeline.tables.evolution import align_rows, match_columns, select_readable, unite
from signalbook.pipeline.tables.formats import open_tables
from signalbook.pipeline.tables.spark_sql import quote_identifier, quote_string
from signalbook.pipeline.tables.staged_files import read_rows
from signalbook.values import JSONObject

_SUFFIX: Final = ".parquet"
# The maximum number of data frames for the days of a table that workers read with Python. They have about as many tasks
# in all. With more files there are more tasks, each for ``_FILES`` files: starting a task takes longer than opening
# them.
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
    """Return the Spark SQL type for the Arrow type ``kind``. ``write_name`` quotes the names of members."""
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
    """Return ``columns`` as a schema for ``spark.read.schema``.

    Plain quotes do, as Spark substitutes no variables there.
    """
    return ", ".join(f"{quote_name(field.name)} {format_spark_type(field.type, quote_name)}" for field in columns)


def build_selection(existing: pa.Schema, target: pa.Schema) -> list[str]:
    """Return a Spark SQL expression for each column of ``target``, for a table with the columns ``existing``.

    The expression is a typed null for a column that the table lacks.
    """
    matches = match_columns(target, existing)
    expressions = []
    for field in target:
        source = matches.get(field.name)
        if source is None:
            expressions.append(_build_null(field.type))
        else:
            expressions.append(convert_expression(quote_identifier(source.name), source.type, field.type))
    return expressions


def convert_expression(text: str, kind: pa.DataType, target_type: pa.DataType, depth: int = 0) -> str:
    """Return an SQL expression that converts the expression ``text`` from the type ``kind`` to ``target_type``.

    ``target_type`` must be a type to which ``evolution.as_text`` unites ``kind``. ``depth`` is the number of enclosing
    lambda expressions.
    """
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


# Without these options Spark writes times with milliseconds, in the time zone of the session.
_TIME: Final = "yyyy-MM-dd\\'T\\'HH:mm:ss[.SSSSSS]"
JSON_TIMES: Final = f"map('timestampFormat', '{_TIME}[XXX]', 'timestampNTZFormat', '{_TIME}', 'timeZone', 'UTC')"
_FIRST_DAY: Final = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"


def _as_text(text: str, kind: pa.DataType) -> str:
    """Return an SQL expression that converts the expression ``text`` of type ``kind`` to text.

    Structs, lists and maps become JSON. Timestamps with a time zone become UTC, with ``T`` and ``Z``.
    """
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
    """The landed tables of an output folder. All have the same ``table_format``."""

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
        """The tables in their format, opened at first use."""
        return open_tables(self.output, self.table_format)

    def choose_tables(self, definitions: Sequence[str]) -> dict[str, TableName]:
        """Return the first table of each of ``definitions`` (xids), or of all if none are given, by xid.

        Raises ``PipelineError`` for a definition without a table.
        """
        existing = {find_definition(table): table for table in self._list_tables()}
        for xid in definitions:
            if xid not in existing:
                raise PipelineError(f"{self.output} has no table of {xid}; there are: {', '.join(existing) or 'none'}")
        if definitions:
            return {xid: existing[xid] for xid in definitions}
        # A batch whose commit is under way or was interrupted may have created a folder without a table.
        return {xid: table for xid, table in existing.items() if self.tables.find_versions(table)}

    def _list_tables(self) -> list[TableName]:
        """Return the first tables of all definitions with a folder.

        Listing folders is faster than reading the journal.
        """
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
        """Return all tables of the definition whose first table is ``table``, with their columns, oldest first.

        Raises ``PipelineError`` if there are none.
        """
        parts = {
            version: select_readable(self.tables.read_columns(version)) for version in self.tables.find_versions(table)
        }
        if not parts:
            raise PipelineError(f"table {table} is gone: someone else dropped it; the next batch makes a new one")
        return parts

    def read_columns(self, table: TableName) -> pa.Schema:
        """Return the united columns of all tables of the definition whose first table is ``table``."""
        return unite_columns(self.read_parts(table).values())

    def read_small(self, table: TableName, *, max_bytes: int, max_files: int) -> Iterator[pa.RecordBatch] | None:
        """Return all rows of the definition whose first table is ``table``, read without Spark.

        Return None if the definition has several tables, which only Spark can unite, or if the table exceeds the
        limits.
        """
        parts = self.read_parts(table)
        if len(parts) > 1:
            return None
        ((version, columns),) = parts.items()
        places = [place_of(path, self.output.storage) for path in sorted(self.tables.find_live_paths(version))]
        if len(places) > max_files:
            return None
        if sum(run_in_parallel(self.output, lambda place: place.find_size(), places)) > max_bytes:
            return None
        numbers = pa.record_batch({"number": pa.array(range(len(places)), pa.int64())})
        return read_files(places, columns, iter([numbers]))

    def read_frame(self, session: SparkSession, table: TableName, names: Sequence[str] | None = None) -> DataFrame:
        """Return all rows of the definition whose first table is ``table``, with all columns or those in ``names``.

        Raises ``PipelineError`` for an unknown column, and if a table cannot be read.
        """
        parts = self.read_parts(table)
        all_columns = unite_columns(parts.values())
        selected = _select_names(names, [*all_columns.names, DAY], table)
        frames = []
        for version, columns in parts.items():
            try:
                # All columns are matched, because the member of a column can depend on the other columns.
                matches = match_columns(all_columns, columns)
                values = dict(zip(all_columns.names, build_selection(columns, all_columns), strict=True))
                values[DAY] = quote_name(DAY)
                # ``LANDED_AT`` is read as well: it gives the day of rows in files outside of folders by day.
                read = {LANDED_AT, *(matches[name].name for name in selected if name in matches)}
                rows = self._read_rows(session, version, pa.schema([field for field in columns if field.name in read]))
                # Spark before 4.1 has no safe way to write every name after AS, so the columns are named afterwards.
                frames.append(rows.selectExpr(*(values[name] for name in selected)).toDF(*selected))
            except PySparkException as error:
                raise PipelineError(f"table {version} cannot be read: {error}") from error
        return unite_frames(frames)

    def _read_rows(self, session: SparkSession, table: TableName, columns: pa.Schema) -> DataFrame:
        """Return the rows of one table with ``columns`` and their ``DAY``, read by Spark or by Python in its workers.

        With a schema, Spark does not open footers to infer one, and columns that older files lack are null.
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
        """Return the rows of a table, read by Python in Spark's workers. Spark cannot push filters into such a read.

        Therefore each day has its own frame, with the day as a literal. Spark then drops the frames of days that a
        filter excludes. Planning a frame takes Spark tens of milliseconds. If there are many days, a frame has several
        consecutive days.
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
        """Return the Spark SQL statement for a view of all rows of the definition whose first table is ``table``.

        ``catalog`` is Spark's name for the Iceberg catalog. Empty means that Spark uses the same name as pyiceberg.
        """
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
    """Yield the rows of files with ``columns``. A function for Spark's ``mapInArrow``.

    ``batches`` contain indices of ``places``, the files. Other columns are not read.
    """
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for _, rows in read_rows(places[number], "the table file", columns.names):
                yield from align_rows(pa.Table.from_batches([rows]), columns).to_batches()


def _select_names(names: Sequence[str] | None, existing: Sequence[str], table: TableName) -> list[str]:
    """Return the columns to read: all ``existing``, or those in ``names``, whose case is ignored.

    Raises ``PipelineError`` for an unknown name.
    """
    if names is None:
        return list(existing)
    names_by_lower = {name.lower(): name for name in existing}
    for name in names:
        if name.lower() not in names_by_lower:
            raise PipelineError(f"table {table} has no column {name!r}; there are: {', '.join(existing)}")
    return [names_by_lower[name.lower()] for name in dict.fromkeys(names)]


def _group_days(days: Iterable[date | None]) -> list[Sequence[date | None]]:
    """Return at most ``_FRAMES`` groups of consecutive ``days``, one for each frame.

    If ``days`` contains None, for files without a day, None is a further group.
    """
    dated = sorted(day for day in days if day is not None)
    size = -(-len(dated) // _FRAMES) or 1
    parts: list[Sequence[date | None]] = [dated[at : at + size] for at in range(0, len(dated), size)]
    return [*parts, [None]] if None in days else parts


def _build_day_expression(days: Sequence[date | None]) -> str:
    """Return an SQL expression for the day of a row that landed on one of ``days``.

    From the expression, Spark can see that the row has no other day.
    """
    if None in days:
        return DAY_OF_INSTANT
    if len(days) == 1:
        return f"DATE'{days[0]}'"
    branches = (f"WHEN DATE'{day}' THEN DATE'{day}'" for day in days)
    return f"CASE {DAY_OF_INSTANT} {' '.join(branches)} END"


def _parse_day(path: str) -> date | None:
    """Return the day of the folder that contains the file at ``path``; None if the folder is not for a day."""
    _, separator, tail = path.rpartition(f"/{DAY}=")
    with suppress(ValueError):
        return date.fromisoformat(tail.partition("/")[0]) if separator else None
    return None


def _find_base(paths: Sequence[str]) -> str:
    """Return the folder whose subfolders for days contain all of ``paths``; empty if there is no such folder."""
    if len(paths) == 1 and not paths[0].endswith(_SUFFIX):
        return paths[0]
    bases = {path.rpartition(f"/{DAY}=")[0] for path in paths}
    return bases.pop() if len(bases) == 1 else ""


def unite_columns(parts: Iterable[pa.Schema]) -> pa.Schema:
    """Return the united columns of several tables of a definition, oldest first in ``parts``."""
    return reduce(unite, parts)


def view_name(table: TableName) -> str:
    """Return the name of the view for a table. Spark's own catalog accepts only letters, digits and underscores."""
    return re.sub(r"\W", "_", f"{table.group}__{table.first.message}", flags=re.ASCII).lower()


def read(session: SparkSession, output: Where, definition: str, *, columns: Sequence[str] | None = None) -> DataFrame:
    """Return all landed messages of ``definition`` in ``output``, from all of its tables.

    ``definition`` is an xid, whose first slash may be missing. Columns whose types differ between tables are text. A
    column that a table lacks is null there. ``landed_on`` is the UTC day of landing: filters on it skip the files of
    other days. ``columns`` are the names of the columns to return; None means all. In a store for which Spark has no
    connector, all columns are read unless ``columns`` selects some.
    Raises ``PipelineError`` if the definition has no table, a column is unknown or a table cannot be read.
    """
    landed = LandedTables.of(output)
    definition = f"/{definition.removeprefix('/')}"
    return landed.read_frame(session, landed.choose_tables([definition])[definition], columns)


def views(output: Where, definitions: Sequence[str] = (), catalog: str = "") -> list[JSONObject]:
    """Return for each of ``definitions`` (xids), or for all, the SQL of a view over all of its tables.

    Each object has ``definition``, ``view``, ``tables`` and ``sql``. ``catalog`` is Spark's name for the Iceberg
    catalog if it differs from the name in pyiceberg. Rows have the column ``landed_on``, as in ``read``. Raises
    ``PipelineError`` if a definition has no table.
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

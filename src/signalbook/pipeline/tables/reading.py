"""All tables of a definition as one: a DataFrame, or the SQL of a view.

A definition has several tables once its columns changed in a way that no table follows. Where they disagree on a column
its values become text, those with members as JSON; a column that a table lacks is null there. Times of day are left
out, since Spark has no type for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from signalbook.pipeline.commit.journal import Journal, TableFormat
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.tables.base import Tables
from signalbook.pipeline.tables.evolution import as_text, merge
from signalbook.pipeline.tables.naming import DEAD_LETTERS, TableName, definition_of
from signalbook.pipeline.tables.registry import open_tables
from signalbook.pipeline.tables.sql import ddl, quoted, readable, selection
from signalbook.values import JSONObject


@dataclass(frozen=True)
class Lake:
    """The tables of an output folder, in one format."""

    output: Path
    table_format: TableFormat

    @classmethod
    def of(cls, output: Path) -> Lake:
        """The lake in ``output``. Raises ``PipelineError`` if no batch was ever landed there."""
        journal = Journal.existing(output.absolute())
        table_format = journal.table_format()
        if table_format is None:
            raise PipelineError(f"nothing has landed in {output} yet")
        return cls(journal.output, table_format)

    @cached_property
    def tables(self) -> Tables:
        """The tables as they are now."""
        return open_tables(self.output, self.table_format)

    def chosen(self, definitions: Sequence[str]) -> dict[str, TableName]:
        """The first table of each of ``definitions`` (xids), or of all. Raises ``PipelineError`` for one without."""
        landed = {table.first for table in Journal(self.output).tables() if table != DEAD_LETTERS}
        there = {definition_of(table): table for table in sorted(landed)}
        for xid in definitions:
            if xid not in there:
                raise PipelineError(f"{self.output} has no table of {xid}; there are: {', '.join(there) or 'none'}")
        return {xid: there[xid] for xid in definitions or there}

    def parts(self, table: TableName) -> dict[TableName, pa.Schema]:
        """The tables of a definition with their columns, oldest first."""
        found = {version: readable(self.tables.columns(version)) for version in self.tables.versions(table)}
        if not found:
            raise PipelineError(f"table {table} is gone: someone else dropped it; the next batch makes a new one")
        return found

    def frame(self, session: SparkSession, table: TableName) -> DataFrame:
        """All rows of the definition that ``table`` is the first table of. Raises ``PipelineError``."""
        parts = self.parts(table)
        wanted = together(parts.values())
        frames = []
        for version, columns in parts.items():
            paths = self.tables.paths(version)
            try:
                reader = session.read.schema(ddl(columns))
                rows = reader.parquet(*paths) if paths else session.createDataFrame([], ddl(columns))
                frames.append(rows.selectExpr(*selection(columns, wanted)))
            except PySparkException as error:
                raise PipelineError(f"table {version} cannot be read: {error}") from error
        return reduce(DataFrame.unionAll, frames)

    def view(self, table: TableName, catalog: str) -> str:
        """A statement of Spark's SQL that makes a view of the same rows."""
        parts = self.parts(table)
        wanted = together(parts.values())
        queries = [
            f"SELECT {', '.join(selection(columns, wanted))}\nFROM {self.tables.source(version, catalog)}"
            for version, columns in parts.items()
        ]
        query = "\nUNION ALL\n".join(queries)
        return f"CREATE OR REPLACE VIEW {quoted(view_name(table))} AS\n{query}"


def together(parts: Iterable[pa.Schema]) -> pa.Schema:
    """The columns that tables with these columns have together."""
    return reduce(lambda one, other: merge(one, other, as_text), parts)


def view_name(table: TableName) -> str:
    """A name that Spark's own catalog takes: letters, digits and underscores."""
    return re.sub(r"\W", "_", f"{table.group}__{table.first.message}", flags=re.ASCII).lower()


def read(session: SparkSession, output: Path, definition: str) -> DataFrame:
    """All messages of a definition (an xid) that have landed in ``output``, over all of its tables.

    Columns that those disagree on are text; one that a table lacks is null there. Raises ``PipelineError``.
    """
    lake = Lake.of(output)
    return lake.frame(session, lake.chosen([definition])[definition])


def views(output: Path, definitions: Sequence[str] = (), catalog: str = "lake") -> list[JSONObject]:
    """The SQL of views over all tables of each definition, those of ``definitions`` (xids) or all.

    Each has ``definition``, ``view``, ``tables`` and ``sql``; ``catalog`` is what Spark calls that of Iceberg tables.
    Raises ``PipelineError``.
    """
    lake = Lake.of(output)
    return [
        {
            "definition": xid,
            "view": view_name(table),
            "tables": [str(version) for version in lake.parts(table)],
            "sql": lake.view(table, catalog),
        }
        for xid, table in lake.chosen(definitions).items()
    ]

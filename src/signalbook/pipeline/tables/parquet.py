"""Tables as folders of Parquet files: ``tables/<group>/<message>/landed_on=<day>/*.parquet``, and ``dead_letters/``.

Next to the files lies ``_common_metadata`` with the columns of all of them, as Parquet knows it: Spark takes a table's
columns from there, and so do we. A column never changes its type: readers that merge what the files say refuse two
types of one column, and others take whichever they see first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from signalbook.pipeline.columns import DAY
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.journal import JournalEntry
from signalbook.pipeline.tables.base import Tables, day_folder, divides, move_in, of_table, versions_of
from signalbook.pipeline.tables.evolution import merge, refuse
from signalbook.pipeline.tables.naming import TableName, home, quoted

COLUMNS: Final = "_common_metadata"
_FILES: Final = "*.parquet"


@dataclass(frozen=True, slots=True)
class ParquetTables(Tables):
    """The folders below ``output``."""

    output: Path

    def versions(self, table: TableName) -> list[TableName]:
        """The folders there are."""
        names = [path.name for path in self._home(table).parent.glob(f"{table.message}*") if path.is_dir()]
        return versions_of(table, names)

    def columns(self, table: TableName) -> pa.Schema:
        """What ``_common_metadata`` says, or all files together where there is none."""
        written = self._home(table) / COLUMNS
        try:
            if written.exists():
                return pq.read_schema(written)
            schemas = (pq.read_schema(path).remove_metadata() for path in sorted(self._home(table).rglob(_FILES)))
            return reduce(lambda there, coming: merge(there, coming, refuse), schemas, pa.schema([]))
        except pa.ArrowInvalid as error:
            raise PipelineError(
                f"table {table} has a file that is no Parquet: {error}. Remove it, then run again: the batch is kept"
            ) from error

    def follow(self, table: TableName, columns: pa.Schema) -> None:
        """A folder takes new columns only."""
        merge(self.columns(table), columns, refuse)

    def folder(self, table: TableName, batch: JournalEntry) -> str:
        """By day or not, as the folder is already: Spark does not see files beside folders of days."""
        flat = next(self._home(table).glob(_FILES), None) is not None
        return day_folder(batch) if self.by_day(table) or (divides(batch, table) and not flat) else ""

    def paths(self, table: TableName) -> list[str]:
        """The folder, where it has files."""
        home = self._home(table)
        return [str(home)] if next(home.rglob(_FILES), None) is not None else []

    def live(self, table: TableName) -> set[str]:
        """The files in the folder."""
        return {str(path) for path in self._home(table).rglob(_FILES)}

    def source(self, table: TableName, catalog: str) -> str:  # noqa: ARG002 - there is none
        """The folder."""
        return f"parquet.{quoted(str(self._home(table)))}"

    def by_day(self, table: TableName) -> bool:
        """Whether there are such folders."""
        return next(self._home(table).glob(f"{DAY}=*"), None) is not None

    def commit(self, batch: JournalEntry, table: TableName) -> None:
        """Rename each file into its folder, then remove those that are replaced; readers see whole files only.

        In this order a run that dies in between leaves rows twice until the next one, and never loses any.
        """
        files, folder = of_table(batch.files, table), self._home(table)
        staged = next((path for file in files if (path := self.output / file.staged).exists()), None)
        if staged is not None:
            # Before the files are there: Spark takes the columns from ``_common_metadata``, and would not show those of
            # the new files.
            self._widen(table, pq.read_schema(staged))
        move_in(self.output, folder, files)
        for file in of_table(batch.removed, table):
            (folder / file.name).unlink(missing_ok=True)

    def _widen(self, table: TableName, columns: pa.Schema) -> None:
        """Write down what columns there will be, before there are any files with them."""
        written = self._home(table) / COLUMNS
        there = self.columns(table)
        wide = merge(there, columns, refuse).remove_metadata()
        # Docs of columns count too: a definition may have changed what it says of one.
        if wide.equals(there, check_metadata=True) and written.exists():
            return
        written.parent.mkdir(parents=True, exist_ok=True)
        fresh = written.with_suffix(".new")
        pq.write_metadata(wide, fresh)
        fresh.replace(written)

    def _home(self, table: TableName) -> Path:
        return self.output / home(table, "parquet")

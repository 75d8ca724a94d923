"""Tables as folders of Parquet files: ``tables/<group>/<message>/landed_on=<day>/*.parquet``, and ``dead_letters/``.

Next to the files lies ``_common_metadata`` with the columns of all of them, as Parquet knows it: Spark takes a table's
columns from there, and so do we. A column never changes its type: readers that merge what the files say refuse two
types of one column, and others take whichever they see first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial, reduce
from itertools import islice
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from signalbook.pipeline.columns import DAY
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.journal import JournalEntry
from signalbook.pipeline.places import Place, Where, place_of
from signalbook.pipeline.tables.base import (
    Tables,
    build_day_folder,
    is_divided_by_day,
    move_in,
    of_table,
    select_versions,
)
from signalbook.pipeline.tables.evolution import merge, refuse
from signalbook.pipeline.tables.table_names import DEAD_LETTERS, TableName, find_table_folder, quote_name

COLUMNS: Final = "_common_metadata"
_SUFFIX: Final = ".parquet"
_TRIES: Final = 10


class ParquetTables(Tables):
    """The folders below ``output``."""

    def __init__(self, output: Where) -> None:
        self.output = place_of(output)
        self._folders: dict[str, list[str]] = {}
        self._known: dict[TableName, tuple[bytes, pa.Schema]] = {}
        self._coming: dict[TableName, pa.Schema] = {}

    @property
    def concurrent(self) -> bool:
        """Folders know nothing of each other."""
        return True

    def find_versions(self, table: TableName) -> list[TableName]:
        """Return the existing folders."""
        group = self._find_home(table).parent
        # One look for all tables of a group: in a store it is a request.
        if str(group) not in self._folders:
            self._folders[str(group)] = group.list_folders()
        return select_versions(table, self._folders[str(group)])

    def read_columns(self, table: TableName) -> pa.Schema:
        """Return the columns in ``_common_metadata``, or of all files together without it."""
        written = self._read_common_metadata(table)
        return self._merge_file_columns(table) if written is None else written[0]

    def _read_common_metadata(self, table: TableName) -> tuple[pa.Schema, str] | None:
        """Read ``_common_metadata`` and its tag."""
        try:
            content, tag = (self._find_home(table) / COLUMNS).read_tagged()
        except FileNotFoundError:
            return None
        # The same columns are asked for several times in a batch; of hundreds, to read them is most of a commit.
        if table not in self._known or self._known[table][0] != content:
            with _read_errors(table):
                self._known[table] = content, pq.read_schema(pa.BufferReader(content))
        return self._known[table][1], tag

    def _merge_file_columns(self, table: TableName) -> pa.Schema:
        with _read_errors(table):
            schemas = (pq.read_schema(place.open_for_arrow()).remove_metadata() for place in self._list_files(table))
            return reduce(lambda existing, incoming: merge(existing, incoming, refuse), schemas, pa.schema([]))

    def follow(self, table: TableName, columns: pa.Schema) -> None:
        """A folder takes new columns only."""
        existing = self.read_columns(table)
        if not existing.equals(columns, check_metadata=True):
            merge(existing, columns, refuse)

    def expect(self, table: TableName, columns: pa.Schema) -> None:
        """Expect these columns: reading hundreds of columns is most of a commit."""
        self._coming[table] = columns

    def choose_folder(self, table: TableName, batch: JournalEntry) -> str:
        """Return the folder, by day or not like the existing one: Spark ignores files next to folders of days."""
        # Each look lists all files right below it, which in a store are requests.
        if table == DEAD_LETTERS:
            return ""
        if self.is_by_day(table):
            return build_day_folder(batch)
        if not is_divided_by_day(batch, table):
            return ""
        flat = any(file.path.endswith(_SUFFIX) for file in self._find_home(table).list_files())
        return "" if flat else build_day_folder(batch)

    def find_paths(self, table: TableName) -> list[str]:
        """Return the folder, if it has files."""
        home = self._find_home(table)
        return [str(home)] if any(file.path.endswith(_SUFFIX) for file in home.list_files(deep=True)) else []

    def find_live_paths(self, table: TableName) -> set[str]:
        """Return the files in the folder."""
        return {str(place) for place in self._list_files(table)}

    def build_source(self, table: TableName, catalog: str) -> str:  # noqa: ARG002 - there is none
        """Return the folder as a table name."""
        return f"parquet.{quote_name(str(self._find_home(table)))}"

    def is_by_day(self, table: TableName) -> bool:
        """Return True if there are folders of days."""
        return any(name.startswith(f"{DAY}=") for name in self._find_home(table).list_folders())

    def commit(self, batch: JournalEntry, table: TableName) -> None:
        """Rename each file into its folder, then remove those that are replaced; readers see whole files only.

        In this order a run that dies in between leaves rows twice until the next one, and never loses any.
        """
        files, folder = of_table(batch.files, table), self._find_home(table)
        staged = self._coming.pop(table, None)
        if staged is None:
            schemas = (_read_schema(self.output / file.staged) for file in files)
            existing = (schema for schema in schemas if schema is not None)
            # Of a run the files have the same columns; a backfill gives each the columns that it gains.
            staged = reduce(partial(merge, judge=refuse), islice(existing, None if batch.removed else 1), pa.schema([]))
        if len(staged):
            # Before the files are there: Spark takes the columns from ``_common_metadata``, and would not show those of
            # the new files.
            self._write_columns(table, staged)
        move_in(self.output, folder, files)
        removed = [folder / file.name for file in of_table(batch.removed, table)]
        for place in removed:
            place.delete()
        # Before the journal forgets that they are to be removed.
        for parent in {str(place.parent): place.parent for place in removed}.values():
            parent.settle()

    def _write_columns(self, table: TableName, columns: pa.Schema) -> None:
        """Write the columns that there will be, before any file has them."""
        place = self._find_home(table) / COLUMNS
        place.parent.make()
        for _ in range(_TRIES):
            written = self._read_common_metadata(table)
            existing = self._merge_file_columns(table) if written is None else written[0]
            # Docs of columns count too: a definition may have changed what it says of one.
            same = existing.equals(columns.remove_metadata(), check_metadata=True)
            wide = existing if same else merge(existing, columns, refuse).remove_metadata()
            if written is not None and wide.equals(existing, check_metadata=True):
                return
            content = _build_metadata(wide)
            # In a store another program may be at it: then its columns are looked at once more.
            if place.create(content) if written is None else place.swap(content, written[1]):
                return
        raise PipelineError(f"table {table} is being changed by other programs again and again: run again")

    def _list_files(self, table: TableName) -> list[Place]:
        home = self._find_home(table)
        return [
            home / path for path in sorted(file.path for file in home.list_files(deep=True)) if path.endswith(_SUFFIX)
        ]

    def _find_home(self, table: TableName) -> Place:
        return self.output / find_table_folder(table, "parquet")


def _build_metadata(schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_metadata(schema, sink)
    return bytes(sink.getvalue())


def _read_schema(place: Place) -> pa.Schema | None:
    """Return the schema of a file, or None."""
    try:
        return pq.read_schema(place.open_for_arrow())
    except FileNotFoundError:
        return None


@contextmanager
def _read_errors(table: TableName) -> Iterator[None]:
    try:
        yield
    except pa.ArrowInvalid as error:
        raise PipelineError(
            f"table {table} has a file that is no Parquet: {error}. Remove it, then run again: the batch is kept"
        ) from error

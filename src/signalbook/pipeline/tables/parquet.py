"""Tables as folders of Parquet files: ``tables/<group>/<message>/landed_on=<day>/*.parquet``, and ``dead_letters/``.

Each table has a file ``_common_metadata`` with the columns of all of its files, as Parquet defines it. Both Spark and
the pipeline take a table's columns from there. A column never changes its type: readers that merge the columns of files
reject two types of one column, and other readers take the first type that they see.
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
from signalbook.pipeline.table_names import DEAD_LETTERS, TableName, find_table_folder, quote_name
from signalbook.pipeline.tables.base import (
    Tables,
    build_day_folder,
    is_divided_by_day,
    move_in,
    of_table,
    select_versions,
)
from signalbook.pipeline.tables.evolution import merge, refuse

COLUMNS: Final = "_common_metadata"
_SUFFIX: Final = ".parquet"
_TRIES: Final = 10


class ParquetTables(Tables):
    """The tables below ``output``, as folders of Parquet files."""

    def __init__(self, output: Where) -> None:
        self.output = place_of(output)
        self._folders: dict[str, list[str]] = {}
        self._known: dict[TableName, tuple[bytes, pa.Schema]] = {}
        self._coming: dict[TableName, pa.Schema] = {}

    @property
    def concurrent(self) -> bool:
        """True, because the folders are independent of each other."""
        return True

    def find_versions(self, table: TableName) -> list[TableName]:
        """Return the tables with a folder."""
        group = self._find_home(table).parent
        # One listing for all tables of a group, because in a store each listing is a request.
        if str(group) not in self._folders:
            self._folders[str(group)] = group.list_folders()
        return select_versions(table, self._folders[str(group)])

    def read_columns(self, table: TableName) -> pa.Schema:
        """Return the columns in ``_common_metadata``. Without that file, merge the columns of all files."""
        written = self._read_common_metadata(table)
        return self._merge_file_columns(table) if written is None else written[0]

    def _read_common_metadata(self, table: TableName) -> tuple[pa.Schema, str] | None:
        """Return the columns in ``_common_metadata`` and the tag of that file, or None if it does not exist."""
        try:
            content, tag = (self._find_home(table) / COLUMNS).read_tagged()
        except FileNotFoundError:
            return None
        # Cached, because a batch needs the same columns several times. Parsing hundreds of columns takes most of a
        # commit's time.
        if table not in self._known or self._known[table][0] != content:
            with _read_errors(table):
                self._known[table] = content, pq.read_schema(pa.BufferReader(content))
        return self._known[table][1], tag

    def _merge_file_columns(self, table: TableName) -> pa.Schema:
        with _read_errors(table):
            schemas = (pq.read_schema(place.open_for_arrow()).remove_metadata() for place in self._list_files(table))
            return reduce(lambda existing, incoming: merge(existing, incoming, refuse), schemas, pa.schema([]))

    def follow(self, table: TableName, columns: pa.Schema) -> None:
        """Raise ``Incompatible`` unless ``columns`` only adds columns to the table."""
        existing = self.read_columns(table)
        if not existing.equals(columns, check_metadata=True):
            merge(existing, columns, refuse)

    def expect(self, table: TableName, columns: pa.Schema) -> None:
        """Remember ``columns`` for the next commit, because reading hundreds of columns takes most of its time."""
        self._coming[table] = columns

    def choose_folder(self, table: TableName, batch: JournalEntry) -> str:
        """Return a folder for the day if the table is, or will be, divided by day, else an empty string.

        A table with files outside of such folders stays undivided, because Spark ignores files next to folders of days.
        """
        # The checks are in this order, because each one lists the files of the folder, by requests in a store.
        if table == DEAD_LETTERS:
            return ""
        if self.is_by_day(table):
            return build_day_folder(batch)
        if not is_divided_by_day(batch, table):
            return ""
        flat = any(file.path.endswith(_SUFFIX) for file in self._find_home(table).list_files())
        return "" if flat else build_day_folder(batch)

    def find_paths(self, table: TableName) -> list[str]:
        """Return the path of the table's folder; empty if it has no files."""
        home = self._find_home(table)
        return [str(home)] if any(file.path.endswith(_SUFFIX) for file in home.list_files(deep=True)) else []

    def find_live_paths(self, table: TableName) -> set[str]:
        """Return the paths of all Parquet files in the table's folder."""
        return {str(place) for place in self._list_files(table)}

    def build_source(self, table: TableName, catalog: str) -> str:  # noqa: ARG002 - there is none
        """Return the folder as a table name."""
        return f"parquet.{quote_name(str(self._find_home(table)))}"

    def is_by_day(self, table: TableName) -> bool:
        """Return True if the table has folders of days."""
        return any(name.startswith(f"{DAY}=") for name in self._find_home(table).list_folders())

    def commit(self, batch: JournalEntry, table: TableName) -> None:
        """Move each staged file into its folder, then remove the replaced files. Readers see only complete files.

        If a run dies in between, the table has some rows twice until the next run. It never loses rows.
        """
        files, folder = of_table(batch.files, table), self._find_home(table)
        staged = self._coming.pop(table, None)
        if staged is None:
            schemas = (_read_schema(self.output / file.staged) for file in files)
            existing = (schema for schema in schemas if schema is not None)
            # All files of a run have the same columns. In a backfill, each file has the columns that it gains.
            staged = reduce(partial(merge, judge=refuse), islice(existing, None if batch.removed else 1), pa.schema([]))
        if len(staged):
            # Before the files are moved: Spark takes the columns from ``_common_metadata``, and would not show new
            # columns of the files.
            self._write_columns(table, staged)
        move_in(self.output, folder, files)
        removed = [folder / file.name for file in of_table(batch.removed, table)]
        for place in removed:
            place.delete()
        # Make the removals durable before the journal entry, which lists them, is completed.
        for parent in {str(place.parent): place.parent for place in removed}.values():
            parent.settle()

    def _write_columns(self, table: TableName, columns: pa.Schema) -> None:
        """Add ``columns`` to ``_common_metadata``.

        Raises ``PipelineError`` if other programs keep changing that file.
        """
        place = self._find_home(table) / COLUMNS
        place.parent.make()
        for _ in range(_TRIES):
            written = self._read_common_metadata(table)
            existing = self._merge_file_columns(table) if written is None else written[0]
            # Descriptions are compared, too, because a definition may have changed the description of a column.
            same = existing.equals(columns.remove_metadata(), check_metadata=True)
            wide = existing if same else merge(existing, columns, refuse).remove_metadata()
            if written is not None and wide.equals(existing, check_metadata=True):
                return
            content = _build_metadata(wide)
            # In a store, another program may have changed the file meanwhile. Then the columns are read again.
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
    """Return the schema of a file, or None if the file does not exist."""
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

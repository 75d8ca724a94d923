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
from signalbook.pipeline.tables.base import Tables, day_folder, divides, move_in, of_table, versions_of
from signalbook.pipeline.tables.evolution import merge, refuse
from signalbook.pipeline.tables.naming import DEAD_LETTERS, TableName, home, quoted

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

    def versions(self, table: TableName) -> list[TableName]:
        """The folders there are."""
        group = self._home(table).parent
        # One look for all tables of a group: in a store it is a request.
        if str(group) not in self._folders:
            self._folders[str(group)] = group.folders()
        return versions_of(table, self._folders[str(group)])

    def columns(self, table: TableName) -> pa.Schema:
        """Return the columns in ``_common_metadata``, or of all files together without it."""
        written = self._written(table)
        return self._columns_of_files(table) if written is None else written[0]

    def _written(self, table: TableName) -> tuple[pa.Schema, str] | None:
        """Read ``_common_metadata`` and its tag."""
        try:
            content, tag = (self._home(table) / COLUMNS).tagged()
        except FileNotFoundError:
            return None
        # The same columns are asked for several times in a batch; of hundreds, to read them is most of a commit.
        if table not in self._known or self._known[table][0] != content:
            with _read_errors(table):
                self._known[table] = content, pq.read_schema(pa.BufferReader(content))
        return self._known[table][1], tag

    def _columns_of_files(self, table: TableName) -> pa.Schema:
        with _read_errors(table):
            schemas = (pq.read_schema(place.arrow_source()).remove_metadata() for place in self._files(table))
            return reduce(lambda there, coming: merge(there, coming, refuse), schemas, pa.schema([]))

    def follow(self, table: TableName, columns: pa.Schema) -> None:
        """A folder takes new columns only."""
        there = self.columns(table)
        if not there.equals(columns, check_metadata=True):
            merge(there, columns, refuse)

    def expect(self, table: TableName, columns: pa.Schema) -> None:
        """Expect these columns: reading hundreds of columns is most of a commit."""
        self._coming[table] = columns

    def folder(self, table: TableName, batch: JournalEntry) -> str:
        """Return the folder, by day or not like the existing one: Spark ignores files next to folders of days."""
        # Each look lists all files right below it, which in a store are requests.
        if table == DEAD_LETTERS:
            return ""
        if self.by_day(table):
            return day_folder(batch)
        if not divides(batch, table):
            return ""
        flat = any(found.path.endswith(_SUFFIX) for found in self._home(table).files())
        return "" if flat else day_folder(batch)

    def paths(self, table: TableName) -> list[str]:
        """The folder, where it has files."""
        home = self._home(table)
        return [str(home)] if any(found.path.endswith(_SUFFIX) for found in home.files(deep=True)) else []

    def live(self, table: TableName) -> set[str]:
        """The files in the folder."""
        return {str(place) for place in self._files(table)}

    def source(self, table: TableName, catalog: str) -> str:  # noqa: ARG002 - there is none
        """The folder."""
        return f"parquet.{quoted(str(self._home(table)))}"

    def by_day(self, table: TableName) -> bool:
        """Return True if there are folders of days."""
        return any(name.startswith(f"{DAY}=") for name in self._home(table).folders())

    def commit(self, batch: JournalEntry, table: TableName) -> None:
        """Rename each file into its folder, then remove those that are replaced; readers see whole files only.

        In this order a run that dies in between leaves rows twice until the next one, and never loses any.
        """
        files, folder = of_table(batch.files, table), self._home(table)
        staged = self._coming.pop(table, None)
        if staged is None:
            schemas = (_schema(self.output / file.staged) for file in files)
            there = (schema for schema in schemas if schema is not None)
            # Of a run the files have the same columns; a backfill gives each the columns that it gains.
            staged = reduce(partial(merge, judge=refuse), islice(there, None if batch.removed else 1), pa.schema([]))
        if len(staged):
            # Before the files are there: Spark takes the columns from ``_common_metadata``, and would not show those of
            # the new files.
            self._widen(table, staged)
        move_in(self.output, folder, files)
        removed = [folder / file.name for file in of_table(batch.removed, table)]
        for place in removed:
            place.delete()
        # Before the journal forgets that they are to be removed.
        for parent in {str(place.parent): place.parent for place in removed}.values():
            parent.settle()

    def _widen(self, table: TableName, columns: pa.Schema) -> None:
        """Write down what columns there will be, before there are any files with them."""
        place = self._home(table) / COLUMNS
        place.parent.make()
        for _ in range(_TRIES):
            written = self._written(table)
            there = self._columns_of_files(table) if written is None else written[0]
            # Docs of columns count too: a definition may have changed what it says of one.
            same = there.equals(columns.remove_metadata(), check_metadata=True)
            wide = there if same else merge(there, columns, refuse).remove_metadata()
            if written is not None and wide.equals(there, check_metadata=True):
                return
            content = _metadata(wide)
            # In a store another program may be at it: then its columns are looked at once more.
            if place.create(content) if written is None else place.swap(content, written[1]):
                return
        raise PipelineError(f"table {table} is being changed by other programs again and again: run again")

    def _files(self, table: TableName) -> list[Place]:
        home = self._home(table)
        return [home / path for path in sorted(found.path for found in home.files(deep=True)) if path.endswith(_SUFFIX)]

    def _home(self, table: TableName) -> Place:
        return self.output / home(table, "parquet")


def _metadata(schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_metadata(schema, sink)
    return bytes(sink.getvalue())


def _schema(place: Place) -> pa.Schema | None:
    """Return the schema of a file, or None."""
    try:
        return pq.read_schema(place.arrow_source())
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

"""An Iceberg catalog in a database, which is written once for all tables of a batch.

A database writes each transaction to disk before it continues, which takes longer than the rest of a commit. Here, the
metadata file of each table is written as usual, but the catalog's rows are updated in one transaction: either all
tables have the batch, or none has it yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyiceberg.catalog.sql import IcebergTables as TableRow
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import FileIO
from pyiceberg.serializers import Compressor
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier

from signalbook.pipeline.tables.iceberg_internals import OpenSqlCatalog
from signalbook.pipeline.tables.iceberg_metadata import (
    RememberingCatalog,
    build_commit_response,
    parse_metadata,
    remember,
)


@dataclass(frozen=True, slots=True)
class _Row:
    """The new location of a table's metadata. ``before`` is the old location, None for a new table."""

    name: Identifier
    location: str
    before: str | None


class RememberingSqlCatalog(RememberingCatalog, OpenSqlCatalog):
    """A catalog in a database that caches the metadata of tables, and can commit several tables together."""

    _rows: list[_Row] | None = None

    @property
    def gathers(self) -> bool:
        """True if commits can be delayed and made together: the database must return the number of updated rows."""
        return bool(self.engine.dialect.supports_sane_rowcount)

    def gather(self) -> bool:
        """Delay all commits from now on until ``make`` is called.

        Return False if the database does not support this.
        """
        if self.gathers:
            self._rows = []
        return self.gathers

    def make(self) -> bool:
        """Make all commits since ``gather`` and return True.

        If another program has changed one of the tables since then, make no commit and return False.
        """
        rows, self._rows = self._rows, None
        if not rows:
            return True
        new = [self._new(row) for row in rows if row.before is None]
        table: Any = TableRow.__table__
        with self.engine.connect() as connection:
            try:
                if new:
                    connection.execute(table.insert(), new)
            except Exception as error:
                if type(error).__name__ == "IntegrityError":  # of SQLAlchemy: a new table exists by now
                    return False
                raise
            for row in rows:
                if row.before is not None and connection.execute(self._build_change(table, row)).rowcount < 1:
                    return False
            connection.commit()
        return True

    def _build_change(self, table: Any, row: _Row) -> Any:
        namespace, name = self._split_name(row)
        existing = table.update().where(
            table.c.catalog_name == self.name,
            table.c.table_namespace == namespace,
            table.c.table_name == name,
            table.c.metadata_location == row.before,
        )
        return existing.values(metadata_location=row.location, previous_metadata_location=row.before)

    def _new(self, row: _Row) -> dict[str, str | None]:
        return self.build_row(*self._split_name(row), row.location)

    def _split_name(self, row: _Row) -> tuple[str, str]:
        return self.namespace_to_string(row.name[:-1]), row.name[-1]

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit like the base class, or after ``gather`` delay the commit. Raises ``CommitFailedException``."""
        if self._rows is None:
            return super().commit_table(table, requirements, updates)
        current = None if isinstance(table, StagedTable) else self._load_current(table)
        staged = self.stage_update(current, table.name(), requirements, updates)
        self.write_metadata(staged.metadata, staged.io, staged.metadata_location)
        before = None if current is None else current.metadata_location
        self._rows.append(_Row(table.name(), staged.metadata_location, before))
        return build_commit_response(staged.metadata, staged.metadata_location)

    def _load_current(self, table: Table) -> Table | None:
        try:
            return self.load_table(table.name())
        except NoSuchTableError:
            return None  # then the requirements of the commit fail

    def open_row(self, row: TableRow) -> Table:
        """Return the table of a row, with cached metadata."""
        location = str(row.metadata_location)
        with self.load_io(location).new_input(location).open() as stream:
            metadata = parse_metadata(stream.read(), location)
        name = (*self.identifier_to_tuple(str(row.table_namespace)), str(row.table_name))
        return Table(name, metadata, location, self.load_io(location, metadata.properties), self)

    def write_metadata(self, metadata: TableMetadata, io: FileIO, location: str) -> None:
        """Write and cache the metadata of a table."""
        text = metadata.model_dump_json(exclude_none=True)
        content = Compressor.get_compressor(location).bytes_compressor()(text.encode())
        with io.new_output(location).create() as stream:
            stream.write(content)
        remember(content, metadata, location)

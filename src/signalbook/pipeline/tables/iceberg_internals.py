"""All private names of pyiceberg that the pipeline uses. No other module uses any.

pyiceberg has no public way to share what it computes for each commit, or to change how catalogs do their work. After
an upgrade of pyiceberg, ``tests/test_private_names.py`` reports the names that are missing.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import IcebergTables as TableRow
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import _check_pyarrow_schema_compatible
from pyiceberg.schema import Schema
from pyiceberg.table import StagedTable, Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier, TableVersion
from requests import Session


def check_columns(schema: Schema, columns: pa.Schema, format_version: TableVersion) -> None:
    """Raise ``ValueError`` if a file with ``columns`` does not fit a table with ``schema``."""
    _check_pyarrow_schema_compatible(schema, columns, format_version=format_version)


def convert_columns(columns: pa.Schema) -> Schema:
    """Return the schema of a table with ``columns``, whose fields have no ids yet."""
    return Catalog._convert_schema_if_needed(columns)


def get_table(transaction: Transaction) -> Table:
    """Return the table that ``transaction`` changes, or a staged table that it creates."""
    return transaction._table


def get_updates(transaction: Transaction) -> tuple[TableUpdate, ...]:
    """Return the changes of ``transaction`` so far. Each change makes a new tuple."""
    return transaction._updates


class OpenCatalog(MetastoreCatalog):
    """A catalog with a public method that subclasses can override."""

    def stage_update(
        self,
        current: Table | None,
        identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        """Return the table after ``updates``, before it is stored. ``current`` is None for a new table.

        Raises ``CommitFailedException`` if ``current`` does not meet the ``requirements``.
        """
        return super()._update_and_stage_table(current, identifier, requirements, updates)

    def _update_and_stage_table(
        self,
        current_table: Table | None,
        table_identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        return self.stage_update(current_table, table_identifier, requirements, updates)


class OpenSqlCatalog(SqlCatalog):
    """A catalog in a database with public methods that subclasses can override."""

    def build_row(self, namespace: str, name: str, location: str) -> dict[str, Any]:
        """Return the row of a table with its metadata at ``location``."""
        return self._create_table_row(namespace, name, location)

    def open_row(self, row: TableRow) -> Table:
        return super()._convert_orm_to_iceberg(row)

    def write_metadata(self, metadata: TableMetadata, io: FileIO, location: str) -> None:
        """Write the metadata of a table to a file at ``location``."""
        super()._write_metadata(metadata, io, location)

    def _convert_orm_to_iceberg(self, orm_table: TableRow) -> Table:
        return self.open_row(orm_table)

    def _write_metadata(self, metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:  # type: ignore[override] # static there
        self.write_metadata(metadata, io, metadata_path)


class OpenRestCatalog(RestCatalog):
    """A catalog behind HTTP with a public method that subclasses can override."""

    def create_session(self) -> Session:
        """Return a new HTTP session."""
        return super()._create_session()

    def _create_session(self) -> Session:
        return self.create_session()

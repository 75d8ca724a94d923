"""Transactions of Iceberg tables that compute the metadata of the table only once for each change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.table import CreateTableTransaction, StagedTable, Table, TableProperties, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.utils.properties import property_as_bool

from signalbook.pipeline.places import Place, run_in_parallel
from signalbook.pipeline.tables.iceberg_internals import get_table, get_updates
from signalbook.pipeline.tables.iceberg_metadata import ParquetFooter, SharedSchema, build_data_file, share_schemas

BATCH_KEY: Final = "signalbook.batch"


class Landed(Exception):
    """The signal that the batch is already in the table."""


class TableTransaction(Transaction):
    """A transaction that computes the table's metadata once for each change.

    pyiceberg computes and copies the metadata each time that it reads an attribute: seventeen times for an append. With
    hundreds of columns this takes five times as long as the rest. ``made_of`` are the columns of a new table.
    """

    made_of: pa.Schema | None = None
    _known: tuple[TableMetadata, tuple[object, ...], TableMetadata] | None = None

    def add(self, first: ParquetFooter, places: Sequence[Place], summary: dict[str, str]) -> None:
        """Add the file of the footer ``first`` and the files at ``places``, with ``summary`` in the snapshot.

        pyiceberg's ``add_files`` is slower: it reads all manifests to find duplicates, and compares the columns of each
        file.
        """
        if TableProperties.DEFAULT_NAME_MAPPING not in self.table_metadata.properties:
            schema = self.table_metadata.schema()
            names = schema.names if isinstance(schema, SharedSchema) else schema.name_mapping.model_dump_json()
            self.set_properties({TableProperties.DEFAULT_NAME_MAPPING: names})
        metadata = self.table_metadata
        snapshot = self.update_snapshot(snapshot_properties=summary)
        merge = property_as_bool(
            metadata.properties,
            TableProperties.MANIFEST_MERGE_ENABLED,
            TableProperties.MANIFEST_MERGE_ENABLED_DEFAULT,
        )
        with snapshot.merge_append() if merge else snapshot.fast_append() as append:
            append.append_data_file(build_data_file(metadata, first, self.made_of))
            for file in run_in_parallel(
                first.place, lambda place: build_data_file(metadata, ParquetFooter(place), self.made_of), places
            ):
                append.append_data_file(file)

    def replace(self, removed: Sequence[IcebergFile], places: Sequence[Place], summary: dict[str, str]) -> None:
        """Replace the files ``removed`` by those at ``places`` in one snapshot."""
        with self.update_snapshot(snapshot_properties=summary).overwrite() as overwrite:
            for file in removed:
                overwrite.delete_data_file(file)
            for place in places:
                overwrite.append_data_file(build_data_file(self.table_metadata, ParquetFooter(place)))

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata with the changes made so far."""
        before, updates = get_table(self).metadata, get_updates(self)
        if not updates:
            return before
        if self._known is None or self._known[0] is not before or self._known[1] is not updates:
            self._known = before, updates, share_schemas(super().table_metadata)
        return self._known[2]


class CreateTransaction(TableTransaction, CreateTableTransaction):
    """A ``TableTransaction`` for a new table, whose columns are ``made_of``."""

    def __init__(self, table: StagedTable, made_of: pa.Schema) -> None:
        super().__init__(table)
        self.made_of = made_of
        # The metadata of a staged table already contains the updates that create it.
        self._known = table.metadata, get_updates(self), table.metadata


class Watched(Table):
    """A table that never gets the same batch twice, although pyiceberg reloads it and retries after a conflict."""

    def __init__(self, table: Table, batch: str) -> None:
        super().__init__(table.name(), table.metadata, table.metadata_location, table.io, table.catalog, table.config)
        self._batch = batch

    def transaction(self) -> TableTransaction:
        """Return a transaction for changes of this table."""
        return TableTransaction(self)

    def refresh(self) -> Table:
        """Load the table again. Raises ``Landed`` if the table has the batch."""
        super().refresh()
        if has(self, self._batch):
            raise Landed
        return self


def has(table: Table, batch: str) -> bool:
    """Return True if ``table`` has a snapshot of the batch with the id ``batch``."""
    summaries = (snapshot.summary for snapshot in table.snapshots())
    return any(summary is not None and summary.get(BATCH_KEY) == batch for summary in summaries)

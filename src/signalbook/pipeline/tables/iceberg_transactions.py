"""Changes of an Iceberg table that are made at once, its metadata worked out once for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.table import CreateTableTransaction, StagedTable, Table, TableProperties, Transaction
from pyiceberg.table.metadata import TableMetadata

from signalbook.pipeline.places import Place, run_in_parallel
from signalbook.pipeline.tables.iceberg_metadata import ParquetFooter, SharedSchema, build_data_file, share_schemas

BATCH_KEY: Final = "signalbook.batch"


class Landed(Exception):
    """The batch is in the table by now."""


class TableTransaction(Transaction):
    """A transaction that works out the table's metadata once for each change of them.

    pyiceberg does it, with a deep copy, whenever one of their attributes is read: seventeen times for an append, which
    for hundreds of columns takes five times as long as all the rest. ``made_of`` are the columns of a new table.
    """

    made_of: pa.Schema | None = None
    _known: tuple[TableMetadata, tuple[object, ...], TableMetadata] | None = None

    def add(self, first: ParquetFooter, places: Sequence[Place], summary: dict[str, str]) -> None:
        """Add files, as ``add_files`` does.

        That would read all manifests to find duplicates, or else take the columns of each file for new ones.
        """
        if TableProperties.DEFAULT_NAME_MAPPING not in self.table_metadata.properties:
            schema = self.table_metadata.schema()
            names = schema.names if isinstance(schema, SharedSchema) else schema.name_mapping.model_dump_json()
            self.set_properties({TableProperties.DEFAULT_NAME_MAPPING: names})
        metadata = self.table_metadata
        with self._append_snapshot_producer(summary) as append:
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
        before = self._table.metadata
        if not self._updates:
            return before
        if self._known is None or self._known[0] is not before or self._known[1] is not self._updates:
            self._known = before, self._updates, share_schemas(super().table_metadata)
        return self._known[2]


class CreateTransaction(TableTransaction, CreateTableTransaction):
    """The same for a table that is made, of columns that are ``made_of``."""

    def __init__(self, table: StagedTable, made_of: pa.Schema) -> None:
        super().__init__(table)
        self.made_of = made_of
        # what makes the table is in its metadata already
        self._known = table.metadata, self._updates, table.metadata


class Watched(Table):
    """A table that is not given a batch twice: pyiceberg looks at it anew and goes on after a conflict."""

    def __init__(self, table: Table, batch: str) -> None:
        super().__init__(table.name(), table.metadata, table.metadata_location, table.io, table.catalog, table.config)
        self._batch = batch

    def transaction(self) -> TableTransaction:
        """Changes that are made together."""
        return TableTransaction(self)

    def refresh(self) -> Table:
        """Look at the table anew. Raises ``Landed``."""
        super().refresh()
        if has(self, self._batch):
            raise Landed
        return self


def has(table: Table, batch: str) -> bool:
    """Return True if a batch is in a table."""
    summaries = (snapshot.summary for snapshot in table.snapshots())
    return any(summary is not None and summary.get(BATCH_KEY) == batch for summary in summaries)

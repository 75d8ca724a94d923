"""Iceberg tables in a SQL catalog at ``catalog.db``: a namespace per message group, a table per message definition.

Each batch is one snapshot of a table, with the batch id in its summary: a commit that finds it there has been made.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError
from pyiceberg.table import Table

from signalbook.pipeline.failures import PipelineError
from signalbook.pipeline.journal import TABLES, Batch, DataFile
from signalbook.pipeline.naming import DEAD_LETTERS, TableName, definition_of
from signalbook.pipeline.tables.base import move_in

CATALOG: Final = "catalog.db"
# The name that pyiceberg takes where none is given.
NAME: Final = "default"
BATCH_KEY: Final = "signalbook.batch"
FINGERPRINT_KEY: Final = "signalbook.fingerprint"
DEFINITION_KEY: Final = "signalbook.definition"


class IcebergTables:
    """The catalog and the tables below ``output``."""

    def __init__(self, output: Path, batch: Batch) -> None:
        self.output = output.absolute()
        self._batch = batch
        self._namespaces: set[str] = set()

    @cached_property
    def catalog(self) -> SqlCatalog:
        """The catalog, made when first used."""
        return SqlCatalog(NAME, uri=f"sqlite:///{self.output / CATALOG}", warehouse=f"file://{self.output}/{TABLES}")

    def commit(self, table: TableName, files: Sequence[DataFile]) -> None:
        """Add the files to the table in one snapshot, widening its schema where they have more columns."""
        places = [str(place) for place in move_in(self.output, self._location(table) / "data", files)]
        schema = pq.read_schema(places[0])
        found = self._table(table, schema)
        if any(
            snapshot.summary and snapshot.summary.get(BATCH_KEY) == self._batch.id for snapshot in found.snapshots()
        ):
            return
        summary = {BATCH_KEY: self._batch.id, FINGERPRINT_KEY: self._batch.fingerprint}
        try:
            with found.transaction() as transaction:
                with transaction.update_schema() as update:
                    update.union_by_name(schema)
                transaction.add_files(places, snapshot_properties=summary, check_duplicate_files=False)
        except (ValueError, TypeError) as error:
            raise PipelineError(
                f"table {table} does not take the columns of batch {self._batch.id}: {error}. Its definition changed "
                "in a way that the table cannot follow: move the table away, then run again with the same batch id"
            ) from error

    def _location(self, table: TableName) -> Path:
        return self.output / TABLES / table.path

    def _table(self, table: TableName, schema: pa.Schema) -> Table:
        identifier = (table.group, table.message)
        with suppress(NoSuchTableError):
            return self.catalog.load_table(identifier)
        if table.group not in self._namespaces:
            with suppress(NamespaceAlreadyExistsError):
                self.catalog.create_namespace((table.group,))
            self._namespaces.add(table.group)
        properties = {} if table == DEAD_LETTERS else {DEFINITION_KEY: definition_of(table)}
        location = f"file://{self._location(table)}"
        return self.catalog.create_table(identifier, schema=schema, location=location, properties=properties)

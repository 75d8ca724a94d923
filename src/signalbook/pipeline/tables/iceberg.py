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
from pyiceberg.table import Table, Transaction

from signalbook.pipeline.failures import PipelineError
from signalbook.pipeline.journal import Batch, DataFile
from signalbook.pipeline.naming import DEAD_LETTERS, TABLES, TableName, definition_of, home
from signalbook.pipeline.tables.base import move_in
from signalbook.values import digest

CATALOG: Final = "catalog.db"
# The name that pyiceberg takes where none is given.
NAME: Final = "default"
BATCH_KEY: Final = "signalbook.batch"
FINGERPRINT_KEY: Final = "signalbook.fingerprint"
DEFINITION_KEY: Final = "signalbook.definition"
COLUMNS_KEY: Final = "signalbook.columns"


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
        """Add the files to the table in one snapshot, making it or widening its schema where need be."""
        places = [str(place) for place in move_in(self.output, self.output / home(table, "iceberg"), files)]
        schema = pq.read_schema(places[0])
        found = self._find(table)
        if found is not None and _has(found, self._batch.id):
            return
        try:
            with self._create(table, schema) if found is None else found.transaction() as transaction:
                if found is not None and found.properties.get(COLUMNS_KEY) != _columns(schema):
                    self._widen(transaction, schema)
                summary = {BATCH_KEY: self._batch.id, FINGERPRINT_KEY: self._batch.fingerprint}
                transaction.add_files(places, snapshot_properties=summary, check_duplicate_files=False)
        except (ValueError, TypeError) as error:
            raise PipelineError(
                f"table {table} does not take the columns of batch {self._batch.id}: {error}. Its definition changed "
                "in a way that the table cannot follow: move the table away, then run again with the same batch id"
            ) from error

    def _find(self, table: TableName) -> Table | None:
        try:
            return self.catalog.load_table((table.group, table.message))
        except NoSuchTableError:
            return None

    def _create(self, table: TableName, schema: pa.Schema) -> Transaction:
        """A table that comes to be with its first files: one commit instead of three."""
        if table.group not in self._namespaces:
            with suppress(NamespaceAlreadyExistsError):
                self.catalog.create_namespace((table.group,))
            self._namespaces.add(table.group)
        definition = {} if table == DEAD_LETTERS else {DEFINITION_KEY: definition_of(table)}
        return self.catalog.create_table_transaction(
            (table.group, table.message),
            schema=schema,
            location=f"file://{self.output}/{TABLES}/{table.path}",
            properties={COLUMNS_KEY: _columns(schema), **definition},
        )

    def _widen(self, transaction: Transaction, schema: pa.Schema) -> None:
        with transaction.update_schema() as update:
            update.union_by_name(schema)
        transaction.set_properties({COLUMNS_KEY: _columns(schema)})


def _has(table: Table, batch: str) -> bool:
    summaries = (snapshot.summary for snapshot in table.snapshots())
    return any(summary is not None and summary.get(BATCH_KEY) == batch for summary in summaries)


def _columns(schema: pa.Schema) -> str:
    """Equal for equal columns: comparing the schemas themselves takes longer than everything else."""
    return digest(schema.remove_metadata().serialize().to_pybytes())

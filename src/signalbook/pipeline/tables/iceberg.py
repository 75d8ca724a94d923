"""Iceberg tables: a namespace per message group, a table per message definition, their files in the output folder.

Each batch is one snapshot of a table, with the batch id in its summary. If a table has a snapshot with that id, the
batch is committed. This is checked before each attempt to commit, and the attempt fails if the table has changed since
the check. So a batch is never committed twice, even if a response is lost or a request of a dead process is still under
way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property, reduce
from threading import Lock
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, StagedTable, Table, Transaction
from pyiceberg.transforms import DayTransform
from requests import RequestException

from signalbook.pipeline.columns import DAY, LANDED_AT
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.journal import PREPARED, JournalEntry
from signalbook.pipeline.places import Place, Where, place_of
from signalbook.pipeline.table_names import (
    DEAD_LETTERS,
    TABLES,
    TableName,
    find_definition,
    find_table_folder,
    quote_name,
)
from signalbook.pipeline.tables.base import (
    Outdated,
    Tables,
    build_day_folder,
    is_divided_by_day,
    move_in,
    of_table,
    select_versions,
)
from signalbook.pipeline.tables.evolution import merge, promote, simplify
from signalbook.pipeline.tables.iceberg_catalogs import CatalogConnection, connect, convert_catalog_errors
from signalbook.pipeline.tables.iceberg_internals import get_table
from signalbook.pipeline.tables.iceberg_metadata import ParquetFooter, find_schema, share_schemas
from signalbook.pipeline.tables.iceberg_sql import RememberingSqlCatalog
from signalbook.pipeline.tables.iceberg_store import StoreCatalog
from signalbook.pipeline.tables.iceberg_transactions import (
    BATCH_KEY,
    CreateTransaction,
    Landed,
    TableTransaction,
    Watched,
    has,
)
from signalbook.values import digest

FINGERPRINT_KEY: Final = "signalbook.fingerprint"
DEFINITION_KEY: Final = "signalbook.definition"
COLUMNS_KEY: Final = "signalbook.columns"
OUTPUT_KEY: Final = "signalbook.output"
# After these errors the commit may have succeeded or not, another program may have been faster, or the table may be
# gone. The table is loaded again.
_UNSURE: Final = (
    CommitFailedException,
    NoSuchTableError,
    RequestException,
    RESTError,
    TableAlreadyExistsError,
    ValidationException,
)


class IcebergTables(Tables):
    """The catalog and the tables below ``output``."""

    def __init__(self, output: Where) -> None:
        self.output = place_of(output)
        self._names: dict[str, set[str]] = {}
        self._missing: set[str] = set()
        self._loaded: dict[TableName, Table | None] = {}
        self._waiting: list[tuple[JournalEntry, TableName]] | None = None
        self._making = Lock()

    @cached_property
    def _connection(self) -> CatalogConnection:
        return connect(self.output)

    @property
    def catalog(self) -> Catalog:
        """The catalog, connected at first use. Raises ``PipelineError`` if it cannot be reached."""
        return self._connection.catalog

    def build_identifier(self, table: TableName) -> tuple[str, ...]:
        """Return the identifier of a table in the catalog."""
        return (*self._connection.namespace, table.group, table.message)

    def find_versions(self, table: TableName) -> list[TableName]:
        """Return the tables of the definition that are in the catalog."""
        candidates = select_versions(table, self._list_names(table.group))
        # In a store, names are folders, which may not be tables. Only these candidates are checked, which will be
        # loaded anyway.
        if self._by_folders:
            return [candidate for candidate in candidates if self._find(candidate) is not None]
        return candidates

    @property
    def _by_folders(self) -> bool:
        return isinstance(self.catalog, StoreCatalog)

    def read_columns(self, table: TableName) -> pa.Schema:
        """Return the columns of the current schema of a table."""
        iceberg_table = self._find(table)
        return pa.schema([]) if iceberg_table is None else simplify(iceberg_table.schema().as_arrow())

    def follow(self, table: TableName, columns: pa.Schema) -> None:
        """Check that the table can add ``columns`` or widen its types. Raises ``Incompatible`` if not.

        Raises ``PipelineError`` if another program removed columns.
        """
        iceberg_table = self._find(table)
        if iceberg_table is None:
            return
        if iceberg_table.properties.get(COLUMNS_KEY) != _hash_columns(columns):
            merge(self.read_columns(table), columns, promote)
        elif lost := set(columns.names) - {field.name for field in iceberg_table.schema().fields}:
            raise PipelineError(
                f"table {table} was changed by someone else: it had the columns {', '.join(sorted(lost))} that its "
                "definition still declares. Add them to the table or rename them back, or rename the table: the next "
                "run makes a new one"
            )

    def choose_folder(self, table: TableName, batch: JournalEntry) -> str:
        """Return a folder for the day if the table is divided by day, else an empty string."""
        by_day = is_divided_by_day(batch, table) if self._find(table) is None else self.is_by_day(table)
        return build_day_folder(batch) if by_day else ""

    def find_paths(self, table: TableName) -> list[str]:
        """Return the files of the current snapshot.

        Raises ``PipelineError`` if another program deleted rows of them.
        """
        return [_read_path(task.file) for task in self._plan_files(table)]

    def build_source(self, table: TableName, catalog: str) -> str:
        """Return the name of the table in Spark SQL.

        ``catalog`` is Spark's name for the catalog. Empty means that Spark uses the same name as pyiceberg.
        """
        return ".".join(map(quote_name, (catalog or self.catalog.name, *self.build_identifier(table))))

    def is_by_day(self, table: TableName) -> bool:
        """Return True if new files of the table are partitioned by day."""
        iceberg_table = self._find(table)
        return iceberg_table is not None and any(field.name == DAY for field in iceberg_table.spec().fields)

    def build_day(self, table: TableName, catalog: str) -> str:  # noqa: ARG002 - divided or not
        """Return the day by Iceberg's own function, because Iceberg can skip files by it."""
        return f"{quote_name(catalog or self.catalog.name)}.system.days({quote_name(LANDED_AT)})"

    @property
    def concurrent(self) -> bool:
        """True if the store is the catalog, or if the catalog's database is written once for all tables."""
        return self._by_folders or (isinstance(self.catalog, RememberingSqlCatalog) and self.catalog.gathers)

    @contextmanager
    def commit_together(self) -> Iterator[None]:
        """Delay commits until the end of the context, and make them together, if the catalog is a database.

        If another program has changed one of the tables in the meantime, commit the tables one by one.
        """
        catalog = self.catalog
        if not isinstance(catalog, RememberingSqlCatalog) or not catalog.gather():
            yield
            return
        self._waiting = []
        try:
            yield
        finally:  # also if one table failed, so that the commits of the others are not lost
            waiting, self._waiting = self._waiting, None
            with self._convert_errors(f"the catalog of {self.output}"):
                is_made = catalog.make()
            for batch, table in [] if is_made else waiting:
                self.commit(batch, table)

    def commit(self, batch: JournalEntry, table: TableName) -> None:
        """Add the files to the table in one snapshot. Create the table or widen its schema if necessary."""
        if self._waiting is not None:
            self._waiting.append((batch, table))
        with self._convert_errors(f"table {table}"):
            try:
                self._commit(batch, table)
            except _UNSURE:
                # Try once more with the table as it is now. If the first attempt succeeded after all, this finds it.
                self._loaded.pop(table, None)
                self._commit(batch, table)
        self._loaded.pop(table, None)

    def _commit(self, batch: JournalEntry, table: TableName) -> None:
        folder = self.output / find_table_folder(table, "iceberg")
        iceberg_table = self._find(table)
        # A batch is in the table if its snapshot is. If another program expired snapshots, its files show that.
        if iceberg_table is not None and (
            has(iceberg_table, batch.id) or (_is_expired(iceberg_table, batch) and self._has_files(batch, table))
        ):
            return
        # Before any file is moved: if another program rewrote the table, the batch can still be withdrawn.
        removed = self._find_live_files(table, {str(folder / file.name) for file in of_table(batch.removed, table)})
        places = move_in(self.output, folder, of_table(batch.files, table))
        summary = {BATCH_KEY: batch.id, FINGERPRINT_KEY: batch.fingerprint}
        with suppress(Landed):
            if iceberg_table is not None and removed:
                change = Watched(iceberg_table, batch.id).transaction()
                with change:
                    if batch.changes:  # which may be of columns that the table lacks
                        self._add_columns(change, self._merge_columns(table, places))
                    change.replace(removed, places, summary)
            elif places:
                self._append(table, batch, places, summary)

    def _append(self, table: TableName, batch: JournalEntry, places: Sequence[Place], summary: dict[str, str]) -> None:
        first, iceberg_table = ParquetFooter(places[0]), self._find(table)
        if iceberg_table is None:
            fresh = self._create(table, first.columns, batch)
        else:
            fresh = Watched(iceberg_table, batch.id).transaction()
        with fresh:
            if iceberg_table is not None and iceberg_table.properties.get(COLUMNS_KEY) != _hash_columns(first.columns):
                self._add_columns(fresh, first.columns)
            fresh.add(first, places[1:], summary)

    def _has_files(self, batch: JournalEntry, table: TableName) -> bool:
        """Return True if the table has the files of a batch whose snapshot may have expired.

        If a file is still staged, the batch was not committed. Raises ``PipelineError`` if neither is certain.
        """
        files = of_table(batch.files, table)
        if not files or any((self.output / file.staged).exists() for file in files):
            return False
        folder, live = self.output / find_table_folder(table, "iceberg"), self.find_live_paths(table)
        if all(str(folder / file.name) in live for file in files):
            return True
        raise PipelineError(
            f"someone else expired snapshots of table {table} while batch {batch.id} was being committed, and its "
            "files are not in the table now: whether they were is not known. Look there for rows with that _batch. "
            f"If there are none, move {folder / files[0].name} and the like back to where {self.output / PREPARED} "
            "says they were staged; if there are, move the entry there to the folder above it. Then run again, and "
            "let snapshots be kept for longer than a batch may wait to be completed"
        )

    def _find_live_files(self, table: TableName, paths: set[str]) -> list[IcebergFile]:
        """Return the files at ``paths``, which are to be replaced. Raises ``Outdated`` if one is missing."""
        tasks = self._plan_files(table) if paths else []
        files = [task.file for task in tasks if _read_path(task.file) in paths]
        if len(files) < len(paths):
            raise Outdated.from_missing(table, len(paths) - len(files))
        return files

    def _plan_files(self, table: TableName) -> list[FileScanTask]:
        """Return the files of a table as a reader finds them. Raises ``Outdated`` if another program deleted rows."""
        iceberg_table = self._find(table)
        with self._convert_errors(f"table {table}"):
            tasks = [] if iceberg_table is None else list(iceberg_table.scan().plan_files())
        if any(task.delete_files for task in tasks):
            raise Outdated(
                f"rows of table {table} were deleted by someone else without rewriting its files: let the engine that "
                "did it rewrite them first"
            )
        return tasks

    def _list_names(self, group: str) -> set[str]:
        """Return the names of the tables in the namespace of a group. They are requested once."""
        if group not in self._names and group not in self._missing:
            with self._convert_errors(f"the catalog of {self.output}"):
                try:
                    self._names[group] = self._fetch_names(self._build_namespace(group))
                except NoSuchNamespaceError:
                    self._missing.add(group)
        return self._names.get(group, set())

    def _fetch_names(self, namespace: tuple[str, ...]) -> set[str]:
        if isinstance(self.catalog, StoreCatalog):
            return self.catalog.list_names(namespace)
        return {identifier[-1] for identifier in self.catalog.list_tables(namespace)}

    def _find(self, table: TableName) -> Table | None:
        """Return a table as it was when first loaded, or None if it does not exist.

        The cached state is used only for the short time from the assignment of files to the commit.
        """
        if table not in self._loaded:
            iceberg_table = self._load(table)
            if iceberg_table is not None:
                self._check_owner(table, iceberg_table)
                iceberg_table.metadata = share_schemas(iceberg_table.metadata)
            self._loaded[table] = iceberg_table
        return self._loaded[table]

    def _load(self, table: TableName) -> Table | None:
        names = self._names.get(table.group, set() if table.group in self._missing else None)
        if names is not None and table.message not in names:
            return None
        with self._convert_errors(f"table {table}"), suppress(NoSuchTableError):
            return self.catalog.load_table(self.build_identifier(table))
        return None

    def _check_owner(self, table: TableName, iceberg_table: Table) -> None:
        """Raise ``PipelineError`` if a table in a shared catalog belongs to another output."""
        owner = self._connection.owner
        if owner and iceberg_table.properties.get(OUTPUT_KEY) != owner:
            raise PipelineError(
                f"table {'.'.join(self.build_identifier(table))} in the catalog is not of {self.output}: give this "
                f"output a namespace of its own there; or if the table is to be continued, "
                f"set its {OUTPUT_KEY} to {owner}"
            )

    def _build_namespace(self, group: str) -> tuple[str, ...]:
        return (*self._connection.namespace, group)

    def _create(self, table: TableName, columns: pa.Schema, batch: JournalEntry) -> TableTransaction:
        """Return a transaction that creates a table together with its first files, by one commit instead of three."""
        with self._making:
            if table.group not in self._names:
                self._make(self._build_namespace(table.group))
            if table.group in self._missing:
                self._missing.discard(table.group)
                self._names[table.group] = set()
            # If the namespace was not listed, as when the batch of an earlier run is completed, it may have more
            # tables, so that this name alone must not be cached.
            if table.group in self._names:
                self._names[table.group].add(table.message)
        owner = {OUTPUT_KEY: self._connection.owner} if self._connection.owner else {}
        definition = {} if table == DEAD_LETTERS else {DEFINITION_KEY: find_definition(table)}
        schema = find_schema(columns)
        created = self.catalog.create_table_transaction(
            self.build_identifier(table),
            schema=schema,
            location=f"{'' if self.output.folder is None else 'file://'}{self.output}/{TABLES}/{table.path}",
            partition_spec=_build_day_partition(schema)
            if is_divided_by_day(batch, table)
            else UNPARTITIONED_PARTITION_SPEC,
            properties={COLUMNS_KEY: _hash_columns(columns), **definition, **owner},
        )
        staged = get_table(created)
        assert isinstance(staged, StagedTable)
        staged.metadata = share_schemas(staged.metadata)
        return CreateTransaction(staged, columns)

    def _make(self, namespace: tuple[str, ...]) -> None:
        for depth in range(1, len(namespace) + 1):
            with suppress(NamespaceAlreadyExistsError):
                self.catalog.create_namespace(namespace[:depth])

    def _convert_errors(self, description: str) -> AbstractContextManager[None]:
        return convert_catalog_errors(description, self._connection.secrets)

    def _merge_columns(self, table: TableName, places: Sequence[Place]) -> pa.Schema:
        """Return the columns of a table merged with the columns of the files at ``places``."""
        schemas = (pq.read_schema(place.open_for_arrow()) for place in places)
        return reduce(lambda one, other: merge(one, other, promote), schemas, self.read_columns(table))

    def _add_columns(self, transaction: Transaction, schema: pa.Schema) -> None:
        with transaction.update_schema() as update:
            update.union_by_name(schema)
        transaction.set_properties({COLUMNS_KEY: _hash_columns(schema)})


def _read_path(file: IcebergFile) -> str:
    return file.file_path.removeprefix("file://")


def _build_day_partition(schema: Schema) -> PartitionSpec:
    landed_at = schema.find_field(LANDED_AT).field_id
    return PartitionSpec(
        PartitionField(source_id=landed_at, field_id=PARTITION_FIELD_ID_START, transform=DayTransform(), name=DAY)
    )


def _is_expired(table: Table, batch: JournalEntry) -> bool:
    """Return True if the snapshot of a batch may have expired: all existing snapshots may be newer than the batch."""
    first = min(table.snapshots(), key=lambda snapshot: snapshot.timestamp_ms, default=None)
    if first is None or (first.parent_snapshot_id is None and (first.sequence_number or 0) <= 1):
        return False
    return batch.landed_at is None or first.timestamp_ms > batch.landed_at.timestamp() * 1000


def _hash_columns(schema: pa.Schema) -> str:
    """Return a digest of columns, because comparing schemas takes longer than the rest of a commit."""
    return digest(schema.remove_metadata().serialize().to_pybytes())

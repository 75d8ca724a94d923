"""Iceberg tables in a SQL catalog at ``catalog.db``: a namespace per message group, a table per message definition.

Each batch is one snapshot of a table, with the batch id in its summary: a commit that finds it there has been made.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    ValidationError,
)
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.table import FileScanTask, Table, Transaction
from pyiceberg.transforms import DayTransform

from signalbook.pipeline.columns import DAY, LANDED_AT
from signalbook.pipeline.evolution import merge, promote
from signalbook.pipeline.failures import PipelineError
from signalbook.pipeline.journal import BATCHES, Batch
from signalbook.pipeline.naming import DEAD_LETTERS, TABLES, TableName, definition_of, home
from signalbook.pipeline.tables.arrow import plain
from signalbook.pipeline.tables.base import Outdated, day_folder, divides, move_in, of_table
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

    def __init__(self, output: Path) -> None:
        self.output = output.absolute()
        self._names: dict[str, set[str]] = {}
        self._loaded: dict[TableName, Table] = {}

    @cached_property
    def catalog(self) -> SqlCatalog:
        """The catalog, made when first used. Raises ``PipelineError`` if it has been taken away."""
        path = self.output / CATALOG
        if not path.exists() and any((self.output / BATCHES).glob("*.json")):
            raise PipelineError(
                f"the catalog {path} is gone, and with it what the tables in {self.output} hold: put it back, "
                "or choose another output; a batch that was under way is kept"
            )
        with _plainly(f"the catalog {path}"):
            return SqlCatalog(NAME, uri=f"sqlite:///{path}", warehouse=f"file://{self.output}/{TABLES}")

    def versions(self, table: TableName) -> list[TableName]:
        """The tables in the catalog."""
        found = (TableName(table.group, name) for name in self._in(table.group))
        return sorted((each for each in found if each.first == table.first), key=lambda each: each.version)

    def columns(self, table: TableName) -> pa.Schema:
        """The columns that the current schema of a table has."""
        found = self._find(table)
        return pa.schema([]) if found is None else plain(found.schema().as_arrow())

    def follow(self, table: TableName, columns: pa.Schema) -> None:
        """A table takes new columns, and wider types for those it has."""
        found = self._find(table)
        if found is None:
            return
        if found.properties.get(COLUMNS_KEY) != _digest(columns):
            merge(self.columns(table), columns, promote)
        elif lost := set(columns.names) - {field.name for field in found.schema().fields}:
            raise PipelineError(
                f"table {table} was changed by someone else: it had the columns {', '.join(sorted(lost))} that its "
                "definition still declares. Add them to the table or rename them back, or rename the table: the next "
                "run makes a new one"
            )

    def folder(self, table: TableName, batch: Batch) -> str:
        """A folder a day for tables divided by it, as the table is already; the catalog would find files anywhere."""
        found = self._find(table)
        by_day = divides(batch, table) if found is None else any(field.name == DAY for field in found.spec().fields)
        return day_folder(batch) if by_day else ""

    def paths(self, table: TableName) -> list[str]:
        """The files of the current snapshot. Raises ``PipelineError`` if rows of them were deleted by someone else."""
        return [_path(task.file) for task in self._tasks(table)]

    def live(self, table: TableName) -> set[str]:
        """The same: others lie beside them, for older snapshots or of a table that was dropped."""
        return set(self.paths(table))

    def commit(self, batch: Batch, table: TableName) -> None:
        """Add the files to the table in one snapshot, making it or widening its schema where need be."""
        folder = self.output / home(table, "iceberg")
        found = self._find(table)
        if found is not None and _has(found, BATCH_KEY, batch.id):
            return
        removed = self._live(table, {str(folder / file.name) for file in of_table(batch.removed, table)})
        places = [str(place) for place in move_in(self.output, folder, of_table(batch.files, table))]
        summary = {BATCH_KEY: batch.id, FINGERPRINT_KEY: batch.fingerprint}
        with _plainly(f"table {table}"):
            if found is not None and removed:
                _replace(found, removed, places, summary)
            elif places:
                self._append(table, batch, places, summary)
        self._loaded.pop(table, None)

    def _append(self, table: TableName, batch: Batch, places: list[str], summary: dict[str, str]) -> None:
        schema = pq.read_schema(places[0])
        found = self._find(table)
        with self._create(table, schema, batch) if found is None else found.transaction() as transaction:
            if found is not None and found.properties.get(COLUMNS_KEY) != _digest(schema):
                self._widen(transaction, schema)
            transaction.add_files(places, snapshot_properties=summary, check_duplicate_files=False)

    def _live(self, table: TableName, paths: set[str]) -> list[IcebergFile]:
        """The files at ``paths``, which others are to stand for. Raises ``Outdated`` if one is not in the table."""
        tasks = self._tasks(table) if paths else []
        found = [task.file for task in tasks if _path(task.file) in paths]
        if len(found) < len(paths):
            raise Outdated(
                f"table {table} was changed by someone else: {len(paths) - len(found)} of the files that were to be "
                "replaced are no longer in it"
            )
        return found

    def _tasks(self, table: TableName) -> list[FileScanTask]:
        """The files of a table as a reader finds them."""
        found = self._find(table)
        with _plainly(f"table {table}"):
            tasks = [] if found is None else list(found.scan().plan_files())
        if any(task.delete_files for task in tasks):
            raise Outdated(
                f"rows of table {table} were deleted by someone else without rewriting its files: let the engine that "
                "did it rewrite them first"
            )
        return tasks

    def _in(self, group: str) -> set[str]:
        """Names of the tables in a namespace, asked for once."""
        if group not in self._names:
            with suppress(NoSuchNamespaceError), _plainly(f"the catalog of {self.output}"):
                self._names[group] = {identifier[-1] for identifier in self.catalog.list_tables((group,))}
        return self._names.get(group, set())

    def _find(self, table: TableName) -> Table | None:
        """A table as it was when first asked for: from the decision to the commit is no long time."""
        if table not in self._loaded:
            with _plainly(f"table {table}"):
                try:
                    self._loaded[table] = self.catalog.load_table((table.group, table.message))
                except NoSuchTableError:
                    return None
        return self._loaded[table]

    def _create(self, table: TableName, schema: pa.Schema, batch: Batch) -> Transaction:
        """A table that comes to be with its first files: one commit instead of three."""
        if table.group not in self._names:
            with suppress(NamespaceAlreadyExistsError):
                self.catalog.create_namespace((table.group,))
        self._names.setdefault(table.group, set()).add(table.message)
        definition = {} if table == DEAD_LETTERS else {DEFINITION_KEY: definition_of(table)}
        transaction = self.catalog.create_table_transaction(
            (table.group, table.message),
            schema=schema,
            location=f"file://{self.output}/{TABLES}/{table.path}",
            properties={COLUMNS_KEY: _digest(schema), **definition},
        )
        if divides(batch, table):
            with transaction.update_spec() as spec:
                spec.add_field(LANDED_AT, DayTransform(), DAY)
        return transaction

    def _widen(self, transaction: Transaction, schema: pa.Schema) -> None:
        with transaction.update_schema() as update:
            update.union_by_name(schema)
        transaction.set_properties({COLUMNS_KEY: _digest(schema)})


@contextmanager
def _plainly(what: str) -> Iterator[None]:
    """Say in a user's words what stops a catalog or a table; the batch is prepared or not begun then."""
    try:
        yield
    except (CommitFailedException, CommitStateUnknownException) as error:
        raise PipelineError(f"{what} was changed by someone else at the same moment ({error}): run again") from error
    except (ValueError, TypeError, ValidationError) as error:
        raise Outdated(
            f"{what} was changed by someone else and does not take the batch: {error}. Undo that, or rename the table: "
            "the next run of this output makes a new one and goes on"
        ) from error
    except FileNotFoundError as error:
        raise PipelineError(
            f"{what} has lost a file that its catalog names ({error}). Put it back, or drop the table from the "
            "catalog: the next run of this output makes a new one and goes on"
        ) from error

    except Exception as error:
        # the catalog's own errors stand for those of SQLite
        if not isinstance(error.__cause__, sqlite3.Error):
            raise
        raise PipelineError(
            f"{what} cannot be used: {error.__cause__}. Another program may hold it: run again when it is done"
        ) from error


def _replace(table: Table, removed: list[IcebergFile], places: list[str], summary: dict[str, str]) -> None:
    """One snapshot that has the files at ``places`` for ``removed``."""
    with (
        table.transaction() as transaction,
        transaction.update_snapshot(snapshot_properties=summary).overwrite() as overwrite,
    ):
        for file in removed:
            overwrite.delete_data_file(file)
        for place in places:
            overwrite.append_data_file(parquet_file_to_data_file(table.io, transaction.table_metadata, place))


def _path(file: IcebergFile) -> str:
    return file.file_path.removeprefix("file://")


def _has(table: Table, key: str, value: str) -> bool:
    summaries = (snapshot.summary for snapshot in table.snapshots())
    return any(summary is not None and summary.get(key) == value for summary in summaries)


def _digest(schema: pa.Schema) -> str:
    """Equal for equal columns: comparing the schemas themselves takes longer than everything else."""
    return digest(schema.remove_metadata().serialize().to_pybytes())

"""Delta tables: ``tables/<group>/<message>`` with a log in each, and ``dead_letters``.

Each batch is one entry of a table's log, which records the batch as the transaction of an application. If the log has
that transaction, the batch is committed. A column never changes its type, as in folders of Parquet, because few readers
support Delta's type widening. Delta has no type for times of day, so that tables do not show these columns of the
files.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Field, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import (
    AddAction,
    CommitProperties,
    RemoveAction,
    Transaction,
    create_table_with_add_actions,
)

from signalbook.pipeline.columns import DAY
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.journal import DataFile, JournalEntry
from signalbook.pipeline.places import HdfsPlace, Place, StorePlace, Where, place_of
from signalbook.pipeline.places.identities import KEY, GoogleTokens
from signalbook.pipeline.places.roles import ContainerKeys
from signalbook.pipeline.places.stores import SCHEMES, retry, shorten_error
from signalbook.pipeline.table_names import (
    DEAD_LETTERS,
    TableName,
    find_definition,
    find_table_folder,
    quote_name,
    restore_name,
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
from signalbook.pipeline.tables.evolution import change_fields, merge, refuse, select_readable, simplify

LOG: Final = "_delta_log"
_TRIES: Final = 5
_COMMENT: Final = b"comment"
_DOC: Final = b"doc"
# How long the log keeps the transactions of batches. An interrupted batch is completed much earlier.
_SETTINGS: Final = {"delta.setTransactionRetentionDuration": "interval 30 days"}
# Characters in a path that the library interprets as an escape or as a slash.
_UNUSABLE: Final = re.compile(r"[%\\]")
# The prefix of partition columns in delta-rs's list of files.
_PARTITION: Final = "partition."
# Features with which the rows of a table differ from those in its files. Another program may have enabled them.
_UNKNOWN: Final = frozenset({"columnMapping", "deletionVectors"})


class DeltaTables(Tables):
    """The tables below ``output``. Raises ``PipelineError`` for a path that Delta's library does not support."""

    def __init__(self, output: Where) -> None:
        self.output = place_of(output)
        if self.output.folder is not None and (unusable := _UNUSABLE.search(str(self.output))):
            raise PipelineError(
                f"tables of Delta cannot be in {self.output}, for the {unusable[0]} in that: choose another"
            )
        self._folders: dict[str, list[str]] = {}
        self._logged: set[TableName] = set()
        self._loaded: dict[TableName, DeltaTable] = {}
        self._options = build_delta_options(self.output)

    @property
    def concurrent(self) -> bool:
        """True, because each table has its own log."""
        return True

    def find_versions(self, table: TableName) -> list[TableName]:
        """Return the tables of the definition whose folder has a log."""
        group = self._find_home(table).parent
        # One listing for all tables of a group, because in a store each listing, and each check for a log, is a
        # request.
        if str(group) not in self._folders:
            self._folders[str(group)] = [restore_name(name) for name in group.list_folders()]
        return [version for version in select_versions(table, self._folders[str(group)]) if self._has_log(version)]

    def read_columns(self, table: TableName) -> pa.Schema:
        """Return the columns of a table, without the partition column for the day."""
        delta_table = self._find(table)
        fields = [] if delta_table is None else pa.schema(delta_table.schema().to_arrow())
        return simplify(pa.schema(_rename_metadata((field for field in fields if field.name != DAY), _COMMENT, _DOC)))

    def follow(self, table: TableName, columns: pa.Schema) -> None:
        """Raise ``Incompatible`` unless ``columns`` only adds columns to the table."""
        merge(self.read_columns(table), select_readable(columns), refuse)

    def choose_folder(self, table: TableName, batch: JournalEntry) -> str:
        """Return a folder for the day if the table is divided by day, else an empty string."""
        by_day = is_divided_by_day(batch, table) if self._find(table) is None else self.is_by_day(table)
        return build_day_folder(batch) if by_day else ""

    def find_paths(self, table: TableName) -> list[str]:
        """Return the paths of the files that the log lists."""
        delta_table = self._find(table)
        with self._convert_errors(table):
            return [] if delta_table is None else _list_files(delta_table, self._find_home(table))

    def build_source(self, table: TableName, catalog: str) -> str:  # noqa: ARG002 - there is none
        """Return the folder as a table name."""
        return f"delta.{quote_name(str(self._find_home(table)))}"

    def is_by_day(self, table: TableName) -> bool:
        """Return True if the table has the partition column for the day."""
        delta_table = self._find(table)
        return delta_table is not None and DAY in delta_table.metadata().partition_columns

    def commit(self, batch: JournalEntry, table: TableName) -> None:
        """Add the files to the table by one entry of its log. Further entries before it add columns if necessary."""
        with self._convert_errors(table):
            for attempts_left in reversed(range(_TRIES)):
                try:
                    retry(partial(self._commit, batch, table))
                    break
                except CommitFailedError:
                    # Another program was faster, or the commit succeeded and its response was lost. The next attempt
                    # finds out.
                    if not attempts_left:
                        raise
        self._loaded.pop(table, None)

    def _commit(self, batch: JournalEntry, table: TableName) -> None:
        self._loaded.pop(table, None)
        delta_table = self._find(table)
        # Delta keeps the newest transaction of each application. With each batch as its own application, a repeated
        # commit is detected.
        if delta_table is not None and delta_table.transaction_version(_build_application_id(batch)) is not None:
            return
        removed, files = of_table(batch.removed, table), of_table(batch.files, table)
        if removed:
            self._check(table, removed)
        places = move_in(self.output, self._find_home(table), files)
        # All files of a run have the same columns. In a backfill, each file has the columns that it gains.
        schemas = [
            select_readable(pq.read_schema(place.open_for_arrow())) for place in (places if removed else places[:1])
        ]
        columns = _write_comments(reduce(partial(merge, judge=refuse), schemas)) if schemas else None
        if delta_table is None and columns is not None:
            self._create(table, batch, columns, files)
        # The columns before the files: a reader between the two sees nulls, and never a file with columns it does not
        # know.
        elif delta_table is not None and (files or removed):
            _follow(delta_table, columns)
            _write(delta_table, batch, files, removed)

    def _create(self, table: TableName, batch: JournalEntry, columns: pa.Schema, files: Sequence[DataFile]) -> None:
        """Create a table together with its first files."""
        by_day = is_divided_by_day(batch, table)
        create_table_with_add_actions(
            str(self._find_home(table)),
            Schema.from_arrow(columns.append(pa.field(DAY, pa.date32())) if by_day else columns),
            [_build_addition(file, batch) for file in files],
            partition_by=[DAY] if by_day else [],
            name=str(table),
            description=None if table == DEAD_LETTERS else find_definition(table),
            configuration=_SETTINGS,
            commit_properties=_build_properties(batch),
            storage_options=self._options,
        )

    def _check(self, table: TableName, removed: Sequence[DataFile]) -> None:
        """Raise ``Outdated`` if files to be replaced are not in the table."""
        lost = {str(self._find_home(table) / file.name) for file in removed} - self.find_live_paths(table)
        if lost:
            raise Outdated.from_missing(table, len(lost))

    def _find(self, table: TableName) -> DeltaTable | None:
        """Return a table as it was when first loaded, or None if it does not exist."""
        if table not in self._loaded:
            if not self._has_log(table):
                return None
            with self._convert_errors(table):
                try:
                    folder = str(self._find_home(table))
                    self._loaded[table] = retry(lambda: DeltaTable(folder, storage_options=self._options))
                except TableNotFoundError:  # its creator died before the log had an entry
                    return None
                _check_features(table, self._loaded[table])
        return self._loaded[table]

    def _has_log(self, table: TableName) -> bool:
        if table not in self._logged and LOG in self._find_home(table).list_folders():
            self._logged.add(table)
        return table in self._logged

    def _find_home(self, table: TableName) -> Place:
        return self.output / find_table_folder(table, "delta")

    @contextmanager
    def _convert_errors(self, table: TableName) -> Iterator[None]:
        """Convert errors of Delta to ``PipelineError``. The batch is then prepared or not begun."""
        try:
            yield
        except DeltaError as error:
            if self.output.folder is None:
                raise _build_delta_error(table, self._describe_error(error)) from None
            raise _build_delta_error(table, str(error)) from error
        except OSError as error:
            # The errors of delta-rs have no ``strerror``, and their text may contain secrets. Our own errors have one.
            if self.output.folder is not None or error.strerror:
                raise
            raise PipelineError(f"table {table} in {self.output}: {self._describe_error(error)}") from None

    def _describe_error(self, error: Exception) -> str:
        return self.output.storage.mask(shorten_error(str(error)))


def build_delta_options(output: Place) -> dict[str, str] | None:
    """Return delta-rs's options for the settings of the store ``output``, or None for a local folder.

    Most options have the same names as in obstore, which has the same core. Raises ``PipelineError`` for credentials
    that delta-rs does not support.
    """
    if output.folder is not None:
        return None
    if isinstance(output, HdfsPlace):
        return output.storage.build_hadoop_options(output.root)
    assert isinstance(output, StorePlace)
    kind = SCHEMES[output.root.partition(":")[0]]
    config, client = output.storage.build_obstore_options(kind, output.root)
    # The names of Azure's options have no common prefix.
    prefix = {"s3": "aws_", "gs": "google_", "az": ""}[kind]
    options = {f"{prefix}{name.removeprefix(prefix)}": str(value) for name, value in config.items()}
    if client:
        options["allow_http"] = str(client["allow_http"]).lower()
    keys = output.storage.find_credential_provider(kind)
    if isinstance(keys, GoogleTokens):
        raise PipelineError(
            f"Delta's library cannot ask for tokens by {keys.file}: choose tables of Iceberg or Parquet, or a service "
            "account's key"
        )
    way = options.pop("credential_type", "")
    if way not in ("", "access_key") and (set_too := [name for name in KEY if os.environ.get(name)]):
        raise PipelineError(
            f"Delta's library would go by {set_too[0]} in the environment, and not by what the section storage of the "
            "job says: leave one of them out"
        )
    if kind == "s3":
        if isinstance(keys, ContainerKeys) and not keys.file:  # only delta-rs's own AWS SDK supports these credentials
            options["aws_force_credential_load"] = "true"
        else:
            # Without an endpoint, delta-rs searches for credentials and a region with its own AWS SDK. That has other
            # rules, and takes six seconds for each table if no metadata service responds.
            options["aws_endpoint"] = output.storage.find_s3_endpoint(urlsplit(str(output)).netloc)
    return {name: value for name, value in options.items() if value}


def read_contents(folder: Place) -> tuple[pa.Schema, list[tuple[Place, dict[str, str | None]]]]:
    """Return the columns of any Delta table, and its files with the values of their partition columns.

    Raises ``PipelineError`` if ``folder`` is not a table, or if its features make rows differ from those in its files.
    """
    try:
        delta_table = retry(partial(DeltaTable, str(folder), storage_options=build_delta_options(folder)))
        actions = pa.table(delta_table.get_add_actions(flatten=True))
    except (DeltaError, OSError, ValueError) as error:
        reason = folder.storage.mask(shorten_error(str(error)))
        raise PipelineError(f"cannot read the Delta table {folder}: {reason}") from error
    features = _UNKNOWN & set(delta_table.protocol().reader_features or ())
    if features:
        raise PipelineError(f"cannot read the Delta table {folder}: it has the features {', '.join(sorted(features))}")
    return pa.schema(delta_table.schema().to_arrow()), [_find_place(folder, action) for action in actions.to_pylist()]


def _find_place(folder: Place, action: dict[str, Any]) -> tuple[Place, dict[str, str | None]]:
    path = unquote(action["path"])
    values = {name: value for name, value in action.items() if name.startswith(_PARTITION)}
    return (
        place_of(path, folder.storage) if "://" in path else folder / path,
        {name.removeprefix(_PARTITION): None if value is None else str(value) for name, value in values.items()},
    )


def _list_files(delta_table: DeltaTable, folder: Place) -> list[str]:
    """Return the paths of a table's files in ``folder``. The library escapes the path of the folder only: undo that."""
    if folder.folder is None:
        return delta_table.file_uris()
    escaped = urlsplit(delta_table.table_uri).path
    return [
        f"{folder}/{uri.removeprefix(escaped)}" if uri.startswith(escaped) else uri for uri in delta_table.file_uris()
    ]


def _build_application_id(batch: JournalEntry) -> str:
    return f"signalbook/{batch.id}"


def _build_properties(batch: JournalEntry, *, retries: int | None = None) -> CommitProperties:
    transaction = Transaction(_build_application_id(batch), 0, int(time.time() * 1000))
    metadata = {"signalbook.batch": batch.id, "signalbook.fingerprint": batch.fingerprint}
    return CommitProperties(custom_metadata=metadata, max_commit_retries=retries, app_transactions=[transaction])


def _write(
    delta_table: DeltaTable, batch: JournalEntry, files: Sequence[DataFile], removed: Sequence[DataFile]
) -> None:
    delta_table.create_write_transaction(
        [*(_build_addition(file, batch) for file in files), *(_build_removal(file, batch) for file in removed)],
        "append",
        delta_table.schema(),
        partition_by=delta_table.metadata().partition_columns,
        # No retries for replaced files: if another program rewrote the same files, rows would be in the table twice.
        commit_properties=_build_properties(batch, retries=0 if removed else None),
    )


def _build_addition(file: DataFile, batch: JournalEntry) -> AddAction:
    return AddAction(
        path=file.name,
        size=file.bytes,
        partition_values=_read_partition(file),
        modification_time=int(time.time() * 1000),
        data_change=batch.changes or not batch.compaction,
        stats=json.dumps({"numRecords": file.rows}),
    )


def _build_removal(file: DataFile, batch: JournalEntry) -> RemoveAction:
    return RemoveAction(
        file.name, batch.changes or not batch.compaction, int(time.time() * 1000), file.bytes, _read_partition(file)
    )


def _read_partition(file: DataFile) -> dict[str, str | None]:
    """Return the partition column and value of a file, from the name of its folder; empty without a partition."""
    name, is_day, value = file.name.rpartition("/")[0].partition("=")
    return {name: value} if is_day else {}


def _follow(delta_table: DeltaTable, columns: pa.Schema | None) -> None:
    """Add the columns of a batch that a table lacks, and update the comments of the others."""
    if columns is None:
        return
    current = pa.schema(delta_table.schema().to_arrow())
    wide = merge(current, columns, refuse)
    wider = [
        field
        for field in wide
        if current.get_field_index(field.name) < 0 or current.field(field.name).type != field.type
    ]
    if wider:
        delta_table.alter.add_columns([Field.from_arrow(field) for field in wider])
        current = pa.schema(delta_table.schema().to_arrow())
    for field in columns:
        if field.metadata and field.metadata != current.field(field.name).metadata:
            delta_table.alter.set_column_metadata(field.name, {_COMMENT.decode(): field.metadata[_COMMENT].decode()})


def _write_comments(schema: pa.Schema) -> pa.Schema:
    """Return ``schema`` with the descriptions of columns, at any depth, under the metadata key that Delta uses."""
    return pa.schema(_rename_metadata(simplify(schema), _DOC, _COMMENT))


def _rename_metadata(fields: Iterable[pa.Field], old: bytes, new: bytes) -> list[pa.Field]:
    def rename(field: pa.Field) -> pa.Field:
        doc = (field.metadata or {}).get(old)
        return field.with_metadata({new: doc} if doc else None)

    return change_fields(fields, rename)


def _check_features(table: TableName, delta_table: DeltaTable) -> None:
    features = _UNKNOWN & set(delta_table.protocol().reader_features or ())
    if features:
        raise PipelineError(
            f"table {table} was given the features {', '.join(sorted(features))} by someone else, which keep its rows "
            "in another way than files have them. Drop them, or move the table away: the next run makes a new one"
        )


def _build_delta_error(table: TableName, reason: str) -> PipelineError:
    return PipelineError(
        f"table {table} does not take the batch, which is kept: {reason}. If someone changes it now, run again; "
        "if its log is damaged, put it back, or move the table away: the next run makes a new one"
    )

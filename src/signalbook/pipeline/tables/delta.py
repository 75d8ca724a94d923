"""Delta tables: ``tables/<group>/<message>`` with a log in each, and ``dead_letters``.

Each batch is one entry of a table's log that names the batch as an application's transaction: a commit that finds it
there has been made. A column never changes its type, as in folders of Parquet: the feature of Delta that widens types
is one that few readers know. Times of day have no type there, so that tables do not show them, though files have them.
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
from signalbook.pipeline.tables.table_names import (
    DEAD_LETTERS,
    TableName,
    find_definition,
    find_table_folder,
    quote_name,
    restore_name,
)

LOG: Final = "_delta_log"
_TRIES: Final = 5
_COMMENT: Final = b"comment"
_DOC: Final = b"doc"
# Batches are looked for soon after they died, and a log has to end somewhere.
_SETTINGS: Final = {"delta.setTransactionRetentionDuration": "interval 30 days"}
# The library takes these in a path for escapes and for a slash.
_UNUSABLE: Final = re.compile(r"[%\\]")
# What begins the names of the columns that divide a table, where delta-rs lists its files.
_PARTITION: Final = "partition."
# Someone else may have turned these on: rows are then not as files have them.
_UNKNOWN: Final = frozenset({"columnMapping", "deletionVectors"})


class DeltaTables(Tables):
    """The tables below ``output``. Raises ``PipelineError`` for a folder that its library does not find."""

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
        """True: each table has its own log."""
        return True

    def find_versions(self, table: TableName) -> list[TableName]:
        """Return the folders that have a log."""
        group = self._find_home(table).parent
        # One look for all tables of a group: in a store it is a request, as each for a log is.
        if str(group) not in self._folders:
            self._folders[str(group)] = [restore_name(name) for name in group.list_folders()]
        return [version for version in select_versions(table, self._folders[str(group)]) if self._has_log(version)]

    def read_columns(self, table: TableName) -> pa.Schema:
        """Return the columns of a table, without the day that divides it."""
        delta_table = self._find(table)
        fields = [] if delta_table is None else pa.schema(delta_table.schema().to_arrow())
        return simplify(pa.schema(_rename_metadata((field for field in fields if field.name != DAY), _COMMENT, _DOC)))

    def follow(self, table: TableName, columns: pa.Schema) -> None:
        """A table takes new columns only."""
        merge(self.read_columns(table), select_readable(columns), refuse)

    def choose_folder(self, table: TableName, batch: JournalEntry) -> str:
        """Return a folder for each day if the table is divided by day."""
        by_day = is_divided_by_day(batch, table) if self._find(table) is None else self.is_by_day(table)
        return build_day_folder(batch) if by_day else ""

    def find_paths(self, table: TableName) -> list[str]:
        """Return the files that the log lists."""
        delta_table = self._find(table)
        with self._convert_errors(table):
            return [] if delta_table is None else _list_files(delta_table, self._find_home(table))

    def build_source(self, table: TableName, catalog: str) -> str:  # noqa: ARG002 - there is none
        """Return the folder as a table name."""
        return f"delta.{quote_name(str(self._find_home(table)))}"

    def is_by_day(self, table: TableName) -> bool:
        """Return True if the log has that partition column."""
        delta_table = self._find(table)
        return delta_table is not None and DAY in delta_table.metadata().partition_columns

    def commit(self, batch: JournalEntry, table: TableName) -> None:
        """Make the files part of the table by one entry of its log; others before it, if need be, for its columns."""
        with self._convert_errors(table):
            for attempts_left in reversed(range(_TRIES)):
                try:
                    retry(partial(self._commit, batch, table))
                    break
                except CommitFailedError:
                    # Someone was faster, or we were and the answer was lost: what was done may be all there was to do.
                    if not attempts_left:
                        raise
        self._loaded.pop(table, None)

    def _commit(self, batch: JournalEntry, table: TableName) -> None:
        self._loaded.pop(table, None)
        delta_table = self._find(table)
        # Delta keeps the newest version per application: the batch as its own application makes a second commit
        # visible.
        if delta_table is not None and delta_table.transaction_version(_build_application_id(batch)) is not None:
            return
        removed, files = of_table(batch.removed, table), of_table(batch.files, table)
        if removed:
            self._check(table, removed)
        places = move_in(self.output, self._find_home(table), files)
        # Of a run the files have the same columns; a backfill gives each the columns that it gains.
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
        """A table that comes to be with its first files."""
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
        """A table as it was when first asked for."""
        if table not in self._loaded:
            if not self._has_log(table):
                return None
            with self._convert_errors(table):
                try:
                    folder = str(self._find_home(table))
                    self._loaded[table] = retry(lambda: DeltaTable(folder, storage_options=self._options))
                except TableNotFoundError:  # what made it died before it had an entry
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
                raise _build_error(table, self._describe_error(error)) from None
            raise _build_error(table, str(error)) from error
        except OSError as error:
            # delta-rs raises them without a reason, and with all that was sent; our own have words for it.
            if self.output.folder is not None or error.strerror:
                raise
            raise PipelineError(f"table {table} in {self.output}: {self._describe_error(error)}") from None

    def _describe_error(self, error: Exception) -> str:
        return self.output.storage.mask(shorten_error(str(error)))


def build_delta_options(output: Place) -> dict[str, str] | None:
    """Return delta-rs's options for a store's settings: it is obstore's core, and knows most by the same names."""
    if output.folder is not None:
        return None
    if isinstance(output, HdfsPlace):
        return output.storage.build_hadoop_options(output.root)
    assert isinstance(output, StorePlace)
    kind = SCHEMES[output.root.partition(":")[0]]
    config, client = output.storage.build_obstore_options(kind, output.root)
    # Azure's have no prefix in common.
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
        if isinstance(keys, ContainerKeys) and not keys.file:  # which only that SDK of its own knows
            options["aws_force_credential_load"] = "true"
        else:
            # Without it delta-rs looks for credentials and a region by an SDK of its own: by other rules, and for six
            # seconds for each table where no metadata service answers.
            options["aws_endpoint"] = output.storage.find_s3_endpoint(urlsplit(str(output)).netloc)
    return {name: value for name, value in options.items() if value}


def read_contents(folder: Place) -> tuple[pa.Schema, list[tuple[Place, dict[str, str | None]]]]:
    """Return the columns of any Delta table, and its files with the values of the columns that divide it.

    Raises ``PipelineError`` for what is no table, or keeps its rows in another way than files have them.
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
    """Return the files of a table in ``folder``. The library escapes the path that leads there, and no more."""
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
        # behind someone who rewrote the same files in that moment, rows would be there twice
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
    """Return the partition of a file, which its folder is named for."""
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
    """Return a schema whose docs of columns, nested ones too, are kept as in Delta."""
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


def _build_error(table: TableName, reason: str) -> PipelineError:
    return PipelineError(
        f"table {table} does not take the batch, which is kept: {reason}. If someone changes it now, run again; "
        "if its log is damaged, put it back, or move the table away: the next run makes a new one"
    )

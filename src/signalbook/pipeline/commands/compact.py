"""``pipeline compact``: merge many small files of a table into few large files, as one commit of the table.

A compaction is an entry of the journal, as a batch is: its new files replace the files that it removes. If it is killed
halfway, the next command that writes to the output folder completes or withdraws it. Iceberg and Delta tables exchange
files at once. A folder of Parquet files has rows twice until the old files are removed. About one row group is in
memory at a time.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from itertools import groupby
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from signalbook.pipeline.commit import (
    PATIENCE,
    complete_unfinished,
    convert_disk_errors,
    prepare_and_commit,
    sweep_on_failure,
)
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.jobs import Progress, ShowProgress
from signalbook.pipeline.journal import STAGING, DataFile, Journal, JournalEntry, TableFormat
from signalbook.pipeline.places import Place, Where
from signalbook.pipeline.report import Tally
from signalbook.pipeline.table_names import TableName, find_definition, find_table_folder
from signalbook.pipeline.tables.evolution import align_rows, merge, promote
from signalbook.pipeline.tables.formats import find_visible_files, open_tables
from signalbook.pipeline.tables.staged_files import ROW_GROUP_BYTES, open_file, open_rows
from signalbook.values import JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """The result of compacting one table: the merged files and their size in bytes, before and after."""

    table: TableName
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows: int

    def to_json(self) -> JSONObject:
        """Return the object that ``pipeline compact --json`` prints for this table."""
        return {
            "table": str(self.table),
            "definition": find_definition(self.table),
            "rows": self.rows,
            "files": {"before": self.files_before, "after": self.files_after},
            "bytes": {"before": self.bytes_before, "after": self.bytes_after},
        }


TARGET: Final = 256 * 1024 * 1024


def compact(
    output: Where,
    definitions: Sequence[str] = (),
    target_bytes: int = TARGET,
    progress: ShowProgress = lambda _: None,
) -> list[Compaction]:
    """Merge small files of tables, those of ``definitions`` (xids) or all, into files of at most ``target_bytes``.

    Return the result for each table with files to merge. Raises ``PipelineError``: each table is then either unchanged
    or compacted, and the next run or compaction completes an interrupted table.
    """
    journal = Journal.open_existing(output)
    with journal.lock_output(PATIENCE), convert_disk_errors(journal.output):
        complete_unfinished(journal, progress)
        table_format = journal.find_table_format()
        if table_format is None:
            return []
        tables = _choose_tables(journal, definitions)
        plans = [
            plan for table, files in tables.items() if (plan := _plan_current(journal, table, files, target_bytes))
        ]
        work = _Work(
            journal, table_format, progress, sum(file.bytes for plan in plans for files in plan for file in files)
        )
        return [work.run(plan) for plan in plans]


def _choose_tables(journal: Journal, definitions: Sequence[str]) -> dict[TableName, list[DataFile]]:
    tables = journal.find_files()
    existing = {find_definition(table) for table in tables}
    for xid in definitions:
        if xid not in existing:
            raise PipelineError(f"{journal.output} has no table of {xid}; there are: {', '.join(sorted(existing))}")
    return {table: files for table, files in tables.items() if not definitions or find_definition(table) in definitions}


# For each file to be written, the list of files that it replaces.
_Plan = list[list[DataFile]]


def _plan_current(journal: Journal, table: TableName, files: Sequence[DataFile], target: int) -> _Plan:
    """Return the plan for the ``files`` that are still in the table; empty if there is nothing to merge."""
    # Listing a table's files is slow, so it is skipped if the journal's files already show that there is nothing to do.
    return _plan(find_visible_files(journal, table, files), target) if _plan(files, target) else []


def _plan(files: Sequence[DataFile], target: int) -> _Plan:
    """Return groups of small files to merge: at least two of one folder, together at most ``target`` bytes."""
    # Files beyond half the target stay: two of them would not fit into one, and rewriting them would gain nothing.
    small = sorted((file for file in files if file.bytes <= target // 2), key=lambda file: file.name)
    plan = []
    # Files of different folders are not merged: in tables divided by day, each folder has the rows of one day.
    for _, neighbours in groupby(small, key=lambda file: file.name.rpartition("/")[0]):
        plan += [group for group in _group_files(neighbours, target) if len(group) > 1]
    return plan


def _group_files(files: Iterable[DataFile], target: int) -> Iterator[list[DataFile]]:
    group: list[DataFile] = []
    for file in files:
        if group and sum(member.bytes for member in group) + file.bytes > target:
            yield group
            group = []
        group.append(file)
    yield group


@dataclass(slots=True)
class _Work:
    """The compactions of one call. ``total`` is the number of bytes to read, ``done`` the number of bytes read."""

    journal: Journal
    table_format: TableFormat
    show: ShowProgress
    total: int
    done: int = 0

    def run(self, plan: _Plan) -> Compaction:
        """Write the merged files of a table, and commit them."""
        name = f"compact-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
        folder = self.journal.make_staging(name)
        with sweep_on_failure(self.journal):
            merged = tuple(self._merge_files(group, folder / f"{name}-{n:05d}.parquet") for n, group in enumerate(plan))
        removed = tuple(file for group in plan for file in group)
        entry = JournalEntry(
            id=name,
            fingerprint="",
            origin="",
            table_format=self.table_format,
            tally=Tally(),
            files=merged,
            removed=removed,
            seconds=0.0,
            compaction=True,
            columns=self.journal.find_column_kinds() or "typed",
        )
        prepare_and_commit(self.journal, open_tables(self.journal.output, self.table_format), entry, self.show)
        return Compaction(
            table=merged[0].table,
            files_before=len(removed),
            files_after=len(merged),
            bytes_before=sum(file.bytes for file in removed),
            bytes_after=sum(file.bytes for file in merged),
            rows=sum(file.rows for file in merged),
        )

    def _merge_files(self, group: Sequence[DataFile], place: Place) -> DataFile:
        first = group[0]
        folder, slash, _ = first.name.rpartition("/")
        home_of = self.journal.output / find_table_folder(first.table, self.table_format)
        rows, size = self._write([home_of / file.name for file in group], place)
        # Another program may have changed a file: replacing it would undo that change.
        if rows != sum(file.rows for file in group):
            raise PipelineError(
                f"files of table {first.table} hold {rows} rows where the journal counts "
                f"{sum(file.rows for file in group)}: someone else changed them; nothing was compacted"
            )
        staged = f"{STAGING}/{place.parent.name}/{place.name}"
        return replace(first, staged=staged, name=f"{folder}{slash}{place.name}", rows=rows, bytes=size)

    def _write(self, places: Sequence[Place], place: Place) -> tuple[int, int]:
        """Write the rows of the files ``places`` to the file ``place``.

        Return the number of rows and the size in bytes.
        """
        try:
            schemas = [pq.read_schema(source_place.open_for_arrow()) for source_place in places]
            # Older files may lack columns, or have narrower types: the new file has what the table has now.
            schema = reduce(lambda existing, incoming: merge(existing, incoming, promote), schemas).remove_metadata()
            count, held = 0, list[pa.Table]()
            with place.open_output() as output:
                with open_file(output, schema) as writer:
                    for rows in self._read_row_groups(places):
                        held.append(align_rows(rows, schema))
                        count += len(rows)
                        if sum(table.nbytes for table in held) >= ROW_GROUP_BYTES:
                            _flush(writer, held)
                    _flush(writer, held)
                return count, output.finish()
        except pa.ArrowInvalid as error:
            raise PipelineError(f"a file beside {places[0]} cannot be read: {error}; nothing was compacted") from error

    def _read_row_groups(self, places: Sequence[Place]) -> Iterator[pa.Table]:
        for place in places:
            with open_rows(place) as file:
                for number in range(file.num_row_groups):
                    yield file.read_row_group(number)
            self.done += place.find_size()
            self.show(Progress(stage="compacting", done=self.done, total=self.total))


def _flush(writer: pq.ParquetWriter, held: list[pa.Table]) -> None:
    if held:
        rows = pa.concat_tables(held)
        writer.write_table(rows, row_group_size=max(len(rows), 1))
        held.clear()

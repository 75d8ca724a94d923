"""``pipeline backfill``: move values from the column ``_rescue`` to the columns that their definitions declare now.

Files with such rows are written again and replace the old files, as in a compaction. Each table has one entry in the
journal. If a backfill is killed, the next command that writes to the output completes or withdraws that entry. Files
without such rows stay unchanged. A second backfill finds nothing to do. The column ``_rescue`` of one file and one row
group are in memory at a time.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

import pyarrow as pa

from signalbook.messages import Policy
from signalbook.pipeline import columns
from signalbook.pipeline.commands.rescue_backfill import RESCUE, RescueBackfill
from signalbook.pipeline.commit import (
    PATIENCE,
    complete_unfinished,
    convert_disk_errors,
    prepare_and_commit,
    sweep_on_failure,
)
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.jobs import Progress, ShowProgress, check_choice
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.job.subjects import Strategy
from signalbook.pipeline.job.tasks import settle_columns
from signalbook.pipeline.journal import STAGING, DataFile, Journal, JournalEntry
from signalbook.pipeline.places import Place, Where
from signalbook.pipeline.report import Tally
from signalbook.pipeline.table_names import DEAD_LETTERS, TableName, find_definition, find_table_folder
from signalbook.pipeline.tables.evolution import Incompatible, align_rows, merge, promote, rename_columns, rename_rows
from signalbook.pipeline.tables.formats import find_visible_files, open_tables
from signalbook.pipeline.tables.layout import find_layout
from signalbook.pipeline.tables.staged_files import open_file, open_rows
from signalbook.values import JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """The result of the backfill of one table.

    ``filled`` is the number of rows that gained values, ``files`` the number of rewritten files. ``unfit`` is
    the number of rows whose rescued members do not conform to their new declaration. ``refused`` are the columns that
    the table cannot accept, for example because it already has them with another type.
    """

    table: TableName
    filled: int
    unfit: int
    files: int
    refused: tuple[str, ...] = ()

    def to_json(self) -> JSONObject:
        """Return the object that ``pipeline backfill --json`` prints for this table."""
        return {
            "table": str(self.table),
            "definition": find_definition(self.table),
            "rows": {"filled": self.filled, "unfit": self.unfit},
            "files": self.files,
            "refused": list(self.refused),
        }


_MANY: Final = 10


def backfill(
    output: Where,
    registry: str,
    definitions: Sequence[str] = (),
    policy: Policy | None = None,
    progress: ShowProgress = lambda _: None,
    notify: Callable[[str], None] = lambda _: None,
    subjects: Strategy = "",
) -> list[Backfill]:
    """Fill columns of the tables of ``definitions`` (xids), or of all tables, with values from ``_rescue``.

    The columns are those of the current definitions in ``registry``, read with ``subjects`` as ``pipeline.run`` does.
    ``notify`` is called with doubts about the definitions. Return the result for each table with something to fill or
    to report. Raises ``PipelineError``: each table is then either unchanged or filled, and the next command that writes
    to the output completes an interrupted table.
    """
    check_choice("subjects", subjects, Strategy)
    journal = Journal.open_existing(output)
    with journal.lock_output(PATIENCE), convert_disk_errors(journal.output):
        complete_unfinished(journal, progress)
        progress(Progress(stage="definitions"))
        policy = settle_columns(policy or Policy(), journal)
        snapshot = Snapshot.load(registry, subjects=subjects).check(policy)
        for doubt in snapshot.doubts:
            notify(doubt)
        contract = snapshot.compile(policy)
        backfills: list[Backfill] = []
        for table, files in _choose_tables(journal, definitions).items():
            definition = contract.definitions.get(find_definition(table))
            schema = None if definition is None else definition.schema_use.schema
            shape = None if definition is None else find_layout(definition).shape
            if schema is not None and shape is not None:
                work = _Work(
                    journal, table, columns.build_payload(shape), partial(RescueBackfill, schema, shape), progress
                )
                backfills += work.run(find_visible_files(journal, table, files))
        return backfills


def _choose_tables(journal: Journal, definitions: Sequence[str]) -> dict[TableName, list[DataFile]]:
    tables = {table: files for table, files in journal.find_files().items() if table != DEAD_LETTERS}
    xids = sorted({find_definition(table) for table in tables})
    for xid in definitions:
        if xid not in xids:
            listed = ", ".join(xids[:_MANY]) or "none"
            raise PipelineError(f"{journal.output} has no table of {xid}; there are: {listed}")
    return {table: files for table, files in tables.items() if not definitions or find_definition(table) in definitions}


class _Work:
    """The backfill of one table.

    ``declared`` are the columns of the payload by its definition. Rows have their names while they are filled.
    ``filling`` makes the ``RescueBackfill`` that leaves out the columns given to it.
    """

    def __init__(
        self,
        journal: Journal,
        table: TableName,
        declared: pa.Schema,
        filling: Callable[[frozenset[str]], RescueBackfill],
        show: ShowProgress,
    ) -> None:
        self._journal = journal
        self._table = table
        self._declared = declared
        self._format = journal.find_table_format() or "parquet"
        self._tables = open_tables(journal.output, self._format)
        # The columns of the table, with those that it gains.
        self._columns = self._tables.read_columns(table)
        self._filling = filling
        self._show = show
        self._filled = self._unfit = 0
        self._refused: set[str] = set()

    def run(self, files: Sequence[DataFile]) -> Iterator[Backfill]:
        """Fill the ``files`` of the table and commit them.

        Yield the result, or nothing if there is nothing to report.
        """
        name = f"backfill-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
        folder = self._journal.make_staging(name)
        total = sum(file.bytes for file in files)
        rewritten: list[tuple[DataFile, DataFile]] = []
        with sweep_on_failure(self._journal):
            for number, file in enumerate(files):
                bytes_done = sum(earlier.bytes for earlier in files[:number])
                self._show(Progress(stage="compacting", done=bytes_done, total=total))
                fresh = self._rewrite_file(file, folder / f"{name}-{number:05d}.parquet")
                if fresh is not None:
                    rewritten.append((file, fresh))
        if rewritten:
            prepare_and_commit(self._journal, self._tables, self._build_entry(name, rewritten), self._show)
        else:
            self._journal.sweep()
        if rewritten or self._unfit or self._refused:
            refused = tuple(sorted(self._refused))
            yield Backfill(
                table=self._table, filled=self._filled, unfit=self._unfit, files=len(rewritten), refused=refused
            )

    def _build_entry(self, name: str, rewritten: Sequence[tuple[DataFile, DataFile]]) -> JournalEntry:
        return JournalEntry(
            id=name,
            fingerprint="",
            origin="",
            table_format=self._format,
            tally=Tally(),
            files=tuple(fresh for _, fresh in rewritten),
            removed=tuple(old for old, _ in rewritten),
            seconds=0.0,
            compaction=True,
            changes=True,
            columns=self._journal.find_column_kinds() or "typed",
        )

    def _rewrite_file(self, file: DataFile, place: Place) -> DataFile | None:
        """Write the rows of ``file`` to ``place`` if some of them gain values, and return the new file, else None."""
        path = self._journal.output / find_table_folder(self._table, self._format) / file.name
        try:
            with open_rows(path) as source:
                columns_of_file = source.schema_arrow.remove_metadata()
                if RESCUE not in columns_of_file.names:
                    return None
                texts = source.read(columns=[RESCUE]).column(RESCUE).combine_chunks()
                # The members that the table states for its columns apply to all of its files.
                stated = merge(columns_of_file, self._columns, promote)
                columns_of_file = pa.schema([field for field in stated if field.name in columns_of_file.names])
                renamed = rename_columns(self._declared, columns_of_file)
                schema, filling = self._find_gains(renamed, texts)
                if schema is None or filling is None:
                    return None
                groups = (source.read_row_group(number) for number in range(source.num_row_groups))
                rows = (rename_rows(align_rows(group, columns_of_file), renamed) for group in groups)
                filled, size = self._write_rows(rows, schema, filling, place)
        except pa.ArrowInvalid as error:
            raise PipelineError(f"{path} cannot be read: {error}; table {self._table} stays as it is") from error
        if not filled:
            return None
        folder, slash, _ = file.name.rpartition("/")
        staged = f"{STAGING}/{place.parent.name}/{place.name}"
        return replace(file, staged=staged, name=f"{folder}{slash}{place.name}", bytes=size)

    def _find_gains(self, existing: pa.Schema, texts: pa.StringArray) -> tuple[pa.Schema | None, RescueBackfill | None]:
        """Return the columns of the new file, and the backfill that fills them; two None if no column gains values.

        ``existing`` are the columns of the file, ``texts`` its values of ``_rescue``.
        """
        schema, refused, gaining = existing, set[str](), False
        for field in self._filling(frozenset()).find_gaining_columns(texts):
            try:
                wider = merge(schema, pa.schema([field]), promote)
                stored = rename_columns(self._columns, wider)
                self._tables.follow(self._table, stored)
            except Incompatible:
                refused.add(field.name)
                self._refused.update(rename_columns(self._columns, pa.schema([field])).names)
            else:
                schema, gaining = wider, True
                self._columns = merge(self._columns, stored, promote)
        return (schema, self._filling(frozenset(refused))) if gaining else (None, None)

    def _write_rows(
        self, groups: Iterable[pa.Table], schema: pa.Schema, filling: RescueBackfill, place: Place
    ) -> tuple[int, int]:
        """Write the rows ``groups`` of a file to ``place``. Return how many gained values, and the size in bytes.

        ``schema`` are the columns of the new file, under the names of the ``declared`` columns.
        """
        count, stored = 0, rename_columns(self._columns, schema)
        with place.open_output() as output:
            with open_file(output, stored) as writer:
                for group in groups:
                    rows, filled, unfit = filling.fill(group, schema)
                    writer.write_table(rename_rows(rows, stored), row_group_size=max(len(rows), 1))
                    count += filled
                    self._unfit += unfit
            self._filled += count
            return count, output.finish()

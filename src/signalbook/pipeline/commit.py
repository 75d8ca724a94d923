"""Commit a processed batch, so that tables have its rows exactly once. Every batch of an output goes through here.

1. The tasks stage files, and the totals are checked. If the run is killed here, nothing of the batch has happened: the
   next run removes the staged files.
2. Each file is assigned to a table (``assign_tables``), and the batch is recorded in the journal as *prepared*.
3. The tables commit, several at once if the format allows it, and in the catalog of a database all together. Then the
   entry becomes *committed*. If the run is killed here, ``complete_unfinished`` repeats this whole step: a table that
   already has the batch does not change.

The assignment happens once, in step 2, and not again when a commit is repeated. A definition may have changed by then,
and the same file must not go to two tables.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from itertools import chain, groupby
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from signalbook.pipeline.errors import PipelineError, build_disk_error
from signalbook.pipeline.job.jobs import Job, Progress, ShowProgress
from signalbook.pipeline.job.runner import Runner
from signalbook.pipeline.job.tasks import BatchAttempt
from signalbook.pipeline.journal import DataFile, Journal, JournalEntry, TableFormat
from signalbook.pipeline.places import Place, Where, place_of, run_in_parallel
from signalbook.pipeline.table_names import DEAD_LETTERS, TableName
from signalbook.pipeline.tables.base import Outdated, Tables
from signalbook.pipeline.tables.catalogs import set_catalog
from signalbook.pipeline.tables.evolution import Incompatible, rename_columns
from signalbook.pipeline.tables.formats import open_tables
from signalbook.pipeline.tables.staged_files import rename_file_columns
from signalbook.tracing import span
from signalbook.values import now

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")
# The number of threads that work on tables in a local folder. Threads help, because Arrow reads a file's columns
# without holding the interpreter lock, and each table waits for its disk.
_LOCAL_THREADS: Final = 4


def assign_tables(tables: Tables, output: Where, batch: JournalEntry) -> JournalEntry:
    """Return ``batch`` with each staged file assigned to a table that accepts its columns, and to a folder there.

    Raises ``PipelineError`` if another program changed a table.
    """
    # Files are grouped by table, so that each table is read once and not for each of thousands of files.
    groups = [(table, list(files)) for table, files in groupby(sorted(batch.files, key=_find_table), key=_find_table)]
    for table in {table.group: table for table, _ in groups}.values():
        tables.find_versions(table)  # caches one listing per group, before several threads need it at once
    place = place_of(output)
    assigned = _run_each(tables, place, lambda pair: _assign_table(tables, place, batch, *pair), groups)
    return replace(batch, files=tuple(chain.from_iterable(assigned)))


def _run_each(
    tables: Tables, output: Place, work: Callable[[_Item], _Found], items: Sequence[_Item]
) -> Generator[_Found]:
    """Yield the results of ``work`` for ``items``, in parallel if the tables allow it."""
    if len(items) > 1 and tables.concurrent:
        yield from run_in_parallel(output, work, items, local=_LOCAL_THREADS)
    else:
        yield from map(work, items)


def _find_table(file: DataFile) -> TableName:
    return file.table


def _assign_table(
    tables: Tables, output: Place, batch: JournalEntry, table: TableName, files: Sequence[DataFile]
) -> list[DataFile]:
    # the columns depend on the definition alone, so they are those of all files
    columns = pq.read_schema((output / files[0].staged).open_for_arrow())
    chosen, stored = _find_accepting_table(tables, table, columns)
    if stored is not columns:
        files = [rename_file_columns(output, file, stored) for file in files]
    tables.expect(chosen, stored)
    folder = tables.choose_folder(chosen, batch)
    return [replace(file, table=chosen, name=folder + file.name) for file in files]


def _find_accepting_table(tables: Tables, table: TableName, columns: pa.Schema) -> tuple[TableName, pa.Schema]:
    """Return the newest table of a definition that accepts ``columns``, or a new table, and the columns to write.

    The columns to write are ``columns`` themselves, or the same columns under the names that their members already have
    in the table.
    """
    existing = tables.find_versions(table)
    # Newest first. If a definition was changed back, an older table accepts its columns again.
    for version in reversed(existing):
        try:
            tables.follow(version, columns)
        except Incompatible as error:
            if table == DEAD_LETTERS:
                raise PipelineError(f"table {table} was changed by someone else: {error}. Rename it away") from error
        else:
            return version, columns
        with suppress(Incompatible):
            stored = rename_columns(tables.read_columns(version), columns)
            tables.follow(version, stored)
            return version, stored
    return table.with_version(existing[-1].version + 1) if existing else table, columns


# The time in seconds to wait for the lock: a stream that writes to the same folder releases it between batches.
PATIENCE: Final = 60.0


def land(
    attempt: BatchAttempt,
    runner: Runner,
    show: ShowProgress,
    worthwhile: Callable[[JournalEntry], bool] = lambda _: True,
) -> JournalEntry:
    """Process a batch, and commit it if ``worthwhile`` returns True for the processed entry. Return the entry.

    Raises ``PipelineError``. Then either nothing of the batch is committed, or ``complete_unfinished`` can complete it.
    """
    with span("batch", {"signalbook.batch": attempt.batch_id}):
        return _land(attempt, runner, show, worthwhile)


def _land(
    attempt: BatchAttempt, runner: Runner, show: ShowProgress, worthwhile: Callable[[JournalEntry], bool]
) -> JournalEntry:
    journal = attempt.journal
    # Checked for each batch of a stream, because another program may have landed the first batch here.
    check_format(journal, attempt.table_format)
    with sweep_on_failure(journal):
        processed = attempt.process(runner, show)
        if not worthwhile(processed):
            journal.sweep()
            return processed
        # Opened after the processing, which may take hours, because the state of the tables is read here once and used
        # until the commit.
        tables = open_tables(journal.output, processed.table_format)
        batch = assign_tables(tables, journal.output, processed)
    return prepare_and_commit(journal, tables, batch, show)


def prepare_and_commit(journal: Journal, tables: Tables, batch: JournalEntry, show: ShowProgress) -> JournalEntry:
    """Record a batch as prepared, commit it, and return its entry. All of its files must be staged.

    If this is killed before the batch is prepared, the next run removes its files. If it is killed later,
    ``complete_unfinished`` of the next command that writes to the folder repeats the commit from the entry.
    """
    journal.prepare(batch)
    show(Progress(stage="prepared"))
    return commit(journal, tables, batch, show)


def complete_unfinished(journal: Journal, show: ShowProgress) -> dict[str, JournalEntry]:
    """Complete batches whose commit was interrupted, and remove staged files of dead runs. Return the batches by id.

    Call this with the output locked, before anything else is done there.
    """
    completed: dict[str, JournalEntry] = {}
    for batch in journal.list_unfinished():
        # A delayed run prepared this batch after another run had landed it, and was killed before it noticed.
        if (committed := journal.find(batch.id)) is not None and committed.files != batch.files:
            journal.withdraw(batch)
            continue
        tables = open_tables(journal.output, batch.table_format)
        with suppress(Withdrawn):  # the batch was withdrawn, so that nothing is left to do
            completed[batch.id] = commit(journal, tables, batch, show)
    # Only now, because prepared batches had files there.
    journal.sweep()
    return completed


def commit(journal: Journal, tables: Tables, batch: JournalEntry, show: ShowProgress) -> JournalEntry:
    """Commit a prepared batch table by table, and return its entry. May be repeated after a crash.

    Raises ``Withdrawn`` if files to be replaced are gone, and other errors with the batch still prepared.
    """
    started = time.monotonic()
    losing = {file.table for file in batch.removed}
    # Tables that lose files come first. If another program removed such a file, nothing is committed yet and the batch
    # can be withdrawn. Once one table has the batch, the others must follow.
    names = sorted(losing) + sorted({file.table for file in batch.files} - losing)
    parts = _split_by_table(batch)
    # Only the first table that loses files can cause the batch to be withdrawn, so it commits before the others begin.
    first, following = (names[:1], names[1:]) if losing else ([], names)
    for table in first:
        show(Progress(stage="committing", done=0, total=len(names)))
        with _withdraw_if_outdated(journal, batch):
            tables.commit(parts[table], table)
    results = _run_each(tables, journal.output, lambda table: tables.commit(parts[table], table), following)
    # If a table fails, commits under way in other threads end before the waiting commits are made.
    with tables.commit_together() if following else nullcontext(), closing(results):
        for number, _ in enumerate(chain([None], results), len(first)):
            show(Progress(stage="committing", done=number, total=len(names)))
    # Only when all tables have the batch: until then, each run begins by repeating the steps above.
    committed = replace(batch, seconds=batch.seconds + time.monotonic() - started, finished=now())
    journal.commit(committed)
    journal.sweep()
    show(Progress(stage="committed", done=len(names), total=len(names)))
    return committed


# Each part keeps the id of the whole batch, by which a table recognises a batch that it already has.
def _split_by_table(batch: JournalEntry) -> dict[TableName, JournalEntry]:
    """Return the part of ``batch`` for each table, so that no table has to search the files of all tables."""
    files, removed = defaultdict[TableName, list[DataFile]](list), defaultdict[TableName, list[DataFile]](list)
    for files_of_batch, into in ((batch.files, files), (batch.removed, removed)):
        for file in files_of_batch:
            into[file.table].append(file)
    return {
        table: replace(batch, files=tuple(files[table]), removed=tuple(removed[table])) for table in {*files, *removed}
    }


def check_same_input(committed: JournalEntry, origin: str) -> None:
    """Raise ``PipelineError`` if the batch ``committed`` was made from other input than ``origin``."""
    if committed.origin != origin:
        raise PipelineError(
            f"batch {committed.id!r} was committed for other input: a batch id stands for one input; "
            "give this one its own"
        )


def check_format(journal: Journal, table_format: TableFormat) -> None:
    """Raise ``PipelineError`` if the tables of the output have another format than ``table_format``.

    Two formats would write to the same folders, and the readers of neither format could read the result.
    """
    existing = journal.find_table_format()
    if existing not in (None, table_format):
        raise PipelineError(
            f"the tables in {journal.output} are {existing}: choose that format, or another output for {table_format}"
        )


def check_tables(journal: Journal, job: Job) -> None:
    """Raise ``PipelineError`` if the tables of the output have another format or catalog than ``job`` says.

    Record the catalog of the job if the output has none yet.
    """
    check_format(journal, job.table_format)
    set_catalog(journal, job.catalog)


def check_reachable(journal: Journal, table_format: TableFormat) -> None:
    """Raise ``PipelineError`` if tables cannot be reached. Call this before the input is read."""
    open_tables(journal.output, table_format).find_versions(DEAD_LETTERS)


class Withdrawn(PipelineError):
    """The error for a batch that was withdrawn because files that it was to replace are gone. Nothing changed.

    Only compactions, backfills and replays replace files.
    """


@contextmanager
def _withdraw_if_outdated(journal: Journal, batch: JournalEntry) -> Iterator[None]:
    """Convert ``Outdated`` to ``Withdrawn`` and withdraw the batch, which would otherwise block the folder for ever.

    Use this for the first table only. Once a table has its part, withdrawing the batch would lose or duplicate rows.
    """
    try:
        yield
    except Outdated as error:
        journal.withdraw(batch)
        raise Withdrawn(f"{error}; nothing was done: run it again") from error


@contextmanager
def convert_disk_errors(output: Where) -> Iterator[None]:
    """Convert an ``OSError`` to a ``PipelineError`` that names ``output``."""
    try:
        yield
    except OSError as error:
        raise build_disk_error(error, output) from error


@contextmanager
def sweep_on_failure(journal: Journal) -> Iterator[None]:
    """Remove the staged files if the context raises an error, and raise it again."""
    try:
        yield
    except BaseException:
        journal.sweep()
        raise

"""From a processed batch to tables that have its rows exactly once: every batch of an output folder goes through here.

1. The tasks stage files, and the totals are checked. Killed here, the batch was never begun: staged files are swept.
2. Each file is assigned to a table (``assign_tables``), and the batch is entered in the journal as *prepared*.
3. The tables commit, several at once where the format allows it, in a database's catalog all together, and the entry
   becomes *committed*. Killed here, ``complete_unfinished`` does all of this step again: a table that has the batch
   already takes nothing twice.

The assignment is made once, in step 2, and not when a commit is repeated: meanwhile a definition may have changed, and
the same file must not go to two tables.
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
from signalbook.pipeline.journal import DataFile, Journal, JournalEntry, TableFormat
from signalbook.pipeline.landing.staged_files import rename_file
from signalbook.pipeline.landing.tasks import BatchAttempt
from signalbook.pipeline.places import Place, Where, place_of, run_in_parallel
from signalbook.pipeline.tables.base import Outdated, Tables
from signalbook.pipeline.tables.catalogs import set_catalog
from signalbook.pipeline.tables.evolution import Incompatible, rename_columns
from signalbook.pipeline.tables.formats import open_tables
from signalbook.pipeline.tables.table_names import DEAD_LETTERS, TableName
from signalbook.tracing import span
from signalbook.values import now

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")
# Tables in a local folder that are worked on at once: of a file's columns Arrow makes sense outside of the
# interpreter's lock, and each table waits for its disk.
_LOCAL_THREADS: Final = 4


def assign_tables(tables: Tables, output: Where, batch: JournalEntry) -> JournalEntry:
    """``batch`` with each staged file assigned to a table that accepts its columns, and to a folder there.

    Raises ``PipelineError`` if someone else changed a table.
    """
    # So that each table is looked at once, and not for each of thousands of files.
    groups = [(table, list(files)) for table, files in groupby(sorted(batch.files, key=_find_table), key=_find_table)]
    for table in {table.group: table for table, _ in groups}.values():
        tables.find_versions(table)  # one listing for all of a group, before several ask for it at once
    place = place_of(output)
    assigned = _run_each(tables, place, lambda pair: _assign_table(tables, place, batch, *pair), groups)
    return replace(batch, files=tuple(chain.from_iterable(assigned)))


def _run_each(
    tables: Tables, output: Place, work: Callable[[_Item], _Found], items: Sequence[_Item]
) -> Generator[_Found]:
    """Yield the results of ``work`` for ``items``, several tables at once: they wait for a store or a disk."""
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
        files = [rename_file(output, file, stored) for file in files]
    tables.expect(chosen, stored)
    folder = tables.choose_folder(chosen, batch)
    return [replace(file, table=chosen, name=folder + file.name) for file in files]


def _find_accepting_table(tables: Tables, table: TableName, columns: pa.Schema) -> tuple[TableName, pa.Schema]:
    """Return the newest table of a definition that can take ``columns``, or a new one, and the columns to write.

    These are ``columns`` themselves, or the same columns under the names that their members have in the table already.
    """
    existing = tables.find_versions(table)
    # Newest first; a definition that changed back finds an older table that takes its columns again.
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


# A stream that writes to the same folder lets go of it between batches.
PATIENCE: Final = 60.0


def land(
    attempt: BatchAttempt,
    runner: Runner,
    show: ShowProgress,
    worthwhile: Callable[[JournalEntry], bool] = lambda _: True,
) -> JournalEntry:
    """Process a batch and commit it, or only process it if what came out is not ``worthwhile``.

    Raises ``PipelineError`` with nothing of it committed, or nothing left to do but what ``complete_unfinished`` does.
    """
    with span("batch", {"signalbook.batch": attempt.batch_id}):
        return _land(attempt, runner, show, worthwhile)


def _land(
    attempt: BatchAttempt, runner: Runner, show: ShowProgress, worthwhile: Callable[[JournalEntry], bool]
) -> JournalEntry:
    journal = attempt.journal
    # also of a stream's later batches: others may have been the first to land something here
    check_format(journal, attempt.table_format)
    with sweep_on_failure(journal):
        processed = attempt.process(runner, show)
        if not worthwhile(processed):
            journal.sweep()
            return processed
        # Opened after the processing, which may take hours: what tables look like is read now, and kept until the
        # commit.
        tables = open_tables(journal.output, processed.table_format)
        batch = assign_tables(tables, journal.output, processed)
    return prepare_and_commit(journal, tables, batch, show)


def prepare_and_commit(journal: Journal, tables: Tables, batch: JournalEntry, show: ShowProgress) -> JournalEntry:
    """Enter a batch whose files are all staged, and commit it.

    Killed before the first line, it was never begun: the next run sweeps its files. Killed after it,
    ``complete_unfinished`` of whatever works on the folder next repeats the commit from the entry alone.
    """
    journal.prepare(batch)
    show(Progress(stage="prepared"))
    return commit(journal, tables, batch, show)


def complete_unfinished(journal: Journal, show: ShowProgress) -> dict[str, JournalEntry]:
    """Complete the batches that died while they were committed, by their ids, and remove what dead runs staged.

    Called with the folder locked, before anything else is done in it.
    """
    completed: dict[str, JournalEntry] = {}
    for batch in journal.list_unfinished():
        # entered by a run that was held up until another had landed the batch, and was killed before it saw that
        if (committed := journal.find(batch.id)) is not None and committed.files != batch.files:
            journal.withdraw(batch)
            continue
        tables = open_tables(journal.output, batch.table_format)
        with suppress(Withdrawn):  # its work is undone, and that was all there was to do
            completed[batch.id] = commit(journal, tables, batch, show)
    # only now: prepared batches still had files there
    journal.sweep()
    return completed


def commit(journal: Journal, tables: Tables, batch: JournalEntry, show: ShowProgress) -> JournalEntry:
    """Commit a prepared batch table by table; after a crash again, as often as it takes."""
    started = time.monotonic()
    losing = {file.table for file in batch.removed}
    # tables that lose files come first: if someone else took such a file away, nothing is committed yet and the batch
    # can be withdrawn; once one table has it, the others must follow
    names = sorted(losing) + sorted({file.table for file in batch.files} - losing)
    parts = _split_by_table(batch)
    # The first table that loses files alone can have the batch withdrawn, and is to have done so before others begin.
    first, following = (names[:1], names[1:]) if losing else ([], names)
    for table in first:
        show(Progress(stage="committing", done=0, total=len(names)))
        with _withdraw_if_outdated(journal, batch):
            tables.commit(parts[table], table)
    results = _run_each(tables, journal.output, lambda table: tables.commit(parts[table], table), following)
    # those still at work when something fails come to an end before what waits is made
    with tables.commit_together() if following else nullcontext(), closing(results):
        for number, _ in enumerate(chain([None], results), len(first)):
            show(Progress(stage="committing", done=number, total=len(names)))
    # only when all tables have it: until then every run starts by doing the above again
    committed = replace(batch, seconds=batch.seconds + time.monotonic() - started, finished=now())
    journal.commit(committed)
    journal.sweep()
    show(Progress(stage="committed", done=len(names), total=len(names)))
    return committed


# Each part keeps the id of the whole batch: a table recognises by it what it has already.
def _split_by_table(batch: JournalEntry) -> dict[TableName, JournalEntry]:
    """Return the part of a batch for each table, so that not each table searches the files of all."""
    files, removed = defaultdict[TableName, list[DataFile]](list), defaultdict[TableName, list[DataFile]](list)
    for files_of_batch, into in ((batch.files, files), (batch.removed, removed)):
        for file in files_of_batch:
            into[file.table].append(file)
    return {
        table: replace(batch, files=tuple(files[table]), removed=tuple(removed[table])) for table in {*files, *removed}
    }


def check_same_input(committed: JournalEntry, origin: str) -> None:
    """Raise ``PipelineError`` unless a committed batch is of the input ``origin``."""
    if committed.origin != origin:
        raise PipelineError(
            f"batch {committed.id!r} was committed for other input: a batch id stands for one input; "
            "give this one its own"
        )


def check_format(journal: Journal, table_format: TableFormat) -> None:
    """Raise ``PipelineError`` if the tables here are of another format.

    Two would lay their files into the same folders, and neither's readers could read them.
    """
    existing = journal.find_table_format()
    if existing not in (None, table_format):
        raise PipelineError(
            f"the tables in {journal.output} are {existing}: choose that format, or another output for {table_format}"
        )


def check_tables(journal: Journal, job: Job) -> None:
    """Raise ``PipelineError`` if the tables here are of another format than the job's, or in another catalog."""
    check_format(journal, job.table_format)
    set_catalog(journal, job.catalog)


def check_reachable(journal: Journal, table_format: TableFormat) -> None:
    """Raise ``PipelineError`` if tables cannot be reached: better now than when the input has been read."""
    open_tables(journal.output, table_format).find_versions(DEAD_LETTERS)


class Withdrawn(PipelineError):
    """A compaction or replay of files that are no longer there: it is taken back, and everything is as before it."""


@contextmanager
def _withdraw_if_outdated(journal: Journal, batch: JournalEntry) -> Iterator[None]:
    """Withdraw a batch that is outdated, which would block the folder for ever, and raise ``Withdrawn``.

    Of the first table alone: once one has its part, the batch can only go forward, for taking it back would lose or
    double rows there.
    """
    try:
        yield
    except Outdated as error:
        journal.withdraw(batch)
        raise Withdrawn(f"{error}; nothing was done: run it again") from error


@contextmanager
def convert_disk_errors(output: Where) -> Iterator[None]:
    """Raise ``PipelineError`` for a disk that fails, with the folder in it."""
    try:
        yield
    except OSError as error:
        raise build_disk_error(error, output) from error


@contextmanager
def sweep_on_failure(journal: Journal) -> Iterator[None]:
    """Remove the staged files of an attempt that fails."""
    try:
        yield
    except BaseException:
        journal.sweep()
        raise

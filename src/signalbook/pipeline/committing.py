"""From a processed batch to tables that have it: every batch of an output folder goes through here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from pyspark.sql import SparkSession

from signalbook.pipeline.attempt import Attempt, Show
from signalbook.pipeline.failures import PipelineError, disk_failure
from signalbook.pipeline.job import Progress
from signalbook.pipeline.journal import Batch, DataFile, Journal, TableFormat
from signalbook.pipeline.naming import TableName
from signalbook.pipeline.tables.registry import open_tables
from signalbook.values import now


def land(attempt: Attempt, session: SparkSession, show: Show) -> Batch:
    """Process a batch and commit it. Raises ``PipelineError`` with nothing of it committed, or nothing left to do but
    what ``settle`` does.
    """
    journal = attempt.journal
    with _swept(journal):
        batch = attempt.process(session, show)
    journal.prepare(batch)
    show(Progress(stage="prepared"))
    return commit(journal, batch, show)


def settle(journal: Journal, show: Show) -> dict[str, Batch]:
    """Complete the batches that died while they were committed, by their ids, and remove what dead runs staged."""
    completed = {batch.id: commit(journal, batch, show) for batch in journal.unfinished()}
    journal.sweep()
    return completed


def commit(journal: Journal, batch: Batch, show: Show) -> Batch:
    """Commit a prepared batch table by table; again after a crash, as often as it takes."""
    started = time.monotonic()
    tables = open_tables(journal.output, batch)
    groups = {name: list(files) for name, files in groupby(sorted(batch.files, key=_table), key=_table)}
    for number, files in enumerate(groups.values()):
        show(Progress(stage="committing", done=number, total=len(groups)))
        tables.commit(files[0].table, files)
    committed = replace(batch, seconds=batch.seconds + time.monotonic() - started, finished=now())
    journal.commit(committed)
    journal.sweep()
    show(Progress(stage="committed", done=len(groups), total=len(groups)))
    return committed


def _table(file: DataFile) -> TableName:
    return file.table


def same(done: Batch, origin: str) -> None:
    """Raise ``PipelineError`` unless a committed batch is of the input ``origin``."""
    if done.origin != origin:
        raise PipelineError(
            f"batch {done.id!r} was committed for other input: a batch id stands for one input; give this one its own"
        )


def one_format(journal: Journal, wanted: TableFormat) -> None:
    """Raise ``PipelineError`` if the tables here are of another format.

    Two would lay their files into the same folders, and neither's readers could read them.
    """
    there = journal.table_format()
    if there not in (None, wanted):
        raise PipelineError(
            f"the tables in {journal.output} are {there}: choose that format, or another output for {wanted}"
        )


@contextmanager
def disk(output: Path) -> Iterator[None]:
    """Say of a disk that fails which it is."""
    try:
        yield
    except OSError as error:
        raise disk_failure(error, output) from error


@contextmanager
def _swept(journal: Journal) -> Iterator[None]:
    """Leave nothing behind of an attempt that fails."""
    try:
        yield
    except BaseException:
        journal.sweep()
        raise

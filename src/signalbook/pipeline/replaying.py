"""The driver's side of a replay: dead letters held to the definitions of today, and moved where they conform.

A replay is a batch of the journal whose input are files of dead letters. It adds files to tables and puts what remains
of the letters into new files that stand for the old ones, all by one entry: killed anywhere, it is completed by the
next run, or was never begun.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from pyspark.sql import DataFrame, SparkSession

from signalbook.pipeline import rewriting, spark, work
from signalbook.pipeline.attempt import Attempt, Intake, Show
from signalbook.pipeline.commands.run import check
from signalbook.pipeline.commit.committing import PATIENCE, commit, disk, settle, swept
from signalbook.pipeline.commit.journal import Batch, DataFile, Journal
from signalbook.pipeline.job.jobs import Progress, ReplayJob, Wanted
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.placing import place
from signalbook.pipeline.replays import Replay
from signalbook.pipeline.reports.report import Report, Tally
from signalbook.pipeline.sources.base import Split
from signalbook.pipeline.tables.naming import DEAD_LETTERS, home
from signalbook.pipeline.tables.registry import open_tables, standing
from signalbook.values import now

_SOURCE: Final = "dead-letters"


def replay(job: ReplayJob, show: Show) -> Replay:
    """Do ``job``, telling ``show`` how far it is. Raises ``PipelineError`` and what reading definitions raises."""
    check(job.policy)
    journal = Journal.existing(job.output.absolute())
    with journal.alone(PATIENCE), disk(job.output):
        settle(journal, show)
        show(Progress(stage="definitions"))
        snapshot = Snapshot.load(job.registry, job.groups, job.versions).check(job.policy)
        files = standing(journal, DEAD_LETTERS, journal.files().get(DEAD_LETTERS, []))
        if not files:
            return _nothing(job, snapshot)
        show(Progress(stage="spark"))
        with spark.open_session(job.master) as session:
            return _replay(job, journal, snapshot, files, session, show)


def _replay(
    job: ReplayJob, journal: Journal, snapshot: Snapshot, files: Sequence[DataFile], session: SparkSession, show: Show
) -> Replay:
    table_format = journal.table_format() or "parquet"
    folder = journal.output / home(DEAD_LETTERS, table_format)
    attempt = Attempt(
        journal=journal,
        batch_id=f"replay-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}",
        intake=LetterIntake.of(files, folder, job.wanted, session.sparkContext.defaultParallelism),
        snapshot=snapshot,
        table_format=table_format,
        partition="day",
        policy=job.policy,
        landed_at=now(),
    )
    with swept(journal):
        processed = attempt.process(session, show)
        if job.dry_run or not processed.removed:
            journal.sweep()
            return _told(processed, dry_run=job.dry_run)
        tables = open_tables(journal.output, table_format)
        batch = place(tables, journal.output, processed)
    journal.prepare(batch)
    show(Progress(stage="prepared"))
    return _told(commit(journal, tables, batch, show), dry_run=False)


def _told(batch: Batch, *, dry_run: bool) -> Replay:
    return Replay(report=batch.report(), replayed=batch.replayed, changed=batch.changed, dry_run=dry_run)


def _nothing(job: ReplayJob, snapshot: Snapshot) -> Replay:
    report = Report(batch="", fingerprint=snapshot.fingerprint, tally=Tally(), seconds=0.0)
    return Replay(report=report, replayed=0, changed=0, dry_run=job.dry_run)


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterIntake(Intake):
    """Files of dead letters, by their paths, as the input of a batch."""

    wanted: Wanted
    files: dict[str, DataFile] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Sequence[DataFile], folder: Path, wanted: Wanted, parallelism: int) -> LetterIntake:
        """The files below ``folder``, dealt out to about ``parallelism`` tasks."""
        known = {str(folder / file.name): file for file in files}
        splits = [Split(path=path, start=0, end=file.bytes) for path, file in known.items()]
        splits.sort(key=lambda split: split.size, reverse=True)
        tasks = tuple(tuple(splits[number::parallelism]) for number in range(min(parallelism, len(splits))))
        return cls(source=_SOURCE, origin=_SOURCE, tasks=tasks, wanted=wanted, files=known)

    def manifests(self, session: SparkSession, folder: Path) -> DataFrame:
        """The manifest of each task."""
        (folder / rewriting.WANTED).write_bytes(msgspec.json.encode(self.wanted))
        count = len(self.tasks)
        return session.range(0, count, 1, count).mapInArrow(partial(rewriting.rewrite, str(folder)), work.MANIFEST)

    def outcome(self, manifests: Sequence[work.Manifest], batch: Batch) -> Batch:
        """The batch with the files it replaces."""
        return replace(
            batch,
            removed=tuple(self.files[path] for manifest in manifests for path in manifest.replaced),
            replayed=sum(manifest.replayed for manifest in manifests),
            changed=sum(manifest.changed for manifest in manifests),
        )

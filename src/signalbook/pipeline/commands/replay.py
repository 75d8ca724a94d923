"""``pipeline replay``: process dead letters again with the current definitions, and land those that now conform.

A replay is a batch of the journal whose input are files of dead letters. It adds files to tables, and writes the
remaining dead letters into new files that replace the old ones, all in one entry of the journal. If a replay is killed,
either the next run completes it, or nothing of it has happened.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, Self

import msgspec
import numpy as np
import pyarrow as pa

from signalbook.pipeline.commands.dead_letters import (
    DeadLetterLocation,
    DeadLetterSource,
    Mask,
    match_rows,
    read_dead_letters,
    read_message_batches,
    read_verdicts,
)
from signalbook.pipeline.commands.run import check
from signalbook.pipeline.commit import PATIENCE, complete_unfinished, convert_disk_errors, land
from signalbook.pipeline.job.default_runner import open_runner
from signalbook.pipeline.job.jobs import DeadLetterFilter, Progress, ReplayJob, ShowProgress
from signalbook.pipeline.job.runner import Runner
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.job.tasks import BatchAttempt, Intake, Manifest, Task, encode_manifest
from signalbook.pipeline.journal import DataFile, Journal, JournalEntry
from signalbook.pipeline.places import Place, Where, place_of
from signalbook.pipeline.processing.deadletters import DeadLetter, DeadLetterRows
from signalbook.pipeline.processing.processing import Processing
from signalbook.pipeline.report import Report, Tally
from signalbook.pipeline.sources.base import Split
from signalbook.pipeline.table_names import DEAD_LETTERS, find_table_folder
from signalbook.pipeline.tables.formats import find_visible_files
from signalbook.pipeline.tables.staged_files import StagedFiles
from signalbook.values import JSONObject, now

WANTED: Final = "wanted.json"
# The columns that a dead letter keeps if its verdict changes: they say since when it is a dead letter.
_KEPT: Final = ("batch", "sidelined_at")


def rewrite(folder: Where, numbers: Iterable[int]) -> Iterator[bytes]:
    """Run the replay tasks with these ``numbers``, whose plan is in ``folder``. Yield one manifest as JSON for each."""
    task = Task.of(folder)
    criteria = msgspec.json.decode((task.staging / WANTED).read(), type=DeadLetterFilter)
    return (encode_manifest(partial(_replay_task, task, criteria, number)) for number in numbers)


def _replay_task(task: Task, criteria: DeadLetterFilter, number: int) -> Manifest:
    with task.stage_files(number) as staged:
        rejected: list[DeadLetter] = []
        processing = Processing(task.load_contract(), DeadLetterSource(), staged, task.bookkeeping, rejected.append)
        work = _Rewriting(task, criteria, processing, staged, rejected)
        progress = task.build_progress_writer(number, processing.tally)
        replaced = []
        for split in task.plan.tasks[number]:
            replaced += [split.path] if work.rewrite_file(place_of(split.path, task.staging.storage)) else []
            progress.advance(split.size)
        return Manifest(
            files=staged.finish(),
            tally=processing.tally,
            replaced=tuple(replaced),
            replayed=work.replayed,
            changed=work.changed,
        )


class _Rewriting:
    """The replay of the dead letters of one task.

    ``processing`` adds messages that stay dead letters to ``rejected``.
    """

    def __init__(
        self,
        task: Task,
        criteria: DeadLetterFilter,
        processing: Processing,
        staged: StagedFiles,
        rejected: list[DeadLetter],
    ) -> None:
        self.replayed = 0
        self.changed = 0
        self._criteria = criteria
        self._processing = processing
        self._staged = staged
        self._rejected = rejected
        self._dead_letters = DeadLetterRows(task.bookkeeping)

    def rewrite_file(self, place: Place) -> bool:
        """Process the dead letters of a file again. Return True if staged rows replace the file.

        Dead letters with a new verdict are staged with that verdict, and all other remaining ones unchanged.
        """
        gone = [self._process_again(first, rows) for first, rows in read_dead_letters(place)]
        if not any(mask.any() for mask in gone):
            return False
        # read a second time instead of kept: a file may be larger than memory, and most files lose nothing
        for (_, rows), mask in zip(read_dead_letters(place), gone, strict=True):
            self._land(rows.filter(pa.array(~mask)))
        return True

    def _process_again(self, first: int, rows: pa.RecordBatch) -> Mask:
        """Process the dead letters in ``rows`` again. Return a mask: True for rows that land or get another verdict.

        ``first`` is the number of the first row in the file.
        """
        gone = match_rows(self._criteria, rows)
        self.replayed += int(np.count_nonzero(gone))
        for batch in read_message_batches(first, rows, gone):
            self._processing.take(batch)
        self._processing.clear()
        if self._rejected:
            # Dead letters with the same verdict as before stay where they are, so that a replay that changes nothing
            # writes nothing.
            gone[self._find_unchanged(first, rows)] = False
        return gone

    def _find_unchanged(self, first: int, rows: pa.RecordBatch) -> Sequence[int]:
        """Return the indices, in ``rows``, of dead letters with the same verdict. Stage new rows for the others."""
        owners = [
            dead_letter.location.row - first
            for dead_letter in self._rejected
            if isinstance(dead_letter.location, DeadLetterLocation)
        ]
        # A dead letter whose message cannot be read any more stays unchanged.
        unread = [dead_letter.message is None for dead_letter in self._rejected]
        for dead_letter in self._rejected:
            self._dead_letters.add(dead_letter)
        # The old and new rows are compared below. A dead letter with the same verdict as before keeps its old row.
        self._rejected.clear()
        old, new = rows.take(pa.array(owners, pa.int64())), self._dead_letters.take()
        judged = zip(unread, read_verdicts(old), read_verdicts(new), strict=True)
        same = np.array([cannot or before == now for cannot, before, now in judged], np.bool_)
        self.changed += int(np.count_nonzero(~same))
        self._land(_restore_dates(new, old).filter(pa.array(~same)))
        return [owner for owner, stays in zip(owners, same.tolist(), strict=True) if stays]

    def _land(self, rows: pa.RecordBatch) -> None:
        if len(rows):
            self._staged.add(DEAD_LETTERS, rows)


def _restore_dates(new: pa.RecordBatch, old: pa.RecordBatch) -> pa.RecordBatch:
    arrays = [old.column(name) if name in _KEPT else new.column(name) for name in new.schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=new.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The result of a replay, or with ``dry_run`` the result that a replay would have.

    ``replayed`` is the number of dead letters that were processed again. ``changed`` of them remain dead letters, but
    for another reason.
    """

    report: Report
    replayed: int
    changed: int
    dry_run: bool

    def to_json(self) -> JSONObject:
        """Return the object that ``pipeline replay --json`` prints."""
        tally = self.report.tally
        return {
            "batch": self.report.batch,
            "fingerprint": self.report.fingerprint,
            "dry_run": self.dry_run,
            "replayed": self.replayed,
            "landed": self.report.landed,
            "dead_lettered": tally.dead_lettered,
            "changed": self.changed,
            "dropped": tally.dropped,
            "by_message": dict(sorted(tally.landed.items())),
            "reasons": dict(sorted(tally.reasons.items())),
            "violations": [violation.to_json() for violation in tally.violations.list_top()],
            **self.report.encode_left_out(),
            "seconds": round(self.report.seconds, 3),
        }


_SOURCE: Final = "dead-letters"


def replay(
    job: ReplayJob,
    progress: ShowProgress = lambda _: None,
    notify: Callable[[str], None] = lambda _: None,
    runner: Runner | None = None,
) -> Replay:
    """Process the dead letters of an output folder with the current definitions, and land those that now conform.

    ``notify`` is called with doubts about the definitions. ``runner`` runs the tasks, by default Spark. Raises
    ``PipelineError`` and the errors of reading definitions. If a replay is killed, the next command that writes to the
    folder completes it, or nothing of it has happened.
    """
    check(job.policy)
    journal = Journal.open_existing(job.place)
    with journal.lock_output(PATIENCE), convert_disk_errors(journal.output):
        complete_unfinished(journal, progress)
        progress(Progress(stage="definitions"))
        snapshot = Snapshot.load(job.registry, job.groups, job.versions, job.subjects).check(job.policy)
        for doubt in snapshot.doubts:
            notify(doubt)
        files_by_table = journal.find_files(lambda table: table == DEAD_LETTERS)
        files = find_visible_files(journal, DEAD_LETTERS, files_by_table.get(DEAD_LETTERS, []))
        if not files:
            nothing = Report(batch="", fingerprint=snapshot.fingerprint, tally=Tally(), seconds=0.0)
            return Replay(report=nothing, replayed=0, changed=0, dry_run=job.dry_run)
        with open_runner(runner, job.master, lambda: progress(Progress(stage="spark"))) as opened:
            return _replay_on(job, journal, snapshot, files, opened, progress)


def _replay_on(
    job: ReplayJob,
    journal: Journal,
    snapshot: Snapshot,
    files: Sequence[DataFile],
    runner: Runner,
    show: ShowProgress,
) -> Replay:
    table_format = journal.find_table_format() or "parquet"
    folder = journal.output / find_table_folder(DEAD_LETTERS, table_format)
    attempt = BatchAttempt(
        journal=journal,
        batch_id=f"replay-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}",
        intake=DeadLetterIntake.of(files, folder, job.wanted, runner.parallelism),
        snapshot=snapshot,
        table_format=table_format,
        partition="day",
        policy=job.policy,
        landed_at=now(),
    )
    batch = land(attempt, runner, show, worthwhile=lambda processed: not job.dry_run and bool(processed.removed))
    report = replace(batch.report(), doubts=snapshot.doubts)
    return Replay(report=report, replayed=batch.replayed, changed=batch.changed, dry_run=job.dry_run)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterIntake(Intake):
    """The input of a replay: ``files`` of dead letters by path, and the ``criteria`` that select dead letters."""

    criteria: DeadLetterFilter
    files: dict[str, DataFile] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Sequence[DataFile], folder: Place, criteria: DeadLetterFilter, parallelism: int) -> Self:
        """Return the intake of ``files``, which lie below ``folder``, divided into at most ``parallelism`` tasks."""
        files_by_path = {str(folder / file.name): file for file in files}
        splits = [Split(path=path, start=0, end=file.bytes) for path, file in files_by_path.items()]
        splits.sort(key=lambda split: split.size, reverse=True)
        tasks = tuple(tuple(splits[number::parallelism]) for number in range(min(parallelism, len(splits))))
        return cls(source=_SOURCE, origin=_SOURCE, tasks=tasks, criteria=criteria, files=files_by_path)

    def run_tasks(self, runner: Runner, folder: Place) -> list[bytes]:
        """Run all tasks and return the manifest of each as JSON. ``folder`` is the staging folder with their plan."""
        (folder / WANTED).write(msgspec.json.encode(self.criteria))
        return runner.run(len(self.tasks), partial(rewrite, folder), self.size)

    def complete_entry(self, manifests: Sequence[Manifest], batch: JournalEntry) -> JournalEntry:
        """Return the entry ``batch`` with the files that it replaces, and the counts of the replay."""
        return replace(
            batch,
            removed=tuple(self.files[path] for manifest in manifests for path in manifest.replaced),
            replayed=sum(manifest.replayed for manifest in manifests),
            changed=sum(manifest.changed for manifest in manifests),
        )

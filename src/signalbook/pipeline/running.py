"""The driver's side of a run: check, freeze the definitions, let Spark work, commit."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from signalbook.messages import Policy
from signalbook.pipeline import spark, work
from signalbook.pipeline.failures import PipelineError, disk_failure, full_disk
from signalbook.pipeline.job import Job, Progress
from signalbook.pipeline.journal import STAGING, Batch, DataFile, Journal
from signalbook.pipeline.naming import TableName, escape
from signalbook.pipeline.report import Report, Tally
from signalbook.pipeline.snapshot import Snapshot
from signalbook.pipeline.sources import registry
from signalbook.pipeline.sources.base import Split
from signalbook.pipeline.sources.planning import find_files, plan
from signalbook.pipeline.tables.registry import open_tables
from signalbook.values import fingerprint, now

Show = Callable[[Progress], None]
_LOOK: Final = 0.3
_NAME: Final = 100
_OWN_WORDS: Final = re.compile(r"PipelineError: (.+)")
_FAULT: Final = re.compile(r"[\w.]*(Error|Exception)\b.*")
_REPEATED: Final = "this batch was committed before: nothing was read and nothing changed"
_COMPLETED: Final = "an earlier run of this batch had processed it all and died while committing: that was completed"


def run(job: Job, show: Show) -> Report:
    """Do ``job``, telling ``show`` how far it is. Raises ``PipelineError`` and what reading definitions raises."""
    _check(job.policy)
    source = registry.find(job.input_format)
    files = find_files(job.inputs)
    origin = _origin(job, files)
    journal = Journal.open(job.output.absolute())
    batch_id = job.batch_id or f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
    with journal.alone(), _disk(job.output):
        completed = {batch.id: _commit(journal, batch, show) for batch in journal.unfinished()}
        _one_format(journal, job)
        done = completed.get(batch_id) or journal.find(batch_id)
        if done is not None:
            _same(done, origin)
            return done.report(_COMPLETED if batch_id in completed else _REPEATED)
        journal.sweep()
        show(Progress(stage="definitions"))
        snapshot = Snapshot.load(job.registry, job.groups)
        snapshot.check(job.policy)
        show(Progress(stage="spark"))
        with _swept(journal), spark.session(job.master) as session:
            tasks = plan(source, files, session.sparkContext.defaultParallelism)
            attempt = _Attempt(
                journal=journal, batch_id=batch_id, snapshot=snapshot, job=job, tasks=tasks, landed_at=now()
            )
            batch = replace(attempt.process(session, show), origin=origin)
            batch.check()
        journal.prepare(batch)
        show(Progress(stage="prepared"))
        return _commit(journal, batch, show).report()


def _check(policy: Policy) -> None:
    if policy.on_no_match == "pass":
        raise PipelineError("the pipeline has no table for messages without a definition: dead-letter or drop them")


def _origin(job: Job, files: Sequence[tuple[str, int]]) -> str:
    """Tells this input from another: its format, and the name and size of each file."""
    return fingerprint([job.input_format, [[Path(path).name, size] for path, size in files]])


def _same(done: Batch, origin: str) -> None:
    if done.origin != origin:
        raise PipelineError(
            f"batch {done.id!r} was committed for other input: a batch id stands for one input; give this one its own"
        )


def _one_format(journal: Journal, job: Job) -> None:
    """Two formats would lay their files into the same folders, and neither's readers could read them."""
    there = journal.table_format()
    if there not in (None, job.table_format):
        raise PipelineError(
            f"the tables in {job.output} are {there}: choose that format, or another output for {job.table_format}"
        )


@contextmanager
def _swept(journal: Journal) -> Iterator[None]:
    """Leave nothing behind of an attempt that fails."""
    try:
        yield
    except BaseException:
        journal.sweep()
        raise


@contextmanager
def _disk(output: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise disk_failure(error, output) from error


def _commit(journal: Journal, batch: Batch, show: Show) -> Batch:
    """Commit a prepared batch table by table; again after a crash, as often as it takes."""
    started = time.monotonic()
    tables = open_tables(journal.output, batch)
    groups = {name: list(files) for name, files in groupby(sorted(batch.files, key=_table), key=_table)}
    for number, files in enumerate(groups.values()):
        show(Progress(stage="committing", done=number, total=len(groups)))
        tables.commit(files[0].table, files)
    committed = replace(batch, seconds=batch.seconds + time.monotonic() - started)
    journal.commit(committed)
    journal.sweep()
    show(Progress(stage="committed", done=len(groups), total=len(groups)))
    return committed


def _table(file: DataFile) -> TableName:
    return file.table


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """One try to process a batch, in a staging folder of its own."""

    journal: Journal
    batch_id: str
    snapshot: Snapshot
    job: Job
    tasks: tuple[tuple[Split, ...], ...]
    landed_at: datetime

    def process(self, session: SparkSession, show: Show) -> Batch:
        """Let Spark do every task. What is returned is staged and counted; nothing of it is visible yet."""
        started = time.monotonic()
        folder = self._stage()
        frame = session.range(0, len(self.tasks), 1, max(len(self.tasks), 1))
        function = partial(work.work, str(folder))
        with _watching(folder, sum(split.size for task in self.tasks for split in task), show):
            manifests = _collect(frame.mapInArrow(function, work.MANIFEST), self.job.output)
        tally = Tally()
        for manifest in manifests:
            tally.add(manifest.tally)
        return Batch(
            id=self.batch_id,
            fingerprint=self.snapshot.fingerprint,
            origin="",
            table_format=self.job.table_format,
            tally=tally,
            files=tuple(file for manifest in manifests for file in manifest.files),
            seconds=time.monotonic() - started,
        )

    def _stage(self) -> Path:
        name = f"{escape(self.batch_id)[:_NAME]}-{secrets.token_hex(4)}"
        folder = self.journal.staging(name)
        (folder / work.PROGRESS).mkdir()
        (folder / work.SNAPSHOT).write_bytes(self.snapshot.to_json())
        plan = work.Plan(
            source=self.job.input_format,
            tasks=self.tasks,
            batch=self.batch_id,
            fingerprint=self.snapshot.fingerprint,
            landed_at=self.landed_at,
            staged=f"{STAGING}/{name}",
            policy=self.job.policy,
        )
        (folder / work.PLAN).write_bytes(msgspec.json.encode(plan))
        return folder


def _collect(frame: DataFrame, output: Path) -> list[work.Manifest]:
    try:
        return [work.read_manifest(row["manifest"]) for row in frame.collect()]
    except (PySparkException, Py4JError) as error:
        raise PipelineError(explain(str(error), output)) from error


def explain(text: str, output: Path) -> str:
    """What the text of a failed Spark job comes to, in one line: a worker's own words if it had some."""
    own = _OWN_WORDS.search(text)
    if own:
        return own[1]
    if "No space left on device" in text:
        return full_disk(output)
    lines = [line for line in text.splitlines() if line.strip()]
    faults = [line for line in lines if _FAULT.match(line)] or lines
    return f"a Spark task failed, nothing was committed: {faults[-1] if faults else 'Spark did not say why'}"


@contextmanager
def _watching(folder: Path, total: int, show: Show) -> Iterator[None]:
    """Show how far the tasks are, several times a second, from what they write down."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK):
            show(_progress(folder, total))

    watcher = threading.Thread(target=watch, daemon=True)
    show(Progress(stage="processing", total=total))
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _progress(folder: Path, total: int) -> Progress:
    miles = [_mileage(path) for path in (folder / work.PROGRESS).glob("*.json")]
    return Progress(
        stage="processing",
        done=min(sum(mileage.bytes for mileage in miles), total),
        total=total,
        read=sum(mileage.read for mileage in miles),
        landed=sum(mileage.landed for mileage in miles),
        dead_lettered=sum(mileage.dead_lettered for mileage in miles),
    )


def _mileage(path: Path) -> work.Mileage:
    return msgspec.json.decode(path.read_bytes(), type=work.Mileage)

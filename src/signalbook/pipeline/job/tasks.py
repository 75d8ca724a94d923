"""Process a batch as tasks: the driver plans them and collects results (``BatchAttempt``), workers run them (``Task``).

For files, a runner ships only the number of a task, and the task reads its splits itself. For brokers and tables, Spark
passes the messages to the task as Arrow batches. Definitions and plan are files in the run's staging folder. Each
worker process compiles a definition once, when it occurs.
"""

from __future__ import annotations

import re
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from signalbook.messages import Contract, Policy
from signalbook.pipeline.errors import (
    PipelineError,
    build_disk_error,
    describe_full_disk,
    find_worker_error,
    is_damage,
    is_spark_error,
)
from signalbook.pipeline.job.jobs import Progress, ShowProgress
from signalbook.pipeline.job.memory import pause_collection
from signalbook.pipeline.job.runner import Runner
from signalbook.pipeline.job.snapshot import Snapshot, compile_cached
from signalbook.pipeline.journal import STAGING, DataFile, Journal, JournalEntry, Partition, TableFormat
from signalbook.pipeline.limits import MAX_MESSAGE
from signalbook.pipeline.places import Place, Storage, Where, place_of
from signalbook.pipeline.processing.processing import Processing
from signalbook.pipeline.processing.rows import Bookkeeping
from signalbook.pipeline.report import Tally, decode
from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.base import MessageBatch, Source, Split, separate_too_long
from signalbook.pipeline.table_names import escape
from signalbook.pipeline.tables.staged_files import StagedFiles

if TYPE_CHECKING:
    from pyspark import TaskContext
    from pyspark.sql import DataFrame

PLAN: Final = "plan.json"
SNAPSHOT: Final = "snapshot.json"
PROGRESS: Final = "progress"
# The columns, as Spark declares them, of the results of tasks over records: one row for each task.
RESULT: Final = "result binary"
# Seconds between two writes of a task's progress, and between two reads of all progress by the driver.
_EVERY: Final = 0.5
_LOOK: Final = 0.3
# The same if each write or read is a request to an object store.
_EVERY_REQUEST: Final = 10.0
_LOOK_REQUEST: Final = 5.0
_NAME: Final = 100
# The line in an error of Spark after which the text describes the query, not its failure.
_QUERY: Final = "=== Streaming Query ==="
_FAULT: Final = re.compile(r"(?:: |Caused by: )?([\w.]*(?:Error|Exception)\b.*)")
_FILE: Final = re.compile(r"while reading file (\S+?)\.?\s")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlan:
    """The plan that all tasks of a run share.

    ``tasks`` are the splits of each task, ``staged`` is the path of the run's folder below the output folder.
    """

    source: str
    tasks: tuple[tuple[Split, ...], ...]
    batch: str
    fingerprint: str
    landed_at: datetime
    staged: str
    policy: Policy
    max_message_bytes: int = MAX_MESSAGE
    stop_at_damage: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The result of one task.

    In a replay, ``replaced`` are the paths of the files of dead letters that the task's own files replace. ``replayed``
    is the number of dead letters that were processed again, ``changed`` the number that now have another reason.
    """

    files: tuple[DataFile, ...]
    tally: Tally
    replaced: tuple[str, ...] = ()
    replayed: int = 0
    changed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProgress:
    """The progress of a task. ``bytes`` of its input are done; the other numbers count messages."""

    bytes: int
    read: int
    landed: int
    dead_lettered: int


def process_files(folder: Where, numbers: Iterable[int], storage: Storage | None = None) -> Iterator[bytes]:
    """Run the tasks over files with these ``numbers``, whose plan is in ``folder``. Yield each manifest as JSON.

    ``storage`` has the settings of object stores; ``None`` means the default settings.
    """
    task = Task.of(folder)
    source = base.find_file_source(task.plan.source)

    def work(number: int) -> bytes:
        limit, stop = task.plan.max_message_bytes, task.plan.stop_at_damage
        splits = (replace(split, limit=limit, storage=storage or Storage()) for split in task.plan.tasks[number])
        # not a loop, because its variable would keep a batch in memory until the next one is read
        messages = chain.from_iterable(base.read_split(source, split, stop=stop) for split in splits)
        return encode_manifest(partial(task.process, number, source, messages))

    return map(work, numbers)


def process_records(folder: Where, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Process rows of ``RECORD_COLUMNS`` as one task, whose plan is in ``folder``. Yield its manifest as JSON.

    This is the function for ``mapInArrow``.
    """
    task = Task.of(folder)
    yield from task.process_records(base.find_source(task.plan.source), batches)


def encode_manifest(work: Callable[[], Manifest]) -> bytes:
    """Run a task by calling ``work``, with garbage collection paused, and return its manifest as JSON."""
    with pause_collection():
        return msgspec.json.encode(work())


def read_manifest(text: bytes) -> Manifest:
    """Parse the manifest that ``encode_manifest`` returned as ``text``."""
    return decode(text, Manifest)


@dataclass(frozen=True, slots=True)
class Task:
    """A worker's view of a run: its staging folder, and the plan that all tasks share."""

    staging: Place
    plan: TaskPlan

    @classmethod
    def of(cls, folder: Where) -> Task:
        """Read the plan in the staging folder ``folder``."""
        staging = place_of(folder)
        return cls(staging, msgspec.json.decode((staging / PLAN).read(), type=TaskPlan))

    def process(self, number: int, source: Source, messages: Iterable[MessageBatch]) -> Manifest:
        """Process ``messages``, the input of task ``number``, and return the manifest of the task."""
        with self.stage_files(number) as staged:
            processing = Processing(self.load_contract(), source, staged, self.bookkeeping)
            progress = self.build_progress_writer(number, processing.tally)
            for batch in separate_too_long(messages, self.plan.max_message_bytes):
                processing.take(batch)
                progress.advance(len(batch.content))
                del batch
                staged.settle()
            processing.clear()
            return Manifest(files=staged.finish(), tally=processing.tally)

    def process_records(self, source: Source, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process rows of ``RECORD_COLUMNS``. Yield one Arrow batch, whose only value is the manifest as JSON."""
        stop = self.plan.stop_at_damage
        messages = (batch for records in batches for batch in base.read_record_batches(records, stop=stop))
        context = _find_spark_task()
        number = 0 if context is None else context.partitionId()
        # One manifest for the partition: Spark passes it as many Arrow batches, whose rows share files and row groups.
        manifest = encode_manifest(partial(self.process, number, source, messages))
        yield pa.RecordBatch.from_pydict({"result": pa.array([manifest], pa.binary())})

    @contextmanager
    def stage_files(self, number: int) -> Iterator[StagedFiles]:
        """Yield the writer of the files for the rows of task ``number``. If something fails, its files are discarded.

        Raises ``PipelineError`` for an ``OSError`` in the context, such as a full disk.
        """
        # Spark may run a task twice, even at the same time. Each attempt has its own files, and only the files in the
        # manifest are used.
        context = _find_spark_task()
        attempt = 0 if context is None else context.attemptNumber()
        prefix = f"{self.plan.staged.rpartition('/')[2]}-{number:05d}-{attempt}"
        staged = StagedFiles(self.staging, staged=self.plan.staged, prefix=prefix)
        try:
            yield staged
        except OSError as error:
            staged.abandon()
            raise build_disk_error(error, self.staging.parent.parent) from error
        except BaseException:
            staged.abandon()
            raise

    @property
    def bookkeeping(self) -> Bookkeeping:
        """The data about the run that every row repeats."""
        return Bookkeeping(fingerprint=self.plan.fingerprint, batch=self.plan.batch, landed_at=self.plan.landed_at)

    def load_contract(self) -> Contract:
        """Return the compiled definitions. Raises ``PipelineError`` if the worker cannot read their file."""
        return compile_cached(self.plan.fingerprint, self.plan.policy, self._snapshot)

    def _snapshot(self) -> Snapshot:
        try:
            return Snapshot.from_json((self.staging / SNAPSHOT).read())
        except OSError as error:
            raise PipelineError(
                f"a worker cannot read {self.staging}: the output has to be a folder all workers share, or in a store"
            ) from error

    def build_progress_writer(self, number: int, tally: Tally) -> ProgressWriter:
        """Return the writer of the progress file of task ``number``, whose counts are in ``tally``."""
        return ProgressWriter(self.staging / PROGRESS / f"{number}.json", tally)


def _find_spark_task() -> TaskContext | None:
    """Return Spark's context of the running task, or None outside of a task.

    Spark's workers have imported PySpark already. Other processes need not import it.
    """
    spark = sys.modules.get("pyspark")
    return None if spark is None else spark.TaskContext.get()


class ProgressWriter:
    """A writer of the progress file of one task, which the driver reads. It writes at most once per interval."""

    def __init__(self, place: Place, tally: Tally) -> None:
        self._place = place
        self._every = _EVERY if place.folder is not None else _EVERY_REQUEST
        self._tally = tally
        self._bytes = 0
        self._next = time.monotonic() + self._every

    def advance(self, count: int) -> None:
        """Count ``count`` more bytes as done, and write the file if the interval is over."""
        self._bytes += count
        if time.monotonic() < self._next:
            return
        tally = self._tally
        progress = TaskProgress(
            bytes=self._bytes, read=tally.read, landed=tally.landed.total(), dead_lettered=tally.dead_lettered
        )
        self._place.write(msgspec.json.encode(progress))
        self._next = time.monotonic() + self._every


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """The input of a batch, read by the source called ``source``.

    For files, ``tasks`` has the splits of each task. Otherwise ``records`` is a DataFrame with rows of
    ``RECORD_COLUMNS``, and each partition is a task. If Spark fails at a damaged file, ``salvage`` returns a DataFrame
    of the undamaged rows; None means that the input cannot be salvaged. ``origin`` distinguishes this input from
    others; ``storage`` has the settings of stores.
    """

    source: str
    origin: str
    tasks: tuple[tuple[Split, ...], ...] = ()
    records: DataFrame | None = None
    salvage: Callable[[], DataFrame] | None = None
    storage: Storage = field(default_factory=Storage)

    @property
    def size(self) -> int:
        """The number of bytes to read, 0 if it is not known before reading."""
        return sum(split.size for task in self.tasks for split in task)

    def run_tasks(self, runner: Runner, folder: Place) -> list[bytes]:
        """Run all tasks, whose plan is in ``folder``. Return each manifest as JSON. Raises like ``Runner.run``."""
        if self.records is not None:
            return record_tasks(self.records, partial(process_records, folder))
        return runner.run(len(self.tasks), partial(process_files, folder, storage=self.storage), self.size)

    def complete_entry(self, manifests: Sequence[Manifest], batch: JournalEntry) -> JournalEntry:  # noqa: ARG002
        """Return ``batch`` with data from ``manifests`` other than files and counts. For files there is no such data.

        Raises ``PipelineError`` if no file can be read, because the cause is then not a single damaged file.
        """
        unread = [violation for violation in batch.tally.violations.found.values() if violation.rule == base.UNREADABLE]
        splits = sum(map(len, self.tasks))
        if splits and sum(violation.messages for violation in unread) == splits:
            example = unread[0].example
            raise PipelineError(f"cannot read {example.source}: {example.message}")
        return batch


def settle_columns(policy: Policy, journal: Journal) -> Policy:
    """Return ``policy`` with a kind of columns instead of ``auto``: the kind of existing tables, or else ``typed``."""
    return policy if policy.columns != "auto" else replace(policy, columns=journal.find_column_kinds() or "typed")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAttempt:
    """An attempt to process a batch. Each attempt has its own staging folder."""

    journal: Journal
    batch_id: str
    intake: Intake
    snapshot: Snapshot
    table_format: TableFormat
    partition: Partition
    policy: Policy
    landed_at: datetime
    stream: str = ""
    offsets: str = ""
    max_message_bytes: int = MAX_MESSAGE
    stop_at_damage: bool = False

    def process(self, runner: Runner, show: ShowProgress) -> JournalEntry:
        """Run every task, check its counts against its files, and return the entry for the journal.

        If Spark fails at a damaged file, the undamaged records are processed if possible. Raises ``PipelineError``.
        """
        salvage = self.intake.salvage
        try:
            return self._process(runner, show)
        except PipelineError as error:
            if salvage is None or not is_damage(error):
                raise
            try:
                records = salvage()
            except PipelineError:  # only Spark can read this input
                raise error from None
        # The second attempt has a new folder, because tasks of the first may still be writing to the old one.
        return replace(self, intake=replace(self.intake, records=records, salvage=None)).process(runner, show)

    def _process(self, runner: Runner, show: ShowProgress) -> JournalEntry:
        started = time.monotonic()
        policy = settle_columns(self.policy, self.journal)
        folder = self._stage(policy)
        with watch_progress(folder, self.intake.size, show), task_failures(self.journal.output):
            results = self.intake.run_tasks(runner, folder)
        manifests = [read_manifest(text) for text in results]
        tally = Tally()
        for manifest in manifests:
            tally.add(manifest.tally)
        batch = self.intake.complete_entry(
            manifests,
            JournalEntry(
                id=self.batch_id,
                fingerprint=self.snapshot.fingerprint,
                origin=self.intake.origin,
                table_format=self.table_format,
                tally=tally,
                files=tuple(file for manifest in manifests for file in manifest.files),
                seconds=time.monotonic() - started,
                partition=self.partition,
                landed_at=self.landed_at,
                stream=self.stream,
                offsets=self.offsets,
                columns="typed" if policy.typed else "as_sent",
                left_out={
                    xid: definition_left_out.reasons for xid, definition_left_out in self.snapshot.left_out.items()
                },
            ),
        )
        batch.check()  # before anything is committed: no message may be lost or there twice
        return batch

    def _stage(self, policy: Policy) -> Place:
        # a new folder, because workers of a run that died may still be writing to an older folder of the same batch
        name = f"{escape(self.batch_id)[:_NAME]}-{secrets.token_hex(4)}"
        folder = self.journal.make_staging(name)
        (folder / PROGRESS).make()
        # Definitions and plan are files next to the staged ones. In the closures of tasks, Spark would ship megabytes
        # of definitions with each task.
        (folder / SNAPSHOT).write(self.snapshot.to_json())
        plan = TaskPlan(
            source=self.intake.source,
            tasks=self.intake.tasks,
            batch=self.batch_id,
            fingerprint=self.snapshot.fingerprint,
            landed_at=self.landed_at,
            staged=f"{STAGING}/{name}",
            policy=policy,
            max_message_bytes=self.max_message_bytes,
            stop_at_damage=self.stop_at_damage,
        )
        (folder / PLAN).write(msgspec.json.encode(plan))
        return folder


def record_tasks(
    records: DataFrame, work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> list[bytes]:
    """Return the result of ``work`` for each partition of ``records``. ``work`` must yield rows of ``RESULT``.

    Raises Spark's errors.
    """
    return [bytes(row["result"]) for row in records.mapInArrow(work, RESULT).collect()]


@contextmanager
def task_failures(output: object) -> Iterator[None]:
    """Turn errors of Spark in the context into ``PipelineError`` with the message of the task that failed.

    ``output`` is the output folder, which the message names if its disk is full.
    """
    try:
        yield
    except Exception as error:
        if not is_spark_error(error):
            raise
        raise PipelineError(explain_failure(str(error), output)) from error


def explain_failure(text: str, output: object, summary: str = "a Spark task failed, nothing was committed") -> str:
    """Return a message of one line for the error ``text`` of a failed Spark job.

    The message is a worker's own error if there is one, else ``summary`` with Spark's error. ``output`` is the output
    folder, which the message names if its disk is full.
    """
    worker_words = find_worker_error(text)
    if worker_words:
        return worker_words
    if "No space left on device" in text:
        return describe_full_disk(output)
    lines = [line for line in text.partition(_QUERY)[0].splitlines() if line.strip()]
    faults = [match[1] for line in lines if (match := _FAULT.match(line))] or lines
    file = _FILE.search(text)
    where = f"cannot read {file[1]}: " if file else ""
    return f"{summary}: {where}{faults[-1] if faults else 'Spark did not say why'}"


@contextmanager
def watch_progress(folder: Place, total: int, show: ShowProgress) -> Iterator[None]:
    """Show how far the tasks are, at short intervals, from their progress files. ``total`` is the input in bytes."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK if folder.folder is not None else _LOOK_REQUEST):
            with suppress(OSError):
                show(_read_progress(folder, total))

    # A separate thread, because collecting results blocks this one in Java until the last task is done.
    watcher = threading.Thread(target=watch, daemon=True)
    show(Progress(stage="processing", total=total))
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _read_progress(folder: Place, total: int) -> Progress:
    progress = folder / PROGRESS
    written = [(progress / file.path).read() for file in progress.list_files() if file.path.endswith(".json")]
    tasks = [msgspec.json.decode(text, type=TaskProgress) for text in written]
    return Progress(
        stage="processing",
        done=min(sum(progress.bytes for progress in tasks), total) if total else 0,
        total=total,
        read=sum(progress.read for progress in tasks),
        landed=sum(progress.landed for progress in tasks),
        dead_lettered=sum(progress.dead_lettered for progress in tasks),
    )

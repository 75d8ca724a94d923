"""One task: messages in, files of rows out. Runs in Spark's Python workers.

Of files Spark ships the number of the task and nothing else, and the task reads its splits itself; from brokers and
tables it brings the messages, as Arrow. Definitions and plan lie in the run's staging folder, and each worker process
compiles those definitions once that occur.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from signalbook.messages import Contract, Policy
from signalbook.pipeline.collecting import uncollected
from signalbook.pipeline.failures import PipelineError, disk_failure
from signalbook.pipeline.journal import DataFile
from signalbook.pipeline.landing import Landing
from signalbook.pipeline.processing import Processing
from signalbook.pipeline.report import Tally, decode
from signalbook.pipeline.rows import Mark
from signalbook.pipeline.snapshot import Snapshot
from signalbook.pipeline.sources import base, records
from signalbook.pipeline.sources.base import MAX_MESSAGE, MessageBatch, Source, Split, within_limit

PLAN: Final = "plan.json"
SNAPSHOT: Final = "snapshot.json"
PROGRESS: Final = "progress"
MANIFEST: Final = "manifest string"
_EVERY: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What every task of a run needs to know. ``staged`` is the run's folder below the output folder."""

    source: str
    tasks: tuple[tuple[Split, ...], ...]
    batch: str
    fingerprint: str
    landed_at: datetime
    staged: str
    policy: Policy
    max_message_bytes: int = MAX_MESSAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What one task did.

    Of a replay, ``replaced`` are paths of the files of dead letters that its own stand for, ``replayed`` and
    ``changed`` how many letters were run again and have another reason now.
    """

    files: tuple[DataFile, ...]
    tally: Tally
    replaced: tuple[str, ...] = ()
    replayed: int = 0
    changed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mileage:
    """How far one task is; ``bytes`` of its input are done."""

    bytes: int
    read: int
    landed: int
    dead_lettered: int


def work(folder: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function for ``mapInArrow`` over files: task numbers in, one manifest as JSON out for each."""
    task = Task.of(folder)
    source = base.file_source(task.plan.source)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            splits = (replace(split, limit=task.plan.max_message_bytes) for split in task.plan.tasks[number])
            frames = (frame for split in splits for frame in source.read(split))
            yield row(partial(task.process, number, source, frames))


def take(folder: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function for ``mapInArrow`` over records: rows of ``records.COLUMNS`` in, one manifest as JSON out."""
    task = Task.of(folder)
    frames = (frame for batch in batches for frame in records.record_batches(batch))
    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    yield row(partial(task.process, number, base.find_source(task.plan.source), frames))


def read_manifest(text: str) -> Manifest:
    """The manifest that a task wrote as ``text``."""
    return decode(text.encode(), Manifest)


def row(work: Callable[[], Manifest]) -> pa.RecordBatch:
    """The manifest of a task, once it is done, as a row."""
    with uncollected():
        text = msgspec.json.encode(work()).decode()
    return pa.RecordBatch.from_pydict({"manifest": pa.array([text], pa.string())})


@dataclass(frozen=True, slots=True)
class Task:
    """What the tasks of a run have in common."""

    staging: Path
    plan: Plan

    @classmethod
    def of(cls, folder: str) -> Task:
        """Those whose plan lies in a staging folder."""
        staging = Path(folder)
        return cls(staging, msgspec.json.decode((staging / PLAN).read_bytes(), type=Plan))

    def process(self, number: int, source: Source, frames: Iterable[MessageBatch]) -> Manifest:
        """What becomes of ``frames``, the input of task ``number``."""
        with self.landing(number) as landing:
            processing = Processing(self.contract(), source, landing, self.mark)
            odometer = self.odometer(number, processing.tally)
            for frame in within_limit(frames, self.plan.max_message_bytes):
                processing.take(frame)
                odometer.advance(len(frame.content))
            processing.clear()
            return Manifest(files=landing.finish(), tally=processing.tally)

    @contextmanager
    def landing(self, number: int) -> Iterator[Landing]:
        """Where task ``number`` lands its rows; closed as it is when something fails."""
        prefix = f"{self.plan.staged.rpartition('/')[2]}-{number:05d}-{_attempt()}"
        landing = Landing(self.staging, staged=self.plan.staged, prefix=prefix)
        try:
            yield landing
        except OSError as error:
            landing.abandon()
            raise disk_failure(error, self.staging.parent.parent) from error
        except BaseException:
            landing.abandon()
            raise

    @property
    def mark(self) -> Mark:
        """What every row says of the run."""
        return Mark(fingerprint=self.plan.fingerprint, batch=self.plan.batch, landed_at=self.plan.landed_at)

    def contract(self) -> Contract:
        """The compiled definitions. Raises ``PipelineError`` if the worker does not see them."""
        return _contract(self.staging, self.plan)

    def odometer(self, number: int, tally: Tally) -> Odometer:
        """What tells the driver how far task ``number`` is."""
        return Odometer(self.staging / PROGRESS / f"{number}.json", tally)


def _attempt() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()


class Odometer:
    """Writes down how far a task is, now and then, for the driver to show."""

    def __init__(self, path: Path, tally: Tally) -> None:
        self._path = path
        self._tally = tally
        self._bytes = 0
        self._next = time.monotonic() + _EVERY

    def advance(self, count: int) -> None:
        """So many bytes more are done."""
        self._bytes += count
        if time.monotonic() < self._next:
            return
        tally = self._tally
        mileage = Mileage(
            bytes=self._bytes, read=tally.read, landed=tally.landed.total(), dead_lettered=tally.dead_lettered
        )
        fresh = self._path.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(msgspec.json.encode(mileage))
        fresh.replace(self._path)
        self._next = time.monotonic() + _EVERY


_contracts: dict[tuple[str, Policy], Contract] = {}


def _contract(staging: Path, plan: Plan) -> Contract:
    """The compiled contract, kept for the next task of this process."""
    key = plan.fingerprint, plan.policy
    if key not in _contracts:
        _contracts.clear()
        try:
            snapshot = Snapshot.from_json((staging / SNAPSHOT).read_bytes())
        except OSError as error:
            raise PipelineError(
                f"a worker cannot read {staging}: the output has to be a folder all workers share"
            ) from error
        _contracts[key] = snapshot.compile(plan.policy)
    return _contracts[key]

"""One task: messages in, files of rows out. Runs in Spark's Python workers.

Of files Spark ships the number of the task and nothing else, and the task reads its splits itself; from brokers and
tables it brings the messages, as Arrow. Definitions and plan lie in the run's staging folder, and each worker process
compiles the definitions once.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from signalbook.messages import Contract, Policy
from signalbook.pipeline.failures import PipelineError, disk_failure
from signalbook.pipeline.journal import DataFile
from signalbook.pipeline.landing import Landing
from signalbook.pipeline.processing import Processing
from signalbook.pipeline.report import Tally, decode
from signalbook.pipeline.rows import Mark
from signalbook.pipeline.snapshot import Snapshot
from signalbook.pipeline.sources import records, registry
from signalbook.pipeline.sources.base import Frame, Source, Split

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What one task did."""

    files: tuple[DataFile, ...]
    tally: Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Mileage:
    """How far one task is; ``bytes`` of its input are done."""

    bytes: int
    read: int
    landed: int
    dead_lettered: int


def work(folder: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function for ``mapInArrow`` over files: task numbers in, one manifest as JSON out for each."""
    task = _Task.of(folder)
    source = registry.files(task.plan.source)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            frames = (frame for split in task.plan.tasks[number] for frame in source.frames(split))
            yield task.run(number, source, frames)


def take(folder: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function for ``mapInArrow`` over records: rows of ``records.COLUMNS`` in, one manifest as JSON out."""
    task = _Task.of(folder)
    frames = (frame for batch in batches for frame in records.frames(batch))
    context = TaskContext.get()
    yield task.run(0 if context is None else context.partitionId(), registry.find(task.plan.source), frames)


def read_manifest(text: str) -> Manifest:
    """The manifest that a task wrote as ``text``."""
    return decode(text.encode(), Manifest)


@dataclass(frozen=True, slots=True)
class _Task:
    """What the tasks of a run have in common."""

    staging: Path
    plan: Plan

    @classmethod
    def of(cls, folder: str) -> _Task:
        staging = Path(folder)
        return cls(staging, msgspec.json.decode((staging / PLAN).read_bytes(), type=Plan))

    def run(self, number: int, source: Source, frames: Iterable[Frame]) -> pa.RecordBatch:
        """The manifest of task ``number``, whose input is ``frames``, as a row."""
        # What is made here has no cycles to speak of, and looking for them among millions of values takes its time.
        gc.disable()
        try:
            text = msgspec.json.encode(self._process(number, source, frames)).decode()
        finally:
            gc.enable()
        return pa.RecordBatch.from_pydict({"manifest": pa.array([text], pa.string())})

    def _process(self, number: int, source: Source, frames: Iterable[Frame]) -> Manifest:
        plan, staging = self.plan, self.staging
        prefix = f"{plan.staged.rpartition('/')[2]}-{number:05d}-{_attempt()}"
        landing = Landing(staging, staged=plan.staged, prefix=prefix)
        mark = Mark(fingerprint=plan.fingerprint, batch=plan.batch, landed_at=plan.landed_at)
        processing = Processing(_contract(staging, plan), source, landing, mark)
        odometer = _Odometer(staging / PROGRESS / f"{number}.json", processing.tally)
        try:
            for frame in frames:
                processing.take(frame)
                odometer.advance(len(frame.block))
            processing.finish()
            return Manifest(files=landing.finish(), tally=processing.tally)
        except OSError as error:
            landing.abandon()
            raise disk_failure(error, staging.parent.parent) from error
        except BaseException:
            landing.abandon()
            raise


def _attempt() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()


class _Odometer:
    """Writes down how far a task is, now and then, for the driver to show."""

    def __init__(self, path: Path, tally: Tally) -> None:
        self._path = path
        self._tally = tally
        self._bytes = 0
        self._next = time.monotonic() + _EVERY

    def advance(self, count: int) -> None:
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

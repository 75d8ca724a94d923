"""One try to process a batch on Spark: messages staged as files and counted, of which nobody sees anything yet."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from signalbook.messages import Policy
from signalbook.pipeline import work
from signalbook.pipeline.commit.journal import STAGING, Batch, Journal, Partition, TableFormat
from signalbook.pipeline.errors import PipelineError, full_disk
from signalbook.pipeline.job.jobs import Progress
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.reports.report import Tally
from signalbook.pipeline.sources.base import MAX_MESSAGE, Split
from signalbook.pipeline.tables.naming import escape

Show = Callable[[Progress], None]
_LOOK: Final = 0.3
_NAME: Final = 100
_OWN_WORDS: Final = re.compile(r"PipelineError: (.+)")
# What follows is about the query, and not about its failure.
_QUERY: Final = "=== Streaming Query ==="
_FAULT: Final = re.compile(r"[\w.]*(Error|Exception)\b.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What a batch reads by the source called ``source``.

    Either the splits of files for each task, or ``records``, which Spark brings from elsewhere: rows of
    ``records.COLUMNS``, each of its partitions a task. ``origin`` tells this input apart from another.
    """

    source: str
    origin: str
    tasks: tuple[tuple[Split, ...], ...] = ()
    records: DataFrame | None = None

    @property
    def size(self) -> int:
        """Bytes to read, 0 where nobody knows before they are read."""
        return sum(split.size for task in self.tasks for split in task)

    def manifests(self, session: SparkSession, folder: Path) -> DataFrame:
        """The manifest of each task that finds the plan in ``folder``, once Spark is asked for them."""
        if self.records is not None:
            return self.records.mapInArrow(partial(work.take, str(folder)), work.MANIFEST)
        count = len(self.tasks)
        return session.range(0, count, 1, max(count, 1)).mapInArrow(partial(work.work, str(folder)), work.MANIFEST)

    def outcome(self, manifests: Sequence[work.Manifest], batch: Batch) -> Batch:  # noqa: ARG002
        """The batch with what these manifests say beyond files and counts: of messages that are read, nothing."""
        return batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try to process a batch, in a staging folder of its own."""

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

    def process(self, session: SparkSession, show: Show) -> Batch:
        """Let Spark do every task, and hold the counts to the files. Raises ``PipelineError``."""
        started = time.monotonic()
        folder = self._stage()
        with _watching(folder, self.intake.size, show):
            manifests = _collect(self.intake.manifests(session, folder), self.journal.output)
        tally = Tally()
        for manifest in manifests:
            tally.add(manifest.tally)
        batch = self.intake.outcome(
            manifests,
            Batch(
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
            ),
        )
        batch.check()
        return batch

    def _stage(self) -> Path:
        name = f"{escape(self.batch_id)[:_NAME]}-{secrets.token_hex(4)}"
        folder = self.journal.staging(name)
        (folder / work.PROGRESS).mkdir()
        (folder / work.SNAPSHOT).write_bytes(self.snapshot.to_json())
        plan = work.Plan(
            source=self.intake.source,
            tasks=self.intake.tasks,
            batch=self.batch_id,
            fingerprint=self.snapshot.fingerprint,
            landed_at=self.landed_at,
            staged=f"{STAGING}/{name}",
            policy=self.policy,
            max_message_bytes=self.max_message_bytes,
        )
        (folder / work.PLAN).write_bytes(msgspec.json.encode(plan))
        return folder


def _collect(frame: DataFrame, output: Path) -> list[work.Manifest]:
    try:
        return [work.read_manifest(row["manifest"]) for row in frame.collect()]
    except (PySparkException, Py4JError) as error:
        raise PipelineError(explain(str(error), output)) from error


def explain(text: str, output: Path, what: str = "a Spark task failed, nothing was committed") -> str:
    """What the text of a failed Spark job comes to, in one line: a worker's own words, or ``what`` and Spark's."""
    own = _OWN_WORDS.search(text)
    if own:
        return own[1]
    if "No space left on device" in text:
        return full_disk(output)
    lines = [line for line in text.partition(_QUERY)[0].splitlines() if line.strip()]
    faults = [line for line in lines if _FAULT.match(line)] or lines
    return f"{what}: {faults[-1] if faults else 'Spark did not say why'}"


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
        done=min(sum(mileage.bytes for mileage in miles), total) if total else 0,
        total=total,
        read=sum(mileage.read for mileage in miles),
        landed=sum(mileage.landed for mileage in miles),
        dead_lettered=sum(mileage.dead_lettered for mileage in miles),
    )


def _mileage(path: Path) -> work.Mileage:
    return msgspec.json.decode(path.read_bytes(), type=work.Mileage)

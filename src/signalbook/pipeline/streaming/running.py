"""The driver's side of a stream: Spark says what is in each micro-batch, the journal that it is landed once."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from signalbook.errors import SignalbookError
from signalbook.pipeline import spark
from signalbook.pipeline.attempt import Attempt, Intake, Show, explain
from signalbook.pipeline.committing import disk, fits, land, reach, settle
from signalbook.pipeline.failures import PipelineError, Stopped
from signalbook.pipeline.job import StreamJob
from signalbook.pipeline.journal import Journal
from signalbook.pipeline.report import Report
from signalbook.pipeline.running import check
from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.base import RecordSource
from signalbook.pipeline.streaming import checkpoint, state
from signalbook.pipeline.streaming.definitions import Definitions, kept_name
from signalbook.values import now

_CHECKPOINT: Final = "checkpoint"
_LOCK: Final = ".lock"
_JAVA_LOCK: Final = ".lock.java"
_LOOK: Final = 0.3
_DYING: Final = 300.0
"""Seconds that the Java process of a driver that was killed may take to end."""
# Another program may be at work in the output folder for a while, to replay or compact.
_PATIENCE: Final = 3600.0
_TURNS: Final = 5
"""How often a stream is begun, since Spark gives each Python process it starts ten seconds and no more."""


def run(
    job: StreamJob,
    stop: threading.Event,
    tell: Callable[[str], None],
    done: Callable[[Report], None],
    show: Show = lambda _: None,
) -> None:
    """Land a stream until ``stop`` is set, or all that is there now with ``job.once``.

    ``done`` takes the report of each batch, ``tell`` what people should know. Raises ``PipelineError`` and what reading
    definitions raises; then all batches that were reported are committed, and the next run goes on behind them.
    """
    check(job.job.policy)
    source = base.record_source(job.job.input_format)
    journal = Journal.open(job.job.output.absolute())
    home = state.home(journal, job.name)
    with suppress(Stopped), disk(journal.output), _alone(home, job.name):
        with journal.alone(_PATIENCE, stop):
            settle(journal, show)
            fits(journal, job.job)
            reach(journal, job.job.table_format)
        kept = home / kept_name(job.job.registry, job.job.groups)
        definitions = Definitions(job.job.registry, job.job.groups, job.job.policy, kept=kept, tell=tell)
        with (
            closing(definitions),
            spark.session(job.job.master, jars=job.job.jars, packages=source.packages) as session,
            _after_others(session, home / _JAVA_LOCK, job.name, stop, tell) as alone,
        ):
            behind = checkpoint.resume(home / _CHECKPOINT, journal, job) if alone else ""
            if behind:
                tell(f"the checkpoint of the stream does not have all that was landed: it goes on behind {behind}")
            for left in reversed(range(_TURNS if alone else 0)):
                batches = _Batches(job, journal, definitions, stop, done, show)
                query = _start(job, session, source, batches, home / _CHECKPOINT)
                try:
                    _follow(query, batches, stop, job, partial(_look, journal, job.name, tell))
                except _SlowError as failure:
                    if not left:
                        raise
                    tell(f"{failure}; it is begun once more")
                else:
                    return


class _SlowError(PipelineError):
    """A process of Spark's did not start in time: it may the next time."""


class _Batches:
    """Lands one micro-batch after the other, and none once it is stopped or ``stop`` is set."""

    def __init__(
        self,
        job: StreamJob,
        journal: Journal,
        definitions: Definitions,
        stop: threading.Event,
        done: Callable[[Report], None],
        show: Show,
    ) -> None:
        self.failure: BaseException | None = None
        self._stream = job
        self._journal = journal
        self._checkpoint = state.home(journal, job.name) / _CHECKPOINT
        self._definitions = definitions
        self._stop = stop
        self._done = done
        self._show = show
        self._gate = threading.Lock()
        self._stopped = False

    def take(self, frame: DataFrame, number: int) -> None:
        """Land micro-batch ``number``. Spark takes it for done unless this raises."""
        with self._gate:
            if self._stopped or self._stop.is_set():  # whoever waits for it may take notice late
                raise Stopped("the stream is being stopped")
            try:
                with disk(self._journal.output), self._journal.alone(_PATIENCE, self._stop):
                    report = self._land(frame, number)
            except Stopped:  # while others were at work in the folder: it is no failure
                raise
            except BaseException as error:
                self.failure = error
                raise
            if report is not None:
                self._done(report)

    def stop(self) -> None:
        """Wait for the batch at work and take no more."""
        with self._gate:
            self._stopped = True

    def _land(self, frame: DataFrame, number: int) -> Report | None:
        """The report of the batch, None if it was committed before: Spark asks again for one it died in."""
        job = self._stream.job
        settle(self._journal, self._show)
        batch_id = self._stream.batch_id(number)
        origin = checkpoint.origin(self._checkpoint, number)
        committed = self._journal.find(batch_id)
        if committed is not None:
            if committed.origin != origin:
                raise PipelineError(
                    f"batch {batch_id} was landed from other input: the checkpoint of the stream "
                    f"{self._stream.name} is not the one its batches were landed by; give the stream another name"
                )
            return None
        session = frame.sparkSession
        records = frame.coalesce(session.sparkContext.defaultParallelism)
        attempt = Attempt(
            journal=self._journal,
            batch_id=batch_id,
            stream=self._stream.name,
            offsets=checkpoint.offsets(self._checkpoint, number),
            intake=Intake(source=job.input_format, origin=origin, records=records),
            snapshot=self._definitions.current(),
            table_format=job.table_format,
            partition=job.partition,
            policy=job.policy,
            landed_at=now(),
            max_message_bytes=job.max_message_bytes,
        )
        return land(attempt, session, self._show).report()


def _start(
    job: StreamJob, session: SparkSession, source: RecordSource, batches: _Batches, place: Path
) -> StreamingQuery:
    frame = source.load_stream(session, job.job.inputs, job.job.options, job.most, place.parent)
    writer = frame.writeStream.queryName(job.name).option("checkpointLocation", str(place)).foreachBatch(batches.take)
    pace: dict[str, Any] = {"processingTime": f"{round(job.interval * 1000)} milliseconds"}
    try:
        return writer.trigger(**({"availableNow": True} if job.once else pace)).start()
    except PySparkException as error:  # of a checkpoint that it cannot use
        raise PipelineError(
            explain(str(error), job.job.output, f"the stream {job.name} does not start from {place}")
        ) from error


def _follow(
    query: StreamingQuery, batches: _Batches, stop: threading.Event, job: StreamJob, look: Callable[[bool], bool]
) -> None:
    """Wait for the end of the stream, or bring it about; ``look`` meanwhile."""
    full = False
    try:
        while query.isActive and not stop.wait(_LOOK):
            full = look(full)
        failed: Exception | None = None if stop.is_set() else query.exception()
    except (PySparkException, Py4JError) as error:
        failed = error
    finally:
        batches.stop()
        _end(query)
    if spark.SLOW in str(failed):
        raise _SlowError(f"the stream {job.name} ended: Spark's Python did not start in time")
    if isinstance(batches.failure, SignalbookError):
        raise batches.failure
    if failed is not None:
        raise PipelineError(explain(str(failed), job.job.output, f"the stream {job.name} ended")) from failed


def _look(journal: Journal, name: str, tell: Callable[[str], None], before: bool) -> bool:
    """Whether the stream's folder is full, and say so when it has come to be or is no longer."""
    full = state.is_full(journal, name)
    if full and not before:
        tell(f"the stream {name} is behind: its folder is full, and what else comes waits at the broker")
    if before and not full:
        tell(f"the stream {name} receives again")
    return full


def _end(query: StreamingQuery) -> None:
    try:
        query.stop()
    except (PySparkException, Py4JError):
        pass  # Java is gone, and the stream with it


@contextmanager
def _alone(home: Path, name: str) -> Iterator[None]:
    """Keep a second run of the same stream out."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / _LOCK).open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PipelineError(f"the stream {name!r} is being run by another process: give this one a name") from None
        yield


@contextmanager
def _after_others(
    session: SparkSession, file: Path, name: str, stop: threading.Event, tell: Callable[[str], None]
) -> Iterator[bool]:
    """Wait for the Java process of a driver that was killed: until it ends it writes to the stream's checkpoint.

    False if the stream was stopped meanwhile.
    """
    deadline = time.monotonic() + _DYING
    with spark.java_lock(session, file) as locked:
        alone = locked()
        if not alone:
            tell(f"waiting for the end of the Java process of an earlier run of the stream {name!r}")
        while not alone and not stop.wait(_LOOK):
            if time.monotonic() > deadline:
                raise PipelineError(f"a Java process of an earlier run of the stream {name!r} still runs: end it")
            alone = locked()
        yield alone

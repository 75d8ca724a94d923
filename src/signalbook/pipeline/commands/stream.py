"""``pipeline stream``: Spark decides what is in each micro-batch, and the journal ensures that it lands once.

Before Spark hands over a micro-batch, it writes to its checkpoint where the micro-batch begins and ends. After landing,
it writes that the micro-batch is done. If the driver is killed in between, Spark hands over the same micro-batch again,
with the same number and so the same batch id. If the journal has that id, nothing is left to do. The journal also keeps
the offsets, so that a lost checkpoint can be rebuilt from it (``restore_checkpoint``).
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from signalbook.errors import SignalbookError
from signalbook.pipeline.checkpoint import (
    COMMITS,
    OFFSETS,
    SOURCES,
    build_input_fingerprint,
    read_end_offsets,
    restore_checkpoint,
)
from signalbook.pipeline.commands import status
from signalbook.pipeline.commands.run import build_attempt, check
from signalbook.pipeline.commit import check_reachable, check_tables, complete_unfinished, convert_disk_errors, land
from signalbook.pipeline.errors import PipelineError, Stopped
from signalbook.pipeline.job.definitions import Definitions, build_file_name
from signalbook.pipeline.job.jobs import Job, ShowProgress, StreamJob
from signalbook.pipeline.job.session import SparkRunner, open_java_lock, open_session
from signalbook.pipeline.job.tasks import Intake, explain_failure, settle_columns
from signalbook.pipeline.journal import Journal
from signalbook.pipeline.locks import Lock, lock_of
from signalbook.pipeline.places import Place, place_of
from signalbook.pipeline.report import Report
from signalbook.pipeline.sources import base, spool
from signalbook.pipeline.sources.base import RecordSource
from signalbook.pipeline.sources.receiver import SpoolingSource
from signalbook.pipeline.spark import SLOW

_CHECKPOINT: Final = "checkpoint"
_LOCK: Final = ".lock"
_JAVA_LOCK: Final = ".lock.java"
_LOOK: Final = 0.3
_LOOK_REQUEST: Final = 5.0
_DYING: Final = 300.0
"""The time in seconds to wait for the end of the Java process of a killed driver."""
# Another program may lock the output folder for a while, for a replay or a compaction.
_PATIENCE: Final = 3600.0
_TURNS: Final = 5
"""How often to start a stream in all, because Spark fails if one of its Python processes takes ten seconds to start."""


def stream(
    job: StreamJob,
    stop: threading.Event,
    notify: Callable[[str], None] = lambda _: None,
    done: Callable[[Report], None] = lambda _: None,
    show: ShowProgress = lambda _: None,
) -> None:
    """Land messages as they arrive until ``stop`` is set. With ``job.once``, return once no message is left.

    ``done`` is called with the report of each batch, and ``notify`` with notices for people. Raises ``PipelineError``
    and the errors of reading definitions. All reported batches are committed then, and the next run continues after
    them.
    """
    check(job.job.policy)
    source = base.find_record_source(job.job.input_format)
    journal = Journal(job.job.place)
    home = status.find_home(journal, job.name)
    explained = base.explain_failures(source, job.job.inputs)
    with suppress(Stopped), convert_disk_errors(journal.output), explained, ExitStack() as opened:
        # A new output is created only if the definitions can be read.
        early = None if journal.is_begun() else opened.enter_context(_open_definitions(job.job, home, notify))
        journal.make()
        opened.push(partial(_discard, journal))
        opened.enter_context(_lock_stream(journal, home, job.name))
        # the folder is locked now and for each batch, not for the whole stream: others may replay or compact in between
        with journal.lock_output(_PATIENCE, stop):
            complete_unfinished(journal, show)
            check_tables(journal, job.job)
            check_reachable(journal, job.job.table_format)
            # Once for the whole stream, because this reads entries of the journal.
            job = replace(job, job=replace(job.job, policy=settle_columns(job.job.policy, journal)))
        definitions = early or opened.enter_context(_open_definitions(job.job, home, notify))
        with (
            open_session(job.job.master, jars=job.job.jars, packages=source.packages) as session,
            _wait_for_others(session, home / _JAVA_LOCK, job.name, stop, notify) as alone,
        ):
            behind = restore_checkpoint(home / _CHECKPOINT, journal, job) if alone else ""
            if behind:
                notify(f"the checkpoint of the stream does not have all that was landed: it goes on behind {behind}")
            spools = isinstance(source, SpoolingSource)
            watch = _SpoolWatch(journal, job.name, notify).check if spools else lambda: None
            # Spark allows a new Python process ten seconds to start, and has no setting for this limit. A busy machine
            # sometimes exceeds it.
            for turns_left in reversed(range(_TURNS if alone else 0)):
                batches = MicroBatches(job, journal, definitions, stop, done, show)
                query = _start(job, session, source, batches, home / _CHECKPOINT, status.find_place(journal, job.name))
                try:
                    _follow(query, batches, stop, job, watch)
                except _SlowError as failure:
                    if not turns_left:
                        raise
                    notify(f"{failure}; it is begun once more")
                else:
                    return


def _open_definitions(job: Job, home: Path, notify: Callable[[str], None]) -> closing[Definitions]:
    """Return the definitions of a stream, with a copy in its folder ``home``. They are closed with the context."""
    snapshot_file = home / build_file_name(job.registry, job.groups, job.subjects)
    return closing(
        Definitions(
            job.registry, job.groups, job.policy, snapshot_file=snapshot_file, notify=notify, subjects=job.subjects
        )
    )


class _SlowError(PipelineError):
    """The error if a Python process of Spark did not start in time. Starting the stream again may succeed."""


class MicroBatches:
    """A callback for Spark that lands one micro-batch after another, until it is stopped or ``stop`` is set.

    ``on_batch`` is called with the report of each batch. ``failure`` is the error that ended the stream, if any.
    """

    def __init__(
        self,
        job: StreamJob,
        journal: Journal,
        definitions: Definitions,
        stop: threading.Event,
        on_batch: Callable[[Report], None],
        show: ShowProgress,
    ) -> None:
        self.failure: BaseException | None = None
        self._stream = job
        self._journal = journal
        self._checkpoint = status.find_home(journal, job.name) / _CHECKPOINT
        self._definitions = definitions
        self._stop = stop
        self._on_batch = on_batch
        self._show = show
        self._gate = threading.Lock()
        self._stopped = False

    def take(self, frame: DataFrame, number: int) -> None:
        """Land micro-batch ``number``, whose messages are the rows of ``frame``.

        Spark marks the micro-batch as done unless this method raises.
        """
        # the lock holds ``stop`` back until a batch is committed: Spark must not end in the midst of one
        with self._gate:
            if self._stopped or self._stop.is_set():  # ``stop`` may come while Spark prepares a batch
                raise Stopped("the stream is being stopped")
            try:
                with convert_disk_errors(self._journal.output), self._journal.lock_output(_PATIENCE, self._stop):
                    report = self._land(frame, number)
            except Stopped:  # while others were at work in the folder: it is no failure
                raise
            except BaseException as error:
                self.failure = error
                raise
            if report is not None:
                self._on_batch(report)

    def stop(self) -> None:
        """Wait until the current batch has landed, and accept no further batch."""
        with self._gate:
            self._stopped = True

    def _land(self, frame: DataFrame, number: int) -> Report | None:
        """Land a batch and return its report.

        Returns None if the batch is committed already: Spark repeats batches after a crash.
        """
        job = self._stream.job
        # A batch whose commit was interrupted is either this very batch, or that of another program in the folder.
        complete_unfinished(self._journal, self._show)
        batch_id = self._stream.batch_id(number)
        origin = build_input_fingerprint(self._checkpoint, number)
        committed = self._journal.find(batch_id)
        if committed is not None:
            if committed.origin != origin:
                raise PipelineError(
                    f"batch {batch_id} was landed from other input: the checkpoint of the stream "
                    f"{self._stream.name} is not the one its batches were landed by; give the stream another name"
                )
            return None
        runner = SparkRunner(frame.sparkSession)
        records = frame.coalesce(runner.parallelism)
        intake = Intake(source=job.input_format, origin=origin, records=records)
        snapshot = self._definitions.read_current()
        attempt = replace(
            build_attempt(replace(job, batch_id=batch_id), self._journal, intake, snapshot),
            stream=self._stream.name,
            offsets=read_end_offsets(self._checkpoint, number),
        )
        return replace(land(attempt, runner, self._show).report(), doubts=snapshot.doubts)


def _start(
    job: StreamJob, session: SparkSession, source: RecordSource, batches: MicroBatches, place: Path, state_place: Place
) -> StreamingQuery:
    frame = source.load_stream(session, job.job.inputs, job.job.options, job.most, state_place)
    writer = frame.writeStream.queryName(job.name).option("checkpointLocation", str(place)).foreachBatch(batches.take)
    pace: dict[str, Any] = {"processingTime": f"{round(job.interval * 1000)} milliseconds"}
    try:
        return writer.trigger(**({"availableNow": True} if job.once else pace)).start()
    except PySparkException as error:  # of a checkpoint that it cannot use
        raise PipelineError(
            explain_failure(str(error), job.job.output, f"the stream {job.name} does not start from {place}")
        ) from error


def _follow(
    query: StreamingQuery, batches: MicroBatches, stop: threading.Event, job: StreamJob, look: Callable[[], None]
) -> None:
    """Wait until the stream ends, or end it when ``stop`` is set. Call ``look`` repeatedly while waiting.

    Raises ``PipelineError`` if the stream failed, ``_SlowError`` if starting it again may help.
    """
    try:
        while query.isActive and not stop.wait(_LOOK):
            look()
        failed: Exception | None = None if stop.is_set() else query.exception()
    except (PySparkException, Py4JError) as error:
        failed = error
    finally:
        # Before the query: ``stop`` waits for the commit under way, which Spark would otherwise interrupt in the
        # middle.
        batches.stop()
        _end(query)
    # This check comes first: a worker that did not start makes the batch fail as well, and that error would be final.
    if SLOW in str(failed):
        raise _SlowError(f"the stream {job.name} ended: Spark's Python did not start in time")
    if isinstance(batches.failure, SignalbookError):
        raise batches.failure
    if failed is not None:
        raise PipelineError(explain_failure(str(failed), job.job.output, f"the stream {job.name} ended")) from failed


class _SpoolWatch:
    """A watch that calls ``notify`` when the spool of the stream ``name`` becomes full, and when it has space again."""

    def __init__(self, journal: Journal, name: str, notify: Callable[[str], None]) -> None:
        self._journal = journal
        self._name = name
        self._notify = notify
        self._pause = _LOOK if journal.output.folder is not None else _LOOK_REQUEST
        self._next = 0.0
        self._full = False

    def check(self) -> None:
        """Check the spool and notify about a change. Return at once if the last check was too recent."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._pause
        with suppress(OSError):  # of a store; the next time may do
            before, self._full = self._full, status.is_full(self._journal, self._name)
            if self._full and not before:
                self._notify(
                    f"the stream {self._name} is behind: its spool is full, and what else comes waits at the broker"
                )
            elif before and not self._full:
                self._notify(f"the stream {self._name} receives again")


def _end(query: StreamingQuery) -> None:
    try:
        query.stop()
    except (PySparkException, Py4JError):
        pass  # Java is gone, and the stream with it


@contextmanager
def _lock_stream(journal: Journal, home: Path, name: str) -> Iterator[None]:
    """Hold the lock of the stream ``name`` while the context lasts, so that the stream cannot be started again.

    If the output is in a store, runs on other machines are excluded, too.

    Raises ``PipelineError`` if the stream is locked.
    """
    home.mkdir(parents=True, exist_ok=True)
    with ExitStack() as locks:
        _take(lock_of(place_of(home / _LOCK)), name, locks)
        if journal.output.folder is None:
            _take(lock_of(status.find_place(journal, name) / _LOCK), name, locks)
        try:
            yield
        except BaseException:
            if journal.is_fresh and not _has_begun(journal, home, name):
                _forget(journal, home, name)
            raise


def _has_begun(journal: Journal, home: Path, name: str) -> bool:
    """Return True if the stream ``name`` has offsets in its checkpoint, or has received messages from a broker."""
    places = [place_of(home / _CHECKPOINT / part) for part in (OFFSETS, SOURCES, COMMITS)]
    places.append(status.find_place(journal, name) / spool.RECEIVED)
    with suppress(OSError):  # a store that fails: assume that the stream has begun
        return any(file.size for place in places for file in place.list_files(deep=True))
    return True


def _forget(journal: Journal, home: Path, name: str) -> None:
    """Remove the files of a stream that never began, and the folders that are empty then."""
    with suppress(OSError):
        if journal.output.folder is None:
            (status.find_place(journal, name) / _LOCK).delete()
        shutil.rmtree(home)
        for folder in (home.parent, *([] if journal.output.folder else [home.parent.parent])):
            folder.rmdir()


def _discard(journal: Journal, kind: object, error: object, trace: object) -> None:  # noqa: ARG001 - as for ``__exit__``
    """Remove a new output again if the stream failed before its first batch."""
    if error is not None:
        journal.discard()


def _take(lock: Lock, name: str, locks: ExitStack) -> None:
    while not lock.take():
        if not lock.can_become_free():
            raise PipelineError(
                f"the stream {name!r} is being run by another process: stop it, or give this one another name"
            )
        time.sleep(lock.pause)
    locks.callback(lock.release)


@contextmanager
def _wait_for_others(
    session: SparkSession, file: Path, name: str, stop: threading.Event, notify: Callable[[str], None]
) -> Iterator[bool]:
    """Wait for the Java process of a killed driver to end, because until then it writes to the stream's checkpoint.

    Yield True once the process has ended, False if ``stop`` was set first. Raises ``PipelineError`` after ``_DYING``
    seconds.
    """
    deadline = time.monotonic() + _DYING
    with open_java_lock(session, file) as locked:
        alone = locked()
        if not alone:
            notify(f"waiting for the end of the Java process of an earlier run of the stream {name!r}")
        while not alone and not stop.wait(_LOOK):
            if time.monotonic() > deadline:
                raise PipelineError(f"a Java process of an earlier run of the stream {name!r} still runs: end it")
            alone = locked()
        yield alone

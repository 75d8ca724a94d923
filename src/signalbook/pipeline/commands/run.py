"""``pipeline run``: one batch. Check, freeze the definitions, let Spark work, commit."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from signalbook.messages import Policy
from signalbook.pipeline.commit import (
    check_reachable,
    check_same_input,
    check_tables,
    complete_unfinished,
    disk_errors,
    land,
)
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.fastpath import native
from signalbook.pipeline.job.jobs import Job, Progress, ShowProgress
from signalbook.pipeline.job.session import open_session
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.journal import Journal
from signalbook.pipeline.landing.tasks import Attempt, Intake
from signalbook.pipeline.reports.report import Report
from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.base import FileSource, RecordSource
from signalbook.pipeline.sources.files import find_files, plan_tasks
from signalbook.values import fingerprint, now

_REPEATED: Final = "this batch was committed before: nothing was read and nothing changed"
_COMPLETED: Final = "an earlier run of this batch had processed it all and died while committing: that was completed"

Open = Callable[[SparkSession], Intake]


def run(job: Job, progress: ShowProgress = lambda _: None, notify: Callable[[str], None] = lambda _: None) -> Report:
    """Do ``job`` as one batch and report what became of its input; ``progress`` is called several times a second.

    ``notify`` is called before a message is read, with each doubt about the definitions.

    Raises ``PipelineError`` (or another ``SignalbookError``, for definitions that cannot be read) with nothing of the
    batch committed, unless the text says otherwise. A run that was killed is completed, or done from the start, by the
    next one with the same output and batch id.
    """
    check(job.policy)
    origin, open_intake = _input(job)
    journal = Journal.open(job.place)
    batch_id = job.batch_id or f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
    with journal.alone(), disk_errors(journal.output):
        completed = complete_unfinished(journal, progress)
        check_tables(journal, job)
        done = completed.get(batch_id) or journal.find(batch_id)
        if done is not None:
            check_same_input(done, origin)
            return done.report(_COMPLETED if batch_id in completed else _REPEATED)
        check_reachable(journal, job.table_format)
        progress(Progress(stage="definitions"))
        snapshot = Snapshot.load(job.registry, job.groups).check(job.policy)
        for doubt in snapshot.doubts:
            notify(doubt)
        progress(Progress(stage="spark"))
        with open_session(job.master, jars=job.jars, packages=_packages(job)) as session:
            attempt = Attempt(
                journal=journal,
                batch_id=batch_id,
                intake=open_intake(session),
                snapshot=snapshot,
                table_format=job.table_format,
                partition=job.partition,
                policy=job.policy,
                landed_at=now(),
                max_message_bytes=job.max_message_bytes,
            )
            return replace(land(attempt, session, progress).report(), doubts=snapshot.doubts)


def check(policy: Policy) -> None:
    """Raise ``PipelineError`` for a policy that tables cannot follow, and where the native module is missing."""
    native.module()
    if policy.on_no_match == "pass":
        raise PipelineError("the pipeline has no table for messages without a definition: dead-letter or drop them")


def _packages(job: Job) -> tuple[str, ...]:
    source = base.find_source(job.input_format)
    return source.packages if isinstance(source, RecordSource) else ()


def _input(job: Job) -> tuple[str, Open]:
    """What distinguishes this input from another, and a way to it once Spark runs."""
    source = base.find_source(job.input_format)
    if isinstance(source, RecordSource):
        origin = fingerprint([job.input_format, sorted(job.inputs)])
        return origin, partial(_brought, job, source, origin)
    files = find_files(job.inputs)
    # the format of files, and the name and size of each
    origin = fingerprint([job.input_format, [[Path(path).name, size] for path, size in files]])
    return origin, partial(_dealt, source, files, origin)


def _brought(job: Job, source: RecordSource, origin: str, session: SparkSession) -> Intake:
    records = source.load(session, job.inputs, job.options)
    return Intake(source=source.name, origin=origin, records=records.coalesce(session.sparkContext.defaultParallelism))


def _dealt(source: FileSource, files: Sequence[tuple[str, int]], origin: str, session: SparkSession) -> Intake:
    tasks = plan_tasks(source, files, session.sparkContext.defaultParallelism)
    return Intake(source=source.name, origin=origin, tasks=tasks)

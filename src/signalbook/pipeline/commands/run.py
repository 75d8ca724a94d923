"""``pipeline run``: check the job, freeze the definitions, run the tasks and commit, as one batch."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from signalbook.errors import SignalbookError
from signalbook.messages import Policy
from signalbook.pipeline import native
from signalbook.pipeline.commit import (
    check_reachable,
    check_same_input,
    check_tables,
    complete_unfinished,
    convert_disk_errors,
    land,
)
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.default_runner import open_runner
from signalbook.pipeline.job.jobs import Job, Progress, ShowProgress, check_policy
from signalbook.pipeline.job.runner import LocalRunner, Runner
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.job.tasks import BatchAttempt, Intake
from signalbook.pipeline.journal import Journal
from signalbook.pipeline.places import Place
from signalbook.pipeline.report import Report
from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.base import FileSource, RecordSource
from signalbook.pipeline.sources.inputs import find_files, plan_tasks
from signalbook.values import fingerprint, now

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_REPEATED: Final = "this batch was committed before: nothing was read and nothing changed"
_COMPLETED: Final = "an earlier run of this batch had processed it all and died while committing: that was completed"

Open = Callable[[Runner], Intake]


def run(
    job: Job,
    progress: ShowProgress = lambda _: None,
    notify: Callable[[str], None] = lambda _: None,
    runner: Runner | None = None,
) -> Report:
    """Run ``job`` as one batch and return its report. ``progress`` is called several times a second.

    ``notify`` is called before any message is read, with each doubt about the definitions. ``runner`` runs the tasks.
    The default is Spark. Only Spark can read brokers, and captures with options.

    Raises ``PipelineError``, or another ``SignalbookError`` for definitions that cannot be read. Nothing of the batch
    is committed then, unless the error text says otherwise. If a run is killed, the next run with the same output and
    batch id either completes the batch or starts it again. The note of a ``KeyboardInterrupt`` says which of the two.
    """
    check(job.policy)
    output = job.place  # first, so that an invalid output is reported before the inputs are searched
    origin, open_intake = _prepare_input(job, notify, runner)
    batch_id = job.batch_id or f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"

    @cache
    def definitions() -> Snapshot:
        progress(Progress(stage="definitions"))
        snapshot = Snapshot.load(job.registry, job.groups, subjects=job.subjects).check(job.policy)
        for doubt in snapshot.doubts:
            notify(doubt)
        return snapshot

    @contextmanager
    def begun() -> Iterator[Begun]:
        snapshot = definitions()
        with _open_runner(job, runner, progress) as opened:
            yield Begun(opened, open_intake(opened), snapshot)

    with _note_interrupts(output, batch_id):
        # A new output is created only if the definitions can be read. For an existing output they are read once it is
        # certain that the batch was not committed before.
        if not Journal(output).is_begun():
            definitions()
        with base.explain_failures(base.find_source(job.input_format), job.inputs):
            return land_once(replace(job, output=output, batch_id=batch_id), origin, begun, progress)


@contextmanager
def _note_interrupts(output: Place, batch_id: str) -> Iterator[None]:
    """Add a note to a ``KeyboardInterrupt``: the state of the batch according to the journal of ``output``."""
    try:
        yield
    except KeyboardInterrupt as error:
        with suppress(SignalbookError, OSError):
            error.add_note(_describe_state(Journal(output), batch_id))
        raise


def _describe_state(journal: Journal, batch_id: str) -> str:
    if journal.find(batch_id) is not None:
        return f"batch {batch_id} was committed, and there is nothing left to do"
    if any(batch.id == batch_id for batch in journal.list_unfinished()):
        return (
            f"batch {batch_id} was being committed: the same command with this batch id completes it, with another one "
            "its messages would land twice"
        )
    return "nothing of this batch was committed: the same command may be run again"


@dataclass(frozen=True, slots=True)
class Begun:
    """The runner, input and definitions of a batch that is about to be processed."""

    runner: Runner
    intake: Intake
    snapshot: Snapshot


def land_once(
    job: Job,
    origin: str,
    begin: Callable[[], AbstractContextManager[Begun]],
    progress: ShowProgress = lambda _: None,
    patience: float = 0.0,
) -> Report:
    """Land the batch ``job.batch_id`` of the input ``origin``, unless it was landed before. Return its report.

    ``begin`` is called only if the batch has to be processed. Wait up to ``patience`` seconds for other programs that
    write to the output folder. Raises the errors of ``run``.
    """
    journal = Journal.open(job.place)
    with journal.lock_output(patience), convert_disk_errors(journal.output):
        completed = complete_unfinished(journal, progress)
        check_tables(journal, job)
        committed = completed.get(job.batch_id) or journal.find(job.batch_id)
        if committed is not None:
            check_same_input(committed, origin)
            return committed.report(_COMPLETED if job.batch_id in completed else _REPEATED)
        check_reachable(journal, job.table_format)
        with begin() as begun:
            attempt = build_attempt(job, journal, begun.intake, begun.snapshot)
            return replace(land(attempt, begun.runner, progress).report(), doubts=begun.snapshot.doubts)


def build_attempt(job: Job, journal: Journal, intake: Intake, snapshot: Snapshot) -> BatchAttempt:
    """Return an attempt to land the batch ``job.batch_id`` with the settings of ``job``."""
    return BatchAttempt(
        journal=journal,
        batch_id=job.batch_id,
        intake=intake,
        snapshot=snapshot,
        table_format=job.table_format,
        partition=job.partition,
        policy=job.policy,
        landed_at=now(),
        max_message_bytes=job.max_message_bytes,
        stop_at_damage=job.on_damaged_file == "stop",
    )


def check(policy: Policy) -> None:
    """Raise ``PipelineError`` if tables cannot follow ``policy``, or if the native module is missing."""
    native.load_module()
    check_policy(policy)


def _open_runner(job: Job, runner: Runner | None, show: ShowProgress) -> AbstractContextManager[Runner]:
    source = base.find_source(job.input_format)
    packages = source.packages if isinstance(source, RecordSource) else None
    return open_runner(runner, job.master, lambda: show(Progress(stage="spark")), jars=job.jars, packages=packages)


def _prepare_input(job: Job, notify: Callable[[str], None], runner: Runner | None) -> tuple[str, Open]:
    """Return an identifier of this input, and the function that opens it for a runner."""
    source = base.find_source(job.input_format)
    # Captures are read by Spark with all formats and options, and by a local runner as files of messages.
    if isinstance(source, RecordSource) and not (isinstance(source, FileSource) and isinstance(runner, LocalRunner)):
        origin = fingerprint([job.input_format, sorted(job.inputs)])
        return origin, partial(_load_records, job, source, origin)
    if job.options:
        names = ", ".join(sorted(job.options))
        raise PipelineError(f"{source.name} has no options, but {names} is given: leave it out")
    input_files = find_files(job.inputs, source, job.storage)
    for words in input_files.notices:
        notify(words)
    # the format of files, and the name and size of each
    origin = fingerprint([job.input_format, [[Path(path).name, size] for path, size in input_files.files]])
    return origin, partial(_plan_files, job, source, input_files.files, origin)


def _load_records(job: Job, source: RecordSource, origin: str, runner: Runner) -> Intake:
    from signalbook.pipeline.job.session import SparkRunner
    from signalbook.pipeline.sources.salvage import DamagedInput, SalvagingSource, is_beyond

    if not isinstance(runner, SparkRunner):
        raise PipelineError(f"{source.name} is read by Spark alone: run it without a runner of your own")
    session = runner.session

    def dealt(records: DataFrame) -> DataFrame:
        return records.coalesce(runner.parallelism)

    def rest() -> DataFrame:
        assert isinstance(source, SalvagingSource)
        return dealt(source.salvage(session, job.inputs, job.options, job.storage))

    salvaging = source if isinstance(source, SalvagingSource) else None
    if salvaging is not None and (
        salvaging.is_beyond_spark(job.options) or any(is_beyond(session, path, job.storage) for path in job.inputs)
    ):
        return Intake(source=source.name, origin=origin, records=rest())
    whole = salvaging is not None and salvaging.salvages(job.options)
    salvage = rest if whole and job.on_damaged_file == "land" else None
    try:
        records = dealt(source.load(session, job.inputs, job.options))
    except DamagedInput:
        if salvage is None:
            raise
        records, salvage = salvage(), None
    return Intake(source=source.name, origin=origin, records=records, salvage=salvage)


def _plan_files(job: Job, source: FileSource, files: Sequence[tuple[str, int]], origin: str, runner: Runner) -> Intake:
    tasks = plan_tasks(source, files, runner.parallelism)
    return Intake(source=source.name, origin=origin, tasks=tasks, storage=job.storage)

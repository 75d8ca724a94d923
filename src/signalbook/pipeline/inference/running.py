"""The driver's side of a draft: look at a stream, draft from one half, try on the other, draft from both."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from signalbook.messages import Message
from signalbook.pipeline import spark
from signalbook.pipeline.attempt import explain
from signalbook.pipeline.failures import PipelineError
from signalbook.pipeline.inference import drafting, tasks
from signalbook.pipeline.inference.draft import Draft, DraftJob
from signalbook.pipeline.inference.observing import Observations, telling_header
from signalbook.pipeline.inference.schemas import LADDER, Rules
from signalbook.pipeline.inference.tasks import Halves, Plan, Trial
from signalbook.pipeline.snapshot import Snapshot
from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.base import Split
from signalbook.pipeline.sources.files import find_files, plan_tasks
from signalbook.xid import XidError, check_id

_SAMPLE: Final = 5000
_SNAPSHOT: Final = "snapshot-{}.json"
_Found = TypeVar("_Found", Halves, Trial)


def run(job: DraftJob, show: Callable[[str], None]) -> Draft:
    """Draft definitions, telling ``show`` what is done. Raises ``PipelineError`` and what reading the input raises."""
    _check(job)
    source = base.file_source(job.input_format)
    files = find_files(job.inputs)
    with tempfile.TemporaryDirectory(prefix="signalbook-infer-") as name:
        show("starting Spark")
        with spark.session(job.master) as session:
            dealt = plan_tasks(source, files, session.sparkContext.defaultParallelism)
            stream = _Stream(session=session, folder=Path(name), plan=_planned(job, dealt))
            show("looking at messages")
            halves = stream.each(tasks.look, Halves())
            if not halves.first.kinds and not halves.second.kinds:
                raise PipelineError(f"no message of a kind that can be told was found in {', '.join(job.inputs)}")
            trial, rules = _tried(stream, halves.first, job, show)
    return _draft(job, halves, trial, rules, stream.plan.header)


def _check(job: DraftJob) -> None:
    try:
        check_id(job.group)
    except XidError as error:
        raise PipelineError(f"the group {job.group!r}: {error}") from None
    if not 0 <= job.accept <= 1:
        raise PipelineError(f"accept is a share of messages, 0 to 1, not {job.accept}")
    if job.limit < 0:
        raise PipelineError(f"limit is a number of messages, 0 for all, not {job.limit}")


def _planned(job: DraftJob, dealt: tuple[tuple[Split, ...], ...]) -> Plan:
    found = Plan(source=job.input_format, tasks=dealt, limit=-(-job.limit // max(len(dealt), 1)))
    return replace(found, header=telling_header(_sample(found)))


def _sample(found: Plan) -> Iterator[Message]:
    """The first messages of each task, ``_SAMPLE`` in all at most."""
    share = max(_SAMPLE // max(len(found.tasks), 1), 1)
    for number in range(min(len(found.tasks), _SAMPLE)):
        for message, _ in islice(tasks.messages(found, number), share):
            if message is not None:
                yield message


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stream:
    """The input, dealt out to Spark's workers; ``folder`` is where they find what to do."""

    session: SparkSession
    folder: Path
    plan: Plan

    def each(self, work: tasks.Work, found: _Found) -> _Found:
        """Add to ``found`` what ``work`` finds in every task."""
        (self.folder / tasks.PLAN).write_bytes(msgspec.msgpack.encode(self.plan))
        count = len(self.plan.tasks)
        frame = self.session.range(0, count, 1, max(count, 1))
        try:
            for row in frame.mapInArrow(partial(tasks.run, str(self.folder), work), tasks.RESULT).collect():
                found.merge(msgspec.msgpack.decode(row["result"], type=type(found)))
        except (PySparkException, Py4JError) as error:
            raise PipelineError(explain(str(error), self.folder)) from error
        return found


def _tried(stream: _Stream, first: Observations, job: DraftJob, show: Callable[[str], None]) -> tuple[Trial, Rules]:
    """The first rules of the ladder whose draft accepts enough of what was held back, or the last ones."""
    trial, rules = Trial(), LADDER[0]
    trying = replace(stream, plan=replace(stream.plan, kinds=tuple(first.kinds)))
    for number, rules in enumerate(LADDER):
        show(f"trying the draft on what was held back ({number + 1} of at most {len(LADDER)})")
        draft = drafting.document(first, job.group, rules, stream.plan.header)
        path = stream.folder / _SNAPSHOT.format(number)
        path.write_bytes(Snapshot.of_documents([("the draft", draft)]).to_json())
        trial = trying.each(partial(tasks.attempt, str(path)), Trial())
        if trial.accepted >= job.accept * trial.tried:
            break
    return trial, rules


def _draft(job: DraftJob, halves: Halves, trial: Trial, rules: Rules, header: str) -> Draft:
    every = halves.first
    every.merge(halves.second)
    document = drafting.document(every, job.group, rules, header)
    counts = drafting.counts(every)
    return Draft(
        document=document,
        messages=counts,
        read=sum(counts.values()) + every.unknown + halves.unreadable,
        unreadable=halves.unreadable,
        unknown=every.unknown,
        tried=trial.tried,
        accepted=trial.accepted,
        reasons=trial.reasons,
        unseen=trial.unseen,
        rules=rules.words,
    )

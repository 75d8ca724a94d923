"""``pipeline infer --against``: check messages with definitions that exist, as a run would, and write nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from signalbook.messages import Policy
from signalbook.pipeline.commands.infer import (
    InferenceJob,
    InferencePlan,
    Sample,
    check,
    load_contract,
    open_sample,
    read_batches,
)
from signalbook.pipeline.fastpath import native
from signalbook.pipeline.job.runner import Runner
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.landing.processing import Processing
from signalbook.pipeline.landing.rows import Bookkeeping
from signalbook.pipeline.reports.report import Tally
from signalbook.pipeline.sources import base
from signalbook.pipeline.tables.table_names import TableName
from signalbook.values import JSONObject


@dataclass(slots=True, kw_only=True)
class SampleCheck:
    """The counts of accepted and rejected messages, by definition and by reason."""

    tally: Tally = field(default_factory=Tally)

    def merge(self, other: SampleCheck) -> None:
        """Add the counts of ``other``."""
        self.tally.add(other.tally)

    @property
    def accepted(self) -> int:
        """The number of accepted messages."""
        return self.tally.landed.total()

    @property
    def acceptance(self) -> float:
        """The share of the messages that were accepted, 0 to 1; 0 if no message was read."""
        return self.accepted / self.tally.read if self.tally.read else 0.0

    def to_json(self) -> JSONObject:
        """Return the object that ``pipeline infer --against --json`` prints."""
        tally = self.tally
        return {
            "read": tally.read,
            "accepted": self.accepted,
            "rejected": tally.dead_lettered,
            "acceptance": round(self.acceptance, 6),
            "definitions": {
                xid: {"accepted": tally.landed[xid], "rejected": tally.rejected[xid]}
                for xid in sorted(tally.landed.keys() | tally.rejected.keys())
            },
            "reasons": dict(sorted(tally.reasons.items())),
            "violations": [violation.to_json() for violation in tally.violations.list_top()],
        }


class _NoTables:
    """A receiver of rows that keeps none."""

    def add(self, name: TableName, rows: pa.RecordBatch) -> None:
        """Take rows for a table."""


def check_messages(snapshot: str, plan: InferencePlan, number: int) -> SampleCheck:
    """Check the messages of task ``number`` with the definitions in the file ``snapshot``."""
    source = base.find_file_source(plan.source)
    processing = Processing(load_contract(snapshot), source, _NoTables(), Bookkeeping(fingerprint=""))
    for batch in read_batches(plan, number):
        processing.take(batch)
    processing.clear()
    return SampleCheck(tally=processing.tally)


def check_sample(
    job: InferenceJob,
    registry: str,
    progress: Callable[[str], None] = lambda _: None,
    notify: Callable[[str], None] = lambda _: None,
    runner: Runner | None = None,
) -> SampleCheck:
    """Check the input of ``job`` with the definitions of ``registry``: a URL, a document or a folder of documents.

    ``progress`` is called with a description of each step, ``notify`` with notices about input and definitions.
    ``runner`` runs the tasks, by default Spark. Nothing is written. Raises ``PipelineError`` and errors of reading.
    """
    check(job)
    native.load_module()
    snapshot = load_definitions(registry, notify)
    with open_sample(job, progress, notify, runner) as sample:
        return check_with(sample, snapshot)


def load_definitions(registry: str, notify: Callable[[str], None]) -> Snapshot:
    """Return the definitions of ``registry``. ``notify`` is called with doubts about them."""
    snapshot = Snapshot.load(registry).check(Policy())
    for doubt in snapshot.doubts:
        notify(doubt)
    return snapshot


def check_with(sample: Sample, snapshot: Snapshot) -> SampleCheck:
    """Check the messages of ``sample`` with the definitions of ``snapshot``."""
    path = sample.write_snapshot(f"{snapshot.fingerprint}.json", snapshot)
    return sample.run_tasks(partial(check_messages, path), SampleCheck(), "checking messages")

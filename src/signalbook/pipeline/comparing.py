"""One task of a backtest: rows of tables and dead letters in, what two contracts say of them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from signalbook.formats import PayloadError
from signalbook.messages import Accepted, CompiledDefinition, Contract, Outcome, Policy, Rejected
from signalbook.pipeline import columns, rebuilding
from signalbook.pipeline.backtests import Backtest, Example, violations_of
from signalbook.pipeline.failures import PipelineError
from signalbook.pipeline.job import Wanted
from signalbook.pipeline.letters import LetterFrame, LetterSource, choose, frames, portions
from signalbook.pipeline.report import decode
from signalbook.pipeline.snapshot import Snapshot
from signalbook.pipeline.sources.base import Unreadable
from signalbook.values import JSON, Finding, JSONError, parse_json

RESULT: Final = "result string"
_ROWS: Final = 1024
_BUCKETS: Final = 1 << 20
_GONE: Final = Finding(path="", rule="no_match", message="there is no such definition any more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What every task needs: two snapshots as JSON, the files of each definition (dead letters: empty xid)."""

    today: bytes
    candidate: bytes
    tasks: tuple[tuple[tuple[str, str], ...], ...]
    policy: Policy
    by: str
    sample: float


def compare(plan: Comparison, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function for ``mapInArrow``: task numbers in, one ``Backtest`` as JSON out for each."""
    today, tomorrow = (Snapshot.from_json(text).compile(plan.policy) for text in (plan.today, plan.candidate))
    for batch in batches:
        for number in batch.column(0).to_pylist():
            work = _Comparing(plan, today, tomorrow)
            for xid, path in plan.tasks[number]:
                work.landed(xid, path) if xid else work.letters(path)
            text = msgspec.json.encode(work.found).decode()
            yield pa.RecordBatch.from_pydict({"result": pa.array([text], pa.string())})


def read_result(text: str) -> Backtest:
    """The backtest that ``compare`` wrote as ``text``."""
    return decode(text.encode(), Backtest)


class _Comparing:
    """Compares the messages of one task."""

    def __init__(self, plan: Comparison, today: Contract, tomorrow: Contract) -> None:
        self.found = Backtest()
        self._plan = plan
        self._today = today
        self._tomorrow = tomorrow

    def landed(self, xid: str, path: str) -> None:
        """Hold the rows of a table to its definition, as it is and as it may be."""
        here, there = (contract.definitions.get(xid) for contract in (self._today, self._tomorrow))
        for first, rows in _portions(path):
            opaque = _is_opaque(rows.schema)
            for row in rows.filter(pa.array(self._sampled(first, len(rows)))).to_pylist():
                now, then = _faults(here, there, row, opaque=opaque)
                if now and here is not None:
                    self.found.doubtful += 1
                else:
                    self._tell(bool(now), bool(then), partial(_example, xid, self._plan.by, row, then))

    def letters(self, path: str) -> None:
        """Hold dead letters to both contracts, as a run would."""
        source = LetterSource()
        for first, rows in portions(path):
            mask = choose(Wanted(), rows) & self._sampled(first, len(rows))
            for frame in frames(first, rows, mask):
                for index in range(len(frame)):
                    self._letter(frame.records.slice(index, 1).to_pylist()[0], source, frame, index)

    def _letter(self, row: Mapping[str, Any], source: LetterSource, frame: LetterFrame, index: int) -> None:
        try:
            message = source.message(frame, index)
        except Unreadable:
            self.found.refused += 1
            return
        now, then = self._today.process(message), self._tomorrow.process(message)
        told = then if _refused(then) else now
        self._tell(_refused(now), _refused(then), partial(_of_letter, row, [*now, *then], told))

    def _tell(self, now: bool, then: bool, example: Callable[[], Example]) -> None:
        """Count a message that is refused ``now``, and ``then``."""
        if now == then:
            self.found.refused += now
            self.found.accepted += not now
        else:
            (self.found.broken if then else self.found.mended).see(example())

    def _sampled(self, first: int, count: int) -> npt.NDArray[np.bool_]:
        """Which rows are looked at; the same ones each time."""
        numbers = np.arange(first, first + count, dtype=np.uint64)
        found: npt.NDArray[np.bool_] = (numbers * np.uint64(2654435761)) % np.uint64(_BUCKETS) < np.uint64(
            int(self._plan.sample * _BUCKETS)
        )
        return found


def _portions(path: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    first = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS):
                yield first, batch
                first += len(batch)
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(f"cannot read the table file {path}: {error}") from error


def _is_opaque(schema: pa.Schema) -> bool:
    """Whether payloads are in columns as they were sent; members of a payload may have the same name."""
    name, kind = columns.OPAQUE.names[1], columns.OPAQUE.types[1]
    return name in schema.names and schema.field(name).type == kind


def _faults(
    here: CompiledDefinition | None, there: CompiledDefinition | None, row: Mapping[str, Any], *, opaque: bool
) -> tuple[list[Finding], list[Finding]]:
    """What the definition in force, and the candidate, have against a landed row."""
    known = None if here is None else here.schema_use.schema
    landed = _Landed(rebuilding.attributes(row), rebuilding.opaque(row) if opaque else None)
    if landed.sent is None and known is not None:
        landed = replace(landed, value=rebuilding.payload(known, row))
    return landed.faults(here, row), landed.faults(there, row)


@dataclass(frozen=True, slots=True)
class _Landed:
    """A landed message: its payload as it was sent, or else what columns and the schema in force make of it."""

    attributes: Mapping[str, Any]
    sent: bytes | None
    value: JSON = msgspec.UNSET

    def faults(self, definition: CompiledDefinition | None, row: Mapping[str, Any]) -> list[Finding]:
        """What a definition has against it."""
        if definition is None:
            return [_GONE]
        is_event = definition.is_event and row.get("ce_type") is not None
        found = definition.check_event(self.attributes, {}) if is_event else []
        schema = definition.schema_use.schema
        if schema is None:
            return [*found, *definition.schema_use.findings]
        if self.value is not msgspec.UNSET:
            return [*found, *schema.validate(self.value)]
        try:
            schema.decode(self.sent or b"", str(self.attributes.get("datacontenttype") or definition.payload_type))
        except PayloadError as error:
            return [*found, *error.findings]
        return found


def _refused(outcomes: tuple[Outcome, ...]) -> bool:
    return not outcomes or any(isinstance(outcome, Rejected) for outcome in outcomes)


def _example(xid: str, by: str, row: Mapping[str, Any], findings: list[Finding]) -> Example:
    return Example(
        definition=xid,
        producer=str(row.get(by) or ""),
        id=str(row.get("ce_id") or ""),
        source=str(row.get("_source") or ""),
        position=int(row.get("_position") or 0),
        violations=violations_of(findings),
    )


def _of_letter(row: Mapping[str, Any], outcomes: list[Outcome], told: tuple[Outcome, ...]) -> Example:
    """The example of a dead letter; where it conforms by then, what kept it here."""
    event = _event(row, outcomes)
    findings = [finding for outcome in told if isinstance(outcome, Rejected) for finding in outcome.violations]
    candidates = [o.definition.xid for o in outcomes if isinstance(o, Accepted)] or row["candidates"] or [""]
    return Example(
        definition=candidates[0],
        producer=str(event.get("source") or row["address"] or ""),
        id=str(event.get("id") or ""),
        source=row["source"] or "",
        position=row["position"] or 0,
        violations=violations_of(findings),
    )


def _event(row: Mapping[str, Any], outcomes: list[Outcome]) -> Mapping[str, Any]:
    """The context attributes of a letter's event, as far as any is known."""
    for outcome in outcomes:
        if isinstance(outcome, Accepted) and outcome.event is not None:
            return outcome.event.attributes
    try:
        found = parse_json(row["original"])
    except JSONError:
        return {}
    return found if isinstance(found, dict) else {}

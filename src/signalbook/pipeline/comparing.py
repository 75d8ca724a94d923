"""One task of a backtest: rows of tables and dead letters in, what two contracts say of them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
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
from signalbook.pipeline.sources.base import UnreadableMessage
from signalbook.values import JSON, Finding, JSONError, parse_json

RESULT: Final = "result string"
_ROWS: Final = 1024
_BUCKETS: Final = 1 << 20
# Columns of tables that dead letters have, without the underscore.
_SHARED: Final = frozenset({"_address", "_batch", "_protocol", "_source"})
_GONE: Final = Finding(path="", rule="no_match", message="there is no such definition any more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What every task needs: two snapshots as JSON, the files of each definition (dead letters: empty xid).

    Dead letters count if they have to do with one of ``definitions``, none meaning any.
    """

    today: bytes
    candidate: bytes
    tasks: tuple[tuple[tuple[str, str], ...], ...]
    policy: Policy
    definitions: tuple[str, ...]
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
        schemas = (use.schema_use.schema for use in (here, there) if use is not None)
        known = next((schema for schema in schemas if schema is not None), None)
        rebuild = _unread if known is None else rebuilding.payloads(known)
        for first, rows in _portions(path):
            read = _sent if _is_opaque(rows.schema) else rebuild
            for row in rows.filter(pa.array(self._sampled(first, len(rows)))).to_pylist():
                attributes, payload = rebuilding.attributes(row), read(row)
                now, then = (_faults(definition, row, attributes, payload) for definition in (here, there))
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
                    self._letter(source, frame, index)

    def _letter(self, source: LetterSource, frame: LetterFrame, index: int) -> None:
        letter = _Letter(frame.records, index)
        try:
            message = source.message(frame, index)
        except UnreadableMessage:
            self.found.refused += self._asked(letter, ())
            return
        now, then = self._today.process(message), self._tomorrow.process(message)
        if self._asked(letter, (*now, *then)):
            self._tell(_refused(now), _refused(then), partial(letter.example, self._plan.by, now, then))

    def _asked(self, letter: _Letter, outcomes: Sequence[Outcome]) -> bool:
        """Whether a letter is, was or would be meant for one of the definitions that are asked about."""
        meant = chain(letter.candidates, *map(_meant, outcomes))
        return not self._plan.definitions or any(xid in self._plan.definitions for xid in meant)

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


def _sent(row: Mapping[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(rebuilding.opaque(row) or b"")


def _unread(_: Mapping[str, Any]) -> JSON:
    """The payload where neither definition has a schema for it."""
    return None


def _faults(
    definition: CompiledDefinition | None,
    row: Mapping[str, Any],
    attributes: Mapping[str, Any],
    payload: JSON | msgspec.Raw,
) -> list[Finding]:
    """What a definition has against a landed row, with its payload as it was sent (``Raw``) or rebuilt."""
    if definition is None:
        return [_GONE]
    is_event = definition.is_event and row.get("ce_type") is not None
    found = definition.check_event(attributes, {}) if is_event else []
    return [*found, *_payload_faults(definition, attributes, payload)]


def _payload_faults(
    definition: CompiledDefinition, attributes: Mapping[str, Any], payload: JSON | msgspec.Raw
) -> Sequence[Finding]:
    """What keeps a payload from landing; violations that are only tagged do not."""
    schema, tagged = definition.schema_use.schema, definition.policy.on_schema_violation == "tag"
    if schema is None:
        return definition.schema_use.findings
    if not isinstance(payload, msgspec.Raw):
        return () if tagged else schema.validate(payload)
    try:
        schema.decode(bytes(payload), str(attributes.get("datacontenttype") or definition.payload_type))
    except PayloadError as error:
        return () if tagged and error.reason == "schema_violation" else error.findings
    return ()


def _refused(outcomes: Sequence[Outcome]) -> bool:
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


def _meant(outcome: Outcome) -> tuple[str, ...]:
    """The definitions an outcome is about."""
    match outcome:
        case Accepted():
            return (outcome.definition.xid,)
        case Rejected():
            return tuple(outcome.candidates)
    return ()


@dataclass(frozen=True, slots=True)
class _Letter:
    """A dead letter, in a row of ``columns.DEAD_LETTER``."""

    rows: pa.RecordBatch
    index: int

    def __getitem__(self, name: str) -> Any:
        return self.rows.column(name)[self.index].as_py()

    @property
    def candidates(self) -> Sequence[str]:
        """The definitions it may have been meant for."""
        return self["candidates"] or ()

    def example(self, by: str, now: Sequence[Outcome], then: Sequence[Outcome]) -> Example:
        """Where it conforms by then, with what kept it here."""
        outcomes = (*now, *then)
        event = self._event(outcomes)
        told = then if _refused(then) else now
        findings = [finding for outcome in told if isinstance(outcome, Rejected) for finding in outcome.violations]
        accepted = [outcome.definition.xid for outcome in outcomes if isinstance(outcome, Accepted)]
        return Example(
            definition=next(iter([*accepted, *self.candidates]), ""),
            producer=self._producer(by, event),
            id=str(event.get("id") or ""),
            source=self["source"] or "",
            position=self["position"] or 0,
            violations=violations_of(findings),
        )

    def _producer(self, by: str, event: Mapping[str, Any]) -> str:
        """What it would have in the column ``by`` of a table, as far as it knows, or else where it was sent."""
        attribute = by.removeprefix("ce_")
        known = event.get(attribute) if attribute != by else self[by[1:]] if by in _SHARED else None
        return str(known or self["address"] or "")

    def _event(self, outcomes: Sequence[Outcome]) -> Mapping[str, Any]:
        """The context attributes of its event, as far as any is known."""
        for outcome in outcomes:
            if isinstance(outcome, Accepted) and outcome.event is not None:
                return outcome.event.attributes
        try:
            found = parse_json(self["original"])
        except JSONError:
            return {}
        return found if isinstance(found, dict) else {}

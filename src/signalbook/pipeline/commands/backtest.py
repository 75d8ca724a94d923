"""``pipeline backtest``: check landed messages and dead letters with candidate definitions. Nothing is written.

Landed messages are rebuilt from their columns, dead letters from the bytes that they keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from signalbook.formats import PayloadError
from signalbook.messages import Accepted, CompiledDefinition, Contract, Outcome, Policy, Rejected
from signalbook.pipeline import columns
from signalbook.pipeline.commands.backtest_result import Backtest, ChangedVerdict, list_violations
from signalbook.pipeline.commands.dead_letters import (
    DeadLetterBatch,
    DeadLetterSource,
    match_rows,
    read_dead_letters,
    read_message_batches,
)
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.candidate import find_affected, with_candidate
from signalbook.pipeline.job.default_runner import open_runner
from signalbook.pipeline.job.documents import read_documents
from signalbook.pipeline.job.jobs import BacktestJob, DeadLetterFilter
from signalbook.pipeline.job.runner import Runner
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.job.tasks import task_failures
from signalbook.pipeline.journal import Journal
from signalbook.pipeline.places import Place
from signalbook.pipeline.report import decode
from signalbook.pipeline.sources.base import UnreadableMessage
from signalbook.pipeline.table_names import DEAD_LETTERS, build_table_name, find_table_folder
from signalbook.pipeline.tables.evolution import rename_columns, rename_rows
from signalbook.pipeline.tables.formats import find_visible_files
from signalbook.pipeline.tables.landed_payloads import build_payload_reader, read_attributes, read_opaque
from signalbook.pipeline.tables.staged_files import read_rows
from signalbook.values import JSON, Finding, JSONError, format_count, parse_json

_BUCKETS: Final = 1 << 20
# Columns of tables that dead letters have, without the underscore.
_SHARED: Final = frozenset({"_address", "_batch", "_protocol", "_source"})
_GONE: Final = Finding(path="", rule="no_match", message="there is no such definition any more")


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestPlan:
    """The plan for all tasks. ``today`` and ``candidate`` are snapshots as JSON.

    ``tasks`` lists for each task its files, each with the xid of its definition, empty for dead letters. Only dead
    letters that concern one of ``definitions`` are compared, or all if ``definitions`` is empty.
    ``by`` is the column that names the producer, ``sample`` the share of rows to compare.
    """

    today: bytes
    candidate: bytes
    tasks: tuple[tuple[tuple[str, Place], ...], ...]
    policy: Policy
    definitions: tuple[str, ...]
    by: str
    sample: float


def compare(plan: BacktestPlan, numbers: Iterable[int]) -> Iterator[bytes]:
    """Run the tasks of ``plan`` with these ``numbers``. Yield one ``Backtest`` as JSON for each task."""
    today, tomorrow = (Snapshot.from_json(text).compile(plan.policy) for text in (plan.today, plan.candidate))

    def work(number: int) -> bytes:
        comparing = _Comparison(plan, today, tomorrow)
        for xid, place in plan.tasks[number]:
            comparing.compare_landed(xid, place) if xid else comparing.compare_dead_letters(place)
        return msgspec.json.encode(comparing.found)

    return map(work, numbers)


def read_result(text: bytes) -> Backtest:
    """Parse ``text``, which ``compare`` yielded, and return the ``Backtest``."""
    return decode(text, Backtest)


class _Comparison:
    """A comparison of the messages of one task by two contracts. ``found`` has the counts so far."""

    def __init__(self, plan: BacktestPlan, today: Contract, tomorrow: Contract) -> None:
        self.found = Backtest()
        self._plan = plan
        self._today = today
        self._tomorrow = tomorrow

    def compare_landed(self, xid: str, place: Place) -> None:
        """Check the rows of the table file at ``place`` with the current and the candidate definition ``xid``."""
        definitions = [contract.definitions.get(xid) for contract in (self._today, self._tomorrow)]
        schemas = (definition.schema_use.schema for definition in definitions if definition is not None)
        known_schema = next((schema for schema in schemas if schema is not None), None)
        rebuild = _read_nothing if known_schema is None else build_payload_reader(known_schema)
        expected = pa.schema([]) if known_schema is None else columns.build_payload(known_schema.shape())
        for first, rows in read_rows(place, "the table file"):
            opaque = _is_opaque(rows.schema)
            renamed = rows.schema if opaque else rename_columns(expected, rows.schema)
            by = dict(zip(rows.schema.names, renamed.names, strict=True)).get(self._plan.by, self._plan.by)
            read = _read_sent if opaque else rebuild
            sample = rename_rows(pa.Table.from_batches([rows]), renamed)
            for row in sample.filter(pa.array(self._sample(first, len(rows)))).to_pylist():
                attributes, payload = read_attributes(row), read(row)
                now, then = (_find_violations(definition, row, attributes, payload) for definition in definitions)
                # The message landed once. If the current definition rejects the rebuilt message, its columns did not
                # keep all of it, so that nothing can be concluded about the candidate.
                if now and definitions[0] is not None:
                    self.found.doubtful += 1
                else:
                    self._count(bool(now), bool(then), partial(_build_example, xid, by, row, then))

    def compare_dead_letters(self, place: Place) -> None:
        """Check the dead letters in the file at ``place`` with both contracts, as a run would."""
        source = DeadLetterSource()
        for first, rows in read_dead_letters(place):
            mask = match_rows(DeadLetterFilter(), rows) & self._sample(first, len(rows))
            for batch in read_message_batches(first, rows, mask):
                for index in range(len(batch)):
                    self._compare_dead_letter(source, batch, index)

    def _compare_dead_letter(self, source: DeadLetterSource, batch: DeadLetterBatch, index: int) -> None:
        dead_letter = _DeadLetterRow(batch.records, index)
        try:
            message = source.message(batch, index)
        except UnreadableMessage:
            self.found.refused += self._is_requested(dead_letter, ())
            return
        now, then = self._today.process(message), self._tomorrow.process(message)
        if self._is_requested(dead_letter, (*now, *then)):
            build_example = partial(dead_letter.build_example, self._plan.by, now, then)
            self._count(_is_refused(now), _is_refused(then), build_example)

    def _is_requested(self, dead_letter: _DeadLetterRow, outcomes: Sequence[Outcome]) -> bool:
        """Return True if a dead letter may be meant for a requested definition, or if all definitions are requested.

        Its recorded candidates and the definitions in ``outcomes`` are considered.
        """
        meant = chain(dead_letter.candidates, *map(_list_meant, outcomes))
        return not self._plan.definitions or any(xid in self._plan.definitions for xid in meant)

    def _count(self, now: bool, then: bool, example: Callable[[], ChangedVerdict]) -> None:
        """Count a message. ``now`` and ``then`` are True if the current or the candidate contract rejects it.

        ``example`` is called only if the two differ.
        """
        if now == then:
            self.found.refused += now
            self.found.accepted += not now
        else:
            (self.found.broken if then else self.found.mended).record(example())

    def _sample(self, first: int, count: int) -> npt.NDArray[np.bool_]:
        """Return a mask of ``count`` rows, True for rows in the sample. ``first`` is the number of the first row.

        The same rows are in the sample each time.
        """
        numbers = np.arange(first, first + count, dtype=np.uint64)
        # Knuth's multiplicative hash of the row's number: spread evenly, and without a state that tasks would have to
        # share.
        in_sample: npt.NDArray[np.bool_] = (numbers * np.uint64(2654435761)) % np.uint64(_BUCKETS) < np.uint64(
            int(self._plan.sample * _BUCKETS)
        )
        return in_sample


def _is_opaque(schema: pa.Schema) -> bool:
    """Return True if the table stores payloads as they were sent.

    The type of the column is checked as well, because a member of a payload may have the same name.
    """
    name, kind = columns.OPAQUE.names[1], columns.OPAQUE.types[1]
    return name in schema.names and schema.field(name).type == kind


def _read_sent(row: Mapping[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(read_opaque(row) or b"")


def _read_nothing(_: Mapping[str, Any]) -> JSON:
    """Return None: without a schema in either definition, payloads cannot be rebuilt."""
    return None


def _find_violations(
    definition: CompiledDefinition | None,
    row: Mapping[str, Any],
    attributes: Mapping[str, Any],
    payload: JSON | msgspec.Raw,
) -> list[Finding]:
    """Return the violations of ``definition`` by a landed message. Its payload is as sent (``Raw``) or rebuilt.

    Without a ``definition`` the only violation is that the definition no longer exists.
    """
    if definition is None:
        return [_GONE]
    is_event = definition.is_event and row.get("ce_type") is not None
    violations = definition.check_event(attributes, {}) if is_event else []
    return [*violations, *_find_payload_violations(definition, attributes, payload)]


def _find_payload_violations(
    definition: CompiledDefinition, attributes: Mapping[str, Any], payload: JSON | msgspec.Raw
) -> Sequence[Finding]:
    """Return the violations that prevent a payload from landing; merely tagged ones do not."""
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


def _is_refused(outcomes: Sequence[Outcome]) -> bool:
    return not outcomes or any(isinstance(outcome, Rejected) for outcome in outcomes)


def _build_example(xid: str, by: str, row: Mapping[str, Any], findings: list[Finding]) -> ChangedVerdict:
    return ChangedVerdict(
        definition=xid,
        producer=str(row.get(by) or ""),
        id=str(row.get("ce_id") or ""),
        source=str(row.get("_source") or ""),
        position=int(row.get("_position") or 0),
        violations=list_violations(findings),
    )


def _list_meant(outcome: Outcome) -> tuple[str, ...]:
    """Return the xids of the definitions that ``outcome`` names: the one that accepted the message, or candidates."""
    match outcome:
        case Accepted():
            return (outcome.definition.xid,)
        case Rejected():
            return tuple(outcome.candidates)
    return ()


@dataclass(frozen=True, slots=True)
class _DeadLetterRow:
    """A dead letter: the row ``index`` of ``rows``, whose columns are ``columns.DEAD_LETTER``."""

    rows: pa.RecordBatch
    index: int

    def __getitem__(self, name: str) -> Any:
        return self.rows.column(name)[self.index].as_py()

    @property
    def candidates(self) -> Sequence[str]:
        """The definitions for which the message may have been meant."""
        return self["candidates"] or ()

    def build_example(self, by: str, now: Sequence[Outcome], then: Sequence[Outcome]) -> ChangedVerdict:
        """Return the example for a changed verdict: where the message lands, and the violations that one side found.

        ``now`` and ``then`` are its outcomes with the current and the candidate contract.
        """
        outcomes = (*now, *then)
        event = self._read_event(outcomes)
        refusing = then if _is_refused(then) else now
        findings = [finding for outcome in refusing if isinstance(outcome, Rejected) for finding in outcome.violations]
        accepted = [outcome.definition.xid for outcome in outcomes if isinstance(outcome, Accepted)]
        return ChangedVerdict(
            definition=next(iter([*accepted, *self.candidates]), ""),
            producer=self._find_producer(by, event),
            id=str(event.get("id") or ""),
            source=self["source"] or "",
            position=self["position"] or 0,
            violations=list_violations(findings),
        )

    def _find_producer(self, by: str, event: Mapping[str, Any]) -> str:
        """Return the value that the message would have in the column ``by``, else the address it was sent to."""
        attribute = by.removeprefix("ce_")
        value = event.get(attribute) if attribute != by else self[by[1:]] if by in _SHARED else None
        return str(value or self["address"] or "")

    def _read_event(self, outcomes: Sequence[Outcome]) -> Mapping[str, Any]:
        """Return the context attributes of the event from its outcomes or its bytes; empty if it cannot be parsed."""
        for outcome in outcomes:
            if isinstance(outcome, Accepted) and outcome.event is not None:
                return outcome.event.attributes
        try:
            event = parse_json(self["original"], exact=True)
        except JSONError:
            return {}
        return event if isinstance(event, dict) else {}


Files = list[tuple[int, str, Place]]


def backtest(
    job: BacktestJob,
    progress: Callable[[str], None] = lambda _: None,
    notify: Callable[[str], None] = lambda _: None,
    runner: Runner | None = None,
) -> Backtest:
    """Check landed messages and dead letters with candidate definitions, and return how the verdicts change.

    ``progress`` is called with a description of each step, ``notify`` with doubts about the definitions. ``runner``
    runs the tasks, by default Spark. Nothing is written. Raises ``PipelineError`` and the errors of reading
    definitions.
    """
    if not 0 < job.sample <= 1:
        raise PipelineError(f"a sample is a share of all messages, above 0 and at most 1, not {job.sample:g}")
    journal = Journal.open_existing(job.place)
    progress("reading definitions")
    documents = read_documents(job.registry)
    today = Snapshot.of_registry(job.registry, documents, job.groups)
    tomorrow = with_candidate(documents, job.groups, job.candidate, job.definitions)
    checked = tomorrow.check(job.policy)
    changed = find_affected(today, tomorrow)
    spoilt = [left_out.finding(xid).message for xid, left_out in checked.left_out.items() if xid in changed]
    if spoilt:  # only changed definitions: a definition that is broken today as well makes no difference
        raise PipelineError("\n".join(["the candidate cannot be used:", *spoilt]))
    for xid in job.definitions:
        if xid not in today.selected and xid not in tomorrow.selected:
            raise PipelineError(f"there is no definition {xid}, neither in force nor in the candidate")
    chosen = [xid for xid in changed if not job.definitions or xid in job.definitions]
    files = _find_files(journal, chosen)
    if not files:
        return Backtest()
    for doubt in checked.doubts:
        notify(doubt)
    with open_runner(runner, job.master, lambda: progress("starting Spark")) as opened:
        progress(f"comparing {format_count(len(files), 'file')} of {format_count(len(chosen), 'changed definition')}")
        return _compare_all(opened, job, journal.output, today, tomorrow, files)


def _find_files(journal: Journal, definitions: Sequence[str]) -> Files:
    """Return the files of the tables of ``definitions`` as size, xid and place, largest first.

    The files of dead letters are included, with an empty xid, unless ``definitions`` is empty.
    """
    all_files: Files = []
    names = {build_table_name(xid): xid for xid in definitions} | ({DEAD_LETTERS: ""} if definitions else {})
    table_format = journal.find_table_format() or "parquet"
    for table, files in journal.find_files(lambda table: table.first in names).items():
        folder = journal.output / find_table_folder(table, table_format)
        all_files += [
            (file.bytes, names[table.first], folder / file.name) for file in find_visible_files(journal, table, files)
        ]
    return sorted(all_files, key=lambda entry: entry[:2], reverse=True)


def _compare_all(
    runner: Runner, job: BacktestJob, output: Place, today: Snapshot, tomorrow: Snapshot, files: Files
) -> Backtest:
    count = min(runner.parallelism, len(files))
    definition_files = [(xid, place) for _, xid, place in files]
    plan = BacktestPlan(
        today=today.to_json(),
        candidate=tomorrow.to_json(),
        tasks=tuple(tuple(definition_files[number::count]) for number in range(count)),
        policy=job.policy,
        definitions=job.definitions,
        by=job.by,
        sample=job.sample,
    )
    total = Backtest()
    with task_failures(output):
        results = runner.run(count, partial(compare, plan), sum(size for size, *_ in files))
    for result in results:
        total.add(read_result(result))
    return total

"""What becomes of the messages of one task: they land, become dead letters or are dropped, and all of them are counted.

``Processing`` hands every batch of messages to the fast path, which answers with rows and with the messages it leaves
over; those go the slow path here, one by one, through ``Contract.process``. Between the two are messages of which all
but the payload says that they are of one definition: they are matched one by one, and decoded many at once
(``pending_payloads.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from signalbook.messages import (
    Accepted,
    CompiledDefinition,
    Contract,
    Dropped,
    Message,
    Outcome,
    Passed,
    Reason,
    Rejected,
)
from signalbook.pipeline.arrays import MISFITS
from signalbook.pipeline.fastpath.binary import BinaryMode
from signalbook.pipeline.fastpath.modes import ContentMode, PlainMode, StructuredMode
from signalbook.pipeline.fastpath.routes import Ignored, LandedRows, LeftOver, Result
from signalbook.pipeline.fastpath.routing import FastPath
from signalbook.pipeline.fastpath.verdicts import Rejections, RejectionVerdict
from signalbook.pipeline.landing.deadletters import DeadLetter, DeadLetterRows, build_rejected_rows
from signalbook.pipeline.landing.pending_payloads import PendingPayloads
from signalbook.pipeline.landing.rows import AcceptedRow, Bookkeeping, RowBuilder
from signalbook.pipeline.reports.report import Span, Tally, find_charged
from signalbook.pipeline.sources.base import (
    ALONE,
    LIGHTEST,
    NOWHERE,
    MessageBatch,
    MessageLocation,
    Source,
    UnreadableMessage,
    release_memory,
)
from signalbook.pipeline.sources.plain import PlainJson
from signalbook.pipeline.tables.table_names import DEAD_LETTERS, TableName
from signalbook.values import Finding

# Input bytes whose messages may wait before all are turned into rows: columns of a few values each are slow to make.
WINDOW: Final = 128 * 1024 * 1024
_SLICE: Final = 1024 * 1024


@dataclass(slots=True)
class _Waiting:
    """Accepted messages of one definition."""

    target: RowBuilder
    rows: list[AcceptedRow] = field(default_factory=list)
    bytes: int = 0


class TableRows(Protocol):
    """Takes rows of tables, as ``StagedFiles`` does."""

    def add(self, name: TableName, rows: pa.RecordBatch) -> None:
        """Take rows for a table. Raises ``OSError`` if they cannot be written."""
        ...


class Processing:
    """Holds the messages of one task to a contract. ``tally`` counts as it goes.

    Rows are made by ``builder``. Dead letters are passed to ``on_dead_letter``, where it is given, and else written to
    their table.
    """

    def __init__(
        self,
        contract: Contract,
        source: Source,
        staged: TableRows,
        bookkeeping: Bookkeeping,
        on_dead_letter: Callable[[DeadLetter], None] | None = None,
        builder: type[RowBuilder] = RowBuilder,
    ) -> None:
        self.tally = Tally()
        self._contract = contract
        self._source = source
        self._staged = staged
        self._bookkeeping = bookkeeping
        self._builder = builder
        self._targets: dict[str, RowBuilder] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._presumptions = PendingPayloads(contract, self._find_builder)
        self._dead_letters = DeadLetterRows(bookkeeping)
        self._on_dead_letter = on_dead_letter or self._wait
        self._keeps_letters = on_dead_letter is not None
        # By protocol, and whether events are in binary mode.
        self._fast_paths: dict[tuple[str, bool], FastPath | None] = {}
        self._window = 0

    def take(self, batch: MessageBatch) -> None:
        """Take all messages of a batch."""
        self.tally.read += len(batch)
        self.tally.bytes += len(batch.content)
        weight = batch.weight
        fast = self._find_fast_path(batch.protocol, binary=batch.binary)
        alone = len(batch.content) > ALONE and bool((batch.ends - batch.starts).max(initial=0) > ALONE)
        if alone:
            self.clear()  # so that a huge message is not in memory together with all that waits
            release_memory()
            for index in range(len(batch)):
                self._process_slowly(batch, [index], presume=False)
                if batch.ends[index] - batch.starts[index] > ALONE:
                    self.clear()
        elif fast is None or batch.slow_path:
            self._process_slowly(batch, range(len(batch)), presume=not batch.slow_path)
        else:
            self._take_results(fast.take(batch))
        self._window += weight
        if self._window >= WINDOW:
            self.clear()

    def clear(self) -> None:
        """Land all messages taken: at the end, and now and then, since a row that waits keeps its batch in memory."""
        self._window = 0
        # the fast path first: what it leaves over may become waiting rows and dead letters
        for fast in list(self._fast_paths.values()):
            if fast is not None:
                self._take_results(fast.flush())
        self._take_pending(self._presumptions.flush())
        for waiting in self._waiting.values():
            self._flush(waiting)
        self._land_dead_letters()

    def _find_fast_path(self, protocol: str, *, binary: bool) -> FastPath | None:
        """Return the fast path for events of a content mode that came by ``protocol``, if any."""
        key = protocol, binary
        if key not in self._fast_paths:
            mode = self._choose_mode(protocol, binary=binary)
            self._fast_paths[key] = (
                None
                if mode is None
                else FastPath(self._contract, protocol, mode, self._find_builder, self._find_rejection)
            )
        return self._fast_paths[key]

    def _choose_mode(self, protocol: str, *, binary: bool) -> ContentMode | None:
        if binary:
            return BinaryMode(protocol) if BinaryMode.is_known(protocol) else None
        if isinstance(self._source, PlainJson):
            return PlainMode()
        return StructuredMode() if self._source.cloudevents_json else None

    def _take_results(self, results: Iterable[Result]) -> None:
        """Land what the fast path has rows of, and judge what it leaves over."""
        for result in results:
            match result:
                case LandedRows():
                    self._land(result.target, result.rows)
                case Rejections():
                    self._reject_all(result)
                case Ignored():
                    self.tally.dropped += result.messages
                case LeftOver():
                    self._process_slowly(result.messages, result.indices, presume=True)

    def _find_builder(self, definition: CompiledDefinition) -> RowBuilder:
        if definition.xid not in self._targets:
            self._targets[definition.xid] = self._builder(definition, self._bookkeeping)
        return self._targets[definition.xid]

    def _land(self, target: RowBuilder, rows: pa.RecordBatch) -> None:
        self._staged.add(target.name, rows)
        self.tally.land(target.xid, len(rows), _find_span(rows))
        self.tally.rescue(target.xid, target.count_rescued(rows))

    def _process_slowly(self, batch: MessageBatch, indices: Sequence[int], *, presume: bool) -> None:
        """Process messages one by one. With ``presume`` payloads are left pending where possible."""
        for index in indices:
            if batch.is_blank(index):
                self.tally.read -= 1
                continue
            original = batch.raw(index)
            location = batch.location(index)
            try:
                message = _read_message(self._source, batch, index)
            except UnreadableMessage as error:
                finding = Finding(path="", rule=batch.rule, message=str(error))
                self._reject(
                    DeadLetter(reason=Reason.DECODE_ERROR, violations=(finding,), original=original, location=location)
                )
                continue
            if presume and self._presumptions.take(message, original, location):
                self._take_pending(self._presumptions.flush_full())
            else:
                self._process_outcomes(message, original, location)

    def _take_pending(self, outcomes: Iterable[LandedRows | AcceptedRow]) -> None:
        """Land rows of messages that were right to be presumed, and judge the others."""
        for outcome in outcomes:
            match outcome:
                case LandedRows():
                    self._land(outcome.target, outcome.rows)
                case AcceptedRow():
                    self._process_outcomes(outcome.message, outcome.original, outcome.location)

    def _process_outcomes(self, message: Message, original: bytes, location: MessageLocation) -> None:
        """Process a message. It has an outcome for each event, or for each definition by policy."""
        outcomes = self._contract.process(message)
        # the totals must add up: read = landed + dead letters + dropped
        self.tally.read += len(outcomes) - 1
        # Outcomes of one event follow each other and share its message. So events of a batch are distinguished from
        # several definitions that accept one event.
        for number, (part, same_part) in enumerate(groupby(outcomes, key=lambda outcome: id(outcome.message))):
            of_part = list(same_part)
            if part == id(message):
                self._take_outcomes(of_part, original, location)
            else:
                body = of_part[0].message.body or b""  # of an event in a batch its own bytes are enough
                self._take_outcomes(of_part, body, replace(location, element=number))

    def _find_rejection(self, batch: MessageBatch, index: int) -> Rejected | None:
        """Return the rejection of a message of a batch, if that is its only outcome."""
        try:
            return self._contract.rejection(_read_message(self._source, batch, index))
        except UnreadableMessage:
            return None

    def _take_outcomes(self, outcomes: Sequence[Outcome], original: bytes, location: MessageLocation) -> None:
        """Deal with what becomes of one message, or one event of a batched one."""
        shared = len(outcomes) > 1
        for outcome in outcomes:
            match outcome:
                case Accepted():
                    self._accept(outcome, original, location, shared=shared)
                case Rejected():
                    self._reject(_build_dead_letter(outcome, original, location, shared=shared))
                case Dropped() | Passed():
                    self.tally.dropped += 1

    def _accept(self, accepted: Accepted, original: bytes, location: MessageLocation, *, shared: bool) -> None:
        definition = accepted.definition
        waiting = self._waiting.get(definition.xid)
        if waiting is None:
            waiting = self._waiting[definition.xid] = _Waiting(self._find_builder(definition))
        # In slices, so that one value that fits no column costs a search among a megabyte of rows and not among all.
        # Before the next, not at once: a huge message is not to become a row while it is here decoded.
        if waiting.bytes >= _SLICE:
            self._flush(waiting)
        waiting.rows.append(waiting.target.build_row(accepted, original, location, shared=shared))
        waiting.bytes += max(len(original), LIGHTEST)

    def _flush(self, waiting: _Waiting) -> None:
        """Turn a definition's waiting messages into rows of its table."""
        if waiting.rows:
            self._land_rows(waiting.target, waiting.rows)
            waiting.rows, waiting.bytes = [], 0

    def _land_rows(self, target: RowBuilder, rows: Sequence[AcceptedRow]) -> None:
        """Land all rows. If a value does not fit its column, halve them until its row is a dead letter."""
        try:
            self._land(target, target.build_rows(rows))
            self.tally.duplicates[target.xid] += sum(row.duplicates for row in rows)
        except MISFITS as error:
            if len(rows) == 1:
                self._reject(_build_misfit(target, rows[0], error))
                return
            # Arrow does not say which row it was: halving finds it in a dozen tries.
            half = len(rows) // 2
            self._land_rows(target, rows[:half])
            self._land_rows(target, rows[half:])

    def _reject_all(self, rejections: Rejections) -> None:
        """Make messages dead letters by their verdicts, many at once if they are rows and nothing else."""
        try:
            rows = None if self._keeps_letters else build_rejected_rows(rejections, self._source, self._bookkeeping)
        except UnreadableMessage:
            rows = None
        if rows is None:
            self._process_slowly(rejections.messages, rejections.indices, presume=False)
            return
        self._staged.add(DEAD_LETTERS, rows)
        for verdict, first, count in _count_rejections(rejections):
            index = rejections.indices[first]
            self._count(verdict, rejections.messages.location(index), rejections.messages.raw(index), count)

    def _count(
        self, verdict: RejectionVerdict | DeadLetter, location: MessageLocation, original: bytes, messages: int
    ) -> None:
        """Count dead letters; the first of them is ``original``."""
        self.tally.reject(verdict.reason, verdict.candidates, messages)
        # Charged to a definition only where there is one candidate: else each of several would look broken.
        self.tally.violations.record(
            find_charged(verdict.candidates),
            (*_explain_unmatched(verdict.reason), *verdict.violations),
            source=location.path,
            position=NOWHERE if location.position is None else location.position,
            original=original,
            messages=messages,
        )

    def _reject(self, dead_letter: DeadLetter) -> None:
        self._count(dead_letter, dead_letter.location, dead_letter.original, 1)
        self._on_dead_letter(dead_letter)

    def _wait(self, dead_letter: DeadLetter) -> None:
        if self._dead_letters.bytes >= _SLICE:
            self._land_dead_letters()
        self._dead_letters.add(dead_letter)

    def _land_dead_letters(self) -> None:
        if self._dead_letters.bytes:
            self._staged.add(DEAD_LETTERS, self._dead_letters.take())


def _explain_unmatched(reason: str) -> tuple[Finding, ...]:
    """Return the reason as a finding: a message without a definition may have no violation of its own."""
    if reason not in (Reason.NO_MATCH, Reason.NOT_CLOUDEVENT):
        return ()
    return (Finding(path="", rule=str(reason), message="no definition matches it"),)


def _count_rejections(rejections: Rejections) -> Iterator[tuple[RejectionVerdict, int, int]]:
    """Yield each verdict that is counted as one, with its first message and the number of messages."""
    numbers, firsts, counts = np.unique(rejections.numbers, return_index=True, return_counts=True)
    alike: dict[Any, list[Any]] = {}
    for number, first, count in zip(numbers.tolist(), firsts.tolist(), counts.tolist(), strict=True):
        verdict = rejections.verdicts[number]
        # Verdicts that quote values may be as many as messages, of the same few rules.
        key = (
            verdict.reason,
            verdict.candidates,
            tuple((violation.path, violation.rule) for violation in verdict.violations),
        )
        alike.setdefault(key, [verdict, first, 0])[2] += count
    for verdict, first, count in alike.values():
        yield verdict, first, count


def _read_message(source: Source, batch: MessageBatch, index: int) -> Message:
    """Return a message of a batch. Raises ``UnreadableMessage``."""
    if batch.error:
        raise UnreadableMessage(batch.error)
    return source.message(batch, index)


def _find_span(rows: pa.RecordBatch) -> Span | None:
    """Return the span of the event times of rows, or of the times of receipt."""
    times = rows.column("ce_time")
    if times.null_count:
        # Only where events do not say: when a message was received is later than what it reports, and would hide a lag.
        times = pc.coalesce(times, rows.column("_received_at")).drop_null()
    if not len(times):
        return None
    moments = times.view(pa.int64()).to_numpy()  # several times as fast as Arrow's own min_max
    return Span(oldest=int(moments.min()), newest=int(moments.max()))


def _build_dead_letter(rejected: Rejected, original: bytes, location: MessageLocation, *, shared: bool) -> DeadLetter:
    return DeadLetter(
        reason=rejected.reason,
        violations=rejected.violations,
        candidates=rejected.candidates,
        original=original,
        location=location,
        message=rejected.message,
        definition=rejected.candidates[0] if shared and rejected.candidates else None,
    )


def _build_misfit(target: RowBuilder, row: AcceptedRow, error: Exception) -> DeadLetter:
    return DeadLetter(
        reason=Reason.MAPPING_ERROR,
        violations=(target.find_column_violation(row, error),),
        candidates=(target.xid,),
        original=row.original,
        location=row.location,
        message=row.message,
        definition=target.xid if row.shared else None,
    )

"""Process the messages of one task: each message lands, becomes a dead letter or is dropped, and is counted.

``Processing`` passes every batch of messages to the fast path, which returns rows and the messages that it leaves over.
Left-over messages go the slow path here, one by one, through ``Contract.process``. For some of them everything except
the payload shows that they belong to one definition. These are matched one by one, and their payloads are decoded many
at once (``pending_payloads.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final, Protocol

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
from signalbook.pipeline.processing.deadletters import DeadLetter, DeadLetterRows, build_rejected_rows
from signalbook.pipeline.processing.modes import choose_mode
from signalbook.pipeline.processing.pending_payloads import PendingPayloads
from signalbook.pipeline.processing.routing import FastPath
from signalbook.pipeline.processing.rows import (
    AcceptedRow,
    Bookkeeping,
    Ignored,
    LandedRows,
    LeftOver,
    Result,
    RowBuilder,
)
from signalbook.pipeline.processing.verdicts import Rejections, RejectionVerdict
from signalbook.pipeline.report import Span, Tally, find_charged
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
from signalbook.pipeline.table_names import DEAD_LETTERS, TableName
from signalbook.values import Finding

# Input bytes whose messages may wait before all are turned into rows: columns of a few values each are slow to make.
WINDOW: Final = 128 * 1024 * 1024
_SLICE: Final = 1024 * 1024


@dataclass(slots=True)
class _Waiting:
    """The accepted messages of one definition that wait to become rows."""

    target: RowBuilder
    rows: list[AcceptedRow] = field(default_factory=list)
    bytes: int = 0


class TableRows(Protocol):
    """A receiver of rows for tables, such as ``StagedFiles``."""

    def add(self, name: TableName, rows: pa.RecordBatch) -> None:
        """Take rows for a table. Raises ``OSError`` if they cannot be written."""
        ...


class Processing:
    """The processing of the messages of one task by a contract. ``tally`` counts messages and outcomes.

    ``source`` reads messages, ``builder`` makes rows, and ``staged`` receives the rows. Dead letters are passed to
    ``on_dead_letter``; if it is ``None``, they become rows of their own table.
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
        self._pending = PendingPayloads(contract, self._find_builder)
        self._dead_letters = DeadLetterRows(bookkeeping)
        self._on_dead_letter = on_dead_letter or self._wait
        self._keeps_letters = on_dead_letter is not None
        # By protocol, and whether events are in binary mode. None: there is no fast path.
        self._fast_paths: dict[tuple[str, bool], FastPath | None] = {}
        self._window = 0

    def take(self, batch: MessageBatch) -> None:
        """Take all messages of a batch. Some wait until ``clear`` is called."""
        self.tally.read += len(batch)
        self.tally.bytes += len(batch.content)
        weight = batch.weight
        fast = self._find_fast_path(batch.protocol, binary=batch.binary)
        alone = len(batch.content) > ALONE and bool((batch.ends - batch.starts).max(initial=0) > ALONE)
        if alone:
            self.clear()  # so that a huge message is not in memory together with all waiting messages
            release_memory()
            for index in range(len(batch)):
                self._process_slowly(batch, [index], together=False)
                if batch.ends[index] - batch.starts[index] > ALONE:
                    self.clear()
        elif fast is None or batch.slow_path:
            self._process_slowly(batch, range(len(batch)), together=not batch.slow_path)
        else:
            self._take_results(fast.take(batch))
        self._window += weight
        if self._window >= WINDOW:
            self.clear()

    def clear(self) -> None:
        """Land all waiting messages. Callers must do this at the end.

        ``take`` does it from time to time, because a waiting row keeps its batch in memory.
        """
        self._window = 0
        # the fast path first: what it leaves over may become waiting rows and dead letters
        for fast in list(self._fast_paths.values()):
            if fast is not None:
                self._take_results(fast.flush())
        self._take_pending(self._pending.flush())
        for waiting in self._waiting.values():
            self._flush(waiting)
        self._land_dead_letters()

    def _find_fast_path(self, protocol: str, *, binary: bool) -> FastPath | None:
        """Return the fast path for messages that came by ``protocol``, or None if there is none.

        ``binary`` means that events are in binary content mode.
        """
        key = protocol, binary
        if key not in self._fast_paths:
            mode = choose_mode(self._source, protocol, binary=binary)
            self._fast_paths[key] = (
                None
                if mode is None
                else FastPath(self._contract, protocol, mode, self._find_builder, self._find_rejection)
            )
        return self._fast_paths[key]

    def _take_results(self, results: Iterable[Result]) -> None:
        """Land the rows of the fast path, count its other results, and send left-over messages the slow path."""
        for result in results:
            match result:
                case LandedRows():
                    self._land(result.target, result.rows)
                case Rejections():
                    self._reject_all(result)
                case Ignored():
                    self.tally.dropped += result.messages
                case LeftOver():
                    self._process_slowly(result.messages, result.indices, together=True)

    def _find_builder(self, definition: CompiledDefinition) -> RowBuilder:
        if definition.xid not in self._targets:
            self._targets[definition.xid] = self._builder(definition, self._bookkeeping)
        return self._targets[definition.xid]

    def _land(self, target: RowBuilder, rows: pa.RecordBatch) -> None:
        self._staged.add(target.name, rows)
        self.tally.land(target.xid, len(rows), _find_span(rows))
        self.tally.rescue(target.xid, target.count_rescued(rows))

    def _process_slowly(self, batch: MessageBatch, indices: Sequence[int], *, together: bool) -> None:
        """Process the messages at ``indices`` one by one. With ``together``, payloads are decoded many at once."""
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
            if together and self._pending.take(message, original, location):
                self._take_pending(self._pending.flush_full())
            else:
                self._process_outcomes(message, original, location)

    def _take_pending(self, outcomes: Iterable[LandedRows | AcceptedRow]) -> None:
        """Land the rows of messages whose payloads were decoded, and process the other messages one by one."""
        for outcome in outcomes:
            match outcome:
                case LandedRows():
                    self._land(outcome.target, outcome.rows)
                case AcceptedRow():
                    self._process_outcomes(outcome.message, outcome.original, outcome.location)

    def _process_outcomes(self, message: Message, original: bytes, location: MessageLocation) -> None:
        """Process a message, which has an outcome for each event in it or, by policy, for each matching definition."""
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
        """Return the rejection of the message at ``index`` if that is its only outcome, else None."""
        try:
            return self._contract.rejection(_read_message(self._source, batch, index))
        except UnreadableMessage:
            return None

    def _take_outcomes(self, outcomes: Sequence[Outcome], original: bytes, location: MessageLocation) -> None:
        """Land, reject or count the ``outcomes`` of one message, or of one event of a batched message."""
        shared = len(outcomes) > 1
        for outcome in outcomes:
            match outcome:
                case Accepted():
                    self._accept(outcome, original, location, shared=shared)
                case Rejected():
                    self._reject(DeadLetter.of_rejected(outcome, original, location, shared=shared))
                case Dropped() | Passed():
                    self.tally.dropped += 1

    def _accept(self, accepted: Accepted, original: bytes, location: MessageLocation, *, shared: bool) -> None:
        definition = accepted.definition
        waiting = self._waiting.get(definition.xid)
        if waiting is None:
            waiting = self._waiting[definition.xid] = _Waiting(self._find_builder(definition))
        # Flush in slices, so that the search for a value that does not fit its column is among a megabyte of rows.
        # Flush before the next message, not after it: a huge message must not become a row while it is here decoded.
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
        """Land all rows. If a value does not fit its column, halve the rows until its row is found, and reject it."""
        try:
            self._land(target, target.build_rows(rows))
            self.tally.duplicates[target.xid] += sum(row.duplicates for row in rows)
        except MISFITS as error:
            if len(rows) == 1:
                self._reject(DeadLetter.of_misfit(target, rows[0], error))
                return
            # Arrow does not say which row it was: halving finds it in a dozen tries.
            half = len(rows) // 2
            self._land_rows(target, rows[:half])
            self._land_rows(target, rows[half:])

    def _reject_all(self, rejections: Rejections) -> None:
        """Make messages dead letters by their verdicts: many at once, as rows.

        If ``on_dead_letter`` was given, or if one of the messages is unreadable, all of them go the slow path.
        """
        try:
            rows = None if self._keeps_letters else build_rejected_rows(rejections, self._source, self._bookkeeping)
        except UnreadableMessage:
            rows = None
        if rows is None:
            self._process_slowly(rejections.messages, rejections.indices, together=False)
            return
        self._staged.add(DEAD_LETTERS, rows)
        for verdict, first, count in rejections.count_alike():
            index = rejections.indices[first]
            self._count(verdict, rejections.messages.location(index), rejections.messages.raw(index), count)

    def _count(
        self, verdict: RejectionVerdict | DeadLetter, location: MessageLocation, original: bytes, messages: int
    ) -> None:
        """Count ``messages`` dead letters of one verdict. The first is ``original``, which was read at ``location``."""
        self.tally.reject(verdict.reason, verdict.candidates, messages)
        # Violations count for a definition only if it is the only candidate: else each of several would look broken.
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
    """Return a finding that no definition matches, if that is the ``reason``, because there may be no violation."""
    if reason not in (Reason.NO_MATCH, Reason.NOT_CLOUDEVENT):
        return ()
    return (Finding(path="", rule=str(reason), message="no definition matches it"),)


def _read_message(source: Source, batch: MessageBatch, index: int) -> Message:
    """Return the message at ``index`` of a batch. Raises ``UnreadableMessage``."""
    if batch.error:
        raise UnreadableMessage(batch.error)
    return source.message(batch, index)


def _find_span(rows: pa.RecordBatch) -> Span | None:
    """Return the span of the times of events; events without a time have the time of receipt. None without times."""
    times = rows.column("ce_time")
    if times.null_count:
        # Only for events without a time: a message is received later than its event happens, which would hide a lag.
        times = pc.coalesce(times, rows.column("_received_at")).drop_null()
    if not len(times):
        return None
    moments = times.view(pa.int64()).to_numpy()  # several times as fast as Arrow's own min_max
    return Span(oldest=int(moments.min()), newest=int(moments.max()))

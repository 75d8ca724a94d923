"""Messages of one task on their way: judged, counted, and landed or sidelined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

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
from signalbook.pipeline.fastpath.modes import BinaryMode, ContentMode, StructuredMode
from signalbook.pipeline.fastpath.routing import FastPath, LandedRows, LeftOver, Result
from signalbook.pipeline.landing.deadletters import DeadLetter, DeadLetterRows
from signalbook.pipeline.landing.rows import AcceptedRow, Bookkeeping, RowBuilder
from signalbook.pipeline.landing.staging import StagedFiles
from signalbook.pipeline.reports.report import Span, Tally, charged
from signalbook.pipeline.sources.base import (
    LIGHTEST,
    MessageBatch,
    MessageLocation,
    RecordSource,
    Source,
    UnreadableMessage,
)
from signalbook.pipeline.tables.naming import DEAD_LETTERS
from signalbook.values import Finding

# Input bytes whose messages may wait for company of their kind before all are turned into rows.
WINDOW: Final = 64 * 1024 * 1024
# A message that is longer goes alone, and the slow path, which bounds what becomes of it in memory.
ALONE: Final = 8 * 1024 * 1024
_SLICE: Final = 1024 * 1024
_BLANK: Final = b" \t\r\n"
_LONGEST: Final = 500


@dataclass(slots=True)
class _Waiting:
    """Accepted messages of one definition."""

    target: RowBuilder
    rows: list[AcceptedRow] = field(default_factory=list)
    bytes: int = 0


class Processing:
    """Holds the frames of one task to a contract. ``tally`` counts as it goes.

    Dead letters go to ``sideline``, where it is given, and else to their table.
    """

    def __init__(
        self,
        contract: Contract,
        source: Source,
        landing: StagedFiles,
        mark: Bookkeeping,
        sideline: Callable[[DeadLetter], None] | None = None,
    ) -> None:
        self.tally = Tally()
        self._contract = contract
        self._source = source
        self._landing = landing
        self._mark = mark
        self._targets: dict[str, RowBuilder] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._letters = DeadLetterRows(mark)
        self._sideline = sideline or self._wait
        protocol = _protocol(source)
        self._structured = self._fast_path(protocol, StructuredMode()) if source.cloudevents_json else None
        self._binary = self._fast_path(protocol, BinaryMode(protocol)) if BinaryMode.is_known(protocol) else None
        self._window = 0

    def take(self, frame: MessageBatch) -> None:
        """Take all messages of a frame."""
        self.tally.read += len(frame)
        self.tally.bytes += len(frame.content)
        fast = self._binary if frame.binary else self._structured
        alone = len(frame.content) > ALONE and bool((frame.ends - frame.starts).max(initial=0) > ALONE)
        if alone:
            self.clear()
        if fast is None or frame.slow_path or alone:
            self._slowly(frame, range(len(frame)))
        else:
            self._take_results(fast.take(frame))
        self._window += frame.weight
        if alone or self._window >= WINDOW:
            self.clear()

    def clear(self) -> None:
        """Land all messages taken: at the end, and so often that no frame is kept for long by a few of a rare kind."""
        self._window = 0
        for fast in (self._structured, self._binary):
            if fast is not None:
                self._take_results(fast.flush())
        for waiting in self._waiting.values():
            self._settle(waiting)
        self._land_letters()

    def _fast_path(self, protocol: str, mode: ContentMode) -> FastPath:
        return FastPath(self._contract, protocol, mode, self._target)

    def _take_results(self, results: Iterable[Result]) -> None:
        """Land what the fast path has rows of, and judge what it leaves over."""
        for result in results:
            match result:
                case LandedRows():
                    self._land(result.target, result.rows)
                case LeftOver():
                    self._slowly(result.messages, result.indices)

    def _target(self, definition: CompiledDefinition) -> RowBuilder:
        if definition.xid not in self._targets:
            schema = definition.schema_use.schema
            self._targets[definition.xid] = RowBuilder(definition.xid, definition.version, schema, self._mark)
        return self._targets[definition.xid]

    def _land(self, target: RowBuilder, rows: pa.RecordBatch) -> None:
        self._landing.add(target.name, rows)
        self.tally.land(target.xid, len(rows), _span(rows))

    def _slowly(self, frame: MessageBatch, indices: Sequence[int]) -> None:
        """Judge messages one by one."""
        for index in indices:
            original = frame.raw(index)
            if frame.lines and frame.records is None and not original.strip(_BLANK):
                self.tally.read -= 1
                continue
            place = frame.location(index)
            try:
                message = _message(self._source, frame, index)
            except UnreadableMessage as error:
                finding = Finding(path="", rule=frame.rule, message=str(error))
                self._reject(
                    DeadLetter(reason=Reason.DECODE_ERROR, violations=(finding,), original=original, place=place)
                )
                continue
            self._outcomes(message, original, place)

    def _outcomes(self, message: Message, original: bytes, place: MessageLocation) -> None:
        """One message has as many outcomes as it has events, or definitions by policy; each counts for itself."""
        outcomes = self._contract.process(message)
        self.tally.read += len(outcomes) - 1
        for number, (part, several) in enumerate(groupby(outcomes, key=lambda outcome: id(outcome.message))):
            told = list(several)
            if part == id(message):
                self._tell(told, original, place)
            else:
                body = told[0].message.body or b""  # of an event in a batch its own bytes are enough
                self._tell(told, body, replace(place, element=number))

    def _tell(self, outcomes: Sequence[Outcome], original: bytes, place: MessageLocation) -> None:
        """Deal with what becomes of one message, or one event of a batched one."""
        shared = len(outcomes) > 1
        for outcome in outcomes:
            match outcome:
                case Accepted():
                    self._accept(outcome, original, place, shared=shared)
                case Rejected():
                    self._reject(_letter(outcome, original, place, shared=shared))
                case Dropped() | Passed():
                    self.tally.dropped += 1

    def _accept(self, accepted: Accepted, original: bytes, place: MessageLocation, *, shared: bool) -> None:
        definition = accepted.definition
        waiting = self._waiting.get(definition.xid)
        if waiting is None:
            waiting = self._waiting[definition.xid] = _Waiting(self._target(definition))
        if self._structured is not None and accepted.event is not None:
            self._structured.mode.learn(accepted.event.attributes)
        waiting.rows.append(waiting.target.row(accepted, original, place, shared=shared))
        waiting.bytes += max(len(original), LIGHTEST)
        if waiting.bytes >= _SLICE:
            self._settle(waiting)

    def _settle(self, waiting: _Waiting) -> None:
        """Turn a definition's waiting messages into rows of its table."""
        if waiting.rows:
            self._rows(waiting.target, waiting.rows)
            waiting.rows, waiting.bytes = [], 0

    def _rows(self, target: RowBuilder, rows: Sequence[AcceptedRow]) -> None:
        """Land all, or if one has a value that does not fit its column, each half, down to that one."""
        try:
            self._land(target, target.rows(rows))
        except MISFITS as error:
            if len(rows) == 1:
                self._reject(_misfit(target, rows[0], error))
                return
            half = len(rows) // 2
            self._rows(target, rows[:half])
            self._rows(target, rows[half:])

    def _reject(self, letter: DeadLetter) -> None:
        self.tally.reject(letter.reason, letter.candidates)
        self.tally.violations.see(
            charged(letter.candidates),
            letter.violations,
            source=letter.place.path,
            position=letter.place.position,
            original=letter.original,
        )
        self._sideline(letter)

    def _wait(self, letter: DeadLetter) -> None:
        self._letters.add(letter)
        if self._letters.bytes >= _SLICE:
            self._land_letters()

    def _land_letters(self) -> None:
        if self._letters:
            self._landing.add(DEAD_LETTERS, self._letters.take())


def _message(source: Source, frame: MessageBatch, index: int) -> Message:
    """One message of a frame. Raises ``Unreadable``."""
    if frame.error:
        raise UnreadableMessage(frame.error)
    return source.message(frame, index)


def _protocol(source: Source) -> str:
    """The protocol that messages of the source come by, empty for files."""
    return source.protocol if isinstance(source, RecordSource) else ""


def _span(rows: pa.RecordBatch) -> Span | None:
    """When the messages of rows happened; those that do not tell, when they were received."""
    times = rows.column("ce_time")
    if times.null_count:
        times = pc.coalesce(times, rows.column("_received_at")).drop_null()
    if not len(times):
        return None
    moments = times.view(pa.int64()).to_numpy()  # several times as fast as Arrow's own min_max
    return Span(oldest=int(moments.min()), newest=int(moments.max()))


def _letter(rejected: Rejected, original: bytes, place: MessageLocation, *, shared: bool) -> DeadLetter:
    return DeadLetter(
        reason=rejected.reason,
        violations=rejected.violations,
        candidates=rejected.candidates,
        original=original,
        place=place,
        message=rejected.message,
        definition=rejected.candidates[0] if shared and rejected.candidates else None,
    )


def _misfit(target: RowBuilder, row: AcceptedRow, error: Exception) -> DeadLetter:
    text = f"a conforming value does not fit its column: {error}"
    return DeadLetter(
        reason=Reason.MAPPING_ERROR,
        violations=(Finding(path="", rule="column", message=text[:_LONGEST]),),
        candidates=(target.xid,),
        original=row.original,
        place=row.place,
        message=row.message,
        definition=target.xid if row.shared else None,
    )

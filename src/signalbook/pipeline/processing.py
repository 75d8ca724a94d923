"""Messages of one task on their way: judged, counted, and landed or sidelined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from signalbook.messages import Accepted, CompiledDefinition, Contract, Dropped, Outcome, Passed, Reason, Rejected
from signalbook.pipeline.arrays import MISFITS
from signalbook.pipeline.landing import Landing
from signalbook.pipeline.lanes import Lanes
from signalbook.pipeline.naming import DEAD_LETTERS
from signalbook.pipeline.report import Tally
from signalbook.pipeline.rows import DeadLetter, DeadLetters, Mark, Place, Row, Target
from signalbook.pipeline.sources.base import Frame, RecordSource, Source, Unreadable
from signalbook.values import Finding

# Input bytes whose messages may wait for company of their kind before all are turned into rows.
WINDOW: Final = 64 * 1024 * 1024
_SLICE: Final = 1024 * 1024
_BLANK: Final = b" \t\r\n"
_LONGEST: Final = 500


@dataclass(slots=True)
class _Waiting:
    """Accepted messages of one definition."""

    target: Target
    rows: list[Row] = field(default_factory=list)
    bytes: int = 0


class Processing:
    """Holds the frames of one task to a contract. ``tally`` counts as it goes."""

    def __init__(self, contract: Contract, source: Source, landing: Landing, mark: Mark) -> None:
        self.tally = Tally()
        self._contract = contract
        self._source = source
        self._landing = landing
        self._mark = mark
        self._targets: dict[str, Target] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._letters = DeadLetters(mark)
        self._lanes = (
            Lanes(contract, _protocol(source), self._target, self._land, self._thoroughly)
            if source.cloudevents_json
            else None
        )
        self._window = 0

    def take(self, frame: Frame) -> None:
        """Take all messages of a frame."""
        self.tally.read += len(frame)
        if self._lanes is None or frame.thorough:
            self._thoroughly(frame, range(len(frame)))
        else:
            self._lanes.take(frame)
        self._window += len(frame.block)
        if self._window >= WINDOW:
            self._clear()

    def finish(self) -> None:
        """Land what still waits."""
        self._clear()
        self._sideline()

    def _clear(self) -> None:
        """Land everything, so that no frame is kept for long by a few messages of a rare kind."""
        self._window = 0
        if self._lanes is not None:
            self._lanes.clear()
        for waiting in self._waiting.values():
            self._settle(waiting)

    def _target(self, definition: CompiledDefinition) -> Target:
        if definition.xid not in self._targets:
            schema = definition.schema_use.schema
            self._targets[definition.xid] = Target(definition.xid, definition.version, schema, self._mark)
        return self._targets[definition.xid]

    def _land(self, target: Target, rows: pa.RecordBatch) -> None:
        self._landing.add(target.name, rows)
        self.tally.landed[target.xid] += len(rows)

    def _thoroughly(self, frame: Frame, indices: Sequence[int]) -> None:
        """Judge messages one by one."""
        for index in indices:
            original = frame.raw(index)
            if frame.records is None and not original.strip(_BLANK):
                self.tally.read -= 1
                continue
            place = Place(frame.path, int(frame.positions[index]))
            try:
                message = self._source.message(frame, index)
            except Unreadable as error:
                finding = Finding(path="", rule="unreadable", message=str(error))
                self._reject(
                    DeadLetter(reason=Reason.DECODE_ERROR, violations=(finding,), original=original, place=place)
                )
                continue
            self._outcomes(self._contract.process(message), original, place)

    def _outcomes(self, outcomes: Sequence[Outcome], original: bytes, place: Place) -> None:
        """One message has as many outcomes as it has events, or definitions by policy; each counts for itself."""
        self.tally.read += len(outcomes) - 1
        for number, outcome in enumerate(outcomes):
            element = number if len(outcomes) > 1 else None
            match outcome:
                case Accepted():
                    self._accept(outcome, original, place)
                case Rejected():
                    self._reject(_letter(outcome, original, place, element))
                case Dropped() | Passed():
                    self.tally.dropped += 1

    def _accept(self, accepted: Accepted, original: bytes, place: Place) -> None:
        definition = accepted.definition
        waiting = self._waiting.get(definition.xid)
        if waiting is None:
            waiting = self._waiting[definition.xid] = _Waiting(self._target(definition))
        if self._lanes is not None and accepted.event is not None:
            self._lanes.envelopes.learn(accepted.event.attributes)
        waiting.rows.append(waiting.target.row(accepted, original, place))
        waiting.bytes += len(original)
        if waiting.bytes >= _SLICE:
            self._settle(waiting)

    def _settle(self, waiting: _Waiting) -> None:
        """Turn a definition's waiting messages into rows of its table."""
        if waiting.rows:
            self._rows(waiting.target, waiting.rows)
            waiting.rows, waiting.bytes = [], 0

    def _rows(self, target: Target, rows: Sequence[Row]) -> None:
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
        self._letters.add(letter)
        if self._letters.bytes >= _SLICE:
            self._sideline()

    def _sideline(self) -> None:
        if self._letters:
            self._landing.add(DEAD_LETTERS, self._letters.take())


def _protocol(source: Source) -> str:
    """The protocol that messages of the source come by, empty for files."""
    return source.protocol if isinstance(source, RecordSource) else ""


def _letter(rejected: Rejected, original: bytes, place: Place, element: int | None) -> DeadLetter:
    """The dead letter of a message, or of one event in a batch, whose own bytes are enough."""
    return DeadLetter(
        reason=rejected.reason,
        violations=rejected.violations,
        candidates=rejected.candidates,
        original=original if element is None else rejected.message.body or b"",
        place=place,
        message=rejected.message,
        element=element,
    )


def _misfit(target: Target, row: Row, error: Exception) -> DeadLetter:
    text = f"a conforming value does not fit its column: {error}"
    return DeadLetter(
        reason=Reason.MAPPING_ERROR,
        violations=(Finding(path="", rule="column", message=text[:_LONGEST]),),
        candidates=(target.xid,),
        original=row.original,
        place=row.place,
        message=row.message,
    )

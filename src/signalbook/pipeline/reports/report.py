"""What became of a batch: counts that must add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import msgspec

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.violations import Violations
from signalbook.values import JSONObject, format_timestamp

_T = TypeVar("_T")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From the oldest to the newest event time, in microseconds since 1970 UTC."""

    oldest: int
    newest: int

    def to_json(self) -> JSONObject:
        """Both as RFC3339; one that no calendar has is left out."""
        times = {"oldest": _instant(self.oldest), "newest": _instant(self.newest)}
        return {name: format_timestamp(time) for name, time in times.items() if time is not None}


@dataclass(slots=True, kw_only=True)
class Tally:
    """Messages counted while they are processed; ``landed``, ``rejected`` and more by the xid of their definition.

    ``blamed`` are the reasons of ``rejected``, ``times`` the event times of what landed, ``bytes`` those of the input.
    """

    read: int = 0
    dropped: int = 0
    dead_lettered: int = 0
    bytes: int = 0
    landed: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    blamed: dict[str, Counter[str]] = field(default_factory=dict)
    times: dict[str, Span] = field(default_factory=dict)
    violations: Violations = field(default_factory=Violations)

    def land(self, xid: str, messages: int, time: Span | None = None) -> None:
        """Count messages that land in the table of a definition."""
        self.landed[xid] += messages
        if time is not None:
            self._seen(xid, time)

    def reject(self, reason: str, candidates: Sequence[str] = ()) -> None:
        """Count one dead letter, and charge it to the definition it was meant for where that is beyond doubt."""
        self.dead_lettered += 1
        self.reasons[reason] += 1
        xid = charged(candidates)
        if xid:
            self.rejected[xid] += 1
            self.blamed.setdefault(xid, Counter())[reason] += 1

    def add(self, other: Tally) -> None:
        """Add the counts of ``other``."""
        self.read += other.read
        self.dropped += other.dropped
        self.dead_lettered += other.dead_lettered
        self.bytes += other.bytes
        self.landed.update(other.landed)
        self.rejected.update(other.rejected)
        self.reasons.update(other.reasons)
        for xid, reasons in other.blamed.items():
            self.blamed.setdefault(xid, Counter()).update(reasons)
        for xid, time in other.times.items():
            self._seen(xid, time)
        self.violations.add(other.violations)

    def check(self, *, landed_rows: int, dead_letter_rows: int) -> None:
        """Hold the counts to the rows that lie in files. Raises ``PipelineError`` unless they agree."""
        landed = landed_rows + dead_letter_rows + self.dropped
        if self.read != landed or landed_rows != self.landed.total() or dead_letter_rows != self.dead_lettered:
            raise PipelineError(
                f"the totals do not add up: {self.read} messages read, but {landed_rows} rows landed, "
                f"{dead_letter_rows} dead-lettered and {self.dropped} dropped; nothing was committed. This is a defect "
                "of Signalbook: please report it with the input"
            )

    @property
    def time(self) -> Span | None:
        """The event times of all that landed."""
        spans = self.times.values()
        if not spans:
            return None
        return Span(oldest=min(span.oldest for span in spans), newest=max(span.newest for span in spans))

    def _seen(self, xid: str, time: Span) -> None:
        known = self.times.get(xid, time)
        self.times[xid] = Span(oldest=min(known.oldest, time.oldest), newest=max(known.newest, time.newest))


def charged(candidates: Sequence[str]) -> str:
    """The definition that a rejected message was meant for, empty where that is in doubt."""
    return candidates[0] if len(candidates) == 1 else ""


def decode(text: bytes, type: type[_T]) -> _T:
    """A dataclass with a ``Tally`` in it, out of the JSON that ``msgspec.json.encode`` makes of it."""
    return msgspec.json.decode(text, type=type, dec_hook=lambda _, value: Counter(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcome of one batch. ``seconds`` run from reading the input to the last commit, without Spark's start.

    ``written`` are bytes in tables and dead letters, ``finished`` is when all was committed.
    """

    batch: str
    fingerprint: str
    tally: Tally
    seconds: float
    written: int = 0
    finished: datetime | None = None
    note: str = ""

    @property
    def landed(self) -> int:
        """Messages in tables."""
        return self.tally.landed.total()

    @property
    def events_per_second(self) -> float:
        """Messages read per second."""
        return self._per_second(self.tally.read)

    @property
    def lag_seconds(self) -> float | None:
        """How old the newest event that landed was when the batch was committed; clocks may differ, so never below 0.

        None where no event said when it happened.
        """
        time = self.tally.time
        newest = None if time is None else _instant(time.newest)
        if newest is None or self.finished is None:
            return None
        return max((self.finished - newest).total_seconds(), 0.0)

    def to_json(self) -> JSONObject:
        """The object that ``pipeline run --json`` prints, as docs/reports.md has it."""
        tally = self.tally
        return {
            "batch": self.batch,
            "fingerprint": self.fingerprint,
            **({"finished": format_timestamp(self.finished)} if self.finished else {}),
            "read": tally.read,
            "landed": self.landed,
            "dead_lettered": tally.dead_lettered,
            "dropped": tally.dropped,
            "seconds": round(self.seconds, 3),
            "events_per_second": round(self.events_per_second, 1),
            "bytes": {"read": tally.bytes, "written": self.written},
            "lag": self._lag(),
            "by_message": {xid: self._message(xid) for xid in sorted(tally.landed.keys() | tally.rejected.keys())},
            "reasons": dict(sorted(tally.reasons.items())),
            "violations": [violation.to_json() for violation in tally.violations.top()],
            **({"note": self.note} if self.note else {}),
        }

    def _lag(self) -> JSONObject:
        time, seconds = self.tally.time, self.lag_seconds
        return {
            **(time.to_json() if time else {}),
            **({} if seconds is None else {"seconds": round(seconds, 3)}),
        }

    def _message(self, xid: str) -> JSONObject:
        tally = self.tally
        landed, rejected, time = tally.landed[xid], tally.rejected[xid], tally.times.get(xid)
        told: dict[str, Any] = {
            "landed": landed,
            "rejected": rejected,
            "rejected_share": round(rejected / max(landed + rejected, 1), 6),
            "events_per_second": round(self._per_second(landed + rejected), 1),
        }
        if xid in tally.blamed:
            told["reasons"] = dict(sorted(tally.blamed[xid].items()))
        return told | (time.to_json() if time else {})

    def _per_second(self, messages: int) -> float:
        return messages / self.seconds if self.seconds else 0.0


def _instant(microseconds: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None

"""What became of a batch: counts that must add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from signalbook.pipeline.failures import PipelineError
from signalbook.values import JSONObject

_T = TypeVar("_T")


@dataclass(slots=True, kw_only=True)
class Tally:
    """Messages counted while they are processed; ``landed`` and ``rejected`` by the xid of their definition."""

    read: int = 0
    dropped: int = 0
    dead_lettered: int = 0
    landed: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def reject(self, reason: str, candidates: Sequence[str] = ()) -> None:
        """Count one dead letter, and charge it to the definition it was meant for where that is beyond doubt."""
        self.dead_lettered += 1
        self.reasons[reason] += 1
        if len(candidates) == 1:
            self.rejected[candidates[0]] += 1

    def add(self, other: Tally) -> None:
        """Add the counts of ``other``."""
        self.read += other.read
        self.dropped += other.dropped
        self.dead_lettered += other.dead_lettered
        self.landed.update(other.landed)
        self.rejected.update(other.rejected)
        self.reasons.update(other.reasons)

    def check(self, *, landed_rows: int, dead_letter_rows: int) -> None:
        """Hold the counts to the rows that lie in files. Raises ``PipelineError`` unless they agree."""
        landed = landed_rows + dead_letter_rows + self.dropped
        if self.read != landed or landed_rows != self.landed.total() or dead_letter_rows != self.dead_lettered:
            raise PipelineError(
                f"the totals do not add up: {self.read} messages read, but {landed_rows} rows landed, "
                f"{dead_letter_rows} dead-lettered and {self.dropped} dropped; nothing was committed. This is a defect "
                "of Signalbook: please report it with the input"
            )


def decode(text: bytes, type: type[_T]) -> _T:
    """A dataclass with a ``Tally`` in it, out of the JSON that ``msgspec.json.encode`` makes of it."""
    return msgspec.json.decode(text, type=type, dec_hook=lambda _, value: Counter(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcome of one batch. ``seconds`` run from reading the input to the last commit, without Spark's start."""

    batch: str
    fingerprint: str
    tally: Tally
    seconds: float
    note: str = ""

    @property
    def landed(self) -> int:
        """Messages in tables."""
        return self.tally.landed.total()

    @property
    def events_per_second(self) -> float:
        """Messages read per second."""
        return self.tally.read / self.seconds if self.seconds else 0.0

    def to_json(self) -> JSONObject:
        """The object that ``pipeline run --json`` prints."""
        tally = self.tally
        xids = sorted(tally.landed.keys() | tally.rejected.keys())
        return {
            "batch": self.batch,
            "fingerprint": self.fingerprint,
            "read": tally.read,
            "landed": self.landed,
            "dead_lettered": tally.dead_lettered,
            "dropped": tally.dropped,
            "seconds": round(self.seconds, 3),
            "events_per_second": round(self.events_per_second, 1),
            "by_message": {xid: {"landed": tally.landed[xid], "rejected": tally.rejected[xid]} for xid in xids},
            "reasons": dict(sorted(tally.reasons.items())),
            **({"note": self.note} if self.note else {}),
        }

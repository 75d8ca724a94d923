"""What became of a batch: counts that must add up."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import msgspec

from signalbook.excerpts import excerpt
from signalbook.pipeline.errors import PipelineError
from signalbook.values import Finding, JSONObject, format_timestamp

TOP: Final = 10
"""Kinds of violations reported for one definition."""
MOST: Final = 500
"""Kinds of violations reported for one batch."""
MOST_PATHS: Final = 100
"""Paths that are counted of what the columns of one definition do not hold."""
OTHERS: Final = ""
"""The path that stands for all others."""
HELD: Final = 4 * MOST
"""Kinds of violations in memory."""
_LONGEST: Final = 200
_PLACES: Final = {"no_match": "type", "not_cloudevent": "specversion"}
"""Where to look in a message that breaks a rule as a whole; in others at the payload."""
_INDEX: Final = re.compile(r"(?<=/)\d+(?=/|$)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedExample:
    """A rejected message: its source, the violation, and the bytes around the mistake."""

    source: str
    position: int
    message: str
    excerpt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedViolation:
    """Something wrong with ``messages`` messages meant for ``definition`` (an xid; empty if that is in doubt).

    ``path`` is that of the findings, with ``*`` for the indices of arrays.
    """

    definition: str
    path: str
    rule: str
    messages: int
    example: RejectedExample

    def to_json(self) -> JSONObject:
        """Return the JSON of reports."""
        return asdict(self)


@dataclass(slots=True, kw_only=True)
class Violations:
    """Counts of violations. ``others`` are those of kinds that are not held any more."""

    found: dict[str, CountedViolation] = field(default_factory=dict)
    others: int = 0

    @property
    def total(self) -> int:
        """Messages times the kinds of violations each had."""
        return sum(violation.messages for violation in self.found.values()) + self.others

    def see(
        self,
        definition: str,
        findings: Sequence[Finding],
        *,
        source: str,
        position: int,
        original: bytes,
        messages: int = 1,
    ) -> None:
        """Count a rejected message once for each path and rule that it breaks; the first to break one is its example.

        So many ``messages`` break the same; ``source``, ``position`` and ``original`` are those of the first.

        Nothing is taken from the message but the ``message`` of a finding, 120 bytes of ``original`` around its place
        and the paths, all cut to size.
        """
        # Reversed, so that of several findings of a kind the first one stays as its example.
        kinds = {violation_kind(finding.path, finding.rule): finding for finding in reversed(findings)}
        for (path, rule), finding in kinds.items():
            key = _key(definition, path, rule)
            if key in self.found:
                self._count(key, messages)
                continue
            example = RejectedExample(
                source=_text(source),
                position=position,
                message=_text(finding.message),
                excerpt=_text(excerpt(original, finding.path or _PLACES.get(rule, "data"))),
            )
            self._hold(
                key,
                CountedViolation(definition=definition, path=path, rule=rule, messages=messages, example=example),
            )

    def add(self, other: Violations) -> None:
        """Add the counts of ``other``; an example that was there first stays."""
        for key, violation in other.found.items():
            if key in self.found:
                self._count(key, violation.messages)
            else:
                self._hold(key, violation)
        self.others += other.others

    def top(self) -> list[CountedViolation]:
        """Return the most frequent violations first: ``TOP`` for each definition, ``MOST`` altogether."""
        per_definition: Counter[str] = Counter()
        kept = []
        for _, violation in sorted(self.found.items(), key=lambda item: (-item[1].messages, item[0])):
            per_definition[violation.definition] += 1
            if per_definition[violation.definition] <= TOP:
                kept.append(violation)
        return kept[:MOST]

    def trim(self) -> None:
        """Hold no more than ``top``."""
        total, kept = self.total, self.top()
        self.found = {_key(each.definition, each.path, each.rule): each for each in kept}
        self.others = total - sum(each.messages for each in kept)

    def _count(self, key: str, messages: int) -> None:
        known = self.found[key]
        self.found[key] = replace(known, messages=known.messages + messages)

    def _hold(self, key: str, violation: CountedViolation) -> None:
        self.found[key] = violation
        # Well beyond what is reported, so that a kind which is rare in this task may still be common in all of them.
        if len(self.found) > HELD:
            self.trim()


def violation_kind(path: str, rule: str) -> tuple[str, str]:
    """Path and rule of a violation as they are counted: with ``*`` for the indices of arrays, and cut to size."""
    return _text(_INDEX.sub("*", path)), _text(rule)


def _key(definition: str, path: str, rule: str) -> str:
    return "\n".join((definition, path, rule))


def _text(text: str) -> str:
    """Cut to size, and fit for any terminal and any JSON: without control characters and lone surrogates."""
    cut = text[:_LONGEST]
    if cut.isprintable():
        return cut
    return "".join(character if character.isprintable() else "\ufffd" for character in cut)


_T = TypeVar("_T")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The oldest and the newest event time, in microseconds since 1970 UTC."""

    oldest: int
    newest: int

    def to_json(self) -> JSONObject:
        """Return both as RFC3339, without times that no calendar has."""
        times = {"oldest": _instant(self.oldest), "newest": _instant(self.newest)}
        return {name: format_timestamp(time) for name, time in times.items() if time is not None}


@dataclass(slots=True, kw_only=True)
class Tally:
    """Messages counted while they are processed; ``landed``, ``rejected`` and more by the xid of their definition.

    ``blamed`` are the reasons of ``rejected``, ``times`` the event times of what landed, ``bytes`` those of the input.
    ``rescued`` is what columns do not hold, by path: in how many messages that landed each is. ``duplicates`` are
    messages that landed although an object in their payload has a name twice.
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
    rescued: dict[str, Counter[str]] = field(default_factory=dict)
    duplicates: Counter[str] = field(default_factory=Counter)

    def land(self, xid: str, messages: int, time: Span | None = None) -> None:
        """Count messages that land in the table of a definition."""
        self.landed[xid] += messages
        if time is not None:
            self._seen(xid, time)

    def reject(self, reason: str, candidates: Sequence[str] = (), messages: int = 1) -> None:
        """Count dead letters, and charge them to the definition they were meant for where that is beyond doubt."""
        self.dead_lettered += messages
        self.reasons[reason] += messages
        xid = charged(candidates)
        if xid:
            self.rejected[xid] += messages
            self.blamed.setdefault(xid, Counter())[reason] += messages

    def rescue(self, xid: str, paths: Mapping[str, int]) -> None:
        """Count what columns do not hold; beyond ``MOST_PATHS`` of a definition as ``OTHERS``."""
        if not paths:
            return
        known = self.rescued.setdefault(xid, Counter())
        for path, messages in sorted(paths.items()):
            known[path if path in known or len(known) < MOST_PATHS else OTHERS] += messages

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
        self.duplicates.update(other.duplicates)
        for xid, paths in other.rescued.items():
            self.rescue(xid, paths)

    def check(self, *, landed_rows: int, dead_letter_rows: int) -> None:
        """Compare the counts with the rows that lie in files. Raises ``PipelineError`` unless they agree."""
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
    return msgspec.json.decode(text, type=type, dec_hook=read_counters)


def read_counters(_: type, value: dict[str, int]) -> Counter[str]:
    """Return the value of a ``Tally`` that JSON has as an object."""
    return Counter(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcome of one batch. ``seconds`` run from reading the input to the last commit, without Spark's start.

    ``written`` are bytes in tables and dead letters, ``finished`` is when all was committed. ``left_out`` are the
    definitions that could not be used, by xid, with the reasons; ``doubts`` are about the others.
    """

    batch: str
    fingerprint: str
    tally: Tally
    seconds: float
    written: int = 0
    finished: datetime | None = None
    note: str = ""
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()

    @property
    def landed(self) -> int:
        """Messages in tables."""
        return self.tally.landed.total()

    @property
    def dead_letter_share(self) -> float:
        """The share of the messages read that became dead letters, 0 to 1; 0 where none were read."""
        return self.tally.dead_lettered / self.tally.read if self.tally.read else 0.0

    @property
    def events_per_second(self) -> float:
        """Messages read per second."""
        return self._per_second(self.tally.read)

    @property
    def lag_seconds(self) -> float | None:
        """The age of the newest landed event when the batch was committed; at least 0, because clocks differ.

        None if no event had a time.
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
            **({"rescued": self._rescued()} if tally.rescued else {}),
            **self.left_out_to_json(),
            **({"note": self.note} if self.note else {}),
            **({"doubts": list(self.doubts)} if self.doubts else {}),
        }

    def _rescued(self) -> list[JSONObject]:
        found = ((xid, path, count) for xid, paths in self.tally.rescued.items() for path, count in paths.items())
        ordered = sorted(found, key=lambda each: (-each[2], each[0], each[1]))
        return [{"definition": xid, "path": path, "messages": count} for xid, path, count in ordered[:MOST]]

    def left_out_to_json(self) -> JSONObject:
        """The member that names the definitions left out, if there are any."""
        found = {xid: [_text(reason) for reason in why[:TOP]] for xid, why in sorted(self.left_out.items())}
        return {"left_out": found} if found else {}

    def _lag(self) -> JSONObject:
        time, seconds = self.tally.time, self.lag_seconds
        return {
            **(time.to_json() if time else {}),
            **({} if seconds is None else {"seconds": round(seconds, 3)}),
        }

    def _message(self, xid: str) -> JSONObject:
        tally = self.tally
        landed, rejected, time = tally.landed[xid], tally.rejected[xid], tally.times.get(xid)
        found: dict[str, Any] = {
            "landed": landed,
            "rejected": rejected,
            "rejected_share": round(rejected / max(landed + rejected, 1), 6),
            "events_per_second": round(self._per_second(landed + rejected), 1),
        }
        if tally.duplicates[xid]:
            found["duplicate_names"] = tally.duplicates[xid]
        if xid in tally.blamed:
            found["reasons"] = dict(sorted(tally.blamed[xid].items()))
        return found | (time.to_json() if time else {})

    def _per_second(self, messages: int) -> float:
        return messages / self.seconds if self.seconds else 0.0


def _instant(microseconds: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None

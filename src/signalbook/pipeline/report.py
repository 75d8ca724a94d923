"""The report of a batch: what became of its messages, in counts that must add up."""

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
"""The maximum number of kinds of violations reported for one definition."""
MOST: Final = 500
"""The maximum number of kinds of violations reported for one batch."""
MOST_PATHS: Final = 100
"""The maximum number of paths at which rescued values are counted, for one definition."""
OTHERS: Final = ""
"""The path under which rescued values are counted once there are ``MOST_PATHS`` paths."""
HELD: Final = 4 * MOST
"""The maximum number of kinds of violations in memory."""
_MAX_TEXT_CHARS: Final = 200
_PLACES: Final = {"no_match": "type", "not_cloudevent": "specversion"}
"""The member to show in the excerpt, by rule, for violations of the whole message.

For other rules it is the payload.
"""
_INDEX: Final = re.compile(r"(?<=/)\d+(?=/|$)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedExample:
    """A rejected message as an example of a violation: its source and position there, the violation, and an excerpt."""

    source: str
    position: int
    message: str
    excerpt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedViolation:
    """A kind of violation, and the number of ``messages`` with it.

    ``definition`` is the xid of the definition that the messages were meant for, empty if that is uncertain. ``path``
    is the path of the findings, with ``*`` for the indices of arrays.
    """

    definition: str
    path: str
    rule: str
    messages: int
    example: RejectedExample

    def to_json(self) -> JSONObject:
        return asdict(self)


@dataclass(slots=True, kw_only=True)
class Violations:
    """Counts of violations by kind. ``others`` is the count of all kinds that were dropped to limit memory."""

    found: dict[str, CountedViolation] = field(default_factory=dict)
    others: int = 0

    @property
    def total(self) -> int:
        """The sum of all counts. A message counts once for each kind of violation that it has."""
        return sum(violation.messages for violation in self.found.values()) + self.others

    def record(
        self,
        definition: str,
        findings: Sequence[Finding],
        *,
        source: str,
        position: int,
        original: bytes,
        messages: int = 1,
    ) -> None:
        """Count a rejected message once for each kind of violation (path and rule) in ``findings``.

        ``messages`` is the number of messages with the same findings. The first message of each kind becomes its
        example: ``source``, ``position`` and ``original`` (its bytes) describe that message.

        Only limited parts of a message are kept: the texts and paths of the findings, and 120 bytes of ``original``
        around each violation.
        """
        # Reversed, so that of several findings of a kind the first one stays as its example.
        kinds = {build_violation_kind(finding.path, finding.rule): finding for finding in reversed(findings)}
        for (path, rule), finding in kinds.items():
            key = _build_key(definition, path, rule)
            if key in self.found:
                self._count(key, messages)
                continue
            example = RejectedExample(
                source=_clean_text(source),
                position=position,
                message=_clean_text(finding.message),
                excerpt=_clean_text(excerpt(original, finding.path or _PLACES.get(rule, "data"))),
            )
            self._store(
                key,
                CountedViolation(definition=definition, path=path, rule=rule, messages=messages, example=example),
            )

    def add(self, other: Violations) -> None:
        """Add the counts of ``other``. For kinds in both, the own example is kept."""
        for key, violation in other.found.items():
            if key in self.found:
                self._count(key, violation.messages)
            else:
                self._store(key, violation)
        self.others += other.others

    def list_top(self) -> list[CountedViolation]:
        """Return the most frequent violations first: at most ``TOP`` per definition and ``MOST`` in total."""
        per_definition: Counter[str] = Counter()
        top_violations = []
        for _, violation in sorted(self.found.items(), key=lambda item: (-item[1].messages, item[0])):
            per_definition[violation.definition] += 1
            if per_definition[violation.definition] <= TOP:
                top_violations.append(violation)
        return top_violations[:MOST]

    def trim(self) -> None:
        """Drop all kinds of violations that ``list_top`` does not return, and add their counts to ``others``."""
        total, top_violations = self.total, self.list_top()
        self.found = {
            _build_key(violation.definition, violation.path, violation.rule): violation for violation in top_violations
        }
        self.others = total - sum(violation.messages for violation in top_violations)

    def _count(self, key: str, messages: int) -> None:
        violation = self.found[key]
        self.found[key] = replace(violation, messages=violation.messages + messages)

    def _store(self, key: str, violation: CountedViolation) -> None:
        self.found[key] = violation
        # The limit is far above what is reported, because a kind that is rare in this task may be common in others.
        if len(self.found) > HELD:
            self.trim()


def build_violation_kind(path: str, rule: str) -> tuple[str, str]:
    """Return the kind of a violation: its path with ``*`` for the indices of arrays, and its rule, both cut to size."""
    return _clean_text(_INDEX.sub("*", path)), _clean_text(rule)


def _build_key(definition: str, path: str, rule: str) -> str:
    return "\n".join((definition, path, rule))


def _clean_text(text: str) -> str:
    """Return text cut to size that is safe for terminals and JSON: without control characters and lone surrogates."""
    cut = text[:_MAX_TEXT_CHARS]
    if cut.isprintable():
        return cut
    return "".join(character if character.isprintable() else "\ufffd" for character in cut)


_T = TypeVar("_T")
_UNIX_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The oldest and the newest event time, in microseconds since 1970 UTC."""

    oldest: int
    newest: int

    def to_json(self) -> JSONObject:
        """Return both times as RFC 3339 text. Times outside the years 1 to 9999 are left out."""
        times = {"oldest": _convert_instant(self.oldest), "newest": _convert_instant(self.newest)}
        return {name: format_timestamp(time) for name, time in times.items() if time is not None}


@dataclass(slots=True, kw_only=True)
class Tally:
    """The counts of messages while they are processed. Most members count by the xid of the definition.

    ``read``, ``dropped`` and ``dead_lettered`` are totals, and ``reasons`` counts dead letters by reason. ``landed``
    counts rows in tables, ``rejected`` the dead letters that were certainly meant for a definition, and ``blamed``
    these by reason. ``times`` are the event times of landed messages, ``bytes`` is the size of the input. ``rescued``
    counts landed messages by the paths of values that no column holds. ``duplicates`` counts messages that landed
    although an object in their payload has a name twice.
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
        """Count ``messages`` that land in the table of the definition ``xid``, with the span of their event times."""
        self.landed[xid] += messages
        if time is not None:
            self._extend_times(xid, time)

    def reject(self, reason: str, candidates: Sequence[str] = (), messages: int = 1) -> None:
        """Count ``messages`` dead letters with this ``reason``.

        They are charged to a definition only if it is their only candidate (``candidates`` are xids).
        """
        self.dead_lettered += messages
        self.reasons[reason] += messages
        xid = find_charged(candidates)
        if xid:
            self.rejected[xid] += messages
            self.blamed.setdefault(xid, Counter())[reason] += messages

    def rescue(self, xid: str, paths: Mapping[str, int]) -> None:
        """Add counts of messages with rescued values, by path, for the definition ``xid``.

        Once the definition has ``MOST_PATHS`` paths, further paths are counted as ``OTHERS``.
        """
        if not paths:
            return
        counts = self.rescued.setdefault(xid, Counter())
        for path, messages in sorted(paths.items()):
            counts[path if path in counts or len(counts) < MOST_PATHS else OTHERS] += messages

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
            self._extend_times(xid, time)
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
        """The span of the event times of all landed messages; None if no message had a time."""
        spans = self.times.values()
        if not spans:
            return None
        return Span(oldest=min(span.oldest for span in spans), newest=max(span.newest for span in spans))

    def _extend_times(self, xid: str, time: Span) -> None:
        span = self.times.get(xid, time)
        self.times[xid] = Span(oldest=min(span.oldest, time.oldest), newest=max(span.newest, time.newest))


def find_charged(candidates: Sequence[str]) -> str:
    """Return the definition that a rejected message was meant for; empty if there is not exactly one candidate."""
    return candidates[0] if len(candidates) == 1 else ""


def decode(text: bytes, type: type[_T]) -> _T:
    """Return the instance of ``type``, a dataclass that contains a ``Tally``, from JSON of ``msgspec.json.encode``."""
    return msgspec.json.decode(text, type=type, dec_hook=read_counters)


def read_counters(_: type, value: dict[str, int]) -> Counter[str]:
    """Convert ``value``, decoded from JSON, to the ``Counter`` of a ``Tally``. A ``dec_hook`` of msgspec."""
    return Counter(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcome of one batch. ``seconds`` is the time from the first read to the last commit, without Spark's start.

    ``written`` is the size in bytes of the new files, and ``finished`` the time of the last commit. ``left_out`` are
    the definitions that could not be used, by xid, with the reasons. ``doubts`` are warnings about the other
    definitions.
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
        """The number of messages that landed in tables."""
        return self.tally.landed.total()

    @property
    def dead_letter_share(self) -> float:
        """The share of the messages read that became dead letters, 0 to 1; 0 if no message was read."""
        return self.tally.dead_lettered / self.tally.read if self.tally.read else 0.0

    @property
    def events_per_second(self) -> float:
        """The number of messages read per second; 0 if no time was measured."""
        return self._compute_rate(self.tally.read)

    @property
    def lag_seconds(self) -> float | None:
        """The age in seconds of the newest landed event at the commit of the batch; at least 0, because clocks differ.

        None if no event had a time, or the batch is not committed.
        """
        time = self.tally.time
        newest = None if time is None else _convert_instant(time.newest)
        if newest is None or self.finished is None:
            return None
        return max((self.finished - newest).total_seconds(), 0.0)

    def to_json(self) -> JSONObject:
        """Return the object that ``pipeline run --json`` prints. docs/reports.md describes it."""
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
            "lag": self._encode_lag(),
            "by_message": {
                xid: self._encode_message(xid) for xid in sorted(tally.landed.keys() | tally.rejected.keys())
            },
            "reasons": dict(sorted(tally.reasons.items())),
            "violations": [violation.to_json() for violation in tally.violations.list_top()],
            **({"rescued": self._list_rescued()} if tally.rescued else {}),
            **self.encode_left_out(),
            **({"note": self.note} if self.note else {}),
            **({"doubts": list(self.doubts)} if self.doubts else {}),
        }

    def _list_rescued(self) -> list[JSONObject]:
        rescued = ((xid, path, count) for xid, paths in self.tally.rescued.items() for path, count in paths.items())
        ordered = sorted(rescued, key=lambda row: (-row[2], row[0], row[1]))
        return [{"definition": xid, "path": path, "messages": count} for xid, path, count in ordered[:MOST]]

    def encode_left_out(self) -> JSONObject:
        """Return an object with the member ``left_out``, or an empty object if no definition was left out."""
        reasons_by_xid = {
            xid: [_clean_text(reason) for reason in why[:TOP]] for xid, why in sorted(self.left_out.items())
        }
        return {"left_out": reasons_by_xid} if reasons_by_xid else {}

    def _encode_lag(self) -> JSONObject:
        time, seconds = self.tally.time, self.lag_seconds
        return {
            **(time.to_json() if time else {}),
            **({} if seconds is None else {"seconds": round(seconds, 3)}),
        }

    def _encode_message(self, xid: str) -> JSONObject:
        tally = self.tally
        landed, rejected, time = tally.landed[xid], tally.rejected[xid], tally.times.get(xid)
        counts: dict[str, Any] = {
            "landed": landed,
            "rejected": rejected,
            "rejected_share": round(rejected / max(landed + rejected, 1), 6),
            "events_per_second": round(self._compute_rate(landed + rejected), 1),
        }
        if tally.duplicates[xid]:
            counts["duplicate_names"] = tally.duplicates[xid]
        if xid in tally.blamed:
            counts["reasons"] = dict(sorted(tally.blamed[xid].items()))
        return counts | (time.to_json() if time else {})

    def _compute_rate(self, messages: int) -> float:
        return messages / self.seconds if self.seconds else 0.0


def _convert_instant(microseconds: int) -> datetime | None:
    try:
        return _UNIX_EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None

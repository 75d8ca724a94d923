"""Report what a round of copying did: counts by outcome and kind, and entities that were not copied with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from signalbook.values import JSONObject, format_count
from signalbook.xid import Kind, Xid

_MAX_LISTED: Final = 1000
"""The maximum number of entities in each list. Further entities are only counted."""


class CopyOutcome(StrEnum):
    """The outcome for an entity at the target."""

    CREATED = "created"
    UPDATED = "updated"
    DELETED = "deleted"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class SubjectVersion:
    """A version of a subject in a registry with Confluent's API.

    A version of None means the settings of the subject.
    """

    subject: str
    version: int | None = None

    def __str__(self) -> str:
        named = self.subject or "the registry"
        return named if self.version is None else f"{named} version {self.version}"


class SubjectKind(StrEnum):
    """A kind of entity in a registry with Confluent's API. The value is the word for it in messages."""

    VERSION = "version"
    CONFIG = "config"
    MODE = "mode"
    ASSOCIATION = "association"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCopied:
    """An entity that was not copied: its name at the source, and the reason."""

    xid: Xid | SubjectVersion
    reason: str

    def to_json(self) -> JSONObject:
        """Return the JSON object that ``--json`` prints."""
        if isinstance(self.xid, Xid):
            return {"xid": str(self.xid), "reason": self.reason}
        version: JSONObject = {} if self.xid.version is None else {"version": self.xid.version}
        return {"subject": self.xid.subject, **version, "reason": self.reason}


@dataclass(slots=True)
class CopyReport:
    """The results of copying: ``counts`` by outcome and kind, and entities that were ``skipped`` or ``refused``.

    Skipped entities need no copy. Refused entities should have been copied. Both lists are limited; ``passed`` has the
    full counts. ``kinds`` are the kinds of entities, in the order of the summary.
    """

    kinds: type[Kind] | type[SubjectKind] = Kind
    counts: Counter[tuple[CopyOutcome, Kind | SubjectKind]] = field(default_factory=Counter)
    skipped: list[NotCopied] = field(default_factory=list)
    refused: list[NotCopied] = field(default_factory=list)
    passed: Counter[str] = field(default_factory=Counter)

    def begin(self) -> None:
        """Start a new round. Changes stay counted; unchanged, skipped and refused entities are counted again."""
        self.counts = Counter({key: count for key, count in self.counts.items() if key[0] is not CopyOutcome.UNCHANGED})
        self.skipped.clear()
        self.refused.clear()
        self.passed.clear()

    def count(self, outcome: CopyOutcome, kind: Kind | SubjectKind, number: int = 1) -> None:
        """Count an ``outcome`` for ``number`` entities of ``kind``."""
        self.counts[outcome, kind] += number

    def skip(self, xid: Xid | SubjectVersion, reason: str) -> None:
        """Report that the source's ``xid`` needs no copy, with the reason."""
        self._pass("skipped", self.skipped, NotCopied(xid=xid, reason=reason))

    def refuse(self, xid: Xid | SubjectVersion, reason: str) -> None:
        """Report that the source's ``xid`` could not be copied, or not as it is, with the reason."""
        self._pass("refused", self.refused, NotCopied(xid=xid, reason=reason))

    def _pass(self, name: str, into: list[NotCopied], entity: NotCopied) -> None:
        self.passed[name] += 1
        if len(into) < _MAX_LISTED:
            into.append(entity)

    @property
    def moved(self) -> int:
        """The number of entities that changed at the target."""
        return sum(number for (outcome, _), number in self.counts.items() if outcome is not CopyOutcome.UNCHANGED)

    def __str__(self) -> str:
        parts = [
            f"{outcome} {', '.join(kinds)}" for outcome in CopyOutcome if (kinds := list(self._format_kinds(outcome)))
        ]
        parts += [f"{name} {self.passed[name]}" for name in ("skipped", "refused") if self.passed[name]]
        return "; ".join(parts) or "nothing to copy"

    def _format_kinds(self, outcome: CopyOutcome) -> Iterator[str]:
        for kind in self.kinds:
            if number := self.counts[outcome, kind]:
                yield format_count(number, kind)

    def summary(self) -> JSONObject:
        """Return the number of entities by outcome."""
        return {
            **{
                outcome.value: {f"{kind}s": number for kind in self.kinds if (number := self.counts[outcome, kind])}
                for outcome in CopyOutcome
            },
            "skippedcount": self.passed["skipped"],
            "refusedcount": self.passed["refused"],
        }

    def to_json(self) -> JSONObject:
        """Return the JSON object that ``--json`` prints."""
        return {
            **self.summary(),
            "skipped": [entity.to_json() for entity in self.skipped],
            "refused": [entity.to_json() for entity in self.refused],
        }

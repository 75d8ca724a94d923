"""What messages were most often rejected for: counts by definition, path and rule, each with one example.

However many kinds of violations hostile messages have, few are held: those seen least make room for others, and what
they counted is kept in a sum, so that nothing is lost to the totals.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from signalbook.values import Finding, JSONObject

TOP: Final = 10
"""Kinds of violations reported for one definition."""
MOST: Final = 500
"""Kinds of violations reported for one batch."""
HELD: Final = 4 * MOST
"""Kinds of violations in memory."""
_LONGEST: Final = 200
_EXCERPT: Final = 120
_INDEX: Final = re.compile(r"(?<=/)\d+(?=/|$)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One message that was rejected: where it was read, what was said of it, and how its bytes begin."""

    source: str
    position: int
    message: str
    excerpt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Something wrong with ``messages`` messages meant for ``definition`` (an xid; empty if that is in doubt).

    ``path`` is that of the findings, with ``*`` for the indices of arrays.
    """

    definition: str
    path: str
    rule: str
    messages: int
    example: Example

    def to_json(self) -> JSONObject:
        """As reports have it."""
        return asdict(self)


@dataclass(slots=True, kw_only=True)
class Violations:
    """Counts of violations. ``others`` are those of kinds that are not held any more."""

    found: dict[str, Violation] = field(default_factory=dict)
    others: int = 0

    @property
    def total(self) -> int:
        """Messages times the kinds of violations each had."""
        return sum(violation.messages for violation in self.found.values()) + self.others

    def see(self, definition: str, findings: Sequence[Finding], *, source: str, position: int, original: bytes) -> None:
        """Count a rejected message once for each path and rule that it breaks; the first to break one is its example.

        Nothing is taken from the message but the ``message`` of a finding, 120 bytes of ``original`` and the paths, all
        cut to size.
        """
        kinds = {kind(finding.path, finding.rule): finding for finding in reversed(findings)}
        for (path, rule), finding in kinds.items():
            key = _key(definition, path, rule)
            if key in self.found:
                self._count(key, 1)
                continue
            example = Example(
                source=_text(source),
                position=position,
                message=_text(finding.message),
                excerpt=_text(original[:_EXCERPT].decode(errors="replace")),
            )
            self._hold(key, Violation(definition=definition, path=path, rule=rule, messages=1, example=example))

    def add(self, other: Violations) -> None:
        """Add the counts of ``other``; an example that was there first stays."""
        for key, violation in other.found.items():
            if key in self.found:
                self._count(key, violation.messages)
            else:
                self._hold(key, violation)
        self.others += other.others

    def top(self) -> list[Violation]:
        """Those counted most, first: ``TOP`` for each definition, ``MOST`` altogether."""
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

    def _hold(self, key: str, violation: Violation) -> None:
        self.found[key] = violation
        if len(self.found) > HELD:
            self.trim()


def kind(path: str, rule: str) -> tuple[str, str]:
    """Path and rule of a violation as they are counted: with ``*`` for the indices of arrays, and cut to size."""
    return _text(_INDEX.sub("*", path)), _text(rule)


def _key(definition: str, path: str, rule: str) -> str:
    return "\n".join((definition, path, rule))


def _text(text: str) -> str:
    """Cut to size, and fit for any terminal and any JSON: without control characters and lone surrogates."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text[:_LONGEST])

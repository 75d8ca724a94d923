"""The result of ``pipeline backtest``: messages whose verdict changes, as JSON and as a comment on a pull request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from signalbook.pipeline.report import HELD, MOST, build_violation_kind
from signalbook.values import Finding, JSONObject

_EXAMPLES: Final = 5
_SHOWN: Final = 20
_MAX_CELL_CHARS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedVerdict:
    """A message that one set of definitions accepts and the other rejects, with the violations (path, rule, text)."""

    definition: str
    producer: str
    id: str
    source: str
    position: int
    violations: tuple[tuple[str, str, str], ...]

    def to_json(self) -> JSONObject:
        """Return the JSON of ``pipeline backtest --json``."""
        violations = [{"path": path, "rule": rule, "message": text} for path, rule, text in self.violations]
        place = {"source": self.source, "position": self.position}
        return {
            "definition": self.definition,
            "producer": self.producer,
            "id": self.id,
            **place,
            "violations": violations,
        }


@dataclass(slots=True, kw_only=True)
class VerdictChanges:
    """Messages whose verdicts change in the same direction, counted by definition, producer, and rule with path.

    ``examples`` are a few of these messages.
    """

    messages: int = 0
    definitions: Counter[str] = field(default_factory=Counter)
    producers: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    examples: list[ChangedVerdict] = field(default_factory=list)

    def record(self, example: ChangedVerdict) -> None:
        """Count a changed verdict."""
        self.messages += 1
        self.definitions[example.definition] += 1
        self.producers[example.producer] += 1
        kinds = {build_violation_kind(path, rule) for path, rule, _ in example.violations}
        self.rules.update(f"{rule} at {path or '/'}" for path, rule in kinds)
        self._trim()
        if len(self.examples) < _EXAMPLES:
            self.examples.append(example)

    def add(self, other: VerdictChanges) -> None:
        """Add the counts and examples of ``other``."""
        self.messages += other.messages
        for mine, theirs in zip(self._counters, other._counters, strict=True):
            mine.update(theirs)
        self._trim()
        self.examples = (self.examples + other.examples)[:_EXAMPLES]

    def _trim(self) -> None:
        """Drop the rarest values of each counter, because messages may name any number of producers and paths."""
        for counter in self._counters:
            if len(counter) > HELD:
                most_common = counter.most_common(MOST)
                counter.clear()
                counter.update(dict(most_common))

    @property
    def _counters(self) -> tuple[Counter[str], ...]:
        return self.definitions, self.producers, self.rules

    def to_json(self) -> JSONObject:
        """Return the JSON of ``pipeline backtest --json``."""
        return {
            "messages": self.messages,
            "by_message": dict(self.definitions.most_common()),
            "by_producer": dict(self.producers.most_common()),
            "by_rule": dict(self.rules.most_common()),
            "examples": [example.to_json() for example in self.examples],
        }


@dataclass(slots=True, kw_only=True)
class Backtest:
    """The number of messages by how the verdicts of the current and the candidate definitions compare.

    ``accepted`` and ``refused`` messages have the same verdict from both. ``broken`` messages are rejected only by the
    candidate, ``mended`` messages only by the current definitions. ``doubtful`` messages landed once, but the current
    definitions reject what can be rebuilt of them, so that they cannot be compared.
    """

    accepted: int = 0
    refused: int = 0
    doubtful: int = 0
    broken: VerdictChanges = field(default_factory=VerdictChanges)
    mended: VerdictChanges = field(default_factory=VerdictChanges)

    @property
    def messages(self) -> int:
        """The number of checked messages."""
        return self.accepted + self.refused + self.doubtful + self.broken.messages + self.mended.messages

    def add(self, other: Backtest) -> None:
        """Add the counts of ``other``."""
        self.accepted += other.accepted
        self.refused += other.refused
        self.doubtful += other.doubtful
        self.broken.add(other.broken)
        self.mended.add(other.mended)

    def to_json(self) -> JSONObject:
        """Return the object that ``pipeline backtest --json`` prints."""
        return {
            "messages": self.messages,
            "accepted": self.accepted,
            "refused": self.refused,
            "doubtful": self.doubtful,
            "broken": self.broken.to_json(),
            "mended": self.mended.to_json(),
        }

    def to_markdown(self) -> str:
        """Return the text of a comment for a pull request, in Markdown."""
        heads = {"would be rejected": self.broken, "would land after all": self.mended}
        lines = [f"**{self.messages:,}** messages: " + ", ".join(f"**{c.messages:,}** {t}" for t, c in heads.items())]
        for title, changes in heads.items():
            if changes.messages:
                lines += ["", f"### {changes.messages:,} {title}", *_format_table("producer", changes.producers)]
                lines += _format_table("rule", changes.rules)
                lines.append("")
                for example in changes.examples:
                    violations_text = "; ".join(f"{path or '/'}: {text}" for path, _, text in example.violations[:3])
                    cells = [_format_cell(text) for text in (example.id, example.producer, violations_text)]
                    lines.append("- {} of {}: {}".format(*cells))
        if self.doubtful:
            lines += ["", f"Of {self.doubtful:,} landed messages too little is known to compare."]
        return "\n".join(lines) + "\n"


def _format_table(name: str, counts: Mapping[str, int]) -> list[str]:
    rows = sorted(counts.items(), key=lambda pair: -pair[1])[:_SHOWN]
    return [
        "",
        f"| {name} | messages |",
        "|---|---|",
        *(f"| {_format_cell(text)} | {count:,} |" for text, count in rows),
    ]


def _format_cell(text: str) -> str:
    """Return ``text``, which comes from messages, as code for a table cell. It can neither end the cell nor link."""
    plain = "".join(char if char.isprintable() else " " for char in text[:_MAX_CELL_CHARS])
    return "`" + plain.replace("`", "'").replace("|", "\\|") + "`" if plain else ""


def list_violations(findings: tuple[Finding, ...] | list[Finding]) -> tuple[tuple[str, str, str], ...]:
    """Return path, rule and text of the first ``findings``, the texts cut to size."""
    return tuple((finding.path, finding.rule, finding.message[:_MAX_CELL_CHARS]) for finding in findings[:_SHOWN])

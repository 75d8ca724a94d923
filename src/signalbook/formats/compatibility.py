"""Compatibility: the differences that keep readers of one schema from reading what was written with another.

core/spec.md "compatibility" names the six rules; what "can read" means is up to each format (G-30).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, runtime_checkable

from signalbook.formats.base import MAX_FINDINGS, Resolve, find, find_family, shorten
from signalbook.values import JSON, Finding
from signalbook.work import spend

Direction = Literal["backward", "forward"]

RULES: Final = ("backward", "backward_transitive", "forward", "forward_transitive", "full", "full_transitive")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaText:
    """A schema document with what is needed to understand it; ``format`` as in ``Format.parse``."""

    document: bytes
    format: str
    resolve: Resolve | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A reason why payloads written with one schema are not safe for readers of another.

    ``path`` tells where, in the terms of the format: a JSON Pointer into the reader's document (into the writer's where
    the reader has no such part), a dotted Avro or Protobuf name. ``rule`` is a stable machine name, such as
    ``required_added``; ``old`` is the writer's side, ``new`` the reader's, None where that side has nothing;
    ``message`` is for people: what is different and why it matters.
    """

    path: str
    rule: str
    old: JSON
    new: JSON
    message: str

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.message} [{self.rule}]"


class TooManySteps(Exception):
    """Types that stand for each other in ever new pairs: there is no end to it."""


class Comparison:
    """Collects differences of two schemas within ``most`` steps, since hostile schemas may ask for any number.

    ``met`` are the pairs of types that were compared or wait to be: types contain themselves and each other.
    """

    def __init__(self, most: int) -> None:
        self.found: list[Difference] = []
        self.met: set[tuple[str, str]] = set()
        self._most = most
        self._steps = 0

    def report(self, path: str, rule: str, old: Any, new: Any, message: str) -> None:
        """Add a difference."""
        self.found.append(Difference(path=path, rule=rule, old=old, new=new, message=shorten(message)))

    def step(self, steps: int = 1) -> None:
        """Count steps. Raises ``TooManySteps``, also once there are more differences than anybody reads."""
        self._steps += steps
        spend(steps)
        if self._steps > self._most or len(self.found) > MAX_FINDINGS:
            raise TooManySteps

    def differences(self, subject: str, compare: Callable[[], None]) -> list[Difference]:
        """Return the differences that ``compare`` reports, or ``undecided`` if comparing ``subject`` takes too long."""
        try:
            compare()
        except TooManySteps:
            text = f"not decided: comparing the {subject} takes more than {self._most} steps"
            self.report("", "undecided", None, None, text)
        return self.found[:MAX_FINDINGS]


@runtime_checkable
class FormatComparison(Protocol):
    """The additional methods of a ``Format`` that can compare schemas."""

    def differences(self, reader: SchemaText, writer: SchemaText) -> list[Difference]:
        """Return why ``reader`` cannot be trusted to read what ``writer`` allows; empty if every payload is safe.

        The answer is sound: no difference means compatible. An uncertain answer is a difference (``undecided``). Raises
        ``SchemaError`` for a document that cannot be used.
        """
        ...


@runtime_checkable
class Succeeding(Protocol):
    """The additional methods of a ``FormatComparison`` for which it matters which schema is newer."""

    def hazards(self, new: SchemaText, old: SchemaText) -> list[Difference]:
        """Return hazards of ``new`` for ``old`` that no pair of reader and writer shows, such as a freed number.

        Raises ``SchemaError`` for a document that cannot be used.
        """
        ...


def find_comparison(format: str) -> FormatComparison | None:
    """Return the comparison for ``format``, or None where there is none."""
    reader = find(format)
    return reader if isinstance(reader, FormatComparison) else None


def list_directions(rule: str) -> tuple[Direction, ...]:
    """Return the directions of a rule of ``RULES``, in any case: new readers of old data, or the reverse."""
    match rule.casefold().removesuffix("_transitive"):
        case "backward":
            return ("backward",)
        case "forward":
            return ("forward",)
        case _:
            return ("backward", "forward")


def is_transitive(rule: str) -> bool:
    """Return True if a rule concerns all ancestors instead of the nearest one (G-27)."""
    return rule.casefold().endswith("_transitive")


def list_differences(rule: str, new: SchemaText, old: SchemaText) -> list[tuple[Direction, Difference]]:
    """Return why ``new`` may not follow ``old`` under ``rule``, with the direction that each difference breaks.

    Schemas of different formats are never compatible; each format decides about its versions. Raises ``SchemaError``
    for a document that cannot be used, ``LookupError`` for a format without a comparison.
    """
    if find_family(new.format) != find_family(old.format):
        first = list_directions(rule)[0]
        writer, reader = (old, new) if first == "backward" else (new, old)
        text = f"schemas of {new.format} and of {old.format} do not read each other's data"
        return [(first, Difference(path="", rule="format", old=writer.format, new=reader.format, message=text))]
    compare = find_comparison(new.format)
    if compare is None or find_comparison(old.format) is None:
        raise LookupError(f"no comparison for schemas of format {new.format!r} and {old.format!r}")
    differences = [
        (direction, difference)
        for direction in list_directions(rule)
        for difference in (compare.differences(new, old) if direction == "backward" else compare.differences(old, new))
    ]
    reported = {(difference.path, difference.rule) for _, difference in differences}
    more = compare.hazards(new, old) if isinstance(compare, Succeeding) else []
    return differences + [
        (list_directions(rule)[0], hazard) for hazard in more if (hazard.path, hazard.rule) not in reported
    ]


def make_finding(direction: Direction, difference: Difference, *, document: str, against: str) -> Finding:
    """Return a difference in words about ``document``, the newer one; old and new are what the two documents have
    there.
    """
    backward = direction == "backward"
    heading = f"reading data of {against}" if backward else f"read by {against}"
    return Finding(
        path=f"{document}#{difference.path}",
        rule=difference.rule,
        message=f"{heading}: {difference.message}",
        old=difference.old if backward else difference.new,
        new=difference.new if backward else difference.old,
    )

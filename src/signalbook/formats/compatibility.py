"""Compatibility: find the differences that prevent readers of one schema from reading data of another.

core/spec.md "compatibility" names the six rules; each format defines what "can read" means (G-30).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, Protocol, TypeGuard, runtime_checkable

from signalbook.formats.base import MAX_FINDINGS, Resolve, find, find_family, shorten
from signalbook.values import JSON, Finding
from signalbook.work import spend

Direction = Literal["backward", "forward"]

RULES: Final = ("backward", "backward_transitive", "forward", "forward_transitive", "full", "full_transitive")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaText:
    """A schema document with its ``format`` and with ``resolve``, which reads the documents that it refers to."""

    document: bytes
    format: str
    resolve: Resolve | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A reason why payloads written with one schema are not safe for readers of another.

    ``path`` is the place in the terms of the format: a dotted Avro or Protobuf name, or a JSON Pointer into the
    reader's document (into the writer's if the reader has no such part). ``rule`` is a stable machine name, such as
    ``required_added``. ``old`` is the value in the writer's schema, ``new`` the value in the reader's; None means that
    the schema has no value there. ``message`` explains to people what differs and why it matters.
    """

    path: str
    rule: str
    old: JSON
    new: JSON
    message: str

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.message} [{self.rule}]"


class TooManySteps(Exception):
    """Raised when a comparison takes more steps than allowed, for example when recursive types form ever new pairs."""


class Comparison:
    """A collector of differences between two schemas; it stops after ``most`` steps, because schemas may be hostile.

    ``found`` lists the differences. ``met`` has the pairs of types that were compared or queued, because types may
    contain themselves.
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
        """Count ``steps``. Raises ``TooManySteps`` beyond the limit or after ``MAX_FINDINGS`` differences."""
        self._steps += steps
        spend(steps)
        if self._steps > self._most or len(self.found) > MAX_FINDINGS:
            raise TooManySteps

    def differences(self, subject: str, compare: Callable[[], None]) -> list[Difference]:
        """Run ``compare`` and return the differences that it reports, at most ``MAX_FINDINGS``.

        If it takes too many steps, the last difference is ``undecided``; ``subject`` is the noun in its message.
        """
        try:
            compare()
        except TooManySteps:
            text = f"not decided: comparing the {subject} takes more than {self._most} steps"
            self.report("", "undecided", None, None, text)
        return self.found[:MAX_FINDINGS]


@runtime_checkable
class FormatComparison(Protocol):
    """The additional method of a ``Format`` that can compare schemas."""

    def differences(self, reader: SchemaText, writer: SchemaText) -> list[Difference]:
        """Return why ``reader`` may fail to read payloads that ``writer`` allows; empty if it can read every payload.

        The result is sound: an empty list proves compatibility. What cannot be decided is a difference (``undecided``).
        Raises ``SchemaError`` for a document that cannot be used.
        """
        ...


@runtime_checkable
class Succeeding(Protocol):
    """The additional method of a ``FormatComparison`` whose result also depends on which schema is newer."""

    def hazards(self, new: SchemaText, old: SchemaText) -> list[Difference]:
        """Return risks of replacing ``old`` by ``new`` that ``differences`` cannot see, such as a field number made
        reusable.

        Raises ``SchemaError`` for a document that cannot be used.
        """
        ...


def find_comparison(format: str) -> FormatComparison | None:
    """Return the ``Format`` for ``format`` if it can compare schemas, otherwise None."""
    reader = find(format)
    return reader if _can_compare(reader) else None


def _can_compare(reader: object) -> TypeGuard[FormatComparison]:
    return _is_subclass(type(reader), FormatComparison)  # type: ignore[arg-type]  # mypy takes the hash of instances


def _has_hazards(reader: object) -> TypeGuard[Succeeding]:
    return _is_subclass(type(reader), Succeeding)  # type: ignore[arg-type]  # mypy takes the hash of instances


@cache
def _is_subclass(kind: type, protocol: type) -> bool:
    # Comparing a class with a protocol takes 50 us each time.
    return issubclass(kind, protocol)


def list_directions(rule: str) -> tuple[Direction, ...]:
    """Return the directions that ``rule`` (one of ``RULES``, case-insensitive) requires.

    Backward means that new readers read old data, forward that old readers read new data.
    """
    match rule.casefold().removesuffix("_transitive"):
        case "backward":
            return ("backward",)
        case "forward":
            return ("forward",)
        case _:
            return ("backward", "forward")


def is_transitive(rule: str) -> bool:
    """Return True if ``rule`` requires compatibility with all ancestors, not only with the nearest one (G-27)."""
    return rule.casefold().endswith("_transitive")


def list_differences(rule: str, new: SchemaText, old: SchemaText) -> list[tuple[Direction, Difference]]:
    """Return the differences that forbid ``new`` to follow ``old`` under ``rule``, each with the direction that it
    breaks.

    Schemas of different formats are never compatible. Raises ``SchemaError`` for a document that cannot be used,
    ``LookupError`` for a format without a comparison.
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
    more = compare.hazards(new, old) if _has_hazards(compare) else []
    return differences + [
        (list_directions(rule)[0], hazard) for hazard in more if (hazard.path, hazard.rule) not in reported
    ]


def convert_difference(direction: Direction, difference: Difference, *, document: str, against: str) -> Finding:
    """Return ``difference`` as a finding; ``document`` and ``against`` name the newer and the older document.

    ``old`` and ``new`` of the finding are the values in the older and the newer document.
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

"""Requirements and the cases that show them: which there are, what became of them, why some have none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from signalbook.conformance.cases import Case
from signalbook.conformance.running import Outcome, Result
from signalbook.documents import parse_document


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the specification and the numbers of its requirements, in order."""

    name: str
    requirements: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """One requirement: the results of its cases, or the reason that it has none."""

    requirement: str
    results: tuple[Result, ...]
    reason: str = ""

    @property
    def outcome(self) -> str:
        """``failed`` if one case did, else ``passed`` if one did, else ``skipped`` or ``no case``."""
        outcomes = {result.outcome for result in self.results}
        for outcome in (Outcome.FAILED, Outcome.PASSED, Outcome.SKIPPED):
            if outcome in outcomes:
                return str(outcome)
        return "no case"


def coverage(results: Iterable[Result]) -> list[tuple[Section, list[Covered]]]:
    """Every requirement, by section, with what became of its cases."""
    by_requirement: dict[str, list[Result]] = {}
    for result in results:
        for name in result.case.requirements:
            by_requirement.setdefault(name, []).append(result)
    reasons = unobserved()
    return [
        (
            section,
            [
                Covered(requirement=name, results=tuple(by_requirement.get(name, ())), reason=reasons.get(name, ""))
                for name in section.requirements
            ],
        )
        for section in sections()
    ]


def unexplained(cases: Iterable[Case]) -> list[str]:
    """Requirements that have neither a case nor a reason."""
    shown = {name for case in cases for name in case.requirements}
    return [name for section in sections() for name in section.requirements if name not in shown | unobserved().keys()]


@cache
def sections() -> tuple[Section, ...]:
    """The parts of the specification."""
    return tuple(
        Section(name=item["name"], requirements=tuple(_range(item["from"], item["to"])))
        for item in _table()["sections"]
    )


@cache
def unobserved() -> Mapping[str, str]:
    """Requirements without a case and why."""
    return _reasons("unobserved", "requirements")


@cache
def unreached() -> Mapping[str, str]:
    """Errors of the catalogue that no case asks for by name, and why."""
    return _reasons("errors", "codes")


def _reasons(table: str, names: str) -> dict[str, str]:
    return {name: item["reason"] for item in _table()[table] for name in item[names].split()}


def _range(first: str, last: str) -> Iterator[str]:
    prefix = first.rstrip("0123456789")
    return (f"{prefix}{number}" for number in range(int(first[len(prefix) :]), int(last[len(prefix) :]) + 1))


@cache
def _table() -> dict[str, Any]:
    data = (resources.files("signalbook.conformance") / "data" / "requirements.yaml").read_bytes()
    document, _ = parse_document(data, name="requirements.yaml")
    return dict(document)

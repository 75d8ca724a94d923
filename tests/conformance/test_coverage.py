"""Every requirement has a case, a test of ours, or a line that says why not."""

import re
from functools import cache
from pathlib import Path

import pytest

from xregistry_conformance.cases import Case, Level, all_cases
from xregistry_conformance.reports import requirement_coverage, sections, unobserved
from xregistry_conformance.running import CaseOutcome, CaseResult

TESTS = Path(__file__).parents[1]
_NAMED = re.compile(r"\bR(\d{1,3})(?:\s*(?:-|\.\.)\s*R(\d{1,3}))?\b")


@cache
def named_in_tests() -> set[str]:
    """Requirements that our tests name, also in ranges such as R216-R224."""
    numbers: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        for first, last in _NAMED.findall(path.read_text(encoding="utf-8")):
            numbers |= {f"R{number}" for number in range(int(first), int(last or first) + 1)}
    return numbers


def result(outcome: CaseOutcome, *requirements: str) -> CaseResult:
    case = Case(id="t-x", topic="t", says="", requirements=requirements, level=Level.MUST, needs=frozenset(), steps=())
    return CaseResult(case=case, outcome=outcome)


def test_every_requirement_is_a_case_or_explained() -> None:
    shown = {name for case in all_cases() for name in case.requirements} | unobserved().keys()
    assert [name for section in sections() for name in section.requirements if name not in shown] == []


def test_explanations_are_current() -> None:
    """A requirement with a case needs no explanation for having none; domain rules that need types of the server
    may have both.
    """
    covered = {name for case in all_cases() for name in case.requirements}
    assert sorted(name for name in unobserved().keys() & covered if name.startswith("R")) == []
    assert all(reason.endswith(".") for reason in unobserved().values())


def test_invisible_requirements_have_other_tests() -> None:
    """Events have no case, since there is no way to them that all servers share; our own tests name them."""
    inside = {f"R{number}" for number in (*range(293, 296), *range(297, 309), 203, 207, 23)}
    assert inside - named_in_tests() == set()


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ((), "no case"),
        ((CaseOutcome.SKIPPED,), "skipped"),
        ((CaseOutcome.SKIPPED, CaseOutcome.PASSED), "passed"),
        ((CaseOutcome.PASSED, CaseOutcome.FAILED), "failed"),
    ],
)
def test_outcome_of_a_requirement(outcomes: tuple[CaseOutcome, ...], expected: str) -> None:
    rows = requirement_coverage(result(outcome, "R142") for outcome in outcomes)
    (report_row,) = [row for _, members in rows for row in members if row.requirement == "R142"]
    assert report_row.outcome == expected


def test_sections_follow_each_other() -> None:
    numbers = [int(name[1:]) for section in sections() for name in section.requirements if name.startswith("R")]
    assert numbers == list(range(1, 318))

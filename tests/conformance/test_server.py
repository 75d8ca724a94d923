"""Signalbook held to the specification: every case of the kit against a whole server, on each database."""

import re
from pathlib import Path
from typing import Any

import pytest

from xregistry_conformance.cases import Case, all_cases, topics
from xregistry_conformance.reports import read_known, requirement_coverage
from xregistry_conformance.running import CaseOutcome, CaseResult, ConformanceSession

PAGE = Path(__file__).parents[2] / "conformance" / "results.md"
GAPS = read_known((Path(__file__).parent / "gaps.yaml").read_bytes(), name="gaps.yaml")


def _marked(case: Case) -> Any:
    marks = [pytest.mark.xfail(strict=True, reason=GAPS[case.id])] if case.id in GAPS else []
    return pytest.param(case, id=case.id, marks=marks)


@pytest.mark.parametrize("case", [_marked(case) for case in all_cases()])
def test_case(session: ConformanceSession, case: Case) -> None:
    """A case that is skipped fails as well: there is nothing of the specification that is not offered here."""
    result = session.run(case)
    details = "\n".join([result.reason, *map(str, result.mismatches), "", str(result.exchange or "")])
    assert result.outcome is CaseOutcome.PASSED, f"{case.level} {' '.join(case.requirements)}: {case.says}\n{details}"


def test_gaps_are_cases() -> None:
    assert GAPS.keys() <= {case.id for case in all_cases()}


def test_the_page_is_up_to_date() -> None:
    """The page lists the topics, requirements and gaps of the current cases, with the results of the last run."""
    page = PAGE.read_text(encoding="utf-8")
    for topic in topics():
        assert f"| {topic.title} | {len(topic.cases)} |" in page
    empty = requirement_coverage(CaseResult(case=case, outcome=CaseOutcome.PASSED) for case in all_cases())
    expected = [(row.requirement, [r.case.id for r in row.results]) for _, rows in empty for row in rows]
    listed = re.findall(r"^\| ([RFGH]-?\d+) \| [\w ]+ \|(.*)\|$", page, re.MULTILINE)
    assert [(name, re.findall(r"`([^`]+)`", cases)) for name, cases in listed] == expected
    gaps = page.partition("### Gaps")[2].partition("Requirements without a case")[0]
    assert set(re.findall(r"^- `([^`]+)`", gaps, re.MULTILINE)) == GAPS.keys()
    assert "not explained" not in page

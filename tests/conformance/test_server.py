"""Signalbook held to the specification: every case of the kit against a whole server, on each database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from signalbook.conformance.cases import Case, all_cases
from signalbook.conformance.reports import read_known
from signalbook.conformance.running import CaseOutcome, ConformanceSession

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

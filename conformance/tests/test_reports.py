"""How a run is reported: JSON, JUnit's XML, the scoreboard."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from xregistry_conformance.cases import Case, Level, all_cases
from xregistry_conformance.errors import KitError
from xregistry_conformance.matching import Mismatch
from xregistry_conformance.reports import (
    Summary,
    as_json,
    as_junit,
    insert,
    read_known,
    render_scoreboard,
)
from xregistry_conformance.running import CaseOutcome, CaseResult, Exchange
from xregistry_conformance.values import parse_json
from xregistry_conformance.wire import WireRequest, WireResponse

REFERENCE = Path(__file__).parents[1] / "reference.yaml"
EXCHANGE = Exchange(
    request=WireRequest(method="GET", target="/x", headers={}),
    response=WireResponse(status=500, headers=[("A", "b")], content=b"\x01 <&>"),
)
FAULT = Mismatch(path="/a", expected="1", actual="2")


def result(name: str, outcome: CaseOutcome, level: Level = Level.MUST) -> CaseResult:
    case_values: dict[str, Any] = {"says": "it works", "requirements": ("R1",), "needs": frozenset(), "steps": ()}
    case = Case(id=name, topic=name.split("-")[0], level=level, **case_values)
    if outcome is CaseOutcome.FAILED:
        return CaseResult(case=case, outcome=outcome, mismatches=(FAULT,), exchange=EXCHANGE, seconds=0.5)
    return CaseResult(case=case, outcome=outcome, reason="not offered" if outcome is CaseOutcome.SKIPPED else "")


RESULTS = [
    result("a-1", CaseOutcome.PASSED),
    result("a-2", CaseOutcome.FAILED),
    result("a-3", CaseOutcome.SKIPPED),
    result("b-1", CaseOutcome.FAILED, Level.SHOULD),
]


def summary(**reasons_by_case: str) -> Summary:
    reasons = {name.replace("_", "-"): why for name, why in reasons_by_case.items()}
    return Summary(url="http://kit", results=RESULTS, known=reasons)


def test_server_conforms_without_unknown_failures() -> None:
    """Only what is demanded counts, and not what is known."""
    assert not summary().conforms
    assert summary(a_2="because").conforms
    assert [row.case.id for row in summary(a_2="because").failures()] == ["b-1"]
    assert [row.case.id for row in summary(a_1="because").mended()] == ["a-1"]
    assert (summary().count(CaseOutcome.FAILED), summary().count(CaseOutcome.FAILED, Level.SHOULD)) == (2, 1)


def test_json() -> None:
    document = parse_json(as_json(summary(a_2="because")))
    assert (document["url"], document["conforms"]) == ("http://kit", True)
    assert document["totals"]["MUST"] == {"passed": 1, "failed": 1, "skipped": 1}
    failed, skipped = document["cases"][1:3]
    assert failed["mismatches"] == [{"path": "/a", "expected": "1", "actual": "2"}]
    assert (failed["request"], failed["known"], skipped["reason"]) == ("GET /x", "because", "not offered")
    assert document["requirements"]["R1"] == {"outcome": "failed", "cases": ["a-1", "a-2", "a-3", "b-1"]}
    assert document["requirements"]["R15"]["outcome"] == "no case"


def test_junit() -> None:
    first, second = ElementTree.fromstring(as_junit(summary()))
    assert (first.get("name"), first.get("tests"), first.get("failures"), first.get("skipped")) == ("a", "3", "1", "1")
    assert [len(case) for case in first] == [0, 1, 1]
    failure = first[1][0]
    assert failure.get("message") == "MUST: it works"
    assert "/a: expected 1, got 2" in (failure.text or "")
    assert "\\x01 <&>" in (failure.text or "")
    assert second.get("name") == "b"


def test_known_failures() -> None:
    assert read_known(b"a-1: because\n", name="k.yaml") == {"a-1": "because"}
    assert read_known(b"a-1 a-2: because\n", name="k.yaml") == {"a-1": "because", "a-2": "because"}
    assert read_known(b"# none\n{}\n", name="k.yaml") == {}


@pytest.mark.parametrize("data", [b"", b"- a", b"a: 1", b"a:", b"a: ["])
def test_invalid_file_of_known_failures_is_rejected(data: bytes) -> None:
    with pytest.raises(KitError, match=r"k\.yaml"):
        read_known(data, name="k.yaml")


def test_scoreboard_takes_its_place() -> None:
    page = insert("# Title\n\nText.\n\n", summary())
    assert page.startswith("# Title\n\nText.\n\n<!-- scoreboard")
    assert insert(page + "Below.\n", summary()) == page + "Below.\n"


def test_a_second_scoreboard_by_cause() -> None:
    """Another server's is beside ours, in brief; neither touches the other."""
    reasons = {"a_2": "it lies", "b_1": "it lies"}
    page = insert("# Title\n\n", summary())
    both = insert(page, summary(**reasons), name="theirs")
    assert both.startswith(page)
    assert "| it lies | `a-2`, `b-1` (SHOULD) |" in both
    assert "| not offered | `a-3` |" in both
    assert insert(both, summary(), name="theirs").count("not explained") == page.count("not explained") + 1
    assert insert(both, summary()) == both


def test_advice_is_not_held_against_a_requirement() -> None:
    advised = replace(RESULTS[1], mismatches=(replace(FAULT, advice="this for that"),))
    summary_ = Summary(url="http://kit", results=[advised])
    assert (summary_.count(CaseOutcome.FAILED, Level.SHOULD), summary_.conforms) == (1, True)
    assert parse_json(as_json(summary_))["requirements"]["R1"]["outcome"] == "passed"


def test_failures_of_the_reference_are_cases() -> None:
    known_failures = read_known(REFERENCE.read_bytes(), name="reference.yaml")
    assert known_failures.keys() <= {case.id for case in all_cases()}


def test_scoreboard_names_every_gap() -> None:
    scoreboard = render_scoreboard(summary(a_2="because"))
    assert "- `a-2` (MUST): because" in scoreboard
    assert "- `b-1` (SHOULD): not explained" in scoreboard
    assert "- `a-3`: not offered" in scoreboard
    assert "- R15: " in scoreboard
    assert "- `server_busy`: " in scoreboard

"""What is a report and what is none; over HTTP, and on each database, in ``tests/api/test_pipelines.py``."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.api.test_pipelines import XID, report

from signalbook.pipeline_reports import InvalidReport, PipelineReports, read_report
from signalbook.storage.store import Store
from signalbook.values import Finding


def faults(**change: Any) -> tuple[Finding, ...]:
    with pytest.raises(InvalidReport) as refused:
        read_report(report(**change))
    return refused.value.faults


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"more": 1}, ""),
        ({"seconds": "x"}, "/seconds"),
        ({"lag": {"seconds": -1}}, "/lag/seconds"),
        ({"violations": [{}]}, "/violations/0"),
        ({"violations": [{"definition": 1}]}, "/violations/0/definition"),
        ({"by_message": {XID: {"landed": 2}}}, "/by_message/*"),
        ({"by_message": {XID: {"landed": 2, "rejected": "x"}}}, "/by_message/*/rejected"),
        ({"reasons": {"": 1}}, "/reasons"),
        ({"rescued": [{"definition": XID, "path": "/a", "messages": -1}]}, "/rescued/0/messages"),
        ({"batch": "a\0b"}, "/batch"),
        ({"left_out": {XID: "x"}}, "/left_out/*"),
        ({"read": 4}, "/read"),
        ({"finished": "9999-12-31T23:59:60Z"}, "/finished"),
        ({"lag": {"newest": "today"}}, "/lag/newest"),
        ({"by_message": {"a/~b": {"landed": 2, "rejected": 1, "oldest": "x"}}}, "/by_message/a~1~0b/oldest"),
    ],
)
def test_fault_has_its_path(change: dict[str, Any], path: str) -> None:
    """A JSON Pointer; ``*`` where it is not known which of a map it is."""
    (fault,) = faults(**change)
    assert fault.path == path


def test_omitted_definitions_are_kept() -> None:
    assert '"left_out":' in read_report(report(left_out={XID: ["dataschema: no schema"]})).text


def test_empty_key_is_rejected() -> None:
    assert faults(reasons={"": 1})[0].message == "Expected `str` of length >= 1 as key"


def test_faults_of_sums_and_times_are_reported_together() -> None:
    findings = faults(read=7, landed=5, finished="x", lag={"oldest": "y"})
    assert [fault.path for fault in findings] == ["/read", "/landed", "/finished", "/lag/oldest"]


def test_number_and_size_of_faults_are_bounded() -> None:
    """A report of 4 MiB has place for many faults, and for long words."""
    of_messages = {f"m{number}": {"landed": 0, "rejected": 0, "oldest": "x", "newest": "y"} for number in range(300)}
    assert len(faults(by_message=of_messages)) == 100
    (fault,) = faults(**{"x" * 1_000_000: 1})
    assert len(str(fault)) < 1000


def test_rescued_members_are_accepted() -> None:
    counts = {"landed": 2, "rejected": 1, "duplicate_names": 1}
    rescued = [{"definition": XID, "path": "/a/*/b", "messages": 2}, {"definition": XID, "path": "", "messages": 1}]
    assert read_report(report(rescued=rescued, by_message={XID: counts})).batch


def test_hidden_pipelines_do_not_shorten_pages(sqlite_store: Callable[[], Store]) -> None:
    """A page is full however many hidden pipelines are between its visible ones."""
    store = sqlite_store()
    reports = PipelineReports(store, keep=1, most=1000)
    with store.write() as transaction:
        for number in range(250):
            reports.add(transaction, f"p{number:03}", read_report(report()))
    is_visible = {"p000", "p120", "p249"}.__contains__
    assert [pipeline.name for pipeline in reports.pipelines("", 2, is_visible)] == ["p000", "p120"]
    assert [pipeline.name for pipeline in reports.pipelines("p120", 2, is_visible)] == ["p249"]
    assert reports.pipelines("", 2, lambda _: False) == []

"""Reports for programs: JSON, and JUnit's XML."""

from __future__ import annotations

from itertools import groupby
from xml.etree import ElementTree

from signalbook.conformance.cases import Level
from signalbook.conformance.coverage import coverage
from signalbook.conformance.running import Outcome, Result
from signalbook.conformance.summary import Summary
from signalbook.values import JSONObject, dump_json


def as_json(summary: Summary) -> bytes:
    """The run as one JSON object: ``url``, ``conforms``, ``totals``, ``cases[]`` and ``requirements{}``."""
    document: JSONObject = {
        "url": summary.url,
        "conforms": summary.conforms,
        "totals": {
            level.value: {outcome.value: summary.count(outcome, level) for outcome in Outcome} for level in Level
        },
        "cases": [_case(row, summary.known.get(row.case.id)) for row in summary.results],
        "requirements": {
            row.requirement: {"outcome": row.outcome, "cases": [result.case.id for result in row.results]}
            | ({"reason": row.reason} if row.reason else {})
            for _, rows in coverage(summary.results)
            for row in rows
        },
    }
    return dump_json(document, indent=2)


def as_junit(summary: Summary) -> bytes:
    """The run as JUnit's XML: a suite per topic, a test case per case."""
    root = ElementTree.Element("testsuites", name="xRegistry 1.0-rc4", tests=str(len(summary.results)))
    for topic, rows in groupby(summary.results, key=lambda row: row.case.topic):
        members = list(rows)
        suite = ElementTree.SubElement(root, "testsuite", name=topic, tests=str(len(members)))
        suite.set("failures", str(sum(row.outcome is Outcome.FAILED for row in members)))
        suite.set("skipped", str(sum(row.outcome is Outcome.SKIPPED for row in members)))
        for row in members:
            _junit_case(suite, row)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text


def _case(row: Result, known: str | None) -> JSONObject:
    shown: JSONObject = {
        "id": row.case.id,
        "topic": row.case.topic,
        "says": row.case.says,
        "level": row.case.level.value,
        "requirements": list(row.case.requirements),
        "outcome": row.outcome.value,
        "seconds": round(row.seconds, 6),
    }
    if row.reason:
        shown["reason"] = row.reason
    if row.mismatches:
        shown["mismatches"] = [
            {"path": item.path, "expected": item.expected, "actual": item.actual} for item in row.mismatches
        ]
    if row.exchange:
        shown["request"], shown["answer"] = str(row.exchange.request), str(row.exchange.answer)
    return shown | ({"known": known} if known else {})


def _junit_case(suite: ElementTree.Element, row: Result) -> None:
    element = ElementTree.SubElement(
        suite, "testcase", classname=row.case.topic, name=row.case.id, time=f"{row.seconds:.6f}"
    )
    if row.outcome is Outcome.SKIPPED:
        ElementTree.SubElement(element, "skipped", message=row.reason)
    elif row.outcome is Outcome.FAILED:
        failure = ElementTree.SubElement(element, "failure", message=f"{row.case.level}: {row.case.says}")
        failure.text = _printable("\n".join([*map(str, row.mismatches), "", str(row.exchange or "")]))


def _printable(text: str) -> str:
    """XML has no place for most control characters."""
    return "".join(char if char in "\n\t" or char >= " " else f"\\x{ord(char):02x}" for char in text)

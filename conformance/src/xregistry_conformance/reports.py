"""Reports of a run: totals, requirements with and without a case, JSON, JUnit's XML, the scoreboard in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from itertools import groupby
from typing import Any
from xml.etree import ElementTree

from xregistry_conformance.cases import CaseTopic, Level, topics
from xregistry_conformance.errors import CATALOGUE, KitError
from xregistry_conformance.running import CaseOutcome, CaseResult
from xregistry_conformance.values import JSONObject, dump_json, parse_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The results of a run against ``url``. ``known`` has reasons for failures that were expected, by case;
    ``unrestored`` says what could not be put back.
    """

    url: str
    results: Sequence[CaseResult]
    known: Mapping[str, str] = field(default_factory=dict)
    unrestored: Sequence[str] = ()

    def count(self, outcome: CaseOutcome, level: Level | None = None) -> int:
        """Count the cases with an outcome, of all levels or of one."""
        return sum(row.outcome is outcome and level in (None, row.level) for row in self.results)

    def failures(self) -> Iterator[CaseResult]:
        """Cases that failed and were not expected to."""
        return (row for row in self.results if row.outcome is CaseOutcome.FAILED and row.case.id not in self.known)

    def mended(self) -> Iterator[CaseResult]:
        """Cases that were expected to fail and passed: the word about them is out of date."""
        return (row for row in self.results if row.outcome is CaseOutcome.PASSED and row.case.id in self.known)

    @property
    def conforms(self) -> bool:
        """True if nothing failed that the specification demands, except for known failures."""
        return all(row.level is not Level.MUST for row in self.failures())


def read_known(data: bytes, *, name: str) -> dict[str, str]:
    """Known failures from a file: a map of cases (one id, or several with spaces between) to the reason why.

    Raises ``KitError``.
    """
    document = parse_yaml(data, name=name)
    if not isinstance(document, dict) or not all(isinstance(reason, str) and reason for reason in document.values()):
        raise KitError(f"{name}: needs to map ids of cases to the reasons why they fail")
    return {case: reason for cases, reason in document.items() for case in cases.split()}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecSection:
    """A part of the specification and the numbers of its requirements, in order."""

    name: str
    requirements: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """A requirement with the results of its cases, or the reason why it has none."""

    requirement: str
    results: tuple[CaseResult, ...]
    reason: str = ""

    @property
    def outcome(self) -> str:
        """``failed`` if one case did, else ``passed`` if one did, else ``skipped`` or ``no case``.

        Advice that a server does not take is not held against the requirement.
        """
        outcomes = {CaseOutcome.PASSED if row.level is not row.case.level else row.outcome for row in self.results}
        for outcome in (CaseOutcome.FAILED, CaseOutcome.PASSED, CaseOutcome.SKIPPED):
            if outcome in outcomes:
                return str(outcome)
        return "no case"


def requirement_coverage(results: Iterable[CaseResult]) -> list[tuple[SpecSection, list[Covered]]]:
    """Every requirement, by section, with what became of its cases."""
    by_requirement: dict[str, list[CaseResult]] = {}
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


@cache
def sections() -> tuple[SpecSection, ...]:
    """The parts of the specification."""
    return tuple(
        SpecSection(name=item["name"], requirements=tuple(_list_range(item["from"], item["to"])))
        for item in _read_requirements()["sections"]
    )


@cache
def unobserved() -> Mapping[str, str]:
    """Requirements without a case and why."""
    return _read_reasons("unobserved", "requirements")


@cache
def unreached() -> Mapping[str, str]:
    """Errors of the catalogue that no case asks for by name, and why."""
    return _read_reasons("errors", "codes")


def _read_reasons(table: str, names: str) -> dict[str, str]:
    return {name: item["reason"] for item in _read_requirements()[table] for name in item[names].split()}


def _list_range(first: str, last: str) -> Iterator[str]:
    prefix = first.rstrip("0123456789")
    return (f"{prefix}{number}" for number in range(int(first[len(prefix) :]), int(last[len(prefix) :]) + 1))


@cache
def _read_requirements() -> dict[str, Any]:
    data = (resources.files("xregistry_conformance") / "data" / "requirements.yaml").read_bytes()
    return dict(parse_yaml(data, name="requirements.yaml"))


def as_json(summary: Summary) -> bytes:
    """The run as one JSON object: ``url``, ``conforms``, ``totals``, ``cases[]`` and ``requirements{}``."""
    document: JSONObject = {
        "url": summary.url,
        "conforms": summary.conforms,
        "unrestored": list(summary.unrestored),
        "totals": {
            level.value: {outcome.value: summary.count(outcome, level) for outcome in CaseOutcome} for level in Level
        },
        "cases": [_describe_case(row, summary.known.get(row.case.id)) for row in summary.results],
        "requirements": {
            row.requirement: {"outcome": row.outcome, "cases": [result.case.id for result in row.results]}
            | ({"reason": row.reason} if row.reason else {})
            for _, rows in requirement_coverage(summary.results)
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
        suite.set("failures", str(sum(row.outcome is CaseOutcome.FAILED for row in members)))
        suite.set("skipped", str(sum(row.outcome is CaseOutcome.SKIPPED for row in members)))
        for row in members:
            _add_junit_case(suite, row)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text


def _describe_case(row: CaseResult, known_reason: str | None) -> JSONObject:
    document: JSONObject = {
        "id": row.case.id,
        "topic": row.case.topic,
        "says": row.case.says,
        "level": row.level.value,
        "requirements": list(row.case.requirements),
        "outcome": row.outcome.value,
        "seconds": round(row.seconds, 6),
    }
    if row.reason:
        document["reason"] = row.reason
    if row.mismatches:
        document["mismatches"] = [
            {"path": item.path, "expected": item.expected, "actual": item.actual} for item in row.mismatches
        ]
    if row.exchange:
        document["request"], document["answer"] = str(row.exchange.request), str(row.exchange.response)
    return document | ({"known": known_reason} if known_reason else {})


def _add_junit_case(suite: ElementTree.Element, row: CaseResult) -> None:
    element = ElementTree.SubElement(
        suite, "testcase", classname=row.case.topic, name=row.case.id, time=f"{row.seconds:.6f}"
    )
    if row.outcome is CaseOutcome.SKIPPED:
        ElementTree.SubElement(element, "skipped", message=row.reason)
    elif row.outcome is CaseOutcome.FAILED:
        failure = ElementTree.SubElement(element, "failure", message=f"{row.level}: {row.case.says}")
        failure.text = _escape_controls("\n".join([*map(str, row.mismatches), "", str(row.exchange or "")]))


def _escape_controls(text: str) -> str:
    """XML has no place for most control characters."""
    return "".join(char if char in "\n\t" or char >= " " else f"\\x{ord(char):02x}" for char in text)


END = "<!-- end of the scoreboard -->"


def begin(name: str) -> str:
    """The mark before the scoreboard ``name`` of a page."""
    return f"<!-- scoreboard{name and f' of {name}'}: written by `xregistry-conformance --scoreboard` -->"


def insert(page: str, summary: Summary, *, name: str = "") -> str:
    """``page`` with the scoreboard ``name`` between its two marks renewed; at its end if it has none."""
    before, mark, remaining = page.partition(begin(name))
    after = remaining.partition(END)[2] if mark else ""
    board = render_brief(summary) if name else render_scoreboard(summary)
    return f"{before}{begin(name)}\n\n{board}\n{END}{after or chr(10)}"


def render_brief(summary: Summary) -> str:
    """The tables for another server: topics, causes of failures, reasons of what is skipped."""
    return "\n".join(
        [
            *_list_topics(summary),
            _render_table(
                "| what fails, and the sentence it breaks | cases |", _list_causes(summary, CaseOutcome.FAILED)
            ),
            _render_table("| why not run | cases |", _list_causes(summary, CaseOutcome.SKIPPED)),
        ]
    )


def _list_causes(summary: Summary, outcome: CaseOutcome) -> Iterator[str]:
    cases: dict[str, list[str]] = {}
    for row in summary.results:
        if row.outcome is outcome:
            level = "" if row.level is Level.MUST or row.reason else f" ({row.level})"
            reason = row.reason or summary.known.get(row.case.id, "not explained")
            cases.setdefault(reason, []).append(f"`{row.case.id}`{level}")
    return (f"| {reason} | {', '.join(ids)} |" for reason, ids in cases.items())


def _list_topics(summary: Summary) -> Iterator[str]:
    results = {row.case.id: row for row in summary.results}
    yield _render_table(
        "| topic | cases | passed | failed | skipped |", (_render_topic(topic, results) for topic in topics())
    )
    yield f"{_render_total(summary)}\n"


def render_scoreboard(summary: Summary) -> str:
    """The tables: topics, sections of the specification, requirements, gaps. Nothing in it depends on time."""
    covered = requirement_coverage(summary.results)
    blocks = [
        *_list_topics(summary),
        "### Requirements\n",
        _render_table(
            "| section | requirements | shown by a case | passed |", (_render_section(*row) for row in covered)
        ),
        "### Gaps\n",
        *_list_gaps(summary, covered),
        "### Requirement by requirement\n",
        _render_table(
            "| requirement | outcome | cases |", (_render_requirement(row) for _, rows in covered for row in rows)
        ),
    ]
    return "\n".join(blocks)


def _render_table(head: str, rows: Iterator[str]) -> str:
    columns = head.count("|") - 1
    return "\n".join([head, "|" + "---|" * columns, *rows, ""])


def _render_topic(topic: CaseTopic, results: dict[str, CaseResult]) -> str:
    rows = [results[case.id] for case in topic.cases if case.id in results]
    counts = [sum(row.outcome is outcome for row in rows) for outcome in CaseOutcome]
    return f"| {topic.title} | {len(rows)} | {' | '.join(map(str, counts))} |"


def _render_total(summary: Summary) -> str:
    passed = ", ".join(_render_passed(summary, level) for level in Level)
    reached = len(CATALOGUE) - len(unreached())
    skipped = summary.count(CaseOutcome.SKIPPED)
    return f"Passed: {passed}; {skipped} skipped. {reached} of {len(CATALOGUE)} errors have a case."


def _render_passed(summary: Summary, level: Level) -> str:
    passed, failed = (summary.count(outcome, level) for outcome in (CaseOutcome.PASSED, CaseOutcome.FAILED))
    return f"{level} {passed} of {passed + failed}"


def _render_section(section: SpecSection, rows: list[Covered]) -> str:
    observed = [row for row in rows if row.results]
    passed = sum(row.outcome == "passed" for row in observed)
    first, last = section.requirements[0], section.requirements[-1]
    return f"| {section.name} ({first} to {last}) | {len(rows)} | {len(observed)} | {passed} |"


def _list_gaps(summary: Summary, covered: list[tuple[SpecSection, list[Covered]]]) -> Iterator[str]:
    failed = [row for row in summary.results if row.outcome is CaseOutcome.FAILED]
    skipped = [row for row in summary.results if row.outcome is CaseOutcome.SKIPPED]
    yield "Cases that fail:\n" if failed else "No case fails.\n"
    yield "\n".join(
        f"- `{row.case.id}` ({row.level}): {summary.known.get(row.case.id, 'not explained')}" for row in failed
    ) + "\n" * bool(failed)
    if skipped:
        yield "Cases that are skipped:\n"
        yield "\n".join(f"- `{row.case.id}`: {row.reason}" for row in skipped) + "\n"
    yield "Requirements without a case:\n"
    reasons: dict[str, list[str]] = {}
    for row in (row for _, rows in covered for row in rows if not row.results):
        reasons.setdefault(row.reason or "not explained", []).append(row.requirement)
    yield "\n".join(f"- {', '.join(names)}: {reason}" for reason, names in reasons.items()) + "\n"
    yield "Errors that no case asks for by name:\n"
    yield "\n".join(f"- `{code}`: {reason}" for code, reason in unreached().items()) + "\n"


def _render_requirement(row: Covered) -> str:
    cases = ", ".join(f"`{result.case.id}`" for result in row.results)
    return f"| {row.requirement} | {row.outcome} | {cases} |"

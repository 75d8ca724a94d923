"""The scoreboard: a page in Markdown on what a server does of the specification, and every gap by name."""

from __future__ import annotations

from collections.abc import Iterator

from signalbook.conformance.cases import Level, Topic, topics
from signalbook.conformance.coverage import Covered, Section, coverage, unreached
from signalbook.conformance.running import Outcome, Result
from signalbook.conformance.summary import Summary
from signalbook.errors import CATALOGUE

BEGIN = "<!-- scoreboard: written by `signalbook conform --scoreboard` -->"
END = "<!-- end of the scoreboard -->"


def insert(page: str, summary: Summary) -> str:
    """``page`` with the scoreboard between its two marks renewed; at its end if it has none."""
    before, mark, rest = page.partition(BEGIN)
    after = rest.partition(END)[2] if mark else ""
    return f"{before}{BEGIN}\n\n{scoreboard(summary)}\n{END}{after or chr(10)}"


def scoreboard(summary: Summary) -> str:
    """The tables: topics, sections of the specification, requirements, gaps. Nothing in it depends on time."""
    results = {row.case.id: row for row in summary.results}
    covered = coverage(summary.results)
    blocks = [
        _table("| topic | cases | passed | failed | skipped |", (_topic(topic, results) for topic in topics())),
        f"{_total(summary)}\n",
        "### Requirements\n",
        _table("| section | requirements | shown by a case | passed |", (_section(*row) for row in covered)),
        "### Gaps\n",
        *_gaps(summary, covered),
        "### Requirement by requirement\n",
        _table("| requirement | outcome | cases |", (_requirement(row) for _, rows in covered for row in rows)),
    ]
    return "\n".join(blocks)


def _table(head: str, rows: Iterator[str]) -> str:
    columns = head.count("|") - 1
    return "\n".join([head, "|" + "---|" * columns, *rows, ""])


def _topic(topic: Topic, results: dict[str, Result]) -> str:
    rows = [results[case.id] for case in topic.cases if case.id in results]
    counts = [sum(row.outcome is outcome for row in rows) for outcome in Outcome]
    return f"| {topic.title} | {len(rows)} | {' | '.join(map(str, counts))} |"


def _total(summary: Summary) -> str:
    passed = ", ".join(_passed(summary, level) for level in Level)
    reached = len(CATALOGUE) - len(unreached())
    skipped = summary.count(Outcome.SKIPPED)
    return f"Passed: {passed}; {skipped} skipped. {reached} of {len(CATALOGUE)} errors have a case."


def _passed(summary: Summary, level: Level) -> str:
    passed, failed = (summary.count(outcome, level) for outcome in (Outcome.PASSED, Outcome.FAILED))
    return f"{level} {passed} of {passed + failed}"


def _section(section: Section, rows: list[Covered]) -> str:
    shown = [row for row in rows if row.results]
    passed = sum(row.outcome == "passed" for row in shown)
    first, last = section.requirements[0], section.requirements[-1]
    return f"| {section.name} ({first} to {last}) | {len(rows)} | {len(shown)} | {passed} |"


def _gaps(summary: Summary, covered: list[tuple[Section, list[Covered]]]) -> Iterator[str]:
    failed = [row for row in summary.results if row.outcome is Outcome.FAILED]
    skipped = [row for row in summary.results if row.outcome is Outcome.SKIPPED]
    yield "Cases that fail:\n" if failed else "No case fails.\n"
    yield "\n".join(
        f"- `{row.case.id}` ({row.case.level}): {summary.known.get(row.case.id, 'not explained')}" for row in failed
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


def _requirement(row: Covered) -> str:
    cases = ", ".join(f"`{result.case.id}`" for result in row.results)
    return f"| {row.requirement} | {row.outcome} | {cases} |"

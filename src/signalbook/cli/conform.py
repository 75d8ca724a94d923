"""``signalbook conform``: hold a server to the specification."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
from typer import Argument, Option

from signalbook.cli.console import console, say
from signalbook.cli.files import write_pieces

if TYPE_CHECKING:
    from rich.console import Console

    from signalbook.conformance.cases import Case
    from signalbook.conformance.reports import Summary
    from signalbook.conformance.running import CaseResult, ConformanceSession


Tier = Literal["read", "write"]


def run(
    url: Annotated[str, Argument(metavar="URL", help="The root of the registry.")] = "",
    tier: Annotated[Tier, Option("--tier", help="Only read, or write too.")] = "read",
    allow_model_changes: Annotated[
        bool, Option("--allow-model-changes", help="Change model and capabilities meanwhile; implies --tier write.")
    ] = False,
    only: Annotated[
        str, Option("--only", metavar="NAMES", help="Only these requirements, topics or cases: R142,filter,...")
    ] = "",
    header: Annotated[
        list[str] | None,
        Option("--header", metavar="'NAME: VALUE'", help="Send this with every request; may be given again."),
    ] = None,
    timeout: Annotated[float, Option("--timeout", metavar="SECONDS", help="How long an answer may take.")] = 30.0,
    known: Annotated[
        Path | None, Option("--known", metavar="FILE", help="Failures that are known: a map of case ids to reasons.")
    ] = None,
    exact_titles: Annotated[bool, Option("--exact-titles", help="Want the titles of errors word by word.")] = False,
    json_file: Annotated[Path | None, Option("--json", metavar="FILE", help="Write the results as JSON.")] = None,
    junit: Annotated[Path | None, Option("--junit", metavar="FILE", help="Write them as JUnit's XML.")] = None,
    scoreboard: Annotated[
        Path | None, Option("--scoreboard", metavar="FILE", help="Renew the scoreboard in a page of Markdown.")
    ] = None,
    list_cases: Annotated[bool, Option("--list", help="List the cases and stop.")] = False,
) -> None:
    """Check the xRegistry server at URL against the specification, 1.0-rc4.

    By default nothing is written. With --tier write every case makes Groups of its own, and deletes them when it is
    done; with --allow-model-changes the server's model gets types to test with for the time of the run, and its model
    and capabilities are changed and put back. Ends with 1 if the server fails what the specification demands (MUST).
    """
    from signalbook.conformance.reports import Summary, read_known
    from signalbook.conformance.running import ConformanceSession, Options
    from signalbook.conformance.wire import Wire

    cases = _selected(only)
    if list_cases:
        for case in cases:
            needed: Tier = "read" if case.reads else "write"
            typer.echo(f"{case.id}  {case.level} {needed}  {' '.join(case.requirements)}  {case.says}")
        return
    if not url:
        raise typer.BadParameter("name the URL of a server", param_hint="URL")
    expected = {} if known is None else read_known(known.read_bytes(), name=known.name)
    writes = tier == "write" or allow_model_changes
    options = Options(writes=writes, configures=allow_model_changes, exact_titles=exact_titles)
    wire = Wire(url, timeout=timeout, headers=dict(map(_header, header or ())))
    with wire, ConformanceSession(wire, options) as session:
        summary = Summary(url=wire.url, results=_run(session, cases), known=expected)
    _report(summary)
    _write(summary, json_file, junit, scoreboard)
    if not summary.conforms:
        raise typer.Exit(1)


def _selected(only: str) -> list[Case]:
    from signalbook.conformance.cases import all_cases

    wanted = {name.strip() for name in only.split(",") if name.strip()}
    cases = [case for case in all_cases() if not wanted or wanted & {case.id, case.topic, *case.requirements}]
    known = {name for case in all_cases() for name in (case.id, case.topic, *case.requirements)}
    if wanted - known:
        raise typer.BadParameter(
            f"{', '.join(sorted(wanted - known))}: no requirement, topic or case of that name; see --list",
            param_hint="--only",
        )
    return cases


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip().isascii():
        raise typer.BadParameter(f"{text!r} is no header: write 'NAME: VALUE'", param_hint="--header")
    return name.strip(), value.strip()


def _run(session: ConformanceSession, cases: list[Case]) -> list[CaseResult]:
    from rich.progress import track

    screen = console()
    shown: Iterable[Case] = track(
        cases, description="conforming", console=screen, transient=True, disable=not screen.is_terminal
    )
    return [session.run(case) for case in shown]


def _write(summary: Summary, json_file: Path | None, junit: Path | None, scoreboard: Path | None) -> None:
    from signalbook.conformance.reports import as_json, as_junit, insert

    if json_file is not None:
        write_pieces(json_file, [as_json(summary)])
    if junit is not None:
        write_pieces(junit, [as_junit(summary)])
    if scoreboard is not None:
        page = scoreboard.read_text(encoding="utf-8") if scoreboard.exists() else ""
        write_pieces(scoreboard, [insert(page, summary).encode()])


def _report(summary: Summary) -> None:
    """To standard output: each topic, each failure with its exchange, the sections, the totals."""
    from rich.console import Console

    screen = Console(highlight=False, soft_wrap=True)
    for topic, rows in groupby(summary.results, key=lambda row: row.case.topic):
        _topic(screen, topic, list(rows), summary)
    _sections(screen, summary)
    _totals(screen, summary)
    for row in summary.mended():
        say(f"{row.case.id}: passed, though it is known to fail: remove it from the known failures", style="yellow")


def _topic(screen: Console, topic: str, rows: list[CaseResult], summary: Summary) -> None:
    from rich.text import Text

    from signalbook.conformance.running import CaseOutcome

    counts = ", ".join(
        f"{count} {outcome}" for outcome in CaseOutcome if (count := sum(row.outcome is outcome for row in rows))
    )
    screen.print(Text(f"{topic}: {counts}", style="bold"))
    for row in rows:
        if row.outcome is CaseOutcome.FAILED:
            _failure(screen, row, summary.known.get(row.case.id))
    for reason, group in groupby(
        sorted((row for row in rows if row.outcome is CaseOutcome.SKIPPED), key=lambda row: row.reason),
        key=lambda row: row.reason,
    ):
        screen.print(Text(f"  skipped {len(list(group))}: {reason}", style="dim"))


def _failure(screen: Console, row: CaseResult, known: str | None) -> None:
    from rich.text import Text

    case = row.case
    screen.print(Text(f"  FAILED {case.id} ({case.level}; {' '.join(case.requirements)})", style="red"))
    screen.print(Text(f"    {case.says}"))
    if known:
        screen.print(Text(f"    known: {known}", style="yellow"))
        return
    for mismatch in row.mismatches:
        screen.print(Text(f"    {mismatch}"))
    if row.exchange:
        for mark, part in ((">", row.exchange.request), ("<", row.exchange.response)):
            screen.print(Text("\n".join(f"    {mark} {line}".rstrip() for line in str(part).splitlines()), style="dim"))


def _sections(screen: Console, summary: Summary) -> None:
    from rich.table import Table

    from signalbook.conformance.reports import requirement_coverage

    table = Table("section", "requirements", "with a case here", "passed", "failed", "skipped", box=None)
    for section, rows in requirement_coverage(summary.results):
        outcomes = [row.outcome for row in rows if row.results]
        if outcomes:
            counts = (len(rows), len(outcomes), *map(outcomes.count, _OUTCOMES))
            table.add_row(section.name, *map(str, counts))
    screen.print()
    screen.print(table)


_OUTCOMES: Final = ("passed", "failed", "skipped")


def _totals(screen: Console, summary: Summary) -> None:
    from rich.text import Text

    from signalbook.conformance.cases import Level
    from signalbook.conformance.running import CaseOutcome

    screen.print()
    for level in Level:
        counts = [f"{summary.count(outcome, level)} {outcome}" for outcome in CaseOutcome]
        screen.print(Text(f"{level}: {', '.join(counts)}"))
    verdict = "conforms" if summary.conforms else "does not conform"
    screen.print(Text(f"{summary.url} {verdict}", style="bold green" if summary.conforms else "bold red"))

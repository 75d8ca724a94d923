"""The command line: check a server, print the report, write it to files."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import unquote, urlsplit

import httpx
import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import track
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from typer import Argument, Context, Option

from xregistry_conformance.cases import Case, Level, all_cases
from xregistry_conformance.errors import KitError
from xregistry_conformance.reports import Summary, as_json, as_junit, insert, read_known, requirement_coverage
from xregistry_conformance.running import INTERRUPTED, CaseOutcome, CaseResult, ConformanceSession, Options, run_all
from xregistry_conformance.wire import Wire

Tier = Literal["read", "write"]

app: Final = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


class _SafeConsole(Console):
    """A console that prints the texts of servers without markup and without characters that control a terminal."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, soft_wrap=True, **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of ``renderable``; those with text have only printable characters."""
        for segment in super().render(renderable, options):
            text = "".join(char for char in segment.text if char.isprintable() or char in "\n\t")
            yield segment if segment.control else Segment(text, segment.style)


@app.command()
def run(
    context: Context,
    url: Annotated[str, Argument(metavar="URL", help="The root of the registry.")] = "",
    tier: Annotated[Tier, Option("--tier", help="Only read, or write too.")] = "read",
    allow_model_changes: Annotated[
        bool, Option("--allow-model-changes", help="Change the model meanwhile; implies --tier write.")
    ] = False,
    allow_lockout: Annotated[
        bool,
        Option(
            "--allow-lockout",
            help="Change capabilities, last: a faulty server may be of no use afterwards. Implies --tier write.",
        ),
    ] = False,
    only: Annotated[
        str, Option("--only", metavar="NAMES", help="Only these requirements, topics or cases: R142,filter,...")
    ] = "",
    header: Annotated[
        list[str] | None,
        Option("--header", metavar="'NAME: VALUE'", help="Send this with every request; may be given again."),
    ] = None,
    timeout: Annotated[float, Option("--timeout", metavar="SECONDS", help="How long an answer may take.")] = 30.0,
    known_file: Annotated[
        Path | None, Option("--known", metavar="FILE", help="Failures that are known: a map of case ids to reasons.")
    ] = None,
    exact_titles: Annotated[bool, Option("--exact-titles", help="Want the titles of errors word by word.")] = False,
    json_file: Annotated[Path | None, Option("--json", metavar="FILE", help="Write the results as JSON.")] = None,
    junit: Annotated[Path | None, Option("--junit", metavar="FILE", help="Write them as JUnit's XML.")] = None,
    scoreboard: Annotated[
        Path | None, Option("--scoreboard", metavar="FILE", help="Renew the scoreboard in a page of Markdown.")
    ] = None,
    scoreboard_name: Annotated[
        str, Option("--scoreboard-name", metavar="NAME", help="Renew the one of this name: in brief, by cause.")
    ] = "",
    list_cases: Annotated[bool, Option("--list", help="List the cases and stop.")] = False,
) -> None:
    """Check the xRegistry server at URL against the specification, 1.0-rc4.

    By default nothing is written. With --tier write every case makes Groups of its own, of types in the server's
    model, and deletes them when it is done. With --allow-model-changes the server's model gets types to test with for
    the time of the run. Cases that change capabilities, and switch off parts of the server, are run last and only with
    --allow-lockout. Model and capabilities are put back in the end; until then they are in a file beside the results.
    Credentials are a user and a password in the URL, or --header 'Authorization: Bearer ...'.
    Ends with 1 if the server fails what the specification demands (MUST), or something could not be put back.
    """
    cases = _select_cases(only)
    if list_cases:
        for case in cases:
            needed: Tier = "read" if case.reads else "write"
            _print_line(f"{case.id}  {case.level} {needed}  {' '.join(case.requirements)}  {case.says}")
        return
    if not url:
        raise typer.BadParameter("name the URL of a server", param_hint="URL")
    expected = {} if known_file is None else read_known(known_file.read_bytes(), name=known_file.name)
    files = [file for file in (json_file, junit, scoreboard) if file is not None]
    for file in files:
        if not file.absolute().parent.is_dir():
            raise typer.BadParameter(f"{file}: there is no folder {file.parent}")
    before = _choose_backup_file(files[0] if files else None) if allow_model_changes or allow_lockout else None
    options = Options(
        writes=tier == "write" or allow_model_changes or allow_lockout,
        configures=allow_model_changes,
        locks_out=allow_lockout,
        exact_titles=exact_titles,
        before=before,
    )
    headers = dict(map(_parse_header, header or ()))
    # A program that runs this command, as `signalbook conform` does, passes a function for its own credentials.
    find_credentials: Callable[[str], httpx.Auth | None] = context.obj or _find_credentials
    auth = None if "authorization" in map(str.lower, headers) else find_credentials(url)
    wire = Wire(_drop_user(url), timeout=timeout, headers=headers, auth=auth)
    with _stop_on_sigterm(), wire, ConformanceSession(wire, options) as session:
        results = run_all(session, cases, track=_track)
    summary = Summary(url=wire.url, results=results, known=expected, unrestored=session.unrestored)
    _report(summary)
    _warn(summary, before)
    if json_file is not None:
        _write(json_file, as_json(summary))
    if junit is not None:
        _write(junit, as_junit(summary))
    if scoreboard is not None:
        page = scoreboard.read_text(encoding="utf-8") if scoreboard.exists() else ""
        _write(scoreboard, insert(page, summary, name=scoreboard_name).encode())
    if any(row.reason == INTERRUPTED for row in results):
        raise typer.Exit(130)
    if not summary.conforms or summary.unrestored:
        raise typer.Exit(1)


def main() -> None:
    """Run the command in ``sys.argv``; exits with 0, 1 after an error, 2 after one in the command line itself."""
    try:
        app()
    except (KitError, OSError) as error:
        _print_note(f"error: {error}")
        sys.exit(1)


def _find_credentials(url: str) -> httpx.Auth | None:
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return None
    return httpx.BasicAuth(unquote(parts.username or ""), unquote(parts.password or ""))


def _drop_user(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _write(path: Path, content: bytes) -> None:
    """Write a file next to ``path``, which then replaces it: a failure leaves the old content."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _print_line(text: str) -> None:
    _SafeConsole().print(text)


def _print_note(text: str, *, style: str = "") -> None:
    _SafeConsole(stderr=True).print(Text(text, style=style))


@contextmanager
def _stop_on_sigterm() -> Iterator[None]:
    """A stop from outside ends as Ctrl-C does: with everything put back and a report."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _choose_backup_file(beside: Path | None) -> Path:
    """Return an unused file name next to the results for the former model and capabilities."""
    folder, stem = (beside.parent, beside.stem) if beside else (Path(), "conform")
    return folder / f"{stem}.before-{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.json"


def _warn(summary: Summary, before: Path | None) -> None:
    for lost in summary.unrestored:
        _print_note(f"NOT PUT BACK: {lost}", style="bold red")
    if summary.unrestored and before:
        _print_note(f"{before} has what was there before. To put it back:")
        for part in ("capabilities", "modelsource"):
            command = f"curl -X PUT -H 'Content-Type: application/json' --data-binary @- {summary.url}/{part}"
            _print_note(f"  jq .{part} {before} | {command}")


def _select_cases(only: str) -> list[Case]:
    names = {name.strip() for name in only.split(",") if name.strip()}
    cases = [case for case in all_cases() if not names or names & {case.id, case.topic, *case.requirements}]
    valid_names = {name for case in all_cases() for name in (case.id, case.topic, *case.requirements)}
    if names - valid_names:
        raise typer.BadParameter(
            f"{', '.join(sorted(names - valid_names))}: no requirement, topic or case of that name; see --list",
            param_hint="--only",
        )
    return cases


def _parse_header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip().isascii():
        raise typer.BadParameter(f"{text!r} is no header: write 'NAME: VALUE'", param_hint="--header")
    return name.strip(), value.strip()


def _track(cases: Sequence[Case]) -> Iterable[Case]:
    screen = _SafeConsole(stderr=True)
    return track(cases, description="conforming", console=screen, transient=True, disable=not screen.is_terminal)


def _report(summary: Summary) -> None:
    """Print each topic, each failure with its exchange, the sections, the totals."""
    screen = _SafeConsole()
    for topic, rows in groupby(summary.results, key=lambda row: row.case.topic):
        _print_topic(screen, topic, list(rows), summary)
    _print_sections(screen, summary)
    _print_totals(screen, summary)
    for row in summary.mended():
        message = f"{row.case.id}: passed, though it is known to fail: remove it from the known failures"
        _print_note(message, style="yellow")


def _print_topic(screen: Console, topic: str, rows: list[CaseResult], summary: Summary) -> None:
    counts = ", ".join(
        f"{count} {outcome}" for outcome in CaseOutcome if (count := sum(row.outcome is outcome for row in rows))
    )
    screen.print(Text(f"{topic}: {counts}", style="bold"))
    for row in rows:
        if row.outcome is CaseOutcome.FAILED:
            _print_failure(screen, row, summary.known.get(row.case.id))
    for reason, group in groupby(
        sorted((row for row in rows if row.outcome is CaseOutcome.SKIPPED), key=lambda row: row.reason),
        key=lambda row: row.reason,
    ):
        screen.print(Text(f"  skipped {len(list(group))}: {reason}", style="dim"))


def _print_failure(screen: Console, row: CaseResult, known_reason: str | None) -> None:
    case = row.case
    screen.print(Text(f"  FAILED {case.id} ({row.level}; {' '.join(case.requirements)})", style="red"))
    screen.print(Text(f"    {case.says}"))
    if known_reason:
        screen.print(Text(f"    known: {known_reason}", style="yellow"))
        return
    for mismatch in row.mismatches:
        screen.print(Text(f"    {mismatch}"))
    if row.exchange:
        for mark, part in ((">", row.exchange.request), ("<", row.exchange.response)):
            screen.print(Text("\n".join(f"    {mark} {line}".rstrip() for line in str(part).splitlines()), style="dim"))


def _print_sections(screen: Console, summary: Summary) -> None:
    table = Table("section", "requirements", "with a case here", "passed", "failed", "skipped", box=None)
    for section, rows in requirement_coverage(summary.results):
        outcomes = [row.outcome for row in rows if row.results]
        if outcomes:
            counts = (len(rows), len(outcomes), *map(outcomes.count, _OUTCOMES))
            table.add_row(section.name, *map(str, counts))
    screen.print()
    screen.print(table)


_OUTCOMES: Final = ("passed", "failed", "skipped")


def _print_totals(screen: Console, summary: Summary) -> None:
    screen.print()
    for level in Level:
        counts = [f"{summary.count(outcome, level)} {outcome}" for outcome in CaseOutcome]
        screen.print(Text(f"{level}: {', '.join(counts)}"))
    verdict = "conforms" if summary.conforms else "does not conform"
    if summary.conforms and summary.count(CaseOutcome.FAILED, Level.MUST):
        verdict = "fails only what is known to fail"
    screen.print(Text(f"{summary.url} {verdict}", style="bold green" if summary.conforms else "bold red"))

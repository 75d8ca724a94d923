"""``signalbook pipeline status`` and ``profile``: what lies in an output folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from signalbook.cli.console import working
from signalbook.values import dump_json

if TYPE_CHECKING:
    from signalbook.pipeline import Profile

STATUS: Final = (
    "List the batches that were committed to an output folder: what was read, landed and sidelined, and why."
)
PROFILE: Final = (
    "Tell what is in the landed tables: how often each column is empty, its least and its greatest value, how many "
    "different ones there are, and what its definition declares and no message ever had."
)
OutputOption = Annotated[Path, typer.Option("--output", metavar="DIR", help="The output folder.", show_default=False)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")]


def status(output: OutputOption, as_json: JsonOption = False) -> None:
    """List the batches."""
    from rich.console import Console
    from rich.table import Table

    from signalbook import pipeline

    reports = pipeline.status(output)
    if as_json:
        for report in reports:
            typer.echo(dump_json(report.to_json()))
        return
    table = Table("batch")
    for name in ("read", "landed", "dead letters", "dropped"):
        table.add_column(name, justify="right")
    table.add_column("reasons")
    for report in reports:
        tally = report.tally
        counts = (tally.read, report.landed, tally.dead_lettered, tally.dropped)
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in tally.reasons.most_common())
        table.add_row(report.batch, *(f"{count:,}" for count in counts), reasons)
    Console(highlight=False).print(table)


def profile(
    output: OutputOption,
    definition: Annotated[
        list[str] | None,
        typer.Option(
            "--definition", metavar="XID", help="Only this message definition; may be given again.", show_default=False
        ),
    ] = None,
    master: Annotated[str, typer.Option("--master", help="Spark master.")] = "local[*]",
    as_json: JsonOption = False,
) -> None:
    """Profile the tables."""
    from signalbook import pipeline

    with working("reading") as tell:
        profiles = pipeline.profile(output, tuple(definition or ()), master, tell)
    for each in profiles:
        if as_json:
            typer.echo(dump_json(each.to_json()))
        else:
            _show(each)


def _show(found: Profile) -> None:
    from rich.console import Console
    from rich.table import Table

    screen = Console(highlight=False)
    table = Table(title=f"{found.definition}: {found.rows:,} rows", title_justify="left")
    table.add_column("column", overflow="fold")
    table.add_column("type", max_width=12, no_wrap=True)
    for name in ("empty", "distinct"):
        table.add_column(name, justify="right", no_wrap=True, min_width=8)
    for name in ("least", "greatest"):
        table.add_column(name, max_width=16, no_wrap=True)
    for column in found.columns:
        if column.payload:
            empty = f"{column.nulls / found.rows:.1%}" if found.rows else ""
            distinct = "" if column.distinct is None else f"{column.distinct:,}"
            table.add_row(column.name, column.type, empty, distinct, column.least, column.most)
    screen.print(table)
    if found.unseen:
        screen.print(f"declared, and never seen: {', '.join(found.unseen)}", soft_wrap=True)

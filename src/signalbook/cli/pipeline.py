"""``signalbook pipeline run``: messages against their definitions, into tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from signalbook.cli import infer, lake
from signalbook.cli.console import console
from signalbook.values import dump_json

if TYPE_CHECKING:
    from signalbook.pipeline import Progress, Report

HELP: Final = (
    "Hold messages to their definitions and land them as tables.\n\n"
    "Every message ends in the table of its definition or, untouched and with the reasons, among the dead letters. A "
    "second run of the same input with the same batch id changes nothing."
)
_SHOWN: Final = 40

app: Final = typer.Typer(help="Hold streams of messages to their definitions, on Spark.", no_args_is_help=True)


class TableFormat(StrEnum):
    """How tables are kept."""

    ICEBERG = "iceberg"
    PARQUET = "parquet"


app.command("infer", help=infer.HELP)(infer.run)
app.command("status", help=lake.STATUS)(lake.status)
app.command("profile", help=lake.PROFILE)(lake.profile)


@app.command("run", help=HELP)
def run(
    registry: Annotated[
        str, typer.Option("--registry", metavar="URL|FILE|DIR", help="Where the definitions are.", show_default=False)
    ],
    input: Annotated[
        list[str],
        typer.Option("--input", metavar="PATH", help="File, folder or glob; may be given again.", show_default=False),
    ],
    output: Annotated[Path, typer.Option("--output", metavar="DIR", help="Where to land.", show_default=False)],
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--group",
            metavar="XID",
            help="Only this message group or endpoint; may be given again.",
            show_default=False,
        ),
    ] = None,
    input_format: Annotated[
        str,
        typer.Option(
            "--input-format",
            metavar="FORMAT",
            help="What the input holds: cloudevents-jsonl, cloudevents-batch, http-jsonl.",
        ),
    ] = "cloudevents-jsonl",
    table_format: Annotated[TableFormat, typer.Option("--table-format", help="Kind of tables.")] = TableFormat.ICEBERG,
    batch_id: Annotated[
        str, typer.Option("--batch-id", metavar="ID", help="Name of this batch.", show_default="a new one each time")
    ] = "",
    master: Annotated[str, typer.Option("--master", help="Spark master.")] = "local[*]",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
) -> None:
    """Run one batch; progress goes to standard error, the result to standard output."""
    from signalbook import pipeline

    job = pipeline.Job(
        registry=registry,
        groups=tuple(group or ()),
        inputs=tuple(input),
        input_format=input_format,
        output=output,
        table_format=table_format.value,
        batch_id=batch_id,
        master=master,
    )
    with _shown_progress() as progress:
        report = pipeline.run(job, progress=progress)
    if as_json:
        typer.echo(dump_json(report.to_json()))
    else:
        _show(report)


@contextmanager
def _shown_progress() -> Iterator[Callable[[Progress], None]]:
    """A bar and counts on a terminal; elsewhere nothing."""
    from rich import progress as rich

    columns = (
        rich.SpinnerColumn(),
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.TextColumn("{task.fields[counts]}"),
        rich.TimeElapsedColumn(),
    )
    screen = console()
    with rich.Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bars:
        task = bars.add_task("starting", total=None, counts="")

        def show(now: Progress) -> None:
            counts = f"{now.read:,} read, {now.landed:,} landed, {now.dead_lettered:,} dead letters" if now.read else ""
            bars.update(task, description=now.stage, completed=now.done, total=now.total or None, counts=counts)

        yield show


def _show(report: Report) -> None:
    from rich.console import Console
    from rich.table import Table

    screen = Console(highlight=False)
    result = report.to_json()
    messages = Table("message", title="Messages", title_justify="left")
    for name in ("landed", "rejected"):
        messages.add_column(name, justify="right")
    busiest = sorted(result["by_message"].items(), key=lambda row: -row[1]["landed"] - row[1]["rejected"])
    for xid, counts in busiest[:_SHOWN]:
        messages.add_row(xid, f"{counts['landed']:,}", f"{counts['rejected']:,}")
    if len(busiest) > _SHOWN:
        messages.add_row(f"… and {len(busiest) - _SHOWN} more: --json lists all", "", "")
    screen.print(messages)
    if result["reasons"]:
        reasons = Table("reason", title="Dead letters", title_justify="left")
        reasons.add_column("messages", justify="right")
        for reason, count in sorted(result["reasons"].items(), key=lambda row: -row[1]):
            reasons.add_row(reason, f"{count:,}")
        screen.print(reasons)
    screen.print(
        f"{result['read']:,} read = {result['landed']:,} landed + {result['dead_lettered']:,} dead letters + "
        f"{result['dropped']:,} dropped, in {result['seconds']:,.1f} s ({result['events_per_second']:,.0f} a second)",
        soft_wrap=True,
    )
    if "note" in result:
        screen.print(result["note"], soft_wrap=True)

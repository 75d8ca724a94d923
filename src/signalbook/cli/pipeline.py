"""``signalbook pipeline run``: messages against their definitions, into tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from signalbook.cli import infer, jobs, lake, letters, reports, stream, tables
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


app.command("infer", help=infer.HELP)(infer.run)
app.command("stream", help=stream.HELP)(stream.stream)
app.command("replay", help=letters.REPLAY)(letters.replay)
app.command("backtest", help=letters.BACKTEST)(letters.backtest)
app.command("status", help=lake.STATUS)(lake.status)
app.command("profile", help=lake.PROFILE)(lake.profile)
app.command("metrics", help=reports.METRICS)(reports.metrics)
app.command("compact", help=tables.COMPACT)(tables.compact)
app.command("views", help=tables.VIEWS)(tables.views)


@app.command("run", help=HELP)
def run(
    job: jobs.JobOption = None,
    registry: jobs.RegistryOption = None,
    input: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="PATH|URL",
            help="File, folder, glob or URL such as kafka://HOST:PORT/TOPIC; may be given again.",
            show_default=False,
        ),
    ] = None,
    output: jobs.OutputOption = None,
    group: jobs.GroupOption = None,
    input_format: jobs.InputFormatOption = None,
    table_format: jobs.TableFormatOption = None,
    catalog: jobs.CatalogOption = None,
    partition: jobs.PartitionOption = None,
    option: jobs.OptionOption = None,
    batch_id: Annotated[
        str | None,
        typer.Option("--batch-id", metavar="ID", help="Name of this batch.", show_default="a new one each time"),
    ] = None,
    policy: jobs.PolicyOption = None,
    jars: jobs.JarsOption = None,
    master: jobs.MasterOption = None,
    report_to: reports.ReportToOption = None,
    name: reports.PipelineOption = None,
    metrics_file: reports.MetricsFileOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
) -> None:
    """Run one batch; progress goes to standard error, the result to standard output."""
    from signalbook import pipeline

    given = jobs.settings(
        job,
        registry=registry,
        groups=group,
        inputs=input,
        input_format=input_format,
        output=output,
        table_format=table_format,
        catalog=catalog,
        partition=partition,
        options=option,
        batch_id=batch_id,
        policy=policy,
        jars=jars,
        master=master,
    )
    options = pipeline.job_options(job, given)
    wanted = options.job()
    audience = reports.audience(options.report, to=report_to, name=name, metrics_file=metrics_file)
    with pipeline.reporting(wanted.output, audience, reports.say) as told, _shown_progress() as progress:
        report = pipeline.run(wanted, progress=progress)
        told()
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
    if result["violations"]:
        screen.print(reports.violations(result["violations"]))
    screen.print(
        f"{result['read']:,} read = {result['landed']:,} landed + {result['dead_lettered']:,} dead letters + "
        f"{result['dropped']:,} dropped, in {result['seconds']:,.1f} s ({result['events_per_second']:,.0f} a second)",
        soft_wrap=True,
    )
    if "seconds" in result["lag"]:
        screen.print(f"the newest event was {result['lag']['seconds']:,.0f} s old", soft_wrap=True)
    if "note" in result:
        screen.print(result["note"], soft_wrap=True)

"""``signalbook pipeline``: ``run`` and ``stream``, which land messages as tables; the other commands are beside it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from typer import Option

from signalbook.cli import infer, outputs, replay, tables
from signalbook.cli.console import (
    SHOWN_VIOLATIONS,
    CommandGroup,
    console,
    counts_table,
    declare_options,
    echo,
    notice,
    output,
    plain,
    table,
    violations_table,
)
from signalbook.tracing import program
from signalbook.values import JSONObject, dump_json, format_count
from signalbook.version import __version__

if TYPE_CHECKING:
    from rich.table import Table

    from signalbook.pipeline import JobOptions, Progress, Report
_MAX_MESSAGES_SHOWN: Final = 40
_TOO_MANY_DEAD_LETTERS: Final = 3
TableFormat = Literal["iceberg", "parquet", "delta"]
Partition = Literal["day", "none"]
OnDamage = Literal["land", "stop"]
_SOURCE_OPTIONS: Final = {
    "job": Annotated[
        Path | None, Option("--job", metavar="FILE", help="A job file, TOML or YAML; options count more.")
    ],
    "registry": Annotated[str | None, Option("--registry", metavar="URL|FILE|DIR", help="Where the definitions are.")],
}
_OUTPUT_OPTIONS: Final = {
    "output": Annotated[
        str | None, Option("--output", metavar="DIR|URL", help="Where to land: a folder, or a URL such as s3://...")
    ],
    "storage": outputs.StorageOption,
    "groups": replay.GroupOption,
    "subjects": replay.SubjectsOption,
    "input_format": Annotated[
        str | None,
        Option(
            "--input-format",
            metavar="FORMAT",
            help="What the input holds, such as cloudevents-jsonl, http-jsonl, kafka, nats.",
            show_default="cloudevents-jsonl, or what the URL says",
        ),
    ],
    "table_format": Annotated[
        TableFormat | None, Option("--table-format", help="Kind of tables.", show_default="iceberg")
    ],
    "catalog": Annotated[
        str | None,
        Option(
            "--catalog",
            metavar="NAME|URL",
            help="Iceberg catalog, as pyiceberg's configuration names it, or the URL of a REST catalog.",
            show_default="one in the output folder",
        ),
    ],
    "partition": Annotated[
        Partition | None, Option("--partition", help="How new tables are divided.", show_default="day")
    ],
    "options": Annotated[
        list[str] | None,
        Option(
            "--option",
            metavar="NAME=VALUE",
            help="An option of the source; ${NAME} in a value is an environment variable; may be given again.",
        ),
    ],
}
_SPARK_OPTIONS: Final = {
    "jars": Annotated[
        list[Path] | None,
        Option(
            "--jars",
            metavar="PATH",
            envvar="SIGNALBOOK_JARS",
            help="JAR files of Spark's connectors, or a folder of them, instead of fetching them.",
        ),
    ],
    "master": Annotated[str | None, Option("--master", help="Spark master.", show_default="local[*]")],
}
_REPORT_OPTIONS: Final = {
    "report_to": Annotated[
        str | None, Option("--report-to", metavar="URL", help="Send the reports of batches to this registry.")
    ],
    "report_name": tables.PipelineOption,
    "report_metrics_file": Annotated[
        str | None,
        Option(
            "--metrics-file",
            metavar="FILE",
            help="Replace this file by metrics after each batch; for node_exporter it ends in .prom.",
        ),
    ],
}
_RUN_OPTIONS: Final = {
    **_SOURCE_OPTIONS,
    "inputs": Annotated[
        list[str] | None,
        Option(
            "--input",
            metavar="PATH|URL",
            help="File, folder, glob or URL such as kafka://HOST:PORT/TOPIC; may be given again.",
        ),
    ],
    **_OUTPUT_OPTIONS,
    "batch_id": Annotated[
        str | None, Option("--batch-id", metavar="ID", help="Name of this batch.", show_default="a new one each time")
    ],
    "policy": replay.PolicyOption,
    "on_damaged_file": Annotated[
        OnDamage | None,
        Option(
            "--on-damaged-file",
            help="Land what is before the damage, which becomes a dead letter, or stop.",
            show_default="land",
        ),
    ],
    "max_dead_letters": Annotated[
        float | None,
        Option(
            "--max-dead-letters",
            metavar="SHARE",
            help="Exit with code 3 if a larger share of the messages became dead letters: 0 to 1.",
            show_default="any share",
        ),
    ],
    **_SPARK_OPTIONS,
    **_REPORT_OPTIONS,
    "as_json": Annotated[bool, Option("--json", help="Print the result as one JSON object.")],
}
_STREAM_OPTIONS: Final = {
    **_SOURCE_OPTIONS,
    "inputs": Annotated[
        list[str] | None,
        Option(
            "--input",
            metavar="URL",
            help="kafka://HOST:PORT/TOPIC, or such a URL of nats, mqtt or amqp; may be given again.",
        ),
    ],
    **_OUTPUT_OPTIONS,
    "stream_name": Annotated[
        str | None, Option("--name", metavar="NAME", help="Name of the stream.", show_default="stream")
    ],
    "stream_interval": Annotated[
        float | None, Option("--interval", metavar="SECONDS", help="Between batches.", show_default="10")
    ],
    "stream_max_messages": Annotated[
        int | None, Option("--max-messages", metavar="N", help="Most in a batch.", show_default="500000")
    ],
    "once": Annotated[bool, Option("--once", help="End when all that is there now is landed.")],
    "policy": replay.PolicyOption,
    **_SPARK_OPTIONS,
    **_REPORT_OPTIONS,
    "report_metrics_port": Annotated[
        int | None,
        Option(
            "--metrics-port", metavar="PORT", min=0, max=65535, help="Serve metrics at this port.", show_default="none"
        ),
    ],
    "report_metrics_host": Annotated[
        str | None,
        Option("--metrics-host", metavar="ADDRESS", help="Serve them at this address.", show_default="127.0.0.1"),
    ],
    "as_json": Annotated[bool, Option("--json", help="Print the result of each batch as one JSON object.")],
}
app: Final = CommandGroup(
    help="Check streams of messages against their definitions and land them, on Spark.", no_args_is_help=True
)


def _build_rescued_table(values: list[JSONObject]) -> Table:
    """Return a table of values without columns, the most frequent first."""
    from rich.text import Text

    grid = table("definition", "path", numbers=("messages",), title="In _rescue, since no column holds it")
    for value in values[:SHOWN_VIOLATIONS]:
        grid.add_row(*map(Text, (value["definition"], value["path"] or "others", f"{value['messages']:,}")))
    return grid


def _load_options(job: Path | None, given: dict[str, Any]) -> JobOptions:
    """Return the options of a job file, overridden by the options ``given`` on the command line.

    Names that begin with ``stream_`` and ``report_`` belong to these sections of a job file.
    """
    import msgspec

    from signalbook import pipeline
    from signalbook.messages import flag_settings

    for name, option in (("registry", "--registry"), ("inputs", "--input"), ("output", "--output")):
        if job is None and not given[name]:
            raise typer.BadParameter(f"{option} is missing, or --job with a file that says it")
    stream, report = _take_section(given, "stream_"), _take_section(given, "report_")
    for name, option in (("options", "--option"), ("storage", "--storage")):
        given[name] = None if given[name] is None else outputs.pairs(given[name], option)
    given["policy"] = None if given["policy"] is None else flag_settings(given["policy"])
    options = pipeline.job_options(job, given, **stream)
    return msgspec.structs.replace(options, report=msgspec.structs.replace(options.report, **report))


def _take_section(given: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Remove the options that begin with ``prefix``, and return those that have a value by their remaining names."""
    section = {name: given.pop(name) for name in list(given) if name.startswith(prefix)}
    return {name.removeprefix(prefix): value for name, value in section.items() if value is not None}


def run_stream(job: Path | None, once: bool, as_json: bool, **given: Any) -> None:
    """Land messages as they come, batch after batch.

    Every message is landed once, however often the stream is stopped or killed: under the same name it goes on where it
    ended. New definitions are followed between batches. SIGINT or SIGTERM ends it after the batch at work.
    """
    from signalbook import pipeline

    options = _load_options(job, given)
    stream_job = options.streaming(once=once)
    traced = program("pipeline stream", os.environ, __version__)
    reporting = pipeline.reporting(stream_job.job.place, options.report, notice)
    with traced, _stop_on_signals() as stop, reporting as committed:

        def done(report: Report) -> None:
            echo(_format_report(report, as_json))
            committed()

        pipeline.stream(stream_job, stop=stop, notify=notice, done=done)


def _format_report(report: Report, as_json: bool) -> str | bytes:
    if as_json:
        return dump_json(report.to_json())
    tally = report.tally
    counts = f"{tally.read:,} read = {report.landed:,} landed + {format_count(tally.dead_lettered, 'dead letter')}"
    return f"{report.batch}: {counts} + {tally.dropped:,} dropped, in {report.seconds:,.1f} s"


@contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    """Yield an event that the first SIGINT or SIGTERM sets. A second signal has its usual effect."""
    stop = threading.Event()
    before: dict[signal.Signals, Any] = {}

    def end(number: int, _frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])

    for stop_signal in (signal.SIGINT, signal.SIGTERM):
        before[stop_signal] = signal.signal(stop_signal, end)
    try:
        yield stop
    finally:
        for stop_signal, handler in before.items():
            signal.signal(stop_signal, handler)


def run(job: Path | None, as_json: bool, **given: Any) -> None:
    """Check messages against their definitions and land them as tables.

    Every message ends in the table of its definition or, untouched and with the reasons, among the dead letters. A
    second run of the same input with the same batch id changes nothing.
    """
    from signalbook import pipeline

    options = _load_options(job, given)
    landing_job = options.job()
    traced = program("pipeline run", os.environ, __version__)
    with (
        traced,
        pipeline.reporting(landing_job.place, options.report, notice) as committed,
        show_progress() as progress,
    ):
        report = pipeline.run(landing_job, progress=progress, notify=notice)
        committed()
    if as_json:
        echo(dump_json(report.to_json()))
    else:
        _print_report(report)
    _check_dead_letters(report, landing_job.max_dead_letters)


def _check_dead_letters(report: Report, most: float | None) -> None:
    """Exit with a code of its own if the batch, which is committed, has too large a share of dead letters."""
    if most is not None and report.dead_letter_share > most:
        counts = f"{report.tally.dead_lettered:,} of {format_count(report.tally.read, 'message')}"
        notice(f"batch {report.batch} is committed, but {counts} became dead letters: at most {most:.2%} may")
        raise typer.Exit(_TOO_MANY_DEAD_LETTERS)


@contextmanager
def show_progress() -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows progress on a terminal: a bar and counts. Elsewhere it shows nothing."""
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
            dead = format_count(now.dead_lettered, "dead letter")
            counts = f"{now.read:,} read, {now.landed:,} landed, {dead}" if now.read else ""
            bars.update(task, description=now.stage, completed=now.done, total=now.total or None, counts=counts)

        yield show


def _print_report(report: Report) -> None:
    screen = output()
    result = report.to_json()
    messages = table("message", numbers=("landed", "rejected"), title="Messages")
    busiest = sorted(result["by_message"].items(), key=lambda row: -row[1]["landed"] - row[1]["rejected"])
    for xid, counts in busiest[:_MAX_MESSAGES_SHOWN]:
        messages.add_row(xid, f"{counts['landed']:,}", f"{counts['rejected']:,}")
    if len(busiest) > _MAX_MESSAGES_SHOWN:
        messages.add_row(f"… and {len(busiest) - _MAX_MESSAGES_SHOWN} more: --json lists all", "", "")
    screen.print(messages)
    if result["reasons"]:
        reasons = sorted(result["reasons"].items(), key=lambda row: -row[1])
        screen.print(counts_table("reason", "Dead letters", reasons))
    if result["violations"]:
        screen.print(violations_table(result["violations"]))
    if "rescued" in result:
        screen.print(_build_rescued_table(result["rescued"]))
    if duplicates := report.tally.duplicates.total():
        screen.print(f"{duplicates:,} landed with a name twice in one object: the last one counts", soft_wrap=True)
    screen.print(
        f"{result['read']:,} read = {result['landed']:,} landed + "
        f"{format_count(result['dead_lettered'], 'dead letter')} + {result['dropped']:,} dropped, "
        f"in {result['seconds']:,.1f} s ({result['events_per_second']:,.0f} a second)",
        soft_wrap=True,
    )
    if "seconds" in result["lag"]:
        screen.print(f"the newest event was {result['lag']['seconds']:,.0f} s old", soft_wrap=True)
    for xid, reasons in list(result.get("left_out", {}).items())[:_MAX_MESSAGES_SHOWN]:
        screen.print(plain(f"left out: {xid}: {'; '.join(reasons)}"), soft_wrap=True)
    if "note" in result:
        screen.print(result["note"], soft_wrap=True)


declare_options(run, _RUN_OPTIONS)
declare_options(run_stream, _STREAM_OPTIONS)
app.command("infer")(infer.run)
app.command("stream")(run_stream)
app.command("replay")(replay.replay)
app.command("backtest")(replay.backtest)
app.command("status")(tables.status)
app.command("profile")(tables.profile)
app.command("metrics")(tables.metrics)
app.command("compact")(tables.compact)
app.command("backfill")(tables.backfill)
app.command("views")(tables.views)
app.command("run")(run)

"""``signalbook pipeline stream``: messages as they come, against their definitions, into tables."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from signalbook.cli import letters, reports
from signalbook.values import dump_json

if TYPE_CHECKING:
    from signalbook.pipeline import Report

HELP: Final = (
    "Land messages as they come, batch after batch.\n\n"
    "Every message is landed once, however often the stream is stopped or killed: under the same name it goes on where "
    "it ended. New definitions are followed between batches. SIGINT or SIGTERM ends it after the batch at work."
)
JobOption = Annotated[
    Path | None,
    typer.Option("--job", metavar="FILE", help="A job file, TOML or YAML; options count more.", show_default=False),
]
JarsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--jars",
        metavar="PATH",
        envvar="SIGNALBOOK_JARS",
        help="JAR files of Spark's connectors, or a folder of them, instead of fetching them.",
        show_default=False,
    ),
]


RegistryOption = Annotated[
    str | None,
    typer.Option("--registry", metavar="URL|FILE|DIR", help="Where the definitions are.", show_default=False),
]
OutputOption = Annotated[str | None, typer.Option("--output", metavar="DIR", help="Where to land.", show_default=False)]
CatalogOption = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        metavar="NAME|URL",
        help="Iceberg catalog, as pyiceberg's configuration names it, or the URL of a REST catalog.",
        show_default="one in the output folder",
    ),
]
MasterOption = Annotated[str | None, typer.Option("--master", help="Spark master.", show_default="local[*]")]


def stream(
    job: JobOption = None,
    registry: RegistryOption = None,
    input: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="URL",
            help="kafka://HOST:PORT/TOPIC, or such a URL of nats, mqtt or amqp; may be given again.",
            show_default=False,
        ),
    ] = None,
    output: OutputOption = None,
    catalog: CatalogOption = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the stream.", show_default="stream")
    ] = None,
    interval: Annotated[
        float | None, typer.Option("--interval", metavar="SECONDS", help="Between batches.", show_default="10")
    ] = None,
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", metavar="N", help="Most in a batch.", show_default="500000")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End when all that is there now is landed.")] = False,
    policy: letters.PolicyOption = None,
    jars: JarsOption = None,
    master: MasterOption = None,
    report_to: reports.ReportToOption = None,
    pipeline_name: reports.PipelineOption = None,
    metrics_file: reports.MetricsFileOption = None,
    metrics_port: reports.MetricsPortOption = None,
    metrics_host: reports.MetricsHostOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result of each batch as one JSON object.")] = False,
) -> None:
    """Land a stream; what people should know goes to standard error, the result of each batch to standard output."""
    from signalbook import pipeline
    from signalbook.messages import flag_settings

    timing = {"name": name, "interval": interval, "max_messages": max_messages}
    given: dict[str, Any] = {"registry": registry, "inputs": input, "output": output, "jars": jars, "master": master}
    given["catalog"] = catalog
    given["policy"] = None if policy is None else flag_settings(policy)
    require(job, given)
    options = pipeline.job_options(job, given, **timing)
    audience = reports.audience(
        options.report,
        to=report_to,
        name=pipeline_name,
        metrics_file=metrics_file,
        metrics_port=metrics_port,
        metrics_host=metrics_host,
    )
    wanted = options.streaming(once=once)
    with _stopped_by_signals() as stop, pipeline.reporting(wanted.job.output, audience, reports.say) as told:

        def done(report: Report) -> None:
            typer.echo(_line(report, as_json))
            told()

        pipeline.stream(wanted, stop=stop, tell=reports.say, done=done)


def require(job: Path | None, given: Mapping[str, object]) -> None:
    """Raise for what neither the command line says nor a job file may say."""
    for name, option in (("registry", "--registry"), ("inputs", "--input"), ("output", "--output")):
        if job is None and not given[name]:
            raise typer.BadParameter(f"{option} is missing, or --job with a file that says it")


def _line(report: Report, as_json: bool) -> str | bytes:
    if as_json:
        return dump_json(report.to_json())
    tally = report.tally
    counts = f"{tally.read:,} read = {report.landed:,} landed + {tally.dead_lettered:,} dead letters"
    return f"{report.batch}: {counts} + {tally.dropped:,} dropped, in {report.seconds:,.1f} s"


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """An event that the first SIGINT or SIGTERM sets; a second one means it, as ever."""
    stop = threading.Event()
    before: dict[signal.Signals, Any] = {}

    def end(number: int, _frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])

    for each in (signal.SIGINT, signal.SIGTERM):
        before[each] = signal.signal(each, end)
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)

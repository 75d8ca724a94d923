"""``signalbook pipeline stream``: messages as they come, against their definitions, into tables."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from signalbook.cli import jobs, reports
from signalbook.values import dump_json

if TYPE_CHECKING:
    from signalbook.pipeline import Report

HELP: Final = (
    "Land messages as they come, batch after batch.\n\n"
    "Every message is landed once, however often the stream is stopped or killed: under the same name it goes on where "
    "it ended. New definitions are followed between batches. SIGINT or SIGTERM ends it after the batch at work."
)


def stream(
    job: jobs.JobOption = None,
    registry: jobs.RegistryOption = None,
    input: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="URL",
            help="kafka://HOST:PORT/TOPIC, or such a URL of nats, mqtt or amqp; may be given again.",
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
    policy: jobs.PolicyOption = None,
    jars: jobs.JarsOption = None,
    master: jobs.MasterOption = None,
    report_to: reports.ReportToOption = None,
    pipeline_name: reports.PipelineOption = None,
    metrics_file: reports.MetricsFileOption = None,
    metrics_port: reports.MetricsPortOption = None,
    metrics_host: reports.MetricsHostOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result of each batch as one JSON object.")] = False,
) -> None:
    """Land a stream; what people should know goes to standard error, the result of each batch to standard output."""
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
        policy=policy,
        jars=jars,
        master=master,
    )
    timing = {"name": name, "interval": interval, "max_messages": max_messages}
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

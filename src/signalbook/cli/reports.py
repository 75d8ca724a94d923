"""``signalbook pipeline metrics``, the history of reports, and options for where reports of batches go."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from signalbook.cli.console import plain
from signalbook.values import JSONObject, dump_json

if TYPE_CHECKING:
    from rich.table import Table

    from signalbook.pipeline import ReportOptions

_SHOWN: Final = 10
METRICS: Final = (
    "Print the metrics of all batches that were committed to an output folder, in Prometheus' text format.\n\n"
    "To have them collected, let `pipeline run` or `stream` write --metrics-file, or serve them at --metrics-port."
)
ReportToOption = Annotated[
    str | None, typer.Option("--report-to", metavar="URL", help="Send the reports of batches to this registry.")
]
PipelineOption = Annotated[
    str | None,
    typer.Option(
        "--pipeline",
        metavar="NAME",
        help="What the pipeline is called there and in metrics.",
        show_default="the name of the output folder",
    ),
]
MetricsFileOption = Annotated[
    str | None,
    typer.Option(
        "--metrics-file",
        metavar="FILE",
        help="Replace this file by metrics after each batch; for node_exporter it ends in .prom.",
    ),
]
MetricsPortOption = Annotated[
    int | None,
    typer.Option(
        "--metrics-port", metavar="PORT", min=0, max=65535, help="Serve metrics at this port.", show_default="none"
    ),
]
MetricsHostOption = Annotated[
    str | None,
    typer.Option("--metrics-host", metavar="ADDRESS", help="Serve them at this address.", show_default="127.0.0.1"),
]


def audience(found: ReportOptions, **given: str | int | None) -> ReportOptions:
    """What a job file says, but for what options say otherwise."""
    import msgspec

    return msgspec.structs.replace(found, **{name: value for name, value in given.items() if value is not None})


def say(words: str) -> None:
    """What people should know while a batch or a stream goes on."""
    typer.echo(f"signalbook: {plain(words)}", err=True)


def violations(found: list[JSONObject]) -> Table:
    """The violations of a report, those met most."""
    from rich.table import Table
    from rich.text import Text

    table = Table("definition", "path", "rule", title="Violations", title_justify="left")
    table.add_column("messages", justify="right")
    table.add_column("for example", overflow="fold")
    for each in found[:_SHOWN]:
        example = each["example"]
        where = f"{example['source'].rpartition('/')[2]}:{example['position']}: {example['message']}"
        table.add_row(*map(Text, (each["definition"], each["path"], each["rule"], f"{each['messages']:,}", where)))
    return table


def metrics(
    output: Annotated[Path, typer.Argument(metavar="DIR", help="The output folder.")],
    pipeline: PipelineOption = None,
) -> None:
    """Print metrics."""
    from signalbook.pipeline import exposition

    sys.stdout.buffer.write(exposition(output, pipeline or ""))


def history(url: str, name: str | None, *, as_json: bool) -> None:
    """Print the pipelines that a registry knows of, or the reports of one, the newest first."""
    from signalbook.cli.registry import open_client

    with open_client(url) as client:
        for each in client.pipelines if name is None else client.pipelines.reports(name):
            report = each["last"] if name is None else each["report"]
            if as_json:
                typer.echo(dump_json(each))
                continue
            counts = f"{report['read']:,} read = {report['landed']:,} landed + {report['dead_lettered']:,} dead letters"
            shown = (each.get("name", ""), report["batch"], report.get("finished", ""), counts)
            typer.echo("\t".join(plain(text) for text in shown if text) + f" + {report['dropped']:,} dropped")

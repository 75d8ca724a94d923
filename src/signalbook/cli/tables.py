"""``signalbook pipeline status``, ``profile``, ``metrics``, ``compact`` and ``views``: what an output folder holds."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer import Option

from signalbook.cli import console
from signalbook.cli.console import echo, notice, plain, table, working
from signalbook.cli.outputs import OutputOption, StorageOption, place
from signalbook.cli.replay import MasterOption, PolicyOption, RegistryOption, SubjectsOption
from signalbook.values import dump_json

if TYPE_CHECKING:
    from rich.table import Table

    from signalbook.pipeline import Backfill, Compaction, Place, Profile, Progress, StreamState
_MIB: Final = 1024 * 1024
# Of the table of a profile: of names at most, of types, of counts, and what lines and blanks take between six columns.
_NAME_WIDTH: Final = 24
_TYPE_WIDTH: Final = 12
_COUNT_WIDTH: Final = 8
_LINES: Final = 19
JsonOption = Annotated[bool, Option("--json", help="Print one JSON object a line.")]
PipelineOption = Annotated[
    str | None,
    Option(
        "--pipeline",
        metavar="NAME",
        help="What the pipeline is called there and in metrics.",
        show_default="the name of the output folder",
    ),
]
DefinitionOption = Annotated[
    list[str] | None, Option("--definition", metavar="XID", help="Only this message definition; may be given again.")
]


def status(
    output: Annotated[str | None, Option("--output", metavar="DIR|URL", help="The output: a folder, or a URL.")] = None,
    registry: Annotated[
        str | None, Option("--registry", metavar="URL", help="What was reported to this registry instead.")
    ] = None,
    name: Annotated[str | None, Option("--pipeline", metavar="NAME", help="There, all reports of this one.")] = None,
    storage: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the streams and the batches that were committed to an output folder: what was read, landed and
    dead-lettered, and why.
    """
    if registry is not None and output is None:
        _history(registry, name, as_json=as_json)
    elif output is not None and registry is None and name is None:
        _batches(place(output, storage), as_json)
    else:
        raise typer.BadParameter("give either --output, or --registry with or without --pipeline")


def _history(url: str, name: str | None, *, as_json: bool) -> None:
    """Print the pipelines that a registry knows of, or the reports of one, the newest first."""
    from signalbook.cli.registry import open_client

    with open_client(url) as client:
        for each in client.pipelines if name is None else client.pipelines.reports(name):
            report = each["last"] if name is None else each["report"]
            if as_json:
                echo(dump_json(each))
                continue
            counts = f"{report['read']:,} read = {report['landed']:,} landed + {report['dead_lettered']:,} dead letters"
            shown = (each.get("name", ""), report["batch"], report.get("finished", ""), counts)
            echo("\t".join(plain(text) for text in shown if text) + f" + {report['dropped']:,} dropped")


def _batches(output: Place, as_json: bool) -> None:
    from signalbook import pipeline

    found = pipeline.status(output)
    if as_json:
        for line in [*(each.to_json() for each in found.streams), *(each.to_json() for each in found.reports)]:
            echo(dump_json(line))
        return
    if found.streams:
        console.output().print(_streams(found.streams))
    batches = table("batch", numbers=("read", "landed", "dead letters", "dropped"))
    batches.add_column("reasons")
    for report in found.reports:
        tally = report.tally
        counts = (tally.read, report.landed, tally.dead_lettered, tally.dropped)
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in tally.reasons.most_common())
        batches.add_row(report.batch, *(f"{count:,}" for count in counts), reasons)
    console.output().print(batches)


def _streams(streams: Sequence[StreamState]) -> Table:
    found = table("stream", numbers=("batches", "read", "landed", "dead letters", "dropped"))
    found.add_column("last batch")
    for each in streams:
        tally = each.tally
        counts = (each.batches, tally.read, tally.landed.total(), tally.dead_lettered, tally.dropped)
        finished = f"{each.finished:%Y-%m-%d %H:%M:%S} UTC" if each.finished else ""
        found.add_row(each.name, *(f"{count:,}" for count in counts), finished)
    return found


def profile(
    output: OutputOption,
    definition: DefinitionOption = None,
    registry: Annotated[
        str | None,
        Option("--registry", metavar="URL|FILE|DIR", help="Show where these definitions differ from the tables."),
    ] = None,
    master: MasterOption = "local[*]",
    storage: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what is in the landed tables: how often each column is empty, its least and its greatest value, how many
    different ones there are, and what its definition declares and no message ever had.
    """
    from signalbook import pipeline

    with working("reading") as progress:
        profiles = pipeline.profile(place(output, storage), tuple(definition or ()), master, progress, registry)
    for each in profiles:
        if as_json:
            echo(dump_json(each.to_json()))
        else:
            _show_profile(each)


def _show_profile(found: Profile) -> None:
    from rich.table import Table

    screen = console.output()
    columns = Table(title=f"{found.definition}: {found.rows:,} rows", title_justify="left")
    payload = [column for column in found.columns if column.payload]
    # Names say what the rest is about: on a narrow screen values are cut off before names are folded.
    widest = min(max(map(len, ["column", *(column.name for column in payload)])), _NAME_WIDTH)
    columns.add_column("column", overflow="fold", min_width=widest)
    columns.add_column("type", max_width=_TYPE_WIDTH, no_wrap=True)
    for name in ("empty", "distinct"):
        columns.add_column(name, justify="right", no_wrap=True, min_width=_COUNT_WIDTH)
    taken = widest + _TYPE_WIDTH + 2 * _COUNT_WIDTH + _LINES
    for name in ("least", "greatest"):
        columns.add_column(name, max_width=max((screen.width - taken) // 2, _COUNT_WIDTH), no_wrap=True)
    for column in payload:
        empty = f"{column.nulls / found.rows:.1%}" if found.rows else ""
        distinct = "" if column.distinct is None else f"{column.distinct:,}"
        columns.add_row(column.name, column.type, empty, distinct, column.least, column.most)
    screen.print(columns)
    if found.unseen:
        screen.print(f"declared, and never seen: {', '.join(found.unseen)}", soft_wrap=True)
    if found.undeclared:
        screen.print(f"seen, and not declared: {', '.join(found.undeclared)}", soft_wrap=True)


def compact(
    output: OutputOption,
    definition: DefinitionOption = None,
    target_size: Annotated[
        int, Option("--target-size", metavar="MIB", min=1, help="How large files are to become at most.")
    ] = 256,
    storage: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make few large files of the many small ones that batches leave, table by table. A batch that is landed in the
    same output is waited for, a minute at most; killed, it is completed or forgotten by whatever works there next.
    """
    from signalbook import pipeline

    with working("looking for small files") as shown:

        def show(progress: Progress) -> None:
            if progress.stage == "compacting":
                shown(f"compacting: {progress.done / _MIB:,.0f} of {progress.total / _MIB:,.0f} MiB")

        done = pipeline.compact(place(output, storage), tuple(definition or ()), target_size * _MIB, show)
    if as_json:
        for each in done:
            echo(dump_json(each.to_json()))
    else:
        _show_compaction(done)


def _show_compaction(done: Sequence[Compaction]) -> None:
    if not done:
        echo("nothing to compact")
        return
    tables = table("table", numbers=("rows", "files before", "after", "MiB before", "after"))
    for each in done:
        sizes = (f"{size / _MIB:,.1f}" for size in (each.bytes_before, each.bytes_after))
        tables.add_row(str(each.table), f"{each.rows:,}", f"{each.files_before:,}", f"{each.files_after:,}", *sizes)
    console.output().print(tables)


def backfill(
    output: OutputOption,
    registry: RegistryOption,
    definition: DefinitionOption = None,
    subjects: SubjectsOption = None,
    policy: PolicyOption = None,
    storage: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fill columns that definitions declare by now, of rows that landed before: from what these have in _rescue. Rows
    that do not conform to their definition as it is now stay as they are. A batch that is landed in the same output is
    waited for, a minute at most; killed, it is completed or forgotten by whatever works there next.
    """
    from signalbook import pipeline
    from signalbook.messages import parse_flags

    with working("reading definitions") as shown:

        def show(progress: Progress) -> None:
            if progress.stage == "compacting":
                shown(f"reading: {progress.done / _MIB:,.0f} of {progress.total / _MIB:,.0f} MiB")

        wanted = tuple(definition or ())
        policies, named = parse_flags(policy or ()), subjects or ""
        done = pipeline.backfill(
            place(output, storage), registry, wanted, policies, show, notify=notice, subjects=named
        )
    if as_json:
        for each in done:
            echo(dump_json(each.to_json()))
    else:
        _show_backfill(done)


def _show_backfill(done: Sequence[Backfill]) -> None:
    if not done:
        echo("nothing to fill")
        return
    tables = table("table", numbers=("rows filled", "unfit", "files"))
    for each in done:
        tables.add_row(str(each.table), f"{each.filled:,}", f"{each.unfit:,}", f"{each.files:,}")
    console.output().print(tables)
    for each in done:
        if each.refused:
            echo(f"{each.table} has other columns of these names: {', '.join(map(plain, each.refused))}")


def views(
    output: OutputOption,
    definition: DefinitionOption = None,
    catalog: Annotated[
        str,
        Option(
            "--catalog",
            metavar="NAME",
            help="What Spark calls the catalog of the Iceberg tables.",
            show_default="the name pyiceberg has for it",
        ),
    ] = "",
    storage: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the SQL of a view for each message definition, over all of its tables: a definition has several once its
    columns changed in a way that no table can follow.
    """
    from signalbook import pipeline

    for view in pipeline.views(place(output, storage), tuple(definition or ()), catalog):
        echo(dump_json(view) if as_json else f"{view['sql']};\n")


def metrics(output: OutputOption, pipeline: PipelineOption = None, storage: StorageOption = None) -> None:
    """Print the metrics of all batches that were committed to an output folder, in Prometheus' text format.

    To have them collected, let `pipeline run` or `stream` write --metrics-file, or serve them at --metrics-port.
    """
    from signalbook.pipeline import exposition

    sys.stdout.buffer.write(exposition(place(output, storage), pipeline or ""))

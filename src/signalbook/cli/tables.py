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
from signalbook.cli.registry import RegistryOption, add_slashes
from signalbook.cli.replay import MasterOption, PolicyOption, SubjectsOption
from signalbook.values import dump_json, format_count

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
    list[str] | None,
    Option(
        "--definition",
        metavar="XID",
        callback=add_slashes,
        help="Only this message definition; may be given again.",
    ),
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
        _print_history(registry, name, as_json=as_json)
    elif output is not None and registry is None and name is None:
        _print_batches(place(output, storage), as_json)
    else:
        raise typer.BadParameter("give either --output, or --registry with or without --pipeline")


def _print_history(url: str, name: str | None, *, as_json: bool) -> None:
    """Print the pipelines that a registry knows of, or the reports of one, the newest first."""
    from signalbook.cli.registry import open_client

    with open_client(url) as client:
        for row in client.pipelines if name is None else client.pipelines.reports(name):
            report = row["last"] if name is None else row["report"]
            if as_json:
                echo(dump_json(row))
                continue
            dead = format_count(report["dead_lettered"], "dead letter")
            counts = f"{report['read']:,} read = {report['landed']:,} landed + {dead}"
            columns = (row.get("name", ""), report["batch"], report.get("finished", ""), counts)
            echo("\t".join(plain(text) for text in columns if text) + f" + {report['dropped']:,} dropped")


def _print_batches(output: Place, as_json: bool) -> None:
    from signalbook import pipeline

    state = pipeline.status(output)
    if as_json:
        for line in [*(entry.to_json() for entry in state.streams), *(entry.to_json() for entry in state.reports)]:
            echo(dump_json(line))
        return
    if state.streams:
        console.output().print(_build_streams_table(state.streams))
    batches = table("batch", numbers=("read", "landed", "dead letters", "dropped"))
    batches.add_column("reasons")
    for report in state.reports:
        tally = report.tally
        counts = (tally.read, report.landed, tally.dead_lettered, tally.dropped)
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in tally.reasons.most_common())
        batches.add_row(report.batch, *(f"{count:,}" for count in counts), reasons)
    console.output().print(batches)


def _build_streams_table(streams: Sequence[StreamState]) -> Table:
    grid = table("stream", numbers=("batches", "read", "landed", "dead letters", "dropped"))
    grid.add_column("last batch")
    for stream in streams:
        tally = stream.tally
        counts = (stream.batches, tally.read, tally.landed.total(), tally.dead_lettered, tally.dropped)
        finished = f"{stream.finished:%Y-%m-%d %H:%M:%S} UTC" if stream.finished else ""
        grid.add_row(stream.name, *(f"{count:,}" for count in counts), finished)
    return grid


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
    for table_profile in profiles:
        if as_json:
            echo(dump_json(table_profile.to_json()))
        else:
            _show_profile(table_profile)


def _show_profile(profile: Profile) -> None:
    from rich.table import Table

    screen = console.output()
    columns = Table(title=f"{profile.definition}: {format_count(profile.rows, 'row')}", title_justify="left")
    payload = [column for column in profile.columns if column.payload]
    # Names say what the rest is about: on a narrow screen values are cut off before names are folded.
    widest = min(max(map(len, ["column", *(column.name for column in payload)])), _NAME_WIDTH)
    columns.add_column("column", overflow="fold", min_width=widest)
    columns.add_column("type", max_width=_TYPE_WIDTH, no_wrap=True)
    for name in ("empty", "distinct"):
        columns.add_column(name, justify="right", no_wrap=True, min_width=_COUNT_WIDTH)
    used_width = widest + _TYPE_WIDTH + 2 * _COUNT_WIDTH + _LINES
    for name in ("least", "greatest"):
        columns.add_column(name, max_width=max((screen.width - used_width) // 2, _COUNT_WIDTH), no_wrap=True)
    for column in payload:
        empty = f"{column.nulls / profile.rows:.1%}" if profile.rows else ""
        distinct = "" if column.distinct is None else f"{column.distinct:,}"
        columns.add_row(column.name, column.type, empty, distinct, column.least, column.most)
    screen.print(columns)
    if profile.unseen:
        screen.print(f"declared, and never seen: {', '.join(profile.unseen)}", soft_wrap=True)
    if profile.undeclared:
        screen.print(f"seen, and not declared: {', '.join(profile.undeclared)}", soft_wrap=True)


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

    with working("looking for small files") as update:

        def show(progress: Progress) -> None:
            if progress.stage == "compacting":
                update(f"compacting: {progress.done / _MIB:,.0f} of {progress.total / _MIB:,.0f} MiB")

        compactions = pipeline.compact(place(output, storage), tuple(definition or ()), target_size * _MIB, show)
    if as_json:
        for compaction in compactions:
            echo(dump_json(compaction.to_json()))
    else:
        _show_compaction(compactions)


def _show_compaction(compactions: Sequence[Compaction]) -> None:
    if not compactions:
        echo("nothing to compact")
        return
    tables = table("table", numbers=("rows", "files before", "after", "MiB before", "after"))
    for compaction in compactions:
        sizes = (f"{size / _MIB:,.1f}" for size in (compaction.bytes_before, compaction.bytes_after))
        tables.add_row(
            str(compaction.table),
            f"{compaction.rows:,}",
            f"{compaction.files_before:,}",
            f"{compaction.files_after:,}",
            *sizes,
        )
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

    with working("reading definitions") as update:

        def show(progress: Progress) -> None:
            if progress.stage == "compacting":
                update(f"reading: {progress.done / _MIB:,.0f} of {progress.total / _MIB:,.0f} MiB")

        definitions = tuple(definition or ())
        policies, subject_names = parse_flags(policy or ()), subjects or ""
        results = pipeline.backfill(
            place(output, storage), registry, definitions, policies, show, notify=notice, subjects=subject_names
        )
    if as_json:
        for result in results:
            echo(dump_json(result.to_json()))
    else:
        _show_backfill(results)


def _show_backfill(results: Sequence[Backfill]) -> None:
    if not results:
        echo("nothing to fill")
        return
    tables = table("table", numbers=("rows filled", "unfit", "files"))
    for result in results:
        tables.add_row(str(result.table), f"{result.filled:,}", f"{result.unfit:,}", f"{result.files:,}")
    console.output().print(tables)
    for result in results:
        if result.refused:
            echo(f"{result.table} has other columns of these names: {', '.join(map(plain, result.refused))}")


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

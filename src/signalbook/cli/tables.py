"""``signalbook pipeline compact`` and ``views``: the tables of an output folder, kept in order and seen as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from signalbook.cli.console import working
from signalbook.cli.lake import JsonOption, OutputOption
from signalbook.values import dump_json

if TYPE_CHECKING:
    from signalbook.pipeline import Compaction, Progress

COMPACT: Final = (
    "Make few large files of the many small ones that batches leave, table by table. A batch that is "
    "landed in the same output is waited for, a minute at most; killed, it is completed or forgotten by whatever works "
    "there next."
)
VIEWS: Final = (
    "Print the SQL of a view for each message definition, over all of its tables: a definition has several once its "
    "columns changed in a way that no table can follow."
)
_MIB: Final = 1024 * 1024

DefinitionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--definition", metavar="XID", help="Only this message definition; may be given again.", show_default=False
    ),
]


def compact(
    output: OutputOption,
    definition: DefinitionOption = None,
    target_size: Annotated[
        int, typer.Option("--target-size", metavar="MIB", min=1, help="How large files are to become at most.")
    ] = 256,
    as_json: JsonOption = False,
) -> None:
    """Compact tables."""
    from signalbook import pipeline

    with working("looking for small files") as tell:

        def show(progress: Progress) -> None:
            if progress.stage == "compacting":
                tell(f"compacting: {progress.done / _MIB:,.0f} of {progress.total / _MIB:,.0f} MiB")

        done = pipeline.compact(output, tuple(definition or ()), target_size * _MIB, show)
    if as_json:
        for each in done:
            typer.echo(dump_json(each.to_json()))
    else:
        _show(done)


def _show(done: Sequence[Compaction]) -> None:
    from rich.console import Console
    from rich.table import Table

    if not done:
        typer.echo("nothing to compact")
        return
    table = Table("table")
    for name in ("rows", "files before", "after", "MiB before", "after"):
        table.add_column(name, justify="right")
    for each in done:
        sizes = (f"{size / _MIB:,.1f}" for size in (each.bytes_before, each.bytes_after))
        table.add_row(str(each.table), f"{each.rows:,}", f"{each.files_before:,}", f"{each.files_after:,}", *sizes)
    Console(highlight=False).print(table)


def views(
    output: OutputOption,
    definition: DefinitionOption = None,
    catalog: Annotated[
        str, typer.Option("--catalog", metavar="NAME", help="What Spark calls the catalog of the Iceberg tables.")
    ] = "default",
    as_json: JsonOption = False,
) -> None:
    """Print statements that make views."""
    from signalbook import pipeline

    for view in pipeline.views(output, tuple(definition or ()), catalog):
        typer.echo(dump_json(view) if as_json else f"{view['sql']};\n")

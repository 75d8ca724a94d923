"""``signalbook pipeline replay`` and ``backtest``: dead letters and history against other definitions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
from typer import Option

from signalbook.cli import console
from signalbook.cli.console import counts_table, echo, notice, plain, working
from signalbook.cli.outputs import OutputOption, StorageOption, place
from signalbook.cli.registry import RegistryOption, add_slashes
from signalbook.values import dump_json, format_count

if TYPE_CHECKING:
    from signalbook.pipeline import Backtest, Progress, Replay

Subjects = Literal["topic", "record", "topic-record"]
GroupOption = Annotated[
    list[str] | None,
    Option(
        "--group",
        metavar="XID",
        callback=add_slashes,
        help="Only this message group or endpoint; may be given again.",
    ),
]
SubjectsOption = Annotated[
    Subjects | None,
    Option("--subjects", help="Take subjects for definitions, which are named so.", show_default="none"),
]
PolicyOption = Annotated[
    list[str] | None,
    Option(
        "--policy",
        metavar="[XID:]NAME=VALUE",
        help="What to do where definitions leave a choice, for all or for a group or definition; may be given again.",
    ),
]
_MAX_COUNTS_SHOWN: Final = 20
MasterOption = Annotated[str, Option("--master", help="Spark master.")]


def replay(
    output: OutputOption,
    registry: RegistryOption,
    group: GroupOption = None,
    subjects: SubjectsOption = None,
    reason: Annotated[
        list[str] | None,
        Option("--reason", metavar="REASON", help="Only dead letters for this reason; may be given again."),
    ] = None,
    definition: Annotated[
        list[str] | None,
        Option(
            "--definition",
            metavar="XID",
            callback=add_slashes,
            help="Only dead letters meant for this; may be given again.",
        ),
    ] = None,
    batch: Annotated[
        list[str] | None, Option("--batch", metavar="ID", help="Only dead letters of this batch; may be given again.")
    ] = None,
    since: Annotated[
        datetime | None, Option("--since", help="Only dead letters of batches since then, in UTC.")
    ] = None,
    version: Annotated[
        list[str] | None,
        Option(
            "--version",
            metavar="XID",
            callback=add_slashes,
            help="A Version of a schema or message to use instead of the default one; may be given again.",
        ),
    ] = None,
    policy: PolicyOption = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Show what would be moved, and move nothing.")] = False,
    master: MasterOption = "local[*]",
    storage: StorageOption = None,
    as_json: Annotated[bool, Option("--json", help="Print the result as one JSON object.")] = False,
) -> None:
    """Replay dead letters by the definitions of today.

    What conforms by now is moved to its table, each message once however often this is killed; the rest stays, with its
    new reason if that changed.
    """
    from signalbook import pipeline
    from signalbook.messages import parse_flags

    selection = pipeline.DeadLetterFilter(
        reasons=tuple(reason or ()),
        definitions=tuple(definition or ()),
        batches=tuple(batch or ()),
        # Times on the command line have no zone: they are in UTC.
        since=None if since is None else since.replace(tzinfo=UTC),
    )
    job = pipeline.ReplayJob(
        registry=registry,
        output=place(output, storage),
        wanted=selection,
        groups=tuple(group or ()),
        versions=tuple(version or ()),
        subjects=subjects or "",
        policy=parse_flags(policy or ()),
        master=master,
        dry_run=dry_run,
    )
    with working("starting") as progress:
        result = pipeline.replay(job, progress=lambda now: progress(_stage(now)), notify=notice)
    if as_json:
        echo(dump_json(result.to_json()))
    else:
        _print_replay(result)


def backtest(
    output: OutputOption,
    registry: RegistryOption,
    candidate: Annotated[
        str,
        Option(
            "--candidate",
            metavar="FILE|XID",
            help="A registry document, a schema document (with --definition), or a Version in the registry.",
        ),
    ],
    definition: Annotated[
        list[str] | None,
        Option(
            "--definition",
            metavar="XID",
            callback=add_slashes,
            help="Only messages meant for this; may be given again.",
        ),
    ] = None,
    group: GroupOption = None,
    by: Annotated[str, Option("--by", metavar="COLUMN", help="The column that names producers.")] = "ce_source",
    sample: Annotated[float, Option("--sample", metavar="SHARE", help="Of all messages, above 0 to 1.")] = 1.0,
    policy: PolicyOption = None,
    allow: Annotated[int, Option("--allow", metavar="N", min=0, help="So many may newly be rejected.")] = 0,
    master: MasterOption = "local[*]",
    storage: StorageOption = None,
    markdown: Annotated[bool, Option("--markdown", help="Print the result for a pull request.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print the result as one JSON object.")] = False,
) -> None:
    """Judge landed messages and dead letters by a candidate, before it is in force.

    Reports how many would be rejected and how many would land after all, by producer and by rule. Ends with 1 if more
    than --allow messages would be rejected. Nothing is written.
    """
    from signalbook import pipeline
    from signalbook.messages import parse_flags

    job = pipeline.BacktestJob(
        registry=registry,
        output=place(output, storage),
        candidate=candidate,
        definitions=tuple(definition or ()),
        groups=tuple(group or ()),
        by=by,
        sample=sample,
        policy=parse_flags(policy or ()),
        master=master,
    )
    with working("reading") as progress:
        result = pipeline.backtest(job, progress, notify=notice)
    if as_json:
        echo(dump_json(result.to_json()))
    elif markdown:
        echo(result.to_markdown(), nl=False)
    else:
        _compare(result)
    if result.broken.messages > allow:
        raise typer.Exit(1)


def _compare(result: Backtest) -> None:
    screen = console.output()
    for title, changes in (("Would be rejected", result.broken), ("Would land after all", result.mended)):
        for name, counts in (("producer", changes.producers), ("rule", changes.rules)):
            if counts:
                screen.print(counts_table(name, title, counts.most_common(_MAX_COUNTS_SHOWN)))
        for example in changes.examples:
            reasons = "; ".join(f"{path or '/'}: {text}" for path, _, text in example.violations)
            screen.print(plain(f"{example.id} of {example.producer}: {reasons}"), soft_wrap=True)
    screen.print(
        f"{format_count(result.messages, 'message')}: {result.broken.messages:,} would be rejected, "
        f"{result.mended.messages:,} would land after all, "
        f"{result.accepted:,} conform as before, {result.refused:,} are refused as before",
        soft_wrap=True,
    )
    if result.doubtful:
        screen.print(f"for {result.doubtful:,} landed messages too little is known to decide", soft_wrap=True)


def _stage(now: Progress) -> str:
    counts = f": {format_count(now.read, 'dead letter')}, {now.landed:,} conform" if now.read else ""
    return f"{now.stage}{counts}"


def _print_replay(report: Replay) -> None:
    screen = console.output()
    result = report.to_json()
    moved = "would be moved" if report.dry_run else "moved"
    for title, name, counts in (
        ("Moved", "message", result["by_message"]),
        ("Still here", "reason", result["reasons"]),
    ):
        if counts:
            screen.print(counts_table(name, title, counts.items()))
    screen.print(
        f"{format_count(result['replayed'], 'dead letter')}: {result['landed']:,} {moved}, "
        f"{result['dead_lettered']:,} kept, {result['changed']:,} of them for another reason, "
        f"{result['dropped']:,} dropped",
        soft_wrap=True,
    )

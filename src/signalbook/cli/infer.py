"""``signalbook pipeline infer``: message definitions inferred from messages."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from typer import Option

from signalbook.cli.console import console, counts_table, echo, notice, plain, say, working
from signalbook.cli.outputs import FromOption, MaxMessagesOption, StorageOption, TopicOption, build_excerpt, pairs
from signalbook.cli.registry import open_registry
from signalbook.errors import SignalbookError
from signalbook.values import dump_json
from signalbook.xid import Xid

if TYPE_CHECKING:
    from signalbook.client.registry import Registry
    from signalbook.pipeline import InferredDefinitions

_MAX_LINES: Final = 20


class Taken(SignalbookError):
    """There are definitions where inferred ones were to go."""


def run(
    input: Annotated[
        list[str],
        Option(
            "--input",
            metavar="PATH|URL",
            help="File, folder, glob, or topic such as kafka://HOST:PORT/TOPIC; may be given again.",
        ),
    ],
    group: Annotated[str, Option("--group", metavar="ID", help="Id of the groups to infer.")],
    input_format: Annotated[
        str,
        Option(
            "--input-format",
            metavar="FORMAT",
            help="What the input holds, such as json, cloudevents-jsonl, http-jsonl; the first file shows it.",
        ),
    ] = "",
    by: Annotated[
        str,
        Option(
            "--by",
            metavar="MEMBER",
            help="Member of plain JSON that tells kinds of messages apart, such as event or source.table.",
        ),
    ] = "",
    out: Annotated[Path | None, Option("--out", "-o", metavar="FILE", help="Write to this file.")] = None,
    server: Annotated[
        str | None, Option("--server", metavar="URL", help="Put it into the registry at this URL.")
    ] = None,
    db: Annotated[str | None, Option("--db", metavar="URL", help="Put it into the registry in this database.")] = None,
    accept: Annotated[
        float, Option("--accept", metavar="SHARE", help="Share of held-back messages to be accepted, 0 to 1.")
    ] = 0.99,
    limit: Annotated[int, Option("--limit", metavar="N", help="Look at about so many messages, 0 for all.")] = 0,
    master: Annotated[
        str, Option("--master", metavar="URL", help="Spark master; without it processes of this machine do the work.")
    ] = "",
    storage: StorageOption = None,
    max_messages: MaxMessagesOption = None,
    end: FromOption = None,
    option: TopicOption = None,
    as_json: Annotated[
        bool, Option("--json", help="Print the report as one JSON object, with the document if it goes nowhere else.")
    ] = False,
) -> None:
    """Infer message definitions and schemas from messages nobody has defined yet.

    CloudEvents are told apart by their type. For plain JSON a member is chosen that predicts what else a message has,
    such as event or type; --by names another one.

    The result is a registry document, to review and then import. It goes to standard output, with --out to a file, as
    YAML if its name ends in .yaml or .yml, and with --server or --db into a registry: its groups are labelled
    stage=draft, and replace none. Half of the messages are held back from a first inference, which is tried on them; if
    it accepts less than --accept of them, less is demanded: fewer required members, no enums. Messages of types that
    the other half has none of cannot be tried, and are counted apart.
    """
    from signalbook import pipeline
    from signalbook.pipeline.job.runner import LocalRunner

    job = pipeline.InferenceJob(
        inputs=tuple(input),
        group=group,
        input_format=input_format,
        by=by,
        accept=accept,
        limit=limit,
        master=master,
        storage=pipeline.storage_of(pairs(storage, "--storage")),
    )
    registry = server is not None or db is not None
    if registry:
        with open_registry(server, db, create=True) as target:
            _check_vacant(target, group)
    with (
        working("reading") as progress,
        pipeline.spool_inputs(
            job.inputs, input_format, build_excerpt(max_messages, end, option), progress=progress, notify=notice
        ) as (inputs, spooled_format),
    ):
        job = replace(job, inputs=inputs, input_format=spooled_format)
        inferred = pipeline.infer(job, progress, notify=notice, runner=None if master else LocalRunner())
    if out is not None:
        _write_document(out, inferred)
    if registry:
        with open_registry(server, db, create=True) as target:
            _store(target, group, inferred)
    elsewhere = registry or out is not None
    if as_json:
        echo(dump_json(inferred.to_json() | ({} if elsewhere else {"document": inferred.document})))
        return
    if not elsewhere:
        _write_document(None, inferred)
    _print_inferred(inferred)
    if not inferred.tried:
        say("warning: too few messages to try the definitions on", style="yellow")
    elif inferred.acceptance < accept:
        say(f"warning: the definitions accept less than {accept:.2%}: look at the reasons", style="yellow")


def _check_vacant(registry: Registry, group: str) -> None:
    """Raises ``Taken`` if the registry has one of the groups."""
    for kind in ("messagegroups", "schemagroups"):
        xid = Xid.parse(f"/{kind}/{group}")
        if registry.find(xid, deep=False) is not None:
            raise Taken(f"the registry has {xid} already, and inference replaces nothing: choose another --group")


def _store(registry: Registry, group: str, inferred: InferredDefinitions) -> None:
    from signalbook.cli.importing import import_source
    from signalbook.documents import SourceDocument

    # Again: others may have been registered during the inference.
    _check_vacant(registry, group)
    imported = import_source(
        registry, SourceDocument(name="inferred definitions", document=inferred.document), ignore=(), to=None
    )
    say(f"imported {imported}")


def _write_document(out: Path | None, inferred: InferredDefinitions) -> None:
    from signalbook.cli.files import write_pieces
    from signalbook.documents import write_document

    if out is None:
        sys.stdout.buffer.write(write_document(inferred.document))
        sys.stdout.flush()
    else:
        write_pieces(out, [write_document(inferred.document, name=out.name)])


def _print_inferred(inferred: InferredDefinitions) -> None:
    screen = console()
    table = counts_table("definition", "Inferred", list(inferred.messages.items())[:_MAX_LINES])
    if len(inferred.messages) > _MAX_LINES:
        table.add_row(f"… and {len(inferred.messages) - _MAX_LINES} more", "")
    screen.print(table)
    held = inferred.tried + sum(inferred.unseen.values())
    screen.print(
        f"{inferred.read:,} messages read, {inferred.unreadable:,} unreadable, "
        f"{inferred.unknown:,} of an unknown kind\n"
        f"{held:,} held back: {inferred.accepted:,} of {inferred.tried:,} tried were accepted "
        f"({inferred.acceptance:.2%}); {inferred.rules}"
    )
    _print_counts(inferred.reasons)
    if inferred.unseen:
        screen.print(f"{sum(inferred.unseen.values()):,} held back are of types that the other half has none of:")
        _print_counts(inferred.unseen)
    if inferred.doubts:
        screen.print("Not sure of:")
        for doubt in inferred.doubts[:_MAX_LINES]:
            say(f"  {plain(doubt['definition'])} {plain(doubt['path'] or '/')}: {plain(doubt['doubt'])}")
        if len(inferred.doubts) > _MAX_LINES:
            say(f"  … and {len(inferred.doubts) - _MAX_LINES} more: --json lists them")


def _print_counts(counts: Mapping[str, int]) -> None:
    """The commonest first, and how many are left out."""
    for name, count in sorted(counts.items(), key=lambda item: -item[1])[:_MAX_LINES]:
        say(f"  {count:,} {plain(name)}")
    if len(counts) > _MAX_LINES:
        say(f"  … and {len(counts) - _MAX_LINES} more")

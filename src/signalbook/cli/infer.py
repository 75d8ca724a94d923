"""``signalbook pipeline infer``: definitions drafted from messages."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from signalbook.cli.console import console, plain, say, working
from signalbook.cli.registry import open_registry
from signalbook.errors import SignalbookError
from signalbook.values import dump_json
from signalbook.xid import Xid

if TYPE_CHECKING:
    from signalbook.client.registry import Registry
    from signalbook.pipeline import InferredDefinitions

HELP: Final = (
    "Infer message definitions and schemas from messages nobody has defined yet.\n\n"
    "The draft is a registry document, to review and then import. It goes to standard output, with --out to a file, as "
    "YAML if its name ends in .yaml or .yml, and with --server or --db into a registry: its groups are labelled "
    "stage=draft, and replace none. Half of the messages are held back from a first draft, which is tried on them; if "
    "it accepts less than --accept of them, less is demanded: fewer required members, no enums. Messages of types that "
    "the other half has none of cannot be tried, and are counted apart."
)
_SHOWN: Final = 20


class Taken(SignalbookError):
    """There are definitions where a draft was to go."""


def run(
    input: Annotated[
        list[str],
        typer.Option("--input", metavar="PATH", help="File, folder or glob; may be given again.", show_default=False),
    ],
    group: Annotated[str, typer.Option("--group", metavar="ID", help="Id of the groups to draft.", show_default=False)],
    input_format: Annotated[
        str,
        typer.Option(
            "--input-format",
            metavar="FORMAT",
            help="What the input holds, such as cloudevents-jsonl, cloudevents-avro, http-jsonl.",
        ),
    ] = "cloudevents-jsonl",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write to this file.", show_default=False)
    ] = None,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="URL", help="Put it into the registry at this URL.", show_default=False),
    ] = None,
    db: Annotated[
        str | None,
        typer.Option("--db", metavar="URL", help="Put it into the registry in this database.", show_default=False),
    ] = None,
    accept: Annotated[
        float, typer.Option("--accept", metavar="SHARE", help="Share of held-back messages to be accepted, 0 to 1.")
    ] = 0.99,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="Look at about so many messages, 0 for all.")] = 0,
    master: Annotated[str, typer.Option("--master", help="Spark master.")] = "local[*]",
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the report as one JSON object, with the document if it goes nowhere else."),
    ] = False,
) -> None:
    """Infer; the report goes to standard error, or with --json to standard output."""
    from signalbook import pipeline

    job = pipeline.InferenceJob(
        inputs=tuple(input), group=group, input_format=input_format, accept=accept, limit=limit, master=master
    )
    registry = server is not None or db is not None
    if registry:
        with open_registry(server, db, create=True) as found:
            _vacant(found, group)
    with working("reading") as tell:
        draft = pipeline.infer(job, tell)
    if out is not None:
        _write(out, draft)
    if registry:
        with open_registry(server, db, create=True) as found:
            _store(found, group, draft)
    elsewhere = registry or out is not None
    if as_json:
        typer.echo(dump_json(draft.to_json() | ({} if elsewhere else {"document": draft.document})))
        return
    if not elsewhere:
        _write(None, draft)
    _show(draft)
    if not draft.tried:
        say("warning: too few messages to try the draft on", style="yellow")
    elif draft.acceptance < accept:
        say(f"warning: the draft accepts less than {accept:.2%}: look at the reasons", style="yellow")


def _vacant(registry: Registry, group: str) -> None:
    """Raises ``Taken`` if the registry has one of the groups."""
    for kind in ("messagegroups", "schemagroups"):
        xid = Xid.parse(f"/{kind}/{group}")
        if registry.find(xid, deep=False) is not None:
            raise Taken(f"the registry has {xid} already, and a draft replaces nothing: choose another --group")


def _store(registry: Registry, group: str, draft: InferredDefinitions) -> None:
    from signalbook.cli.importing import import_source
    from signalbook.documents import SourceDocument

    # Again, since drafting takes its time.
    _vacant(registry, group)
    done = import_source(registry, SourceDocument(name="the draft", document=draft.document), ignore=(), to=None)
    say(f"imported {done}")


def _write(out: Path | None, draft: InferredDefinitions) -> None:
    from signalbook.cli.files import write_pieces
    from signalbook.documents import write_document

    if out is None:
        sys.stdout.buffer.write(write_document(draft.document))
        sys.stdout.flush()
    else:
        write_pieces(out, [write_document(draft.document, name=out.name)])


def _show(draft: InferredDefinitions) -> None:
    from rich.table import Table

    screen = console()
    table = Table("definition", title="Drafted", title_justify="left")
    table.add_column("messages", justify="right")
    for name, count in list(draft.messages.items())[:_SHOWN]:
        table.add_row(name, f"{count:,}")
    if len(draft.messages) > _SHOWN:
        table.add_row(f"… and {len(draft.messages) - _SHOWN} more", "")
    screen.print(table)
    held = draft.tried + sum(draft.unseen.values())
    screen.print(
        f"{draft.read:,} messages read, {draft.unreadable:,} unreadable, {draft.unknown:,} of no kind known\n"
        f"{held:,} held back: {draft.accepted:,} of {draft.tried:,} tried were accepted ({draft.acceptance:.2%}); "
        f"{draft.rules}"
    )
    _list(draft.reasons)
    if draft.unseen:
        screen.print(f"{sum(draft.unseen.values()):,} held back are of types that the other half has none of:")
        _list(draft.unseen)


def _list(counts: Mapping[str, int]) -> None:
    """The commonest first, and how many are left out."""
    for name, count in sorted(counts.items(), key=lambda item: -item[1])[:_SHOWN]:
        say(f"  {count:,} {plain(name)}")
    if len(counts) > _SHOWN:
        say(f"  … and {len(counts) - _SHOWN} more")

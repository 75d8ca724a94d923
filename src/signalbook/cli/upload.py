"""``signalbook import``: documents into a registry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from signalbook.cli.console import console, say
from signalbook.cli.opening import DbOption, ServerOption, open_registry
from signalbook.cli.registry import Registry
from signalbook.errors import SignalbookError
from signalbook.values import dump_json
from signalbook.xid import Xid, XidError

if TYPE_CHECKING:
    from signalbook.cli.importing import Imported
    from signalbook.documents import Repair, Source

HELP: Final = (
    "Bring registry documents into a registry.\n\n"
    "PATH is a file, a folder, an http(s) URL, - for standard input, or builtin:events, the definitions of the "
    "registry's own change events. Of a folder the files named *.xreg.json, "
    "*.xreg.yaml and *.cereg are read, wherever they lie in it, or every .json and .yaml file if none is named so. "
    "What a document names is created or changed; what it does not name stays as it is. A document is imported whole "
    "or not at all, and so is a folder; several one after the other, models first."
)
_LENIENT: Final = (
    "Repair damaged JSON, and names and values of older drafts, and tell each repair: what, where and why."
)


_SHOWN: Final = 20
"""Up to so many documents have a line each."""


class ImportFailed(SignalbookError):
    """A registry did not take a document."""


def run(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Files, folders, URLs, or -.")],
    server: ServerOption = None,
    db: DbOption = None,
    lenient: Annotated[bool, typer.Option("--lenient", help=_LENIENT)] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell what would be created and updated, and change nothing.")
    ] = False,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="XID", help="Import as this entity or collection, whatever its own name."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore",
            metavar="NAME",
            help="Leave out a part of the documents: capabilities, modelsource, ... (the API's flag ignore).",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was imported as one JSON object.")] = False,
) -> None:
    """Read everything first, so that a broken file stops the import before it begins."""
    from signalbook.cli.sources import load

    target = _target(to)
    sources = sorted((source for path in paths for source in load(path, lenient=lenient)), key=_owners_first)
    if not as_json:
        for source in sources:
            for part in source.parts or (source,):
                _tell_repairs(part.name, part.repairs)
    with open_registry(server, db, create=not dry_run) as registry:
        if dry_run:
            with registry.trying() as trial:
                done = _import_all(trial, sources, ignore or (), target, verb="" if as_json else "would import")
        else:
            done = _import_all(registry, sources, ignore or (), target, verb="" if as_json else "imported")
    if as_json:
        typer.echo(dump_json({"imported": [row.to_json() for row in done], "dry_run": dry_run}))


def _target(to: str | None) -> Xid | None:
    try:
        return None if to is None else Xid.parse(to)
    except XidError as error:
        raise typer.BadParameter(f"{to!r} is no xid: {error}", param_hint="--to") from None


def _owners_first(source: Source) -> tuple[bool, int]:
    """Models first, since other documents may need them; then the Registry, Groups, Resources."""
    from signalbook.documents import target_of

    document = source.document
    if not isinstance(document, dict):
        return True, 0
    return not document.keys() & {"modelsource", "groups"}, len(target_of(document).parts)


def _tell_repairs(name: str, repairs: Sequence[Repair]) -> None:
    if repairs:
        say("\n".join(f"repaired {name}, {repair}" for repair in repairs), style="yellow")


def _import_all(
    registry: Registry, sources: list[Source], ignore: Sequence[str], to: Xid | None, *, verb: str
) -> list[Imported]:
    """``verb`` begins the line about each document; without one there is none."""
    from rich.progress import track

    from signalbook.cli.importing import import_source, summary

    screen = console()
    done: list[Imported] = []
    shown: Iterable[Source] = track(
        sources, description="importing", console=screen, transient=True, disable=not verb or not screen.is_terminal
    )
    for source in shown:
        try:
            row = import_source(registry, source, ignore=ignore, to=to)
        except SignalbookError as error:
            raise ImportFailed(_failure(source, error, len(done), len(sources))) from None
        done.append(row)
        if verb and len(sources) <= _SHOWN:
            say(f"{verb} {row}")
    if verb and len(sources) > _SHOWN:
        say(f"{verb} {len(sources)} documents: {summary(done)}")
    return done


def _failure(source: Source, error: SignalbookError, done: int, total: int) -> str:
    lines = [f"{source.name}: {error}"]
    places = [getattr(error, "subject", ""), *(fault.path for fault in getattr(error, "faults", ()))]
    lines += [f"  in {name}" for name in source.naming(places)[:_SHOWN]]
    if total > 1:
        lines.append(f"{done} of {total} documents were imported before it, nothing of this one")
    advice = source.advice()
    return "\n".join([*lines, advice] if advice else lines)

"""``signalbook import``: documents into a registry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from signalbook.cli.console import console, say
from signalbook.cli.registry import DbOption, Registry, ServerOption, open_registry
from signalbook.errors import SignalbookError
from signalbook.values import JSON, JSONObject, dump_json
from signalbook.xid import Kind, Xid

if TYPE_CHECKING:
    from signalbook.cli.sources import Source
    from signalbook.documents import Upload

HELP: Final = (
    "Bring registry documents into a registry.\n\n"
    "SOURCE is a file, a folder (every .json, .yaml, .yml and .cereg in it), an http(s) URL, or - for standard "
    "input. What a document names is created or changed; what it does not name stays as it is. A document is imported "
    "whole or not at all; those of a folder one after the other, models first."
)
_LENIENT: Final = (
    "Repair damaged JSON and tell each repair with its line: comments, lost or surplus commas, raw line breaks in "
    "strings, lost colons and closing brackets. Names of older drafts are not translated."
)


class ImportFailed(SignalbookError):
    """A registry did not take a document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What one document brought: how many entities it names, of each kind, below or at ``target``."""

    source: str
    target: str
    groups: int
    resources: int
    versions: int
    repairs: tuple[str, ...] = ()

    def __str__(self) -> str:
        counts = ((self.groups, "group"), (self.resources, "resource"), (self.versions, "version"))
        told = ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts if count)
        return f"imported {self.source}: {told or 'no entities'}"


def run(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="File, folder, URL, or -.")],
    server: ServerOption = None,
    db: DbOption = None,
    lenient: Annotated[bool, typer.Option("--lenient", help=_LENIENT)] = False,
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

    sources = sorted(load(source, lenient=lenient), key=_models_first)
    for repaired in sources:
        for repair in repaired.repairs:
            say(f"repaired {repaired.name}, {repair}", style="yellow")
    with open_registry(server, db, create=True) as registry:
        done = _import_all(registry, sources, ignore or (), quiet=as_json)
    if as_json:
        typer.echo(dump_json({"imported": [asdict(row) for row in done]}))


def _models_first(source: Source) -> bool:
    """Whether the document has no model; other documents may need it."""
    return not (isinstance(source.document, dict) and source.document.keys() & {"modelsource", "groups"})


def _import_all(registry: Registry, sources: list[Source], ignore: Sequence[str], *, quiet: bool) -> list[Imported]:
    from rich.progress import track

    screen = console()
    done: list[Imported] = []
    shown: Iterable[Source] = track(
        sources, description="importing", console=screen, transient=True, disable=quiet or not screen.is_terminal
    )
    for source in shown:
        try:
            upload = registry.import_document(source.document, ignore=ignore)
            row = _count(source, upload, registry.model())
        except SignalbookError as error:
            raise ImportFailed(_failure(source, error, len(done), len(sources))) from None
        done.append(row)
        if not quiet:
            say(str(row))
    return done


def _failure(source: Source, error: SignalbookError, done: int, total: int) -> str:
    text = f"{source.name}: {error}"
    if total > 1:
        text += f"\n{done} of {total} documents were imported before it, nothing of this one"
    return text


def _count(source: Source, upload: Upload, model: JSONObject) -> Imported:
    counts: Counter[Kind] = Counter()
    if upload.target.is_collection:
        _count_members(counts, upload.target, upload.body, model)
    else:
        _count_entity(counts, upload.target, upload.body, model)
    return Imported(
        source=source.name,
        target=str(upload.target),
        groups=counts[Kind.GROUP],
        resources=counts[Kind.RESOURCE],
        versions=counts[Kind.VERSION],
        repairs=tuple(str(repair) for repair in source.repairs),
    )


def _count_entity(counts: Counter[Kind], xid: Xid, body: JSONObject, model: JSONObject) -> None:
    counts[xid.kind] += 1
    for plural in _collections(xid, model):
        _count_members(counts, xid / plural, body.get(plural), model)


def _count_members(counts: Counter[Kind], collection: Xid, members: JSON, model: JSONObject) -> None:
    for name, member in members.items() if isinstance(members, dict) else ():
        if isinstance(member, dict):
            _count_entity(counts, collection / name, member, model)


def _collections(xid: Xid, model: JSONObject) -> Iterable[str]:
    """Names of the collections that an entity has."""
    groups: JSONObject = model.get("groups", {})
    match xid.kind:
        case Kind.REGISTRY:
            return groups
        case Kind.GROUP:
            resources: JSONObject = groups.get(xid.group_type, {}).get("resources", {})
            return resources
        case Kind.RESOURCE:
            return ("versions",)
        case _:
            return ()

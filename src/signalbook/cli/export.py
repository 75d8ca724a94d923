"""``signalbook export``: a registry, or a part of it, as one document or as a folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Final, Literal

from typer import Argument, Option

from signalbook.cli.console import say, working
from signalbook.cli.files import NotWritten, write_folder, write_pieces
from signalbook.cli.registry import DbOption, ServerOption, open_registry, read_xid
from signalbook.values import JSONObject, format_count
from signalbook.xid import ROOT, Xid, XidError, check_id

if TYPE_CHECKING:
    from signalbook.client.registry import Registry
    from signalbook.documents import FolderFile


_DEEPEST: Final = 128
_PAGE_ROWS: Final = 100
DocumentFormat = Literal["json", "yaml"]


def run(
    xid: Annotated[str, Argument(metavar="XID", help="An entity or collection, such as /schemagroups/parcels.")] = "/",
    server: ServerOption = None,
    db: DbOption = None,
    out: Annotated[str | None, Option("--out", "-o", metavar="FILE|DIR", help="Write to this file or folder.")] = None,
    format: Annotated[DocumentFormat | None, Option("--format", help="json or yaml, whatever the name says.")] = None,
) -> None:
    """Write a registry, or the part of it at XID, as a document or folder that import reads.

    It goes to standard output as JSON, or with --out to a file, as YAML if its name ends in .yaml or .yml. A folder (a
    name that ends in /, or a folder that is there) gets a document for each Group and Resource, with the documents of
    Versions as files beside it. What was there before is replaced only when all is written.
    """
    target = read_xid(xid, "XID")
    yaml = format == "yaml" if format else (out or "").lower().endswith((".yaml", ".yml"))
    with open_registry(server, db, create=False) as registry, working("exporting"):
        if out is not None and (out.endswith("/") or Path(out).is_dir()):
            files = _render_files(registry, target, ".xreg.yaml" if yaml else ".xreg.json")
            count = write_folder(Path(out), files, instead=_list_stale(registry, target))
            say(f"exported {format_count(count, 'file')} to {out}")
        elif out is not None:
            write_pieces(Path(out), _render_document(registry, target, yaml=yaml))
        else:
            for piece in _render_document(registry, target, yaml=yaml):
                sys.stdout.buffer.write(piece)


def _render_document(registry: Registry, target: Xid, *, yaml: bool) -> Iterator[bytes]:
    """Return the document's text. JSON passes through, whatever its size; YAML is made of the whole of it."""
    from signalbook.documents import indent, write_document
    from signalbook.values import parse_json

    pieces = registry.export(target)
    if yaml:
        return iter((write_document(parse_json(b"".join(pieces), max_depth=_DEEPEST), name=".yaml"),))
    return indent(pieces)


def _list_stale(registry: Registry, target: Xid) -> list[PurePath]:
    """Return the files that an earlier export of ``target`` may have written."""
    from signalbook.documents import place

    tops = [ROOT, *(ROOT / plural for plural in registry.model()["groups"])] if target == ROOT else [target]
    places = [place(xid) for xid in tops]
    return [
        *places,
        *(path.with_name(f"{path.name}.xreg.{form}") for path in places for form in ("json", "yaml")),
    ]


def _render_files(registry: Registry, target: Xid, suffix: str) -> Iterator[FolderFile]:
    from signalbook.documents import build_files

    with registry.consistent() as snapshot:
        for xid, entity in _iterate_entities(snapshot):
            if target == ROOT or xid.parts[: len(target.parts)] == target.parts:
                _check_ids(xid, entity)
                yield from build_files(xid, entity, suffix=suffix)


def _check_ids(xid: Xid, entity: JSONObject) -> None:
    """Raise ``NotWritten`` for ids that no registry may have: what a server returns is not to be trusted."""
    try:
        if Xid.parse(str(xid)) != xid:
            raise XidError("an id has no slashes")
        for version in entity.get("versions") or ():
            check_id(version)
    except XidError as error:
        raise NotWritten(f"the registry has an invalid id in {xid}: {error}; nothing was written") from None


def _iterate_entities(registry: Registry) -> Iterator[tuple[Xid, JSONObject]]:
    """Yield the Registry, its Groups alone, and their Resources with Versions."""
    root = registry.find(ROOT, deep=False) or {}
    yield ROOT, {**root, "modelsource": registry.modelsource()}
    for plural, group in registry.model()["groups"].items():
        for name, body in registry.members(ROOT / plural, deep=False):
            yield ROOT / plural / name, body
            for resources in group["resources"]:
                collection = ROOT / plural / name / resources
                for member, resource in registry.members(collection, deep=True, page=_PAGE_ROWS):
                    yield collection / member, resource

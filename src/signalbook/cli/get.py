"""``signalbook get``: what is in a registry, found by attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from signalbook.cli.console import echo, plain, print_json
from signalbook.cli.registry import DbOption, ServerOption, open_registry, read_xid

if TYPE_CHECKING:
    from signalbook.client import ReadFlags


def run(
    xid: Annotated[str, Argument(metavar="XID", help="An entity or collection, such as /schemagroups.")] = "/",
    filter: Annotated[
        list[str] | None, Option("--filter", "-f", metavar="EXPRESSIONS", help="Only what matches; repeatable.")
    ] = None,
    sort: Annotated[str | None, Option("--sort", metavar="ATTRIBUTE[=desc]", help="Order of a collection.")] = None,
    limit: Annotated[int | None, Option("--limit", min=1, help="Show no more members.")] = None,
    inline: Annotated[str | None, Option("--inline", metavar="PATHS", help="What to show inside, or *.")] = None,
    json: Annotated[bool, Option("--json", help="Collections as JSON too, an object by id.")] = False,
    server: ServerOption = None,
    db: DbOption = None,
) -> None:
    """Show an entity as JSON, or the members of a collection, a line each: id, last change, name.

    A filter such as 'labels.stage=dev,name=order*' keeps to what matches; of several filters one has to match. They may
    go through what is beneath: 'schemas.versions.format=avro*'.
    """
    target = read_xid(xid, "XID")
    flags: ReadFlags = {"filter": filter or (), "inline": (inline,) if inline else ()}
    if sort is not None:
        flags["sort"] = sort
    with open_registry(server, db, create=False) as registry:
        if not target.is_collection:
            print_json(registry.get(target, **flags))
        elif json or inline:
            print_json(dict(registry.items(target, limit=limit, **flags)))
        else:
            for name, member in registry.items(target, limit=limit, **flags):
                echo("\t".join((name, member.get("modifiedat", ""), plain(member.get("name", "")))).rstrip())

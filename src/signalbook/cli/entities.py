"""``signalbook get``, ``delete`` and ``open``: single entities of a registry, and members of collections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, BadParameter, Option

from signalbook.cli.console import echo, plain, print_json, say
from signalbook.cli.registry import (
    DbOption,
    RunningServerOption,
    ServerOption,
    describe_registry,
    find_running_server,
    open_registry,
    read_xid,
)
from signalbook.xid import Kind

if TYPE_CHECKING:
    from signalbook.client import ReadFlags

XidArgument = Annotated[str, Argument(metavar="XID", help="An entity or collection, such as /schemagroups.")]


def get(
    xid: XidArgument = "/",
    filter: Annotated[
        list[str] | None, Option("--filter", "-f", metavar="EXPRESSIONS", help="Only what matches; repeatable.")
    ] = None,
    sort: Annotated[str | None, Option("--sort", metavar="ATTRIBUTE[=desc]", help="Order of a collection.")] = None,
    limit: Annotated[int | None, Option("--limit", min=1, help="Show no more members.")] = None,
    inline: Annotated[str | None, Option("--inline", metavar="PATHS", help="Nested collections to show, or *.")] = None,
    json: Annotated[bool, Option("--json", help="Show collections as JSON, too: an object by id.")] = False,
    server: ServerOption = None,
    db: DbOption = None,
) -> None:
    """Show an entity as JSON, or the members of a collection, a line each: id, last change, name.

    A filter such as 'labels.stage=dev,name=order*' selects what matches all its expressions. If there are several
    filters, one of them has to match. A filter can also test nested entities: 'schemas.versions.format=avro*'.
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


def delete(
    xid: Annotated[str, Argument(metavar="XID", help="A group, resource or version.")],
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False,
    server: ServerOption = None,
    db: DbOption = None,
) -> None:
    """Ask, then delete an entity with everything in it.

    It is deleted even if others depend on it: signalbook impact XID shows them.
    """
    target = read_xid(xid, "XID")
    if target.kind not in (Kind.GROUP, Kind.RESOURCE, Kind.VERSION):
        raise BadParameter(f"{target} is not a group, resource or version", param_hint="XID")
    with open_registry(server, db, create=False) as registry:
        registry.get(target)
        if not yes:
            typer.confirm(
                f"Delete {target} and everything in it from {describe_registry(server, db)}?", abort=True, err=True
            )
        registry.delete(target.parent, [target.id])
    say(f"Deleted {target}.")


def open_page(xid: XidArgument = "/", server: RunningServerOption = None) -> None:
    """Open the page of an entity or collection in a browser, and print its URL."""
    import webbrowser

    from signalbook.client.responses import require_registry_url
    from signalbook.uris import without_user

    target = read_xid(xid, "XID")
    base_url = find_running_server(server)
    # Browsers also open files, scripts and search terms.
    require_registry_url(base_url)
    url = f"{without_user(base_url).rstrip('/')}/ui{'' if target.kind is Kind.REGISTRY else target}"
    echo(url)
    webbrowser.open(url)

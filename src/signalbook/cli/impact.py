"""``signalbook impact``: what depends on an entity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from signalbook.cli.console import plain, print_json, say
from signalbook.cli.registry import DbOption, JsonOption, ServerOption, open_part, read_xid
from signalbook.values import JSONObject

if TYPE_CHECKING:
    from signalbook.client import Client
    from signalbook.engine.engine import Engine
    from signalbook.settings import Settings


def run(
    xid: Annotated[str, Argument(metavar="XID", help="A group, resource or version.")],
    depth: Annotated[int, Option("--depth", min=1, max=10, help="How many steps away, at most.")] = 10,
    server: ServerOption = None,
    db: DbOption = None,
    json: JsonOption = False,
) -> None:
    """Show what depends on an entity, through all references, as a tree; and whom a change of it concerns.

    Messages and their schemas, base messages, endpoints and their groups, cross references, schemas that refer to
    others. Below it stand the pipelines whose newest report has one of these messages, and the subscriptions that hear
    of a change.
    """
    target = read_xid(xid, "XID")

    def remote(client: Client) -> JSONObject:
        return client.impact(target, depth=depth)

    def local(engine: Engine, given: Settings) -> JSONObject:
        from signalbook.access.decisions import UNRESTRICTED
        from signalbook.api.impact import impact_document
        from signalbook.events.subscriptions.store import SubscriptionStore
        from signalbook.pipeline_reports import PipelineReports

        return impact_document(
            engine,
            PipelineReports(engine.store, keep=given.max_reports, most=given.max_pipelines),
            SubscriptionStore.of(engine, given),
            target,
            depth=depth,
            access=UNRESTRICTED,
            root=given.base_url,
        )

    with open_part(server, db, remote=remote, local=local, create=False) as found:
        if json:
            print_json(found)
        else:
            _show(found)


def _show(found: JSONObject) -> None:
    by_parent: dict[str, list[JSONObject]] = {}
    for each in found["dependents"]:
        by_parent.setdefault(each["on"], []).append(each)
    typer.echo(plain(found["xid"]))
    waiting = [(each, 1) for each in reversed(by_parent.get(found["xid"], []))]
    while waiting:
        each, depth = waiting.pop()
        typer.echo(f"{'  ' * depth}{plain(each['xid'])}  ({plain(each['relation'])})")
        waiting += [(below, depth + 1) for below in reversed(by_parent.get(each["xid"], []))]
    for pipeline in found["pipelines"]:
        typer.echo(f"pipeline {plain(pipeline['name'])}: {', '.join(map(plain, pipeline['messages']))}")
    for subscription in found["subscriptions"]:
        typer.echo(f"subscription {plain(subscription['id'])} ({plain(subscription['protocol'])})")
    if not found["complete"]:
        say("there is more than is shown: ask for what depends on one of these")

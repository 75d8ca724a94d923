"""``signalbook impact``: what depends on an entity, and what of that a document for a schema would break."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer import Argument, Option

from signalbook.cli.check import Rule, fault_lines, verdict_lines
from signalbook.cli.console import echo, output, plain, print_json, say
from signalbook.cli.files import read_file
from signalbook.cli.registry import DbOption, JsonOption, ServerOption, open_part, read_xid
from signalbook.values import JSONObject
from signalbook.verdict import Verdict
from signalbook.xid import Kind, Xid

if TYPE_CHECKING:
    from rich.text import Text

    from signalbook.api.impact import ImpactContext
    from signalbook.client import Client
    from signalbook.engine.engine import Engine
    from signalbook.settings import Settings

_STYLES: Final = {"breaks": "bold red", "unknown": "yellow", "holds": "green"}


def run(
    xid: Annotated[str, Argument(metavar="XID", help="A group, resource or version.")],
    depth: Annotated[
        int | None, Option("--depth", min=1, max=10, help="How many steps away, at most (default 10).")
    ] = None,
    candidate: Annotated[
        str | None,
        Option("--candidate", metavar="FILE", help="A document that the schema is to have, or - for standard input."),
    ] = None,
    compatibility: Annotated[
        Rule | None,
        Option("--compatibility", case_sensitive=False, help="The rule to judge by; by default each schema's own."),
    ] = None,
    format: Annotated[
        str, Option("--format", metavar="NAME/VERSION", help="Format of the candidate; by default the schema's.")
    ] = "",
    server: ServerOption = None,
    db: DbOption = None,
    json: JsonOption = False,
) -> None:
    """Show what depends on an entity, through all references, as a tree; and whom a change of it concerns.

    Messages and their schemas, base messages, endpoints and their groups, cross references, schemas that refer to
    others. Below it stand the pipelines whose newest report has one of these messages, and the subscriptions that hear
    of a change.

    With --candidate it is checked whether the document would be accepted as the next version of the schema XID, or in
    the place of the version XID, and what of all that would break; nothing is changed. The exit code is 0 if it would
    be accepted and nothing breaks, else 1, also if that cannot be told.
    """
    target = read_xid(xid, "XID")
    if candidate is None:
        if compatibility is not None or format:
            raise typer.BadParameter("--compatibility and --format go with --candidate")
        result = _find_impact(target, depth or 10, server, db)
        if json:
            print_json(result)
        else:
            _print_impact(result)
        return
    if depth is not None:
        raise typer.BadParameter("--depth does not go with --candidate: all that breaks is looked for")
    if target.kind not in (Kind.RESOURCE, Kind.VERSION):
        raise typer.BadParameter(f"{xid} names no schema, such as /schemagroups/g/schemas/s")
    result = _try_candidate(target, read_file(candidate), format, compatibility, server, db)
    if json:
        print_json(result)
    else:
        _print_trial(candidate, result)
    if not result["safe"]:
        raise typer.Exit(1)


def _find_impact(target: Xid, depth: int, server: str | None, db: str | None) -> JSONObject:
    def remote(client: Client) -> JSONObject:
        return client.impact(target, depth=depth)

    def local(engine: Engine, settings: Settings) -> JSONObject:
        from signalbook.api.impact import build_impact_document

        return build_impact_document(_build_context(engine, settings), target, depth=depth)

    with open_part(server, db, remote=remote, local=local, create=False) as document:
        return document


def _try_candidate(
    target: Xid, content: bytes, format: str, compatibility: Rule | None, server: str | None, db: str | None
) -> JSONObject:
    def remote(client: Client) -> JSONObject:
        return client.try_impact(target, content, format=format, compatibility=compatibility)

    def local(engine: Engine, settings: Settings) -> JSONObject:
        from signalbook.api.impact import build_trial_document, build_trial_work, check_candidate
        from signalbook.engine.read.trial import CandidateDocument

        tried = CandidateDocument(target=target, content=content, format=format, compatibility=compatibility)
        context = _build_context(engine, settings)
        with engine.trying() as batch:
            checked = check_candidate(batch, tried, context.access, context.root)
        return build_trial_document(
            context, checked, build_trial_work(context.settings, accepted=checked.verdict.accepted)
        )

    with open_part(server, db, remote=remote, local=local, create=False) as document:
        return document


def _build_context(engine: Engine, settings: Settings) -> ImpactContext:
    from signalbook.access.decisions import UNRESTRICTED
    from signalbook.api.impact import ImpactContext
    from signalbook.events.subscriptions.store import SubscriptionStore
    from signalbook.pipeline_reports import PipelineReports

    return ImpactContext(
        engine=engine,
        reports=PipelineReports(engine.store, keep=settings.max_reports, most=settings.max_pipelines),
        subscriptions=SubscriptionStore.of(engine, settings),
        settings=settings,
        access=UNRESTRICTED,
        root=settings.base_url,
    )


def _walk_dependents(document: JSONObject) -> Iterator[tuple[JSONObject, int]]:
    """Yield the dependents, each below what it depends on, with its depth there."""
    by_parent: dict[str, list[JSONObject]] = {}
    for dependent in document["dependents"]:
        by_parent.setdefault(dependent["on"], []).append(dependent)
    waiting = [(dependent, 1) for dependent in reversed(by_parent.get(document["xid"], []))]
    while waiting:
        dependent, depth = waiting.pop()
        yield dependent, depth
        waiting += [(below, depth + 1) for below in reversed(by_parent.get(dependent["xid"], []))]


def _print_impact(document: JSONObject) -> None:
    echo(plain(document["xid"]))
    for dependent, depth in _walk_dependents(document):
        echo(f"{'  ' * depth}{plain(dependent['xid'])}  ({plain(dependent['relation'])})")
    for pipeline in document["pipelines"]:
        echo(f"pipeline {plain(pipeline['name'])}: {', '.join(map(plain, pipeline['messages']))}")
    for subscription in document["subscriptions"]:
        echo(f"subscription {plain(subscription['id'])} ({plain(subscription['protocol'])})")
    if not document["complete"]:
        say("there is more than is shown: ask for what depends on one of these")
    _report_cut(document)


def _print_trial(name: str, document: JSONObject) -> None:
    screen = output()
    verdict = Verdict.from_json(document["check"])
    for line in (*verdict_lines(plain(name), verdict, accepted=verdict.accepted), *_render_effect(document, "", 0)):
        screen.print(line, soft_wrap=True)
    for dependent, depth in _walk_dependents(document):
        for line in _render_effect(dependent, f"  ({plain(dependent['relation'])})", depth):
            screen.print(line, soft_wrap=True)
    for pipeline in document["pipelines"]:
        messages = ", ".join(map(plain, pipeline["messages"]))
        screen.print(_render_line(pipeline, f"pipeline {plain(pipeline['name'])}: {messages}"), soft_wrap=True)
    for subscription in document["subscriptions"]:
        echo(f"subscription {plain(subscription['id'])} ({plain(subscription['protocol'])})")
    if not document["default"]:
        say("the schema keeps its default version: who names the schema would not meet this one")
    if not document["complete"]:
        say("there is more than is shown, which was not looked at")
    _report_cut(document)


def _report_cut(document: JSONObject) -> None:
    if document["cut"]:
        say(f"there are too many {' and '.join(document['cut'])} to check them all: some are missing here")


def _render_effect(effect: JSONObject, relation: str, depth: int) -> Iterator[Text]:
    from rich.text import Text

    indent = "  " * depth
    yield _render_line(effect, f"{plain(effect['xid'])}{relation}", indent)
    if effect.get("why"):
        yield Text(f"{indent}  {plain(effect['why'])}")
    for fault in effect.get("findings", ()):
        plain_fault: dict[str, Any] = {
            key: plain(text) if isinstance(text, str) else text for key, text in fault.items()
        }
        for line in fault_lines(plain_fault, "red"):
            yield Text(indent) + line


def _render_line(effect: JSONObject, text: str, indent: str = "") -> Text:
    from rich.text import Text

    outcome = str(effect["outcome"])
    return Text.assemble(indent, (outcome, _STYLES.get(outcome, "")), f"  {text}")

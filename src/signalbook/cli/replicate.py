"""``signalbook replicate``: one registry's content into another, once or for as long as it runs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer import Argument, Option

from signalbook import settings
from signalbook.cli.console import console, echo, say
from signalbook.cli.registry import database_settings, open_engine
from signalbook.confluent.naming import URL_PREFIX
from signalbook.errors import SignalbookError
from signalbook.replication.link import RegistryDialect, Scope
from signalbook.values import dump_json
from signalbook.xid import Kind, Xid

if TYPE_CHECKING:
    from signalbook.client.registry import ReadableRegistry
    from signalbook.replication.confluent.progress import CopyProgress
    from signalbook.replication.local import LocalRegistry
    from signalbook.replication.opening import CopyTarget
    from signalbook.replication.replicating import Replication
    from signalbook.replication.report import CopyReport

_MAX_LINES: Final = 20
_POLL: Final = 2.0
"""Seconds between two looks at a registry that has no change feed."""


def run(
    source: Annotated[str, Argument(metavar="SOURCE", help="Where to copy from.")],
    target: Annotated[str, Argument(metavar="TARGET", help="Where to copy to.")],
    scope: Annotated[
        str, Option("--scope", metavar="XID", help="Only this group, resource or collection of groups.")
    ] = "/",
    rename: Annotated[
        list[str] | None,
        Option("--rename", metavar="TYPE/OLD=NEW", help="A group's name at the target. May be given again."),
    ] = None,
    authority: Annotated[
        list[str] | None,
        Option(
            "--authority",
            metavar="URL",
            help="Refuse what claims an authority that is not this or under it. May be given again.",
        ),
    ] = None,
    every: Annotated[
        float | None, Option("--every", metavar="SECONDS", help="Compare everything again every SECONDS.", min=0.1)
    ] = None,
    follow: Annotated[bool, Option("--follow", help="Go on with each change as it is committed.")] = False,
    state: Annotated[
        Path | None,
        Option("--state", metavar="FILE", help="Remember there how far --follow has come, for the next time."),
    ] = None,
    model: Annotated[bool, Option("--model", help="Extend the target's model by the types it does not have.")] = False,
    from_dialect: Annotated[
        RegistryDialect | None, Option("--from-dialect", help="What SOURCE speaks, if it is not to be found out.")
    ] = None,
    to_dialect: Annotated[
        RegistryDialect | None, Option("--to-dialect", help="What TARGET speaks, if it is not to be found out.")
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print what was done as one JSON object.")] = False,
) -> int:
    """Copy a registry, or a part of it, into another, and keep the copy up to date.

    SOURCE and TARGET are URLs of registries (http://...) or of databases (sqlite:///FILE, postgresql://...). What is
    the same at the target already is not written again. Copies say where they came from: what the source deletes is
    deleted at the target only if it came from there, and what the target has of its own stays as it is.

    https://${NAME}@HOST/ is a registry that takes the token in the environment variable NAME.

    confluent+https://... at either end is a registry with Confluent's API: subjects are copied with their versions,
    ids, soft deletions, config and modes.
    """
    from signalbook.replication.opening import copying, link
    from signalbook.replication.replicating import Replication, StateFile, StateInMemory
    from signalbook.replication.report import CopyReport

    if follow and every is not None:
        raise typer.BadParameter("give one of --follow and --every, not both")
    if any(where.startswith(URL_PREFIX) for where in (source, target)):
        unsupported = (rename, authority, model, from_dialect, to_dialect, scope != "/")
        if any(unsupported):
            raise typer.BadParameter("of a registry with Confluent's API everything is copied, by the same names")
        return _run_confluent(source, target, follow=follow, every=every, state=state, as_json=as_json)
    for where in (source, target):
        if _is_remote(where) and "#" in where:
            part = where.partition("#")[2]
            raise typer.BadParameter(f"{where}: a URL names a whole registry; for a part of it give --scope {part}")
    copy_scope = Scope.parse(scope, rename or ())
    # SIGNALBOOK_TOKEN is for one registry: of two, neither is to get the other's.
    token = "" if _is_remote(source) and _is_remote(target) else None
    with _open_source(source, from_dialect, token) as ours, _open_target(target, to_dialect, source, token) as theirs:
        # What was deleted at the source may still be at the target, and is deleted there: then something is done.
        gone = (
            None
            if _has_entity(ours, copy_scope.xid)
            else SignalbookError(f"{source} has no {copy_scope.xid} (--scope)")
        )
        if gone is not None and not _may_have(theirs, copy_scope.there(copy_scope.xid)):
            raise gone
        between = link(
            ours, theirs, copy_scope, reached=source if _is_remote(source) else "", authorities=authority or ()
        )
        if model:
            _extend_model(ours, theirs)
        report = CopyReport()
        work = Replication(
            ours, copying(ours, theirs, between, report), between, StateFile(state) if state else StateInMemory()
        )
        with _show_work(report):
            _run_work(work, follow=follow, every=every)
        if gone is not None and not report.moved:
            raise gone
    _print_report(report, as_json=as_json)
    return 1 if report.refused else 0


def _run_confluent(
    source: str, target: str, *, follow: bool, every: float | None, state: Path | None, as_json: bool
) -> int:
    """Replicate between two registries by Confluent's API."""
    from signalbook.client.confluent import connect, is_same_registry
    from signalbook.replication.confluent.copying import ConfluentCopy, Follower
    from signalbook.replication.opening import HEADER, LinkError
    from signalbook.replication.replicating import StateFile, StateInMemory, repeat
    from signalbook.replication.report import CopyReport, SubjectKind
    from signalbook.uris import without_user

    for where in (source, target):
        if not _is_remote(where.removeprefix(URL_PREFIX)):
            raise typer.BadParameter(f"{where}: Confluent's API is spoken to servers: give its URL, http(s)://...")
    source_url = without_user(source.removeprefix(URL_PREFIX))
    report = CopyReport(kinds=SubjectKind)
    with (
        closing(connect(source, timeout=_choose_timeout())) as ours,
        closing(connect(target, timeout=_choose_timeout(), headers={HEADER: source_url})) as theirs,
    ):
        if is_same_registry(ours, theirs):
            raise LinkError(f"{ours.url} is source and target: nothing is to be copied")
        work = ConfluentCopy(ours, theirs, report, StateFile(state) if state else StateInMemory())
        with _show_progress(work.progress):
            if not follow and every is None:
                work.everything()
            else:
                pause = partial(time.sleep, _POLL if every is None else every)
                with suppress(KeyboardInterrupt):
                    repeat(Follower(work) if every is None else work, pause, threading.Event(), _report_failure)
    _print_report(report, as_json=as_json)
    return 1 if report.refused else 0


@contextmanager
def _show_progress(progress: CopyProgress) -> Iterator[None]:
    """Show the progress of a round on a terminal."""
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    screen = console()
    if not screen.is_terminal:
        yield
        return
    bar = Bar(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=screen)
    task = bar.add_task("", total=None)

    def now() -> Bar:
        bar.update(task, description=progress.what, completed=progress.done)
        bar.tasks[0].total = progress.total  # which no update makes unknown again
        return bar

    with Live(get_renderable=now, console=screen, refresh_per_second=4, transient=True):
        yield


def _has_entity(registry: ReadableRegistry, xid: Xid) -> bool:
    """Return True if ``xid`` exists, or may exist: a collection by its type."""
    groups = registry.model().get("groups", {}) if xid.kind in (Kind.GROUPS, Kind.RESOURCES) else {}
    match xid.kind:
        case Kind.GROUPS:
            return xid.group_type in groups
        case Kind.RESOURCES:
            types = groups.get(xid.group_type, {}).get("resources", {})
            return xid.resource_type in types and _has_entity(registry, Xid(xid.parts[:2]))
        case Kind.GROUP | Kind.RESOURCE:
            return registry.find(xid, deep=False) is not None
        case _:
            return True


def _may_have(target: CopyTarget, xid: Xid | None) -> bool:
    """Return True if ``xid`` may have a copy. A draft's API is not asked."""
    from signalbook.replication.cncf.registry import CncfApi

    if isinstance(target, CncfApi):
        return True
    return xid is not None and xid.kind in (Kind.GROUP, Kind.RESOURCE) and target.find(xid, deep=False) is not None


def _run_work(work: Replication, *, follow: bool, every: float | None) -> None:
    """Once, or until somebody interrupts it."""
    from signalbook.replication.replicating import keep_up, repeat

    if not follow and every is None:
        work.everything()
        return
    with suppress(KeyboardInterrupt):
        if every is None:
            keep_up(work, threading.Event(), _report_failure)
        else:
            repeat(work, partial(time.sleep, every), threading.Event(), _report_failure)


def _open_source(
    where: str, dialect: RegistryDialect | None, token: str | None
) -> AbstractContextManager[ReadableRegistry]:
    from signalbook.replication.opening import open_source

    if _is_remote(where):
        return open_source(where, timeout=_choose_timeout(), dialect=dialect, token=token)
    return _open_local(where, create=False)


def _open_target(
    where: str, dialect: RegistryDialect | None, source: str, token: str | None
) -> AbstractContextManager[CopyTarget]:
    from signalbook.replication.opening import open_target

    if _is_remote(where):
        return open_target(where, timeout=_choose_timeout(), dialect=dialect, source=source, token=token)
    return _open_local(where, create=True)


@contextmanager
def _open_local(where: str, *, create: bool) -> Iterator[LocalRegistry]:
    from signalbook.replication.local import LocalRegistry

    loaded = database_settings(where)
    with open_engine(loaded, create=create) as engine:
        yield LocalRegistry(engine, loaded.base_url)


def _choose_timeout() -> float:
    """Twice as long as a server waits for its database."""
    return 2 * settings.load({}, environ=os.environ).request_timeout


def _is_remote(where: str) -> bool:
    return where.startswith(("http://", "https://"))


def _extend_model(source: ReadableRegistry, target: CopyTarget) -> None:
    from signalbook.client.registry import Refusal
    from signalbook.client.remote import RemoteRegistry
    from signalbook.replication.local import LocalRegistry
    from signalbook.replication.opening import LinkError, extend_model
    from signalbook.replication.writing import reason_of

    if not isinstance(target, RemoteRegistry | LocalRegistry):
        raise LinkError("a target with the API of a CNCF draft has no model to extend")
    model = extend_model(target.modelsource(), source.modelsource())
    if model is not None:
        try:
            target.replace_model(model)
        except Refusal as error:
            raise SignalbookError(reason_of(error)) from None


@contextmanager
def _show_work(report: CopyReport) -> Iterator[None]:
    """Show the work so far on a terminal."""
    from rich.live import Live
    from rich.spinner import Spinner

    screen = console()
    if not screen.is_terminal:
        yield
        return
    spinner = Spinner("dots")

    def now() -> Spinner:
        spinner.update(text=str(report))
        return spinner

    with Live(get_renderable=now, console=screen, refresh_per_second=4, transient=True):
        yield


def _report_failure(error: SignalbookError | None) -> None:
    if error is not None:
        say(f"{error}; trying again", style="yellow")


def _print_report(report: CopyReport, *, as_json: bool) -> None:
    if as_json:
        echo(dump_json(report.to_json()))
        return
    say(str(report))
    for name, passed in (("skipped", report.skipped), ("refused", report.refused)):
        for row in passed[:_MAX_LINES]:
            say(f"{name} {row.xid}: {row.reason}", style="" if name == "skipped" else "yellow")
        if len(passed) > _MAX_LINES:
            say(f"... and {report.passed[name] - _MAX_LINES} more {name}: --json names them")

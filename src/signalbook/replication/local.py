"""A registry in a database that this process has open, as the command line and replication use it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Final, Unpack

from signalbook.client import Events, ReadFlags
from signalbook.client.registry import (
    PAGE,
    URI_APIS,
    Pruned,
    Refusal,
    Registry,
    TooLarge,
    WriteChecks,
    mark_of,
    refuse_doubts,
)
from signalbook.engine.capabilities import resolve_ignore
from signalbook.engine.config.configuration import MODELSOURCE
from signalbook.engine.engine import Batch, Engine, HistoryPruned, Session
from signalbook.engine.read.filters import parse_filter
from signalbook.engine.read.nodes import ALL, NOTHING, Inline, parse_inline
from signalbook.engine.read.pages import PageRequest, Position, parse_sort
from signalbook.engine.read.view import View, ViewOptions
from signalbook.engine.write.apply import WriteResult
from signalbook.engine.write.commands import Command, ConfigCommand, DocumentBody, Flags, Method
from signalbook.errors import RegistryError
from signalbook.events.dialects import cloudevent
from signalbook.values import Finding, JSONObject
from signalbook.verdict import Verdict
from signalbook.xid import ROOT, Kind, Xid

MAX_BYTES: Final = 128 * 1024 * 1024
"""The largest part of a registry that replication holds at once."""
_EVENTS: Final = 10_000
_LOOK_EVERY: Final = 0.1
_META: Final = Inline(names={"meta": NOTHING})


class LocalRegistry:
    """A registry in an open database. It implements ``registry.Registry``. ``url`` is its URL for clients.

    If ``admin`` is True, writes have the rights of an administrator. ``max_bytes`` limits the size of one response.
    """

    partial: Final = False

    def __init__(self, engine: Engine, url: str = "", *, admin: bool = False, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self._engine = engine
        self._url = url.rstrip("/")
        self._admin = admin
        # Set in the copies that ``consistent`` and ``trying`` yield, which read in one transaction.
        self._view: View | None = None
        self._session: Session | None = None

    @property
    def url(self) -> str:
        return self._url

    def bases(self) -> Mapping[str, str]:
        return {kind: self._url + path for kind, path in URI_APIS.items()}

    def model(self) -> JSONObject:
        with self._open_view() as view:
            return view.model.document

    def modelsource(self) -> JSONObject:
        with self._open_view() as view:
            return view.modelsource()

    def find(self, xid: Xid, *, deep: bool) -> JSONObject | None:
        options = self._build_options(xid.kind, deep=deep)
        with self._open_view() as view:
            if xid == ROOT:
                return {**view.render_entity(ROOT, ViewOptions(doc=True)), "capabilities": view.capabilities}
            try:
                return view.render_entity(xid, options) if view.exists(xid) else None
            except RegistryError as error:
                raise _explain_read_error(error) from None

    def members(self, collection: Xid, *, deep: bool, page: int = PAGE) -> Iterator[tuple[str, JSONObject]]:
        """Yield the ids and bodies of members, reading one page at a time. Later pages may see later changes."""
        kind = {Kind.GROUPS: Kind.GROUP, Kind.RESOURCES: Kind.RESOURCE}.get(collection.kind, Kind.VERSION)
        options = self._build_options(kind, deep=deep)
        after: Position | None = None
        while True:
            with self._open_view() as view:
                if not view.exists(collection):
                    return
                page_members, after = _page(view, collection, options, PageRequest(limit=page, after=after))
            yield from page_members.items()
            if after is None:
                return

    def get(self, xid: Xid, **flags: Unpack[ReadFlags]) -> JSONObject:
        with self._open_view() as view:
            return view.render_entity(xid, _parse_options(view, xid, flags))

    def items(
        self, xid: Xid, *, limit: int | None = None, **flags: Unpack[ReadFlags]
    ) -> Iterator[tuple[str, JSONObject]]:
        with self._open_view() as view:
            options = _parse_options(view, xid, flags)
            listed = view.list_members(xid, options, PageRequest(limit=limit))
            yield from view.render_members(xid, listed, options).items()

    def export(self, target: Xid) -> Iterator[bytes]:
        with self._open_view() as view:
            options = ViewOptions(doc=True, inline=ALL)
            if target == ROOT:
                options = view.export_options(ViewOptions())
            _require_types(view, target)
            yield from view.stream(target, options)

    def patch(self, target: Xid, body: JSONObject, *, ignore: Sequence[str] = ()) -> None:
        self._write(partial(_patch, target, body, ignore))

    def patch_reviewed(
        self, target: Xid, body: JSONObject, *, ignore: Sequence[str] = (), strict: bool = False
    ) -> tuple[Finding, ...]:
        findings: list[Finding] = []

        def review(result: WriteResult, session: Session) -> None:
            findings.extend((*result.findings, *session.doubts))
            if strict:
                refuse_doubts(Verdict(findings=tuple(findings)))

        self._write(partial(_patch, target, body, ignore), review)
        return tuple(findings)

    def add_version(self, resource: Xid, content: bytes, attributes: JSONObject) -> Xid:
        other_attributes = {name: value for name, value in attributes.items() if name != "contenttype"}
        document = DocumentBody(content=content, contenttype=attributes.get("contenttype"), attributes=other_attributes)
        return self._write(lambda _: Command(method=Method.POST, target=resource, document=document)).target

    def delete(self, collection: Xid, ids: Sequence[str]) -> None:
        body: JSONObject = {name: {} for name in ids}
        self._write(lambda _: Command(method=Method.DELETE, target=collection, body=body))

    def replace_model(self, source: JSONObject) -> None:
        self._write(lambda _: ConfigCommand(name=MODELSOURCE, method=Method.PUT, body=source))

    @contextmanager
    def consistent(self) -> Iterator[Registry]:
        """Yield this registry within one read transaction."""
        with self._engine.reading() as view:
            bound = self._copy()
            bound._view = view
            yield bound

    @contextmanager
    def trying(self) -> Iterator[Registry]:
        """Yield this registry within a write transaction that is rolled back at the end."""
        # An exception rolls the transaction back.
        with suppress(_Undone), self._engine.writing(admin=self._admin) as session:
            bound = self._copy()
            bound._session = session
            yield bound
            raise _Undone

    @contextmanager
    def checking(self) -> Iterator[WriteChecks]:
        """Check writes within one transaction: accepted ones stay until the end, so documents can build on others."""
        with self._engine.trying() as batch:
            yield LocalChecks(batch)

    def position(self) -> int:
        return self._engine.position()

    def changes(self, after: int) -> Events:
        try:
            records = self._engine.read_changes(after, _EVENTS)
        except HistoryPruned as gone:
            raise Pruned(str(gone)) from None
        events = tuple(cloudevent(record, source=f"{self._url}/") for record in records)
        position = records[-1].position if records else after
        return Events(events=events, position=position, more=len(records) == _EVENTS)

    def mark(self, position: int) -> str:
        if not position:
            return ""
        try:
            records = self._engine.read_changes(position - 1, 1)
        except HistoryPruned:
            return ""
        return mark_of([cloudevent(record, source=f"{self._url}/") for record in records], position)

    def wait(self, after: int, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._engine.position() <= after and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY)

    def hides(self, xid: Xid) -> bool:  # noqa: ARG002 - it shows all there is
        return False

    def rights(self) -> str:
        return ""

    def _copy(self) -> LocalRegistry:
        return LocalRegistry(self._engine, self._url, admin=self._admin, max_bytes=self.max_bytes)

    @contextmanager
    def _open_view(self) -> Iterator[View]:
        if self._session is not None:
            yield self._session.view
        elif self._view is not None:
            yield self._view
        else:
            with self._engine.reading() as view:
                yield view

    def _write(
        self,
        command: Callable[[Session], Command | ConfigCommand],
        review: Callable[[WriteResult, Session], None] = lambda _, __: None,
    ) -> WriteResult:
        """Execute ``command``, and roll it back if ``review`` raises an error. Raises ``Refusal``."""
        bound = self._engine.writing(admin=self._admin) if self._session is None else nullcontext(self._session)
        try:
            with bound as session:
                result = session.execute(command(session))
                review(result, session)
                return result
        except RegistryError as error:
            raise Refusal(str(error), subject=error.subject, faults=error.faults) from None

    def _build_options(self, kind: Kind, *, deep: bool) -> ViewOptions:
        """Return the view options for an entity of this ``kind``. A Version always includes its document."""
        whole = deep or kind is Kind.VERSION
        inline = ALL if whole else _META if kind is Kind.RESOURCE else NOTHING
        return ViewOptions(doc=True, binary=True, inline=inline, max_bytes=self.max_bytes)


class _Undone(Exception):
    """Ends a transaction without a commit."""


class LocalChecks:
    """Checks of writes to a registry of this process. It implements ``registry.WriteChecks``."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def patch(self, target: Xid, body: JSONObject, *, ignore: Sequence[str] = ()) -> Verdict:
        return self._check(partial(_patch, target, body, ignore), None)

    def version(self, xid: Xid, content: bytes, format: str, compatibility: str | None) -> Verdict:
        document = DocumentBody(content=content, attributes={"format": format})
        return self._check(lambda _: Command(method=Method.POST, target=xid, document=document), compatibility)

    def format_of(self, xid: Xid) -> str:
        with self._batch.trying() as session:
            try:
                return str(session.view.render_entity(xid, ViewOptions()).get("format") or "")
            except RegistryError:
                return ""

    def _check(self, command: Callable[[Session], Command], compatibility: str | None) -> Verdict:
        # A check under another compatibility rule is rolled back, so that later checks do not build on it.
        opened = self._batch.writing() if compatibility is None else self._batch.trying(compatibility)
        try:
            with opened as session:
                result = session.execute(command(session))
                changes = tuple(change.to_json() for change in session.changes)
                return Verdict(changes=changes, findings=(*result.findings, *session.doubts))
        except RegistryError as error:
            return Verdict.refused(error)


def _patch(target: Xid, body: JSONObject, ignore: Sequence[str], session: Session) -> Command:
    # Epochs are always ignored, whatever flags the capabilities offer, because copies have their own epochs.
    names = resolve_ignore(session.view.capabilities, ["epoch", *ignore], target) if ignore else {"epoch"}
    return Command(method=Method.PATCH, target=target, body=body, flags=Flags(ignore=frozenset(names)))


def _require_types(view: View, xid: Xid) -> None:
    """Raise ``not_found`` for an xid whose types are not in the model."""
    if xid.group_type and view.model.group_type(xid) is None:
        raise RegistryError("not_found", subject=str(xid))
    if xid.resource_type and view.model.resource_type(xid) is None:
        raise RegistryError("not_found", subject=str(xid))


def _parse_options(view: View, xid: Xid, flags: ReadFlags) -> ViewOptions:
    """Return the view options for request flags. Raises ``RegistryError``."""
    _require_types(view, xid)
    subject, filters = str(xid), flags.get("filter", ())
    return ViewOptions(
        doc=flags.get("doc", False),
        binary=flags.get("binary", False),
        inline=parse_inline(flags.get("inline", ()), xid, view.model, subject=subject),
        filter=parse_filter((filters,) if isinstance(filters, str) else filters, xid, view.model, subject=subject),
        sort=parse_sort(flags.get("sort"), xid, view.model, subject=subject),
    )


def _page(view: View, collection: Xid, options: ViewOptions, page: PageRequest) -> tuple[JSONObject, Position | None]:
    try:
        listed = view.list_members(collection, options, page)
        return view.render_members(collection, listed, options), listed.following
    except RegistryError as error:
        raise _explain_read_error(error) from None


def _explain_read_error(error: RegistryError) -> Exception:
    return TooLarge(str(error)) if error.code == "too_large" else error

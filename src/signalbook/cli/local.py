"""A registry run by this process, as commands see it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from signalbook.client.registry import Reading, Registry
from signalbook.documents import Upload
from signalbook.engine.config.capabilities import resolve_ignore
from signalbook.engine.engine import Engine, Session
from signalbook.engine.read.filters import parse_filter
from signalbook.engine.read.inlining import ALL, parse_inline
from signalbook.engine.read.paging import PageRequest, parse_sort
from signalbook.engine.read.view import View, ViewOptions
from signalbook.engine.write.commands import Command, Flags, Method
from signalbook.errors import RegistryError
from signalbook.values import JSONObject
from signalbook.xid import ROOT, Xid


class LocalRegistry:
    """A registry run by this process, or what a ``session`` of it sees."""

    def __init__(self, engine: Engine, session: Session | None = None) -> None:
        self._engine = engine
        self._session = session

    def model(self) -> JSONObject:
        """The full model."""
        with self._reading() as view:
            return view.model.document

    def modelsource(self) -> JSONObject:
        """The model as it was supplied."""
        with self._reading() as view:
            return view.modelsource()

    def find(self, xid: Xid) -> JSONObject | None:
        """As the protocol says."""
        with self._reading() as view:
            if xid == ROOT:
                return {**view.entity(ROOT, ViewOptions(doc=True)), "capabilities": view.capabilities}
            if not view.exists(xid):
                return None
            return view.entity(xid, ViewOptions(doc=True, inline=ALL))

    def patch(self, upload: Upload, ignore: Sequence[str]) -> bool:
        """As the protocol says: in one transaction; who may open the database may do all an admin may."""
        with self._writing() as session:
            names = resolve_ignore(session.view.capabilities, [*upload.ignore, *ignore], upload.target)
            flags = Flags(ignore=names)
            session.execute(Command(method=Method.PATCH, target=upload.target, body=upload.body, flags=flags))
        return True

    def get(self, xid: Xid, reading: Reading) -> JSONObject:
        """As the protocol says."""
        with self._reading() as view:
            return view.entity(xid, _options(view, xid, reading))

    def items(self, xid: Xid, reading: Reading) -> Iterator[tuple[str, JSONObject]]:
        """As the protocol says."""
        with self._reading() as view:
            options = _options(view, xid, reading)
            listed = view.listed(xid, options, PageRequest(limit=reading.limit))
            yield from view.members(xid, listed, options).items()

    def export(self, target: Xid) -> Iterator[bytes]:
        """As the protocol says."""
        with self._reading() as view:
            options = ViewOptions(doc=True, inline=ALL)
            if target == ROOT:
                options = view.export_options(ViewOptions())
            _require_types(view, target)
            yield from view.pieces(target, options)

    def entities(self) -> Iterator[tuple[Xid, JSONObject]]:
        """As the protocol says; a Group's Resources at a time, without what is in them."""
        shallow = ViewOptions(doc=True)
        with self._reading() as view:
            registry = {**view.entity(ROOT, shallow), "capabilities": view.capabilities}
            yield ROOT, {**registry, "modelsource": view.modelsource()}
            for plural, group in view.model.groups.items():
                for name, body in view.collection(ROOT / plural, shallow).items():
                    yield ROOT / plural / name, body
                    for resources in group.resources:
                        yield from _resources(view, ROOT / plural / name / resources)

    @contextmanager
    def trying(self) -> Iterator[Registry]:
        """A transaction that is not committed."""
        try:
            with self._engine.writing(admin=True) as session:
                yield LocalRegistry(self._engine, session)
                raise _Forgotten
        except _Forgotten:
            pass

    @contextmanager
    def _reading(self) -> Iterator[View]:
        if self._session is not None:
            yield self._session.view
        else:
            with self._engine.reading() as view:
                yield view

    @contextmanager
    def _writing(self) -> Iterator[Session]:
        if self._session is not None:
            yield self._session
        else:
            with self._engine.writing(admin=True) as session:
                yield session


class _Forgotten(Exception):
    """Ends a transaction without a commit."""


def _require_types(view: View, xid: Xid) -> None:
    """Raise ``not_found`` for an xid whose types are not in the model."""
    if xid.group_type and view.model.group_type(xid) is None:
        raise RegistryError("not_found", subject=str(xid))
    if xid.resource_type and view.model.resource_type(xid) is None:
        raise RegistryError("not_found", subject=str(xid))


def _options(view: View, xid: Xid, reading: Reading) -> ViewOptions:
    _require_types(view, xid)
    subject = str(xid)
    return ViewOptions(
        inline=parse_inline(reading.inline, xid, view.model, subject=subject),
        filter=parse_filter(reading.filter, xid, view.model, subject=subject),
        sort=parse_sort(reading.sort, xid, view.model, subject=subject),
    )


def _resources(view: View, collection: Xid) -> Iterator[tuple[Xid, JSONObject]]:
    deep = ViewOptions(doc=True, binary=True, inline=ALL)
    for name in list(view.collection(collection, ViewOptions(doc=True))):
        yield collection / name, view.entity(collection / name, deep)

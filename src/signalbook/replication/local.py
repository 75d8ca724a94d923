"""A registry in a database that this process has open."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from signalbook.engine.config.configuration import MODELSOURCE
from signalbook.engine.engine import Engine, HistoryPruned
from signalbook.engine.read.inlining import ALL, NOTHING, Inline
from signalbook.engine.read.paging import PageRequest, Position
from signalbook.engine.read.view import View, ViewOptions
from signalbook.engine.write.commands import Command, ConfigCommand, Flags, Method
from signalbook.errors import RegistryError
from signalbook.events.dialects import cloudevent
from signalbook.replication.link import DOORS
from signalbook.replication.registry import PAGE, Changes, Pruned, Refusal, TooLarge, mark_of
from signalbook.values import JSONObject
from signalbook.xid import Kind, Xid

MAX_BYTES: Final = 128 * 1024 * 1024
_EVENTS: Final = 10_000
_LOOK_EVERY: Final = 0.1
_META: Final = Inline(names={"meta": NOTHING})


class LocalRegistry:
    """A registry in an open database, as ``registry.Registry`` says. ``url`` is where clients find it."""

    partial: Final = False

    def __init__(self, engine: Engine, url: str = "") -> None:
        self._engine = engine
        self._url = url.rstrip("/")

    @property
    def url(self) -> str:
        """As the protocol says."""
        return self._url

    def bases(self) -> Mapping[str, str]:
        """As the protocol says."""
        return {kind: self._url + path for kind, path in DOORS.items()}

    def model(self) -> JSONObject:
        """As the protocol says."""
        with self._engine.reading() as view:
            return view.model.document

    def modelsource(self) -> JSONObject:
        """As the protocol says."""
        with self._engine.reading() as view:
            return view.modelsource()

    def replace_model(self, source: JSONObject) -> None:
        """As the protocol says."""
        self._write(ConfigCommand(name=MODELSOURCE, method=Method.PUT, body=source))

    def find(self, xid: Xid, *, deep: bool) -> JSONObject | None:
        """As the protocol says."""
        with self._engine.reading() as view:
            try:
                return view.entity(xid, _options(xid.kind, deep=deep)) if view.exists(xid) else None
            except RegistryError as error:
                raise _too_large(error) from None

    def members(self, collection: Xid, *, deep: bool, page: int = PAGE) -> Iterator[tuple[str, JSONObject]]:
        """As the protocol says; a page at a time, each as it is when it is fetched."""
        kind = {Kind.GROUPS: Kind.GROUP, Kind.RESOURCES: Kind.RESOURCE}.get(collection.kind, Kind.VERSION)
        options = _options(kind, deep=deep)
        after: Position | None = None
        while True:
            with self._engine.reading() as view:
                if not view.exists(collection):
                    return
                shown, after = _page(view, collection, options, PageRequest(limit=page, after=after))
            yield from shown.items()
            if after is None:
                return

    def patch(self, target: Xid, body: JSONObject) -> None:
        """As the protocol says."""
        flags = Flags(ignore=frozenset({"epoch"}))
        self._write(Command(method=Method.PATCH, target=target, body=body, flags=flags))

    def delete(self, collection: Xid, ids: Sequence[str]) -> None:
        """As the protocol says."""
        self._write(Command(method=Method.DELETE, target=collection, body={name: {} for name in ids}))

    def position(self) -> int:
        """As the protocol says."""
        return self._engine.position()

    def changes(self, after: int) -> Changes:
        """As the protocol says."""
        try:
            records = self._engine.outbox(after, _EVENTS)
        except HistoryPruned as gone:
            raise Pruned(str(gone)) from None
        events = [cloudevent(record, source=f"{self._url}/") for record in records]
        position = records[-1].position if records else after
        return Changes(events=events, position=position, more=len(records) == _EVENTS)

    def mark(self, position: int) -> str:
        """As the protocol says."""
        if not position:
            return ""
        try:
            records = self._engine.outbox(position - 1, 1)
        except HistoryPruned:
            return ""
        return mark_of([cloudevent(record, source=f"{self._url}/") for record in records], position)

    def wait(self, after: int, seconds: float) -> None:
        """As the protocol says."""
        deadline = time.monotonic() + seconds
        while self._engine.position() <= after and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY)

    def _write(self, command: Command | ConfigCommand) -> None:
        try:
            with self._engine.writing() as session:
                session.execute(command)
        except RegistryError as error:
            raise Refusal(str(error)) from None


def _options(kind: Kind, *, deep: bool) -> ViewOptions:
    """A Version always comes with its document."""
    whole = deep or kind is Kind.VERSION
    shown = ALL if whole else _META if kind is Kind.RESOURCE else NOTHING
    return ViewOptions(doc=True, binary=True, inline=shown, max_bytes=MAX_BYTES)


def _page(view: View, collection: Xid, options: ViewOptions, page: PageRequest) -> tuple[JSONObject, Position | None]:
    try:
        listed = view.listed(collection, options, page)
        return view.members(collection, listed, options), listed.following
    except RegistryError as error:
        raise _too_large(error) from None


def _too_large(error: RegistryError) -> Exception:
    return TooLarge(str(error)) if error.code == "too_large" else error

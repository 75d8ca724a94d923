"""The doors as ASGI applications: read the request, run it in the right place, send the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Final

from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from signalbook.api.answers import Answer, send_answer
from signalbook.api.bodies import Disconnected, read_body
from signalbook.api.caching import as_asked, conditional, require, tagged
from signalbook.api.commits import Commits
from signalbook.api.freshness import Freshness
from signalbook.api.memory import Memory
from signalbook.api.messagecatalog import first, v01
from signalbook.api.messagecatalog.dialect import Dialect
from signalbook.api.messagecatalog.requests import Request, read_request
from signalbook.api.messagecatalog.writing import Writing, open_catalog
from signalbook.api.problems import ReadOnly, problem
from signalbook.api.workers import Workers
from signalbook.engine.commands import Method
from signalbook.engine.engine import Batch, Engine
from signalbook.engine.view import View
from signalbook.errors import RegistryError
from signalbook.settings import Settings

FIRST: Final = "/compat/messagecatalog/v0"
V01: Final = "/compat/messagecatalog/v0.1"
_DIALECTS: Final = {FIRST: first.DIALECT, V01: v01.DIALECT}
_WRITES: Final = frozenset(method.value for method in Method)
_LARGE: Final = 1 << 18


def routes(
    engine: Engine, settings: Settings, workers: Workers, commits: Commits[Batch], *, direct: bool
) -> list[Route]:
    """Every path below the two doors. ``direct``: the store's generation can be asked on the event loop."""
    freshness = Freshness(engine.generation, workers)
    ask = _at_once(engine.generation) if direct else freshness.now
    doors = {mount: Door(engine, settings, workers, commits, ask, mount) for mount in _DIALECTS}
    return [Route(f"{mount}/{{path:path}}", door) for mount, door in doors.items()]


class Door:
    """One draft's API at the path ``mount``. An ASGI application, so that every method comes here."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        workers: Workers,
        commits: Commits[Batch],
        generation: Callable[[], Awaitable[Hashable]],
        mount: str,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._workers = workers
        self._commits = commits
        self._mount = mount
        self._dialect: Dialect = _DIALECTS[mount]
        self._memory = Memory()
        self._generation = generation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            answer = await self._answer(scope, receive)
        except Disconnected:
            return
        except asyncio.CancelledError:
            raise
        except Exception as error:
            answer = problem(error, scope["path"])
        await send_answer(answer, scope, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        if scope["method"] in _WRITES:
            limit, timeout = self._settings.max_body_bytes, self._settings.body_timeout
            body = await read_body(scope, receive, scope["path"], limit=limit, timeout=timeout)
            request = self._request(scope, body)
            return await self._commits.write(partial(self._write, request=request), alone=len(body) > _LARGE)
        if scope["method"] not in ("GET", "HEAD"):
            return await self._workers.read(partial(self._options, self._request(scope, b"")))
        key = (scope.get("scheme"), scope["path"], scope.get("raw_path"), scope["query_string"], _host(scope))
        generation = await self._generation()
        answer = self._memory.recall(key, generation)
        if answer is None:
            answer = tagged(await self._workers.read(partial(self._read, self._request(scope, b""))))
            self._memory.keep(key, generation, answer)
        return as_asked(answer, scope["headers"])

    def _request(self, scope: Scope, body: bytes) -> Request:
        return read_request(scope, body, self._settings, self._mount, tuple(_DIALECTS))

    def _read(self, request: Request) -> Answer:
        with self._engine.reading() as view:
            return self._dialect.reads[request.path.place](open_catalog(view, request), request)

    def _write(self, batch: Batch, request: Request) -> Answer:
        """All or nothing, the answer rendered before it commits."""
        allow = self._dialect.methods(request.path.place)
        write = self._dialect.writes.get((request.method, request.path.place))
        if write is None:
            error = RegistryError("action_not_supported", subject=request.path.text, action=request.method)
            return problem(error, f"{self._mount}{request.path.text}", allow)
        with batch.writing() as session:
            if open_catalog(session.view, request).is_read_only():
                allow = self._dialect.methods(request.path.place, read_only=True)
                return problem(ReadOnly("this catalog is read-only"), f"{self._mount}{request.path.text}", allow)
            self._require(session.view, request)
            return write(Writing(session, request), request)

    def _require(self, view: View, request: Request) -> None:
        """The conditions of a write hold for what GET of its URL shows. Raises ``PreconditionFailed``."""
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.items()]
        if not conditional(headers):
            return
        try:
            shown = tagged(self._dialect.reads[request.path.place](open_catalog(view, request), request)).etag
        except RegistryError:
            shown = ""
        require(headers, shown, f"{self._mount}{request.path.text}")

    def _options(self, request: Request) -> Answer:
        """The methods of a path, and of the catalog its features beside (C-27); a preflight is answered alike."""
        place = request.path.place
        if request.method != "OPTIONS":
            error = RegistryError("action_not_supported", subject=request.path.text, action=request.method)
            return problem(error, f"{self._mount}{request.path.text}", self._dialect.methods(place))
        with self._engine.reading() as view:
            catalog = open_catalog(view, request)
            allow = ", ".join(self._dialect.methods(place, read_only=catalog.is_read_only()))
            headers = (("Allow", allow), ("Access-Control-Allow-Methods", allow))
            if self._dialect.features is None or place is not place.CATALOG:
                return Answer(headers=headers)
            told = self._dialect.features(catalog, request)
            return Answer(headers=(*told.headers, *headers), body=told.body)


def _at_once(generation: Callable[[], Hashable]) -> Callable[[], Awaitable[Hashable]]:
    async def ask() -> Hashable:
        return generation()

    return ask


def _host(scope: Scope) -> bytes:
    """What URLs in the answer depend on beside the path."""
    return next((value for name, value in scope["headers"] if name == b"host"), b"")

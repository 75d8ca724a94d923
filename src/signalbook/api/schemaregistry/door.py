"""The door as an ASGI application: reads the request, runs it in the right place, sends the answer."""

from __future__ import annotations

import asyncio
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
from signalbook.api.problems import ReadOnly, problem
from signalbook.api.schemaregistry import handlers
from signalbook.api.schemaregistry.requests import MOUNT, Place, Request, path_below, read_request
from signalbook.api.urls import base_url
from signalbook.api.workers import Workers
from signalbook.engine.engine import Batch, Engine
from signalbook.engine.view import View
from signalbook.errors import RegistryError
from signalbook.settings import SettingError, Settings

_WRITES: Final = frozenset(method for _, method in handlers.WRITES)
_LARGE: Final = 1 << 18


class Door:
    """The Schema Registry API 0.2. ``direct`` as for the door of xRegistry: the generation is asked on the event loop.

    Raises ``SettingError`` for a ``strict_openapi`` that is none.
    """

    def __init__(
        self, engine: Engine, settings: Settings, workers: Workers, commits: Commits[Batch], *, direct: bool
    ) -> None:
        if settings.strict_openapi not in ("off", "on"):
            raise SettingError(f"strict_openapi is off or on, not {settings.strict_openapi!r}")
        self._engine = engine
        self._settings = settings
        self._workers = workers
        self._commits = commits
        self._direct = direct
        self._memory = Memory()
        self._freshness = Freshness(engine.generation, workers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            answer = await self._answer(scope, receive)
        except Disconnected:
            return
        except asyncio.CancelledError:
            raise
        except Exception as error:
            answer = problem(error, path_below(scope), _allowed(scope, self._settings, error))
        await send_answer(answer, scope, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        if scope["method"] in _WRITES:
            limit, timeout = self._settings.max_body_bytes, self._settings.body_timeout
            body = await read_body(scope, receive, path_below(scope), limit=limit, timeout=timeout)
            request = read_request(scope, body, self._settings)
            return await self._commits.write(partial(write, request=request), alone=len(body) > _LARGE)
        if scope["method"] not in ("GET", "HEAD"):
            return options(read_request(scope, b"", self._settings))
        key = (base_url(scope, self._settings), scope.get("raw_path") or scope["path"], scope["query_string"])
        generation = self._engine.generation() if self._direct else await self._freshness.now()
        answer = self._memory.recall(key, generation)
        if answer is None:
            request = read_request(scope, b"", self._settings)
            answer = tagged(await self._workers.read(partial(read, self._engine, request)))
            self._memory.keep(key, generation, answer)
        return as_asked(answer, scope["headers"])


def routes(
    engine: Engine, settings: Settings, workers: Workers, commits: Commits[Batch], *, direct: bool
) -> list[Route]:
    """The door where it is mounted. Raises as ``Door``."""
    door = Door(engine, settings, workers, commits, direct=direct)
    return [Route(MOUNT, door), Route(f"{MOUNT}/{{path:path}}", door)]


def read(engine: Engine, request: Request) -> Answer:
    """The answer to a GET. Raises ``RegistryError``."""
    with engine.reading() as view:
        handlers.check(view, request)
        return handlers.READS[request.path.place](view, request)


def write(batch: Batch, request: Request) -> Answer:
    """Do a write, all or nothing, and render the answer before it commits. Raises what ``problem`` answers."""
    with batch.writing() as session:
        handlers.check(session.view, request)
        run = handlers.WRITES.get((request.path.place, request.method))
        if run is None:
            raise RegistryError("action_not_supported", subject=request.path.text, action=request.method)
        if not _writable(session.view):
            raise ReadOnly("this registry is read-only")
        _require(session.view, request)
        answer = run(session, request)
        told = (("xRegistry-xregcorrelationid", session.correlationid),) if session.changes else ()
        return Answer(status=answer.status, headers=(*answer.headers, *told), body=answer.body)


def options(request: Request) -> Answer:
    """What may be done at this path. Raises ``action_not_supported`` for any other method that there is not."""
    if request.method != "OPTIONS":
        raise RegistryError("action_not_supported", subject=request.path.text, action=request.method)
    allow = ", ".join(_methods(request.path.place))
    return Answer(headers=(("Allow", allow), ("Access-Control-Allow-Methods", allow)))


def _require(view: View, request: Request) -> None:
    """The conditions of a write hold for what GET of its URL shows. Raises ``PreconditionFailed``."""
    if not conditional(request.raw_headers):
        return
    try:
        shown = tagged(handlers.READS[request.path.place](view, request)).etag
    except RegistryError:
        shown = ""
    require(request.raw_headers, shown, request.path.text)


def _writable(view: View) -> bool:
    return bool(view.capabilities["available"].get("entities", {}).get("mutable", False))


def _methods(place: Place) -> tuple[str, ...]:
    return ("GET", "HEAD", *(method for where, method in handlers.WRITES if where is place), "OPTIONS")


def _allowed(scope: Scope, settings: Settings, error: Exception) -> tuple[str, ...]:
    """The methods to go with 405: of a registry that is read-only those that read."""
    if isinstance(error, ReadOnly):
        return ("GET", "HEAD", "OPTIONS")
    if isinstance(error, RegistryError) and error.code == "action_not_supported":
        return _methods(read_request(scope, b"", settings).path.place)
    return ()

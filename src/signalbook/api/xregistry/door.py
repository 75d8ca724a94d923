"""The door as an ASGI application: reads the request, runs it in the right place, sends the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from starlette.types import Receive, Scope, Send

from signalbook.api.answers import Answer, send_answer
from signalbook.api.bodies import Disconnected, read_body
from signalbook.api.commits import Commits
from signalbook.api.caching import as_asked, tagged
from signalbook.api.errors import PreconditionFailed, condition_answer, error_answer, failure_answer
from signalbook.api.memory import Memory
from signalbook.api.urls import base_url
from signalbook.api.workers import Workers
from signalbook.api.xregistry import handlers
from signalbook.api.xregistry.requests import WRITES, Request, read_request
from signalbook.engine.engine import Batch, Engine
from signalbook.errors import RegistryError
from signalbook.settings import Settings

T = TypeVar("T")

_LARGE: Final = 1 << 18


class Door:
    """The xRegistry API at the path it is mounted at.

    ``direct`` answers reads of single entities on the event loop: right for a store that answers from this process's
    own memory and disk in microseconds, wrong for one across a network.
    """

    def __init__(
        self, engine: Engine, settings: Settings, workers: Workers, commits: Commits[Batch], *, direct: bool
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._workers = workers
        self._commits = commits
        self._direct = direct
        self._memory = Memory(engine.generation)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            answer = await self._answer(scope, receive)
        except Disconnected:
            return
        except RegistryError as error:
            answer = error_answer(error)
        except PreconditionFailed as error:
            answer = condition_answer(error)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            answer = failure_answer(error, scope["path"])
        await send_answer(answer, scope, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        if scope["method"] in WRITES:
            return await self._write(scope, await self._body(scope, receive))
        if scope["method"] not in ("GET", "HEAD"):
            return await self._read(scope)
        key = (base_url(scope, self._settings), scope["path"], scope.get("raw_path"), scope["query_string"])
        generation, answer = self._memory.recall(key)
        if answer is None:
            answer = tagged(await self._read(scope))
            self._memory.keep(key, generation, answer)
        return as_asked(answer, scope["headers"])

    async def _read(self, scope: Scope) -> Answer:
        request = read_request(scope, b"", self._settings)
        if self._direct and request.is_small:
            return self._run(request, handlers.answer, self._engine)
        return await self._workers.read(partial(self._run, request, handlers.answer, self._engine))

    async def _write(self, scope: Scope, body: bytes) -> Answer:
        request = read_request(scope, body, self._settings)
        large = len(body) > _LARGE
        if large:  # decoding it must not keep other writes waiting
            await self._workers.read(request.prepare)
        return await self._commits.write(partial(self._run, request, handlers.write), alone=large)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        return await read_body(scope, receive, self._settings.max_body_bytes, scope["path"])

    def _run(self, request: Request, handler: Callable[[T, Request], Answer], registry: T) -> Answer:
        try:
            return handler(registry, request)
        except RegistryError as error:
            if error.status != 405:
                raise
            return error_answer(error, allow=handlers.allowed(self._engine, request))

"""The door as an ASGI application: reads the request, runs it in the right place, sends the answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from starlette.types import Receive, Scope, Send

from signalbook.api.answers import Response, send_response
from signalbook.api.bodies import Disconnected, read_body
from signalbook.api.caching import if_modified, with_etag
from signalbook.api.commits import Commits
from signalbook.api.errors import PreconditionFailed, error_response, failure_response, precondition_response
from signalbook.api.freshness import Freshness
from signalbook.api.memory import ResponseCache
from signalbook.api.spool import Abandoned, SpooledResponse
from signalbook.api.urls import base_url
from signalbook.api.workers import Workers
from signalbook.api.xregistry import handlers
from signalbook.api.xregistry.requests import WRITES, RegistryRequest, read_request
from signalbook.engine.engine import Batch, Engine
from signalbook.errors import RegistryError
from signalbook.fetching import AllowList, Fetcher
from signalbook.settings import Settings
from signalbook.storage.base import StorageBusy

T = TypeVar("T")

_LARGE: Final = 1 << 18
_LOG: Final = logging.getLogger("signalbook.api")


class XRegistryAPI:
    """The xRegistry API at the path it is mounted at.

    ``direct`` answers reads of single entities, though not of documents, on the event loop: right for a store that
    answers from this process's own memory and disk in microseconds, wrong for one across a network.
    """

    def __init__(
        self, engine: Engine, settings: Settings, workers: Workers, commits: Commits[Batch], *, direct: bool
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._workers = workers
        self._commits = commits
        self._direct = direct
        self._large = 0
        self._memory = ResponseCache()
        self._freshness = Freshness(engine.generation, workers)
        self._fetcher = Fetcher(AllowList(settings.allow_fetch))
        self._fetching = asyncio.Semaphore(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            answer = await self._answer(scope, receive)
            if isinstance(answer, SpooledResponse):
                await self._send_large(answer, scope, receive, send)
                return
        except Disconnected:
            return
        except RegistryError as error:
            answer = error_response(error)
        except PreconditionFailed as error:
            answer = precondition_response(error)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            answer = failure_response(error, scope["path"])
        await send_response(answer, scope, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response | SpooledResponse:
        if scope["method"] in WRITES:
            return await self._write(scope, await self._body(scope, receive))
        if scope["method"] not in ("GET", "HEAD"):
            return await self._read(scope)
        key = (base_url(scope, self._settings), scope["path"], scope.get("raw_path"), scope["query_string"])
        generation = self._engine.generation() if self._direct else await self._freshness.now()
        answer = self._memory.recall(key, generation)
        if answer is None:
            made = await self._read(scope)
            if isinstance(made, SpooledResponse):
                return made
            answer = with_etag(made)
            self._memory.keep(key, generation, answer)
        return if_modified(answer, scope["headers"])

    async def _read(self, scope: Scope) -> Response | SpooledResponse:
        request = read_request(scope, b"", self._settings)
        if self._direct and request.is_quick:
            return self._run(request, handlers.answer, self._engine)
        if request.is_small:
            return await self._workers.read(partial(self._run, request, handlers.answer, self._engine))
        return await self._read_large(request)

    async def _read_large(self, request: RegistryRequest) -> Response | SpooledResponse:
        """What may turn out to be too much to be held as a whole; then it goes out while it is being made."""
        spool = SpooledResponse(timeout=self._settings.answer_timeout)
        run = partial(self._run, replace(request, spool=spool), handlers.answer, self._engine)
        running = asyncio.ensure_future(self._workers.read(run))
        try:
            await asyncio.wait([running, spool.begun], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            spool.abandon()
            raise
        if not spool.begun.done():
            return running.result()
        running.add_done_callback(partial(_log_failure, request.path.text))
        if self._large >= self._settings.threads:  # each of them fills a file
            spool.abandon()
            raise StorageBusy(f"{self._large} large answers are under way; try again")
        return spool

    async def _send_large(self, spool: SpooledResponse, scope: Scope, receive: Receive, send: Send) -> None:
        self._large += 1
        try:
            await spool.send(scope, receive, send)
        finally:
            self._large -= 1

    async def _write(self, scope: Scope, body: bytes) -> Response:
        request = read_request(scope, body, self._settings)
        if request.includes:
            request = await self._gathered(request)
        large = len(body) > _LARGE
        if large:  # decoding it must not keep other writes waiting
            await self._workers.read(request.prepare)
        return await self._commits.write(partial(self._run, request, handlers.write), alone=large)

    async def _gathered(self, request: RegistryRequest) -> RegistryRequest:
        """The request with what its model includes: fetched before it has the writer, one such request at a time."""
        async with self._fetching:
            return await self._workers.read(lambda: request.gather(self._fetcher.errand().load))

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        limit, timeout = self._settings.max_body_bytes, self._settings.body_timeout
        return await read_body(scope, receive, scope["path"], limit=limit, timeout=timeout)

    def _run(
        self, request: RegistryRequest, handler: Callable[[T, RegistryRequest], Response], registry: T
    ) -> Response:
        try:
            return handler(registry, request)
        except RegistryError as error:
            if error.status != 405:
                raise
            return error_response(error, allow=handlers.allowed(self._engine, request))


def _log_failure(subject: str, running: asyncio.Future[Response]) -> None:
    """Of an answer that has begun, the client has seen no more than that it ended too soon."""
    error = running.exception()
    if error is not None and not isinstance(error, Abandoned):
        _LOG.error("the answer about %r ended before its end", subject, exc_info=error)

"""The xRegistry API, ``/check``, which tries a write and undoes it (R135), and host-based discovery (R140)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from signalbook.api.kernel.caching import Freshness, ResponseCache, if_modified, with_etag
from signalbook.api.kernel.commits import Commits, Workers
from signalbook.api.kernel.errors import (
    NO_STORE,
    PreconditionFailed,
    error_response,
    failure_response,
    precondition_response,
)
from signalbook.api.kernel.requests import Disconnected, base_url, read_body
from signalbook.api.kernel.responses import Response, json_response, send_response
from signalbook.api.kernel.routing import routes
from signalbook.api.kernel.streaming import Abandoned, SpooledResponse
from signalbook.api.xregistry.handlers import allowed, answer, execute, write
from signalbook.api.xregistry.requests import WRITES, RegistryRequest, read_request
from signalbook.engine.engine import Batch, Engine
from signalbook.engine.write.commands import Method
from signalbook.errors import RegistryError
from signalbook.fetching import AllowList, Fetcher
from signalbook.formats.compatibility import RULES
from signalbook.settings import Settings
from signalbook.storage.base import StorageBusy
from signalbook.verdict import Verdict


def discovery_routes(settings: Settings) -> list[Route]:
    """``/.well-known/xregistry`` at the root of the host: which registries are here."""

    async def registries(request: Request) -> Response:
        return json_response({"registries": [f"{base_url(request.scope, settings)}/"]})

    return routes("/.well-known/xregistry", registries)


PATH: Final = "/check"
_METHODS: Final = (*(method.value for method in Method), "OPTIONS")
_SERVER_ERROR: Final = 500
_LARGE: Final = 1 << 18
"""Bytes of a body whose write has a transaction of its own."""


def check_routes(settings: Settings, commits: Commits[Batch]) -> list[Route]:
    """``/check`` for the Registry itself, and everything below."""
    checks = Checks(settings, commits)
    return [Route(PATH, checks), Route(f"{PATH}/{{path:path}}", checks)]


class Checks:
    """Tries writes. It takes its turn among them, since it does what they do."""

    def __init__(self, settings: Settings, commits: Commits[Batch]) -> None:
        self._settings = settings
        self._commits = commits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            answer = await self._answer(scope, receive)
        except Disconnected:
            return
        except RegistryError as error:
            answer = error_response(error, allow=_METHODS)
        except PreconditionFailed as error:
            answer = precondition_response(error)
        except Exception as error:
            answer = failure_response(error, scope["path"])
        await send_response(answer, scope, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        if scope["method"] == "OPTIONS":
            allow = ", ".join(_METHODS)
            return Response(headers=(("Allow", allow), ("Access-Control-Allow-Methods", allow)))
        if scope["method"] not in _METHODS:
            raise RegistryError("action_not_supported", subject=scope["path"], action=scope["method"])
        rule = _rule(scope)
        limit, timeout = self._settings.max_body_bytes, self._settings.body_timeout
        body = await read_body(scope, receive, scope["path"], limit=limit, timeout=timeout)
        try:
            request = read_request(_behind(scope), body, self._settings)
        except RegistryError as error:
            return _verdict_response(Verdict.refused(error))
        work = partial(try_write, request=request, rule=rule)
        return _verdict_response(await self._commits.write(work, alone=len(body) > _LARGE))


def try_write(batch: Batch, request: RegistryRequest, rule: str | None) -> Verdict:
    """Do what the write would do, with ``rule`` for that of every Resource if there is one, and undo it.

    Raises ``RegistryError`` for what is no fault of the request.
    """
    try:
        with batch.trying(rule) as session:
            result = execute(session, request)
            return Verdict(
                changes=tuple(change.to_json() for change in session.changes),
                findings=(*result.findings, *session.doubts),
            )
    except RegistryError as error:
        if error.status >= _SERVER_ERROR:
            raise
        return Verdict.refused(error)


def _verdict_response(verdict: Verdict) -> Response:
    return json_response(verdict.to_json(), headers=(NO_STORE,))


def _behind(scope: Scope) -> Scope:
    """``scope`` as the write itself would have it."""
    raw = scope.get("raw_path") or scope["path"].encode("utf-8")
    root = scope.get("root_path", "")
    behind = raw.removeprefix(root.encode("utf-8")).removeprefix(PATH.encode("ascii"))
    return {**scope, "raw_path": root.encode("utf-8") + (behind or b"/")}


def _rule(scope: Scope) -> str | None:
    """The flag ``compatibility``. Raises ``bad_flag``."""
    given: list[str] | None = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True).get(
        "compatibility"
    )
    if given is None:
        return None
    if len(given) != 1 or given[0].casefold() not in RULES:
        detail = f"it is one of {', '.join(RULES)}"
        raise RegistryError("bad_flag", subject=scope["path"], flag="compatibility", detail=detail)
    return given[0].casefold()


T = TypeVar("T")

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
            return self._run(request, answer, self._engine)
        if request.is_small:
            return await self._workers.read(partial(self._run, request, answer, self._engine))
        return await self._read_large(request)

    async def _read_large(self, request: RegistryRequest) -> Response | SpooledResponse:
        """What may turn out to be too much to be held as a whole; then it goes out while it is being made."""
        spool = SpooledResponse(timeout=self._settings.answer_timeout)
        run = partial(self._run, replace(request, spool=spool), answer, self._engine)
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
        return await self._commits.write(partial(self._run, request, write), alone=large)

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
            return error_response(error, allow=allowed(self._engine, request))


def _log_failure(subject: str, running: asyncio.Future[Response]) -> None:
    """Of an answer that has begun, the client has seen no more than that it ended too soon."""
    error = running.exception()
    if error is not None and not isinstance(error, Abandoned):
        _LOG.error("the answer about %r ended before its end", subject, exc_info=error)

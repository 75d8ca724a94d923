"""Paths and their methods: how requests come to handlers, and errors to clients."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from signalbook.api.kernel.caching import if_modified, with_etag
from signalbook.api.kernel.errors import (
    PreconditionFailed,
    error_response,
    failure_response,
    gone_response,
    precondition_response,
)
from signalbook.api.kernel.requests import Disconnected, read_body
from signalbook.api.kernel.responses import Response, send_response
from signalbook.engine.engine import HistoryPruned
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.storage.base import StorageError
from signalbook.values import JSON, JSONError, parse_json


class HTTPRequest:
    """One request. Handlers add what they ask of it."""

    def __init__(self, scope: Scope, receive: Receive, settings: Settings) -> None:
        self.scope = scope
        self.path: str = scope["path"]
        self.request = Request(scope)
        self._receive = receive
        self._settings = settings

    async def body(self, limit: int) -> bytes:
        """The body, at most ``limit`` bytes and what the server takes. Raises ``missing_body``, ``bad_request``."""
        limit = min(limit, self._settings.max_body_bytes)
        timeout = self._settings.body_timeout
        body = await read_body(self.scope, self._receive, self.path, limit=limit, timeout=timeout)
        if not body:
            raise RegistryError("missing_body", subject=self.path)
        return body

    def json(self, body: bytes, depth: int) -> JSON:
        """The JSON in a body. Raises ``parsing_data``."""
        try:
            return parse_json(body, max_depth=depth, unique=True)
        except JSONError as error:
            raise RegistryError("parsing_data", subject=self.path, error_detail=str(error)) from None


C = TypeVar("C", bound=HTTPRequest)
Handler = Callable[[C], Awaitable[Response]]
Explain = Callable[[Exception, str], RegistryError | None]


class Place(Generic[C]):
    """A path and its methods: an ASGI application, so that every method comes here.

    ``call`` makes of a request what the ``handlers`` take. ``explain`` tells an error of theirs about a path in the
    words of the catalogue, None for what is not the request's fault.
    """

    def __init__(
        self, handlers: Mapping[str, Handler[C]], call: Callable[[Scope, Receive], C], explain: Explain
    ) -> None:
        self._handlers = {**handlers, "HEAD": handlers["GET"]}
        self._call = call
        self._explain = explain
        first, *others = handlers
        self._allow = (first, "HEAD", *others, "OPTIONS")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            answer = await self._answer(self._call(scope, receive))
        except Disconnected:
            return
        except PreconditionFailed as error:
            answer = precondition_response(error)
        except Exception as error:
            path = scope["path"]
            told = error if isinstance(error, RegistryError) else self._explain(error, path)
            answer = failure_response(error, path) if told is None else error_response(told, allow=self._allow)
        await send_response(answer, scope, send)

    async def _answer(self, call: C) -> Response:
        method = call.scope["method"]
        if method == "OPTIONS":
            allow = ", ".join(self._allow)
            return Response(headers=(("Allow", allow), ("Access-Control-Allow-Methods", allow)))
        handler = self._handlers.get(method)
        if handler is None:
            raise RegistryError("action_not_supported", subject=call.path, action=method)
        return await handler(call)


Read = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """An answer that goes on, for requests that are ``wanted`` so. ``run`` may raise before it sends anything."""

    wanted: Callable[[Scope], bool]
    run: Callable[[Scope, Receive, Send], Awaitable[None]]


_METHODS: Final = ("GET", "HEAD", "OPTIONS")


def routes(path: str, read: Read, live: Live | None = None) -> list[Route]:
    """``read`` at ``path``, with or without a trailing slash. It may raise ``RegistryError`` and ``Forgotten``."""
    endpoint = _ReadOnly(path, read, live)
    return [Route(path, endpoint), Route(f"{path}/", endpoint)]


class _ReadOnly:
    """An ASGI application, and no function, so that every method comes here (R134, R138)."""

    def __init__(self, path: str, read: Read, live: Live | None) -> None:
        self._path = path
        self._read = read
        self._live = live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["method"] == "GET" and self._live is not None and self._live.wanted(scope):
            await self._go_on(self._live, scope, receive, send)
        else:
            await send_response(await self._answer(Request(scope, receive)), scope, send)

    async def _go_on(self, live: Live, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await live.run(scope, receive, send)
        except (RegistryError, HistoryPruned, StorageError) as error:
            await send_response(self._refusal(error), scope, send)

    async def _answer(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            allow = ", ".join(_METHODS)
            return Response(headers=(("Allow", allow), ("Access-Control-Allow-Methods", allow)))
        if request.method not in _METHODS:
            error = RegistryError("action_not_supported", subject=self._path, action=request.method)
            return error_response(error, allow=_METHODS)
        try:
            return if_modified(with_etag(await self._read(request)), request.scope["headers"])
        except Exception as error:
            return self._refusal(error)

    def _refusal(self, error: Exception) -> Response:
        if isinstance(error, RegistryError):
            return error_response(error)
        if isinstance(error, HistoryPruned):
            return gone_response(error, self._path)
        return failure_response(error, self._path)

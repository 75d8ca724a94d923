"""Paths beside the registry's own that are only read: in methods, slashes and errors they are like all others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from signalbook.api.answers import Response, send_response
from signalbook.api.caching import if_modified, with_etag
from signalbook.api.errors import error_response, failure_response, gone_response
from signalbook.engine.history import Forgotten
from signalbook.errors import RegistryError
from signalbook.storage.base import StorageError

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
        except (RegistryError, Forgotten, StorageError) as error:
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
        if isinstance(error, Forgotten):
            return gone_response(error, self._path)
        return failure_response(error, self._path)

"""Paths beside the registry's own that are only read: in methods, slashes and errors they are like all others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from signalbook.api.answers import Answer, send_answer
from signalbook.api.caching import as_asked, tagged
from signalbook.api.errors import error_answer, failure_answer, gone_answer
from signalbook.engine.engine import HistoryPruned
from signalbook.errors import RegistryError
from signalbook.storage.base import StorageError

Read = Callable[[Request], Awaitable[Answer]]


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
            await send_answer(await self._answer(Request(scope, receive)), scope, send)

    async def _go_on(self, live: Live, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await live.run(scope, receive, send)
        except (RegistryError, HistoryPruned, StorageError) as error:
            await send_answer(self._refusal(error), scope, send)

    async def _answer(self, request: Request) -> Answer:
        if request.method == "OPTIONS":
            allow = ", ".join(_METHODS)
            return Answer(headers=(("Allow", allow), ("Access-Control-Allow-Methods", allow)))
        if request.method not in _METHODS:
            error = RegistryError("action_not_supported", subject=self._path, action=request.method)
            return error_answer(error, allow=_METHODS)
        try:
            return as_asked(tagged(await self._read(request)), request.scope["headers"])
        except Exception as error:
            return self._refusal(error)

    def _refusal(self, error: Exception) -> Answer:
        if isinstance(error, RegistryError):
            return error_answer(error)
        if isinstance(error, HistoryPruned):
            return gone_answer(error, self._path)
        return failure_answer(error, self._path)

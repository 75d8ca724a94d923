"""Paths beside the registry's own that are only read: in methods, slashes and errors they are like all others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from signalbook.api.answers import Answer, send_answer
from signalbook.api.caching import as_asked, tagged
from signalbook.api.errors import error_answer, failure_answer
from signalbook.errors import RegistryError

Read = Callable[[Request], Awaitable[Answer]]

_METHODS: Final = ("GET", "HEAD", "OPTIONS")


def routes(path: str, read: Read) -> list[Route]:
    """``read`` at ``path``, with or without a trailing slash. It may raise ``RegistryError``."""
    endpoint = _ReadOnly(path, read)
    return [Route(path, endpoint), Route(f"{path}/", endpoint)]


class _ReadOnly:
    """An ASGI application, and no function, so that every method comes here (R134, R138)."""

    def __init__(self, path: str, read: Read) -> None:
        self._path = path
        self._read = read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await send_answer(await self._answer(Request(scope, receive)), scope, send)

    async def _answer(self, request: Request) -> Answer:
        if request.method == "OPTIONS":
            allow = ", ".join(_METHODS)
            return Answer(headers=(("Allow", allow), ("Access-Control-Allow-Methods", allow)))
        if request.method not in _METHODS:
            error = RegistryError("action_not_supported", subject=self._path, action=request.method)
            return error_answer(error, allow=_METHODS)
        try:
            return as_asked(tagged(await self._read(request)), request.scope["headers"])
        except RegistryError as error:
            return error_answer(error)
        except Exception as error:
            return failure_answer(error, self._path)

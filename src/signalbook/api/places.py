"""A path beside the registry, and its methods: how requests come to their handlers, and errors to clients."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from signalbook.api.answers import Response, send_response
from signalbook.api.bodies import Disconnected, read_body
from signalbook.api.errors import PreconditionFailed, error_response, failure_response, precondition_response
from signalbook.errors import RegistryError
from signalbook.settings import Settings
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

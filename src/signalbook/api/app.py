"""The web application: every door in its place, and what all answers have in common."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from signalbook.api import feed, health
from signalbook.api.commits import Commits
from signalbook.api.urls import base_url
from signalbook.api.workers import Workers
from signalbook.api.xregistry import discovery
from signalbook.api.xregistry.door import Door
from signalbook.engine.engine import Engine
from signalbook.settings import Settings

_EXPOSED: Final = "Link, Location, Content-Location, Content-Disposition, Allow, ETag, Retry-After, *"
_CORS: Final = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-headers", b"*"),
    (b"access-control-expose-headers", _EXPOSED.encode("ascii")),
]


def create_app(engine: Engine, settings: Settings, *, direct: bool, close: Callable[[], None]) -> Starlette:
    """The application over ``engine``. ``direct`` as in ``Door``; ``close`` is called when all requests are done."""
    workers = Workers(threads=settings.threads, timeout=settings.request_timeout)
    commits = Commits(engine.batch, timeout=settings.request_timeout)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        commits.close()
        workers.close()
        close()

    app = Starlette(
        routes=[
            *health.routes(engine, workers),
            *discovery.routes(settings),
            *feed.routes(engine, settings, workers),
        ],
        middleware=[Middleware(CommonHeaders, settings=settings)],
        lifespan=lifespan,
    )
    # Whatever is no extension's path belongs to the registry: line breaks, which a route's pattern stops at, too.
    app.router.default = Door(engine, settings, workers, commits, direct=direct)
    app.router.redirect_slashes = False
    return app


class CommonHeaders:
    """Adds to every answer, errors too, what lets a browser read it (R315) and the way to the root (R137)."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; complete the headers of the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        link = _link(base_url(scope, self._settings))

        async def complete(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_CORS, link]
            await send(message)

        await self._app(scope, receive, complete)


@lru_cache(maxsize=128)
def _link(root: str) -> tuple[bytes, bytes]:
    # The rel parameter comes first: clients read no further.
    return b"link", f"<{root}/>;rel=xregistry-root".encode("ascii", "replace")

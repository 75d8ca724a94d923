"""The web application: every door in its place, and what all answers have in common."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route
from starlette.types import ASGIApp, Lifespan, Message, Receive, Scope, Send

from signalbook.api import (
    consent,
    feed,
    health,
    messagecatalog,
    notifications,
    pipelines,
    schemaregistry,
    subscriptions,
)
from signalbook.api.commits import Commits
from signalbook.api.inbound import Inbound
from signalbook.api.urls import base_url
from signalbook.api.workers import Workers
from signalbook.api.xregistry import checks, discovery
from signalbook.api.xregistry.door import Door
from signalbook.engine.engine import Engine
from signalbook.events.delivery.deliveries import Deliveries
from signalbook.events.feed import Head
from signalbook.events.subscriptions.store import Subscriptions
from signalbook.pipelinereports import PipelineReports
from signalbook.replication.following import Following
from signalbook.settings import Settings
from signalbook.values import JSONObject

_EXPOSED: Final = "Link, Location, Content-Location, Content-Disposition, Allow, ETag, Retry-After, *"
_CORS: Final = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-headers", b"*"),
    (b"access-control-expose-headers", _EXPOSED.encode("ascii")),
]


def create_app(
    engine: Engine,
    settings: Settings,
    *,
    direct: bool,
    close: Callable[[], None],
    source: Callable[[], JSONObject] | None = None,
    head: Head | None = None,
    book: Subscriptions | None = None,
    deliveries: Deliveries | None = None,
    following: Following | None = None,
) -> Starlette:
    """The application over ``engine``. ``direct`` as in ``Door``; ``close`` is called when all requests are done.

    ``source`` tells where the registry comes from, if it follows something; ``head`` is for who waits for changes.
    ``book`` has the subscriptions, and ``deliveries``, which somebody else has to start, delivers to them.
    ``following``, which is started elsewhere too, copies from other registries.
    """
    head = head or Head(engine.position)
    book = book or Subscriptions.of(engine, settings)
    deliveries = deliveries or Deliveries(engine, book, head, settings)
    following = following or Following(engine, settings)
    copied = following.status if following.sources else None
    workers = Workers(threads=settings.threads, timeout=settings.request_timeout)
    commits = Commits(engine.batch, timeout=settings.request_timeout)
    reports = PipelineReports(engine.store, keep=settings.max_reports, most=settings.max_pipelines)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        commits.close()
        workers.close()
        close()

    extensions = [
        *health.routes(engine, workers, source, deliveries.status, copied),
        *discovery.routes(settings),
        *feed.routes(engine, settings, workers, head),
        *checks.routes(settings, commits),
        *notifications.routes(following, settings, workers),
        *schemaregistry.routes(engine, settings, workers, commits, direct=direct),
        *subscriptions.routes(
            subscriptions.Doorway(book=book, deliveries=deliveries, settings=settings, workers=workers, commits=commits)
        ),
        *pipelines.routes(pipelines.Doorway(reports=reports, settings=settings, workers=workers, commits=commits)),
        *consent.routes(book, deliveries, workers, commits),
        *messagecatalog.routes(engine, settings, workers, commits, direct=direct),
    ]
    return Application(extensions, Door(engine, settings, workers, commits, direct=direct), settings, lifespan)


class Application(Starlette):
    """The extensions' routes, and the registry for whatever is none of theirs.

    What does not even begin like one of them goes to the registry at once: routing and Starlette's own layers would
    cost more than a hot read (docs/decisions/042-server.md).
    """

    def __init__(
        self, extensions: list[Route], registry: ASGIApp, settings: Settings, lifespan: Lifespan[Starlette]
    ) -> None:
        layers = [Middleware(CommonHeaders, settings=settings)]
        if settings.copies == "refuse":
            layers, registry = [*layers, Middleware(Inbound)], Inbound(registry)
        super().__init__(routes=extensions, middleware=layers, lifespan=lifespan)
        # Line breaks, which a route's pattern stops at, belong to the registry too.
        self.router.default = registry
        self.router.redirect_slashes = False
        self._begin = frozenset(_first(route.path) for route in extensions)
        self._registry = CommonHeaders(registry, settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or run the lifespan."""
        if (
            scope["type"] == "http"
            and _first(scope["path"].removeprefix(scope.get("root_path", ""))) not in self._begin
        ):
            await self._registry(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def _first(path: str) -> str:
    return path[1:].partition("/")[0]


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

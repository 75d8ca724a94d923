"""The web application: every API at its path, and what all responses have in common."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route
from starlette.types import ASGIApp, Lifespan, Message, Receive, Scope, Send

from signalbook.api import health, messagecatalog, schemaregistry
from signalbook.api.feed import Feed
from signalbook.api.kernel.errors import Denied, problem_response
from signalbook.api.kernel.requests import base_url
from signalbook.api.kernel.routing import Kernel
from signalbook.api.notifications import Notifications
from signalbook.api.pipelines import Pipelines
from signalbook.api.subscriptions import SubscriptionsAPI
from signalbook.api.xregistry.routes import XRegistryAPI
from signalbook.engine.engine import Engine
from signalbook.events.delivery.deliveries import Deliveries
from signalbook.events.feed import Head
from signalbook.events.subscriptions.store import SubscriptionStore
from signalbook.pipelinereports import PipelineReports
from signalbook.replication.following import Following
from signalbook.replication.opening import HEADER
from signalbook.settings import Settings
from signalbook.values import JSONObject

_NAMES: Final = frozenset({HEADER.lower().encode("ascii"), b"schema-authority"})
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Inbound:
    """Refuses writes that say that their content comes from another registry, or is under another's authority."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] == "http" and scope["method"] not in _SAFE and _copies(scope):
            refused = Denied("this registry takes no copies from others (setting copies)")
            await problem_response(refused, scope["path"]).send(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _copies(scope: Scope) -> bool:
    """By a header, or in the drafts' APIs by an authority in the query (A-47)."""
    named = "/compat/" in scope["path"] and b"authority=" in scope["query_string"].lower()
    return named or any(name in _NAMES for name, _ in scope["headers"])


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
    subscriptions: SubscriptionStore | None = None,
    deliveries: Deliveries | None = None,
    following: Following | None = None,
) -> Starlette:
    """The application over ``engine``. ``direct`` as in ``Door``; ``close`` is called when all requests are done.

    ``source`` tells where the registry comes from, if it follows something; ``head`` is for who waits for changes.
    ``subscriptions`` are stored there, and ``deliveries``, which somebody else has to start, delivers to them.
    ``following``, which is started elsewhere too, copies from other registries.
    """
    head = head or Head(engine.position)
    subscriptions = subscriptions or SubscriptionStore.of(engine, settings)
    deliveries = deliveries or Deliveries(engine, subscriptions, head, settings)
    following = following or Following(engine, settings)
    reports = PipelineReports(engine.store, keep=settings.max_reports, most=settings.max_pipelines)
    kernel = Kernel.over(engine, settings, direct=direct)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        kernel.close()
        close()

    states = {"deliveries": deliveries.status}
    if following.sources:
        states = {"replication": following.status, **states}
    if source is not None:
        states = {"source": source, **states}
    registry = XRegistryAPI(kernel)
    # Routes are tried in this order: those that are read most come first.
    others = [
        *schemaregistry.routes(kernel),
        *messagecatalog.routes(kernel),
        *Feed(kernel, head).routes(),
        *health.routes(kernel, states),
        *registry.routes(),
        *SubscriptionsAPI(kernel, subscriptions, deliveries).routes(),
        *Pipelines(kernel, reports).routes(),
        *Notifications(kernel, following).routes(),
    ]
    return Application(others, registry, settings, lifespan)


class Application(Starlette):
    """The extensions' routes, and the registry for whatever is none of theirs.

    What does not even begin like one of them goes to the registry at once: routing and Starlette's own layers would
    cost more than a hot read (docs/decisions/042-server-and-caching.md).
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

"""The web application: every API at its path, health checks, and headers that all responses share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from http import HTTPStatus
from time import perf_counter
from typing import Final

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Lifespan, Message, Receive, Scope, Send

from signalbook.access.audit import Audit
from signalbook.access.base import Action, Unauthenticated
from signalbook.access.control import AccessControl
from signalbook.access.limits import TooManyRequests
from signalbook.api import messagecatalog, schemaregistry
from signalbook.api.access import AccessAPI
from signalbook.api.audit import AuditAPI
from signalbook.api.confluent import routes as confluent
from signalbook.api.confluent.compatibility import check_levels
from signalbook.api.feed import Feed
from signalbook.api.impact import ImpactAPI
from signalbook.api.kernel.cookies import PAGES
from signalbook.api.kernel.errors import NO_STORE, Denied, build_problem_response
from signalbook.api.kernel.large_requests import LargeRequests
from signalbook.api.kernel.origins import READS, Origins
from signalbook.api.kernel.repeats import Repeats
from signalbook.api.kernel.requests import HTTPRequest, base_url
from signalbook.api.kernel.responses import Response, json_response
from signalbook.api.kernel.routing import Kernel, PathEndpoint
from signalbook.api.kernel.streaming import STOPPING
from signalbook.api.metrics import MetricsAPI, counting
from signalbook.api.notifications import Notifications
from signalbook.api.pipelines import PipelinesAPI
from signalbook.api.search import SearchAPI
from signalbook.api.subscriptions import SubscriptionsAPI
from signalbook.api.tokens import TokensAPI
from signalbook.api.ui import routes as ui
from signalbook.api.xregistry.routes import XRegistryAPI
from signalbook.engine.engine import Engine
from signalbook.events.delivery.deliveries import Deliveries
from signalbook.events.feed import Head
from signalbook.events.subscriptions.store import SubscriptionStore
from signalbook.metrics import HTTP, api_of
from signalbook.pipeline_reports import PipelineReports
from signalbook.replication.following import Following
from signalbook.replication.opening import HEADER
from signalbook.settings import Settings
from signalbook.storage.base import StorageError
from signalbook.tracing import serving, tracing
from signalbook.values import JSONObject
from signalbook.xid import ROOT

_EXPOSED: Final = "Link, Location, Content-Location, Content-Disposition, Allow, ETag, Retry-After, *"
_CORS: Final = (
    # The wildcard does not include Authorization.
    (b"access-control-allow-headers", b"*, Authorization"),
    (b"access-control-expose-headers", _EXPOSED.encode("ascii")),
)
_COPY_HEADERS: Final = frozenset({HEADER.lower().encode("ascii"), b"schema-authority"})
_LIVE: Final = "/health/live"
_READY: Final = "/health/ready"


def create_app(
    engine: Engine,
    settings: Settings,
    *,
    direct: bool,
    close: Callable[[], None],
    source: Callable[[], JSONObject] | None = None,
    head: Head | None = None,
    control: AccessControl | None = None,
    subscriptions: SubscriptionStore | None = None,
    deliveries: Deliveries | None = None,
    following: Following | None = None,
    audit: Audit | None = None,
    large_requests: LargeRequests | None = None,
) -> Application:
    """Return the application for ``engine``. ``direct`` is as in ``Kernel``; ``close`` is called after the last
    request.

    ``source`` returns the state of the registry's source, if it follows one. ``head`` notifies readers that wait for
    changes. ``control`` has the policy in force. ``subscriptions`` stores subscriptions, and ``deliveries`` delivers to
    them. ``following`` copies from other registries. The caller has to start ``deliveries`` and ``following``.
    ``audit`` records refused requests. Missing parts are created.
    """
    head = head or Head(engine.position)
    subscriptions = subscriptions or SubscriptionStore.of(engine, settings)
    control = control or AccessControl(engine.store, settings)
    deliveries = deliveries or Deliveries(engine, control, subscriptions, head, settings)
    following = following or Following(engine, settings)
    reports = PipelineReports(engine.store, keep=settings.max_reports, most=settings.max_pipelines)
    audit = audit or Audit(engine.store, settings)
    kernel = Kernel.over(
        engine,
        settings,
        direct=direct,
        control=control,
        audit=audit,
        large_requests=large_requests,
        held=partial(check_levels, default_group=settings.confluent_group),
    )

    @asynccontextmanager
    async def run_lifespan(_: Starlette) -> AsyncIterator[dict[str, asyncio.Event]]:
        async with counting():
            yield {STOPPING: asyncio.Event()}
        kernel.close()
        close()

    states = {"deliveries": deliveries.status}
    if following.peers:
        states = {"replication": following.status, **states}
    if source is not None:
        states = {"source": source, **states}
    registry = XRegistryAPI(kernel)
    api_routes = [
        *SubscriptionsAPI(kernel, subscriptions, deliveries).routes(),
        *schemaregistry.routes(kernel),
        *messagecatalog.routes(kernel),
        *confluent.routes(kernel),
        *Feed(kernel, head).routes(),
        *_build_health_routes(kernel, states),
        *MetricsAPI(kernel).routes(),
        *registry.routes(),
        *PipelinesAPI(kernel, reports).routes(),
        *SearchAPI(kernel).routes(),
        *ImpactAPI(kernel, reports, subscriptions).routes(),
        *AccessAPI(kernel).routes(),
        *AuditAPI(kernel).routes(),
        *Notifications(kernel, following).routes(),
        *TokensAPI(kernel).routes(),
        *ui.routes(kernel, reports, subscriptions, following.status),
    ]
    return Application(api_routes, registry, kernel, run_lifespan)


def _build_health_routes(kernel: Kernel, states: dict[str, Callable[[], JSONObject]]) -> list[Route]:
    """Return the routes for load balancers.

    ``report_live`` returns 200 while the process responds, ``report_ready`` while the store can be read. Callers that
    may list everything also see ``states``: the states of the background tasks of this server.
    """

    def read() -> None:
        with kernel.engine.reading():
            pass

    async def is_trusted(scope: Scope) -> bool:
        try:
            return (await kernel.admission.access(scope)).allows_everything_below(Action.LIST, ROOT)
        except (Unauthenticated, TooManyRequests):
            return False

    async def report_live(_: HTTPRequest) -> Response:
        return json_response({"status": "ok"}, headers=(NO_STORE,))

    async def report_ready(request: HTTPRequest) -> Response:
        try:
            await kernel.workers.read(read)
            details = {name: state() for name, state in states.items()} if await is_trusted(request.scope) else {}
        except StorageError as error:
            return json_response({"status": "unavailable", "reason": error.shown}, status=503, headers=(NO_STORE,))
        return json_response({"status": "ok", **details}, headers=(NO_STORE,))

    return [
        *PathEndpoint({"GET": report_live}, kernel, subject=_LIVE, public=True).routes(_LIVE),
        *PathEndpoint({"GET": report_ready}, kernel, subject=_READY, public=True).routes(_READY),
    ]


class Application(Starlette):
    """The routes of all APIs. Paths that belong to no other API are handled by the xRegistry API.

    Every response, including errors, has the headers that let browsers read it (R315), and a link to the root (R137).
    Requests that a browser must not send for another page are refused here, and so are copies if this registry accepts
    none.
    """

    def __init__(
        self,
        api_routes: list[Route],
        registry: ASGIApp,
        kernel: Kernel,
        lifespan: Lifespan[Starlette],
    ) -> None:
        super().__init__(routes=api_routes, lifespan=lifespan)
        self.repeats = Repeats(kernel) if kernel.direct else None
        """Former responses, which connections query before they call the application; None unless the store
        is direct."""
        self._admission = kernel.admission
        self._registry = registry
        self._settings = kernel.settings
        self._origins = Origins(kernel.settings)
        self._paths = _Paths()
        for route in api_routes:
            self._paths.add(route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, or run the lifespan."""
        # Starlette's own middleware, and trying routes one by one, would cost more than the rest of a cached read.
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        began = perf_counter()
        if self._is_confluent(scope):
            confluent.mount(scope)
        refusal = self._origins.refusal(scope)
        if refusal is not None:
            HTTP.add(scope["path"], scope["method"], refusal.response.status, perf_counter() - began)
            await refusal.response.send(scope, receive, send)
            await self._admission.record_refused_page(refusal, scope)
            return
        if not tracing():
            await self._answer(scope, receive, send, began)
            return
        path = scope["path"]
        with serving(scope["method"], path, api_of(path), scope["headers"]) as record_status:
            await self._answer(scope, receive, send, began, record_status)

    async def _answer(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        began: float,
        record_status: Callable[[int], None] = lambda status: None,  # noqa: ARG005
    ) -> None:
        scope["base_url"] = root = base_url(scope, self._settings)
        link_root = "" if self._is_confluent(scope) and not self._settings.base_url else root
        added, lines = _build_added_headers(link_root, self._origins.find_allowed_origin(scope))

        async def complete(message: Message) -> None:
            if message["type"] == "http.response.start":
                HTTP.add(scope["path"], scope["method"], message["status"], perf_counter() - began)
                record_status(message["status"])
                message["headers"] = [*message["headers"], *added]
                if "head" in message:
                    message["head"] += lines
            await send(message)

        await self.find(scope)(scope, receive, complete)
        if self.repeats is not None and "response" in scope:
            self.repeats.keep(scope, scope["response"], added)

    def _is_confluent(self, scope: Scope) -> bool:
        """Return True if a request came through the port that serves only the Confluent-compatible API."""
        port = self._settings.confluent_port
        return port != 0 and scope["server"][1] == port

    def find(self, scope: Scope) -> ASGIApp:
        """Return the application for a request."""
        if self._settings.copies == "refuse" and scope["method"] not in READS and _is_copy(scope):
            refused = Denied("this registry takes no copies from others (setting copies)")
            return build_problem_response(refused, scope["path"]).send
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path in ("", "/") and self._settings.ui == "on" and _is_browser(scope):
            headers = (("Location", f"{base_url(scope, self._settings)}{PAGES}"), ("Vary", "Accept"), NO_STORE)
            return Response(status=HTTPStatus.SEE_OTHER, headers=headers).send
        for route in self._paths.routes(path):
            if match := route.path_regex.match(path):
                scope["path_params"] = match.groupdict()
                return route.app
        return self._registry


class _Paths:
    """Routes indexed by the path segments before their first parameter."""

    def __init__(self) -> None:
        self._below: dict[str, _Paths] = {}
        self._routes: list[Route] = []

    def add(self, route: Route) -> None:
        """Add a route. Of routes with the same beginning, the first match is used."""
        node = self
        for part in _split_segments(route.path.partition("{")[0].rstrip("/")):
            node = node._below.setdefault(part, _Paths())
        node._routes.append(route)

    def routes(self, path: str) -> Iterable[Route]:
        """Return the possible routes of a path, the longest first, so that the mount of an API comes last."""
        node, possible_routes = self, self._routes
        for part in _split_segments(path):
            below = node._below.get(part)
            if below is None:
                break
            node, possible_routes = below, [*below._routes, *possible_routes]
        return possible_routes


def _split_segments(path: str) -> list[str]:
    return path.split("/")[1:]


@lru_cache(maxsize=128)
def _build_added_headers(root: str, readers: bytes) -> tuple[tuple[tuple[bytes, bytes], ...], bytes]:
    """Return the headers added to every response, also as lines. ``root`` is empty if the port of the root
    is unknown."""
    cors = ((b"access-control-allow-origin", readers), *_CORS) if readers else _CORS
    varying = () if readers == b"*" else ((b"vary", b"Origin"),)
    # The rel parameter comes first, because some clients read only the first parameter.
    link = ((b"link", f"<{root}>;rel=xregistry-root".encode("ascii", "replace")),) if root else ()
    headers = (*cors, *varying, *link)
    return headers, b"".join(b"%s: %s\r\n" % header for header in headers)


def _is_browser(scope: Scope) -> bool:
    """Return True if a person opened a page in a browser. Requests with a query, or that accept JSON, get the JSON."""
    if scope["method"] not in READS or scope["query_string"]:
        return False
    accept: bytes = dict(scope["headers"]).get(b"accept", b"")
    return b"text/html" in accept and b"json" not in accept


def _is_copy(scope: Scope) -> bool:
    """Return True if a write says that its content is a copy from another registry.

    A header says so or, in the drafts' APIs, an authority in the query (A-47). A registry that accepts no copies, such
    as a central hub, rejects them (D-12). Reads are never rejected: clients that copy from here may send the same
    headers.
    """
    has_authority = "/compat/" in scope["path"] and b"authority=" in scope["query_string"].lower()
    return has_authority or any(name in _COPY_HEADERS for name, _ in scope["headers"])

"""The web application: every API at its path, health checks, and what all responses have in common."""

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
    # The wildcard does not stand for Authorization.
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
    """The application over ``engine``. ``direct`` as in ``Kernel``; ``close`` is called when all requests are done.

    ``source`` shows where the registry comes from, if it follows something; ``head`` is for who waits for changes,
    ``control`` has the policy in force.
    ``subscriptions`` are stored there, and ``deliveries``, which somebody else has to start, delivers to them.
    ``following``, which is started elsewhere too, copies from other registries, and ``audit`` keeps what was refused.
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

    ``report_live`` returns 200 as long as the process answers, ``report_ready`` while the store can be read. Callers
    that can list everything also see ``states``: those of the parts of this server that work by themselves.
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
    """The routes of the other APIs, and the xRegistry API for whatever is none of theirs.

    Every response, errors too, has what lets a browser read it (R315) and the way to the root (R137). Requests that a
    browser must not make for a page are refused here, as are copies where this registry takes none.
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
        """For connections to ask first."""
        self._admission = kernel.admission
        self._registry = registry
        self._settings = kernel.settings
        self._origins = Origins(kernel.settings)
        self._paths = _Paths()
        for route in api_routes:
            self._paths.add(route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or run the lifespan."""
        # Starlette's own layers, and trying routes in turn, would cost more than the rest of a hot read.
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
        """Return True if a request came by the port that serves only that API."""
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
    """Routes by the segments before their first parameter."""

    def __init__(self) -> None:
        self._below: dict[str, _Paths] = {}
        self._routes: list[Route] = []

    def add(self, route: Route) -> None:
        """Take in a route; of those that begin alike the first one that fits counts."""
        node = self
        for part in _split_segments(route.path.partition("{")[0].rstrip("/")):
            node = node._below.setdefault(part, _Paths())
        node._routes.append(route)

    def routes(self, path: str) -> Iterable[Route]:
        """Return the possible routes of a path, the longest first: a draft's mount takes what nothing in it does."""
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
    """Return the headers, and the lines that they are; ``root`` is empty where nobody knows at which port it is."""
    cors = ((b"access-control-allow-origin", readers), *_CORS) if readers else _CORS
    varying = () if readers == b"*" else ((b"vary", b"Origin"),)
    # The rel parameter comes first: clients read no further.
    link = ((b"link", f"<{root}>;rel=xregistry-root".encode("ascii", "replace")),) if root else ()
    headers = (*cors, *varying, *link)
    return headers, b"".join(b"%s: %s\r\n" % header for header in headers)


def _is_browser(scope: Scope) -> bool:
    """Return True if a person opened a page in a browser. Who sends a query, or names JSON too, wants the JSON."""
    if scope["method"] not in READS or scope["query_string"]:
        return False
    accept: bytes = dict(scope["headers"]).get(b"accept", b"")
    return b"text/html" in accept and b"json" not in accept


def _is_copy(scope: Scope) -> bool:
    """Return True if a write says that its content is a copy from another registry.

    A header says so or, in the drafts' APIs, an authority in the query (A-47). A registry that accepts no copies, such
    as a hub that is governed centrally, rejects them (D-12). Reads are never rejected: whoever copies from here may
    send the same headers.
    """
    has_authority = "/compat/" in scope["path"] and b"authority=" in scope["query_string"].lower()
    return has_authority or any(name in _COPY_HEADERS for name, _ in scope["headers"])

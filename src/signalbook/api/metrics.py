"""``/metrics``: counters of this server and the state of the registry, for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from prometheus_client.core import GaugeMetricFamily, Metric
from starlette.routing import Route

from signalbook import metrics
from signalbook.access.base import Action
from signalbook.api.kernel.errors import NO_STORE
from signalbook.api.kernel.requests import HTTPRequest
from signalbook.api.kernel.responses import Response
from signalbook.api.kernel.routing import Kernel, PathEndpoint
from signalbook.storage.base import StorageError
from signalbook.storage.store import Store
from signalbook.storage.subscriptions import ACTIVE, DELIVERY_STATES
from signalbook.version import __version__
from signalbook.xid import Xid

PATH: Final = "/metrics"
_XID: Final = Xid.parse(PATH)
_FLUSH_SECONDS: Final = 1.0


class MetricsAPI:
    """``GET /metrics``, for callers that can read ``/metrics``. Rules may name this path; rules on ``/`` include it.

    It also responds while the database is unavailable (``signalbook_database_up`` is 0 then), unless the database is
    needed to check the caller's rights.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def routes(self) -> list[Route]:
        """Return the route, with or without a trailing slash."""
        return PathEndpoint({"GET": self._get}, self._kernel, subject=PATH).routes(PATH)

    async def _get(self, request: HTTPRequest) -> Response:
        request.access.require(Action.READ, _XID)
        metrics.HTTP.flush()
        state = await self._kernel.workers.read(lambda: list(collect_registry_state(self._kernel.engine.store)))
        media_type, body = metrics.exposition(request.headers.get("accept", ""), state)
        return Response(headers=(("Content-Type", media_type), NO_STORE), body=body)


def collect_registry_state(store: Store) -> Iterator[Metric]:
    """Yield the metrics that are equal on all servers of a database."""
    yield _build_gauge("build_info", "1, by version.", ("version",), {(__version__,): 1.0})
    try:
        with store.read() as transaction:
            position, pruned = transaction.outbox.position(), transaction.outbox.pruned()
            states = transaction.subscriptions.states()
    except StorageError:
        yield _build_gauge("database_up", "1 while the database can be read.", (), {(): 0.0})
        return
    yield _build_gauge("database_up", "1 while the database can be read.", (), {(): 1.0})
    yield _build_gauge("outbox_position", "Position of the last committed change.", (), {(): position})
    yield _build_gauge("outbox_pruned_position", "Position up to which changes were pruned.", (), {(): pruned})
    counts = {(state,): float(states.get(state, (0, 0))[0]) for state in DELIVERY_STATES}
    yield _build_gauge("subscriptions", "Subscriptions by the state of their deliveries.", ("state",), counts)
    behind = {(state,): float(position - least) for state, (_, least) in states.items() if state != ACTIVE}
    text = "Changes since the one that the furthest behind waits with."
    yield _build_gauge("delivery_lag_changes", text, ("state",), behind)


def _build_gauge(name: str, text: str, labels: tuple[str, ...], values: Mapping[Any, float]) -> Metric:
    gauge = GaugeMetricFamily(f"signalbook_{name}", text, labels=labels)
    for label, value in values.items():
        gauge.add_metric(label, value)
    return gauge


@asynccontextmanager
async def counting() -> AsyncIterator[None]:
    """Bring the metrics of this server process up to date every second."""
    process = metrics.Process()

    async def run() -> None:
        while True:
            metrics.HTTP.flush()
            process.measure()
            await asyncio.sleep(_FLUSH_SECONDS)

    task = asyncio.create_task(run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        metrics.HTTP.flush()

"""Is the server alive, and may it get requests? For load balancers and orchestrators."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.routing import Route

from signalbook.api.kernel import routing
from signalbook.api.kernel.commits import Workers
from signalbook.api.kernel.errors import NO_STORE
from signalbook.api.kernel.responses import Response, json_response
from signalbook.engine.engine import Engine
from signalbook.storage.base import StorageError
from signalbook.values import JSONObject


def routes(
    engine: Engine,
    workers: Workers,
    source: Callable[[], JSONObject] | None,
    deliveries: Callable[[], JSONObject],
    following: Callable[[], JSONObject] | None = None,
) -> list[Route]:
    """``/health/live``: 200 as long as the process answers. ``/health/ready``: 200 while the store can be read.

    ``source`` tells where the registry comes from, if it follows something; ``deliveries`` whether this server makes
    them, and how they are; ``following`` what is copied from other registries.
    """

    def read() -> None:
        with engine.reading():
            pass

    async def live(_: Request) -> Response:
        return json_response({"status": "ok"}, headers=(NO_STORE,))

    async def ready(_: Request) -> Response:
        try:
            await workers.read(read)
        except StorageError as error:
            return json_response({"status": "unavailable", "reason": str(error)}, status=503, headers=(NO_STORE,))
        told = {} if source is None else {"source": source()}
        told |= {} if following is None else {"replication": following()}
        return json_response({"status": "ok", **told, "deliveries": deliveries()}, headers=(NO_STORE,))

    return [*routing.routes("/health/live", live), *routing.routes("/health/ready", ready)]

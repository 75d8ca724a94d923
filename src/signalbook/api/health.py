"""Is the server alive, and may it get requests? For load balancers and orchestrators."""

from __future__ import annotations

from collections.abc import Callable

from starlette.routing import Route

from signalbook.api.kernel.errors import NO_STORE
from signalbook.api.kernel.requests import HTTPRequest
from signalbook.api.kernel.responses import Response, json_response
from signalbook.api.kernel.routing import Kernel, PathEndpoint
from signalbook.storage.base import StorageError
from signalbook.values import JSONObject

LIVE = "/health/live"
READY = "/health/ready"


def routes(kernel: Kernel, states: dict[str, Callable[[], JSONObject]]) -> list[Route]:
    """``/health/live``: 200 as long as the process answers. ``/health/ready``: 200 while the store can be read.

    ``states`` are shown beside, by name: how the parts of this server are that work by themselves.
    """

    def read() -> None:
        with kernel.engine.reading():
            pass

    async def live(_: HTTPRequest) -> Response:
        return json_response({"status": "ok"}, headers=(NO_STORE,))

    async def ready(_: HTTPRequest) -> Response:
        try:
            await kernel.workers.read(read)
        except StorageError as error:
            return json_response({"status": "unavailable", "reason": str(error)}, status=503, headers=(NO_STORE,))
        shown = {name: state() for name, state in states.items()}
        return json_response({"status": "ok", **shown}, headers=(NO_STORE,))

    return [
        *PathEndpoint({"GET": live}, kernel.settings, subject=LIVE).routes(LIVE),
        *PathEndpoint({"GET": ready}, kernel.settings, subject=READY).routes(READY),
    ]

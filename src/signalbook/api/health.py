"""Is the server alive, and may it get requests? For load balancers and orchestrators."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from signalbook.api.workers import Workers
from signalbook.engine.engine import Engine
from signalbook.storage.base import StorageError


def routes(engine: Engine, workers: Workers) -> list[Route]:
    """``/health/live``: 200 as long as the process answers. ``/health/ready``: 200 while the store can be read."""

    def read() -> None:
        with engine.reading():
            pass

    async def live(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(_: Request) -> Response:
        try:
            await workers.read(read)
        except StorageError as error:
            return JSONResponse({"status": "unavailable", "reason": str(error)}, status_code=503)
        return JSONResponse({"status": "ok"})

    return [Route("/health/live", live), Route("/health/ready", ready)]

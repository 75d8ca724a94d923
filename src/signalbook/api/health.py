"""Is the server alive, and may it get requests? For load balancers and orchestrators."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.routing import Route

from signalbook.api import reads
from signalbook.api.answers import Answer, json_answer
from signalbook.api.errors import NOT_KEPT
from signalbook.api.workers import Workers
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

    async def live(_: Request) -> Answer:
        return json_answer({"status": "ok"}, headers=(NOT_KEPT,))

    async def ready(_: Request) -> Answer:
        try:
            await workers.read(read)
        except StorageError as error:
            return json_answer({"status": "unavailable", "reason": str(error)}, status=503, headers=(NOT_KEPT,))
        told = {} if source is None else {"source": source()}
        told |= {} if following is None else {"replication": following()}
        return json_answer({"status": "ok", **told, "deliveries": deliveries()}, headers=(NOT_KEPT,))

    return [*reads.routes("/health/live", live), *reads.routes("/health/ready", ready)]

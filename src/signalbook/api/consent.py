"""Where a web hook agrees to deliveries by calling back (CloudEvents http-webhook.md 4.1.3; D-34)."""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from signalbook.api.answers import Response, send_response
from signalbook.api.commits import Commits
from signalbook.api.errors import NO_STORE, error_response, failure_response
from signalbook.api.workers import Workers
from signalbook.engine.engine import Batch
from signalbook.errors import RegistryError
from signalbook.events.delivery.deliveries import CALLBACK, Deliveries
from signalbook.events.sinks.base import DeliveryError
from signalbook.events.subscriptions.store import Subscriptions
from signalbook.events.subscriptions.subscription import Subscription

_METHODS: Final = ("GET", "POST", "OPTIONS")
_AGREED: Final = b"Thank you. Events will be delivered from now on.\n"


def routes(
    subscriptions: Subscriptions, deliveries: Deliveries, workers: Workers, commits: Commits[Batch]
) -> list[Route]:
    """``/subscriptions/{id}/consent``: GET, which a person may do in a browser, and POST both agree."""
    return [Route(CALLBACK, Consents(subscriptions, deliveries, workers, commits))]


class Consents:
    """An ASGI application, and no function, so that every method comes here."""

    def __init__(
        self, subscriptions: Subscriptions, deliveries: Deliveries, workers: Workers, commits: Commits[Batch]
    ) -> None:
        self._subscriptions = subscriptions
        self._deliveries = deliveries
        self._workers = workers
        self._commits = commits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            answer = await self._answer(Request(scope, receive))
        except RegistryError as error:
            answer = error_response(error, allow=_METHODS)
        except Exception as error:
            answer = failure_response(error, scope["path"])
        await send_response(answer, scope, send)

    async def _answer(self, request: Request) -> Response:
        path = request.url.path
        if request.method == "OPTIONS":
            allow = ", ".join(_METHODS)
            return Response(headers=(("Allow", allow), ("Access-Control-Allow-Methods", allow)))
        if request.method not in _METHODS:
            raise RegistryError("action_not_supported", subject=path, action=request.method)
        entry = await self._workers.read(partial(self._subscriptions.get, request.path_params["id"]))
        if entry is None:
            raise RegistryError("not_found", subject=path)
        work = partial(self._agree, entry.subscription, request)
        # Whoever does not have the key learns nothing, not even whether there is such a subscription.
        if not await self._commits.write(work):
            raise RegistryError("not_found", subject=path)
        self._deliveries.hurry(entry.subscription.id)
        return Response(headers=(("Content-Type", "text/plain; charset=utf-8"), NO_STORE), body=_AGREED)

    def _agree(self, subscription: Subscription, request: Request, batch: Batch) -> bool:
        rate = request.headers.get("webhook-allowed-rate", "").strip()
        key = request.query_params.get("key", "")
        try:
            with batch.writing() as session:
                return self._deliveries.agree(session, subscription, key, rate)
        except DeliveryError as error:
            raise RegistryError("bad_request", subject=request.url.path, error_detail=str(error)) from None

"""The CloudEvents SubscriptionStore API: who wants to be notified of changes, and how that goes (D-25 to D-34).

There are two forms of a subscription (``events.subscriptions.documents``); the media type of the older one asks for it.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from signalbook.api.kernel.caching import check_conditions, entity_tag
from signalbook.api.kernel.commits import Commits, Workers
from signalbook.api.kernel.errors import NO_STORE, error_response, failure_response
from signalbook.api.kernel.requests import base_url
from signalbook.api.kernel.responses import Header, Response, json_response, send_response
from signalbook.api.kernel.routing import HTTPRequest, Place
from signalbook.engine.engine import Batch
from signalbook.errors import RegistryError
from signalbook.events.delivery.deliveries import CALLBACK, Deliveries
from signalbook.events.sinks.base import DeliveryError
from signalbook.events.subscriptions import documents
from signalbook.events.subscriptions.documents import OLD_TYPE, InvalidSubscription
from signalbook.events.subscriptions.store import ShownSubscription, SubscriptionStore, TooManySubscriptions, is_id
from signalbook.events.subscriptions.subscription import Subscription, SubscriptionError
from signalbook.settings import Settings
from signalbook.values import JSON, Finding, dump_json

PATH: Final = "/subscriptions"
MAX_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 32
_PAGE: Final = 1000
_LIMIT: Final = re.compile(r"0{0,99}[1-9][0-9]{0,18}", re.ASCII)
_LOOKING: Final = 2
"""Requests at a time whose names are being looked up: each may take seconds of one of the threads that read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doorway:
    """What the handlers work with."""

    book: SubscriptionStore
    deliveries: Deliveries
    settings: Settings
    workers: Workers
    commits: Commits[Batch]


def routes(doorway: Doorway) -> list[Route]:
    """``/subscriptions`` and ``/subscriptions/{id}``, with or without a trailing slash."""
    looking = asyncio.Semaphore(_LOOKING)
    call = partial(_Call, doorway, looking)
    many = Place({"GET": _list, "POST": _create}, call, _told)
    one = Place({"GET": _show, "PUT": _replace, "DELETE": _delete}, call, _told)
    places = ((PATH, many), (f"{PATH}/{{id}}", one))
    return [Route(f"{path}{slash}", place) for path, place in places for slash in ("", "/")]


class _Call(HTTPRequest):
    """One request, and what handlers ask of it."""

    def __init__(self, doorway: Doorway, looking: asyncio.Semaphore, scope: Scope, receive: Receive) -> None:
        super().__init__(scope, receive, doorway.settings)
        self.doorway = doorway
        self.root = base_url(scope, doorway.settings)
        self._looking = looking

    @property
    def id(self) -> str:
        """The id in the path."""
        return str(self.request.path_params["id"])

    @property
    def old(self) -> bool:
        """Whether the answer is to be in the older form: it is asked for, or what was sent is."""
        accepted = self.request.headers.get("accept", "")
        sent = self.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        return OLD_TYPE in accepted or (sent == OLD_TYPE and "application/json" not in accepted)

    async def document(self) -> JSON:
        """The body. Raises ``missing_body``, ``parsing_data``, ``bad_request``."""
        return self.json(await self.body(MAX_BYTES), MAX_DEPTH)

    async def subscription(self, document: JSON) -> Subscription:
        """The subscription in a document. Raises ``InvalidSubscription``."""
        check = documents.checks(replace(self.doorway.deliveries.policy, look=True))
        async with self._looking:
            return await self.doorway.workers.read(partial(documents.read, document, root=self.root, check=check))

    def require(self, entry: ShownSubscription) -> None:
        """The conditions of the request hold. Raises ``PreconditionFailed``."""
        check_conditions(self.scope["headers"], _tag(entry), self.path)

    def answer(self, entry: ShownSubscription, *, status: int = 200, location: bool = False) -> Response:
        """A subscription as it is shown to whoever asks like this."""
        where: tuple[Header, ...] = ()
        if location:
            where = (("Location", f"{self.root}{PATH}/{entry.subscription.id}"),)
        kind = (("Content-Type", OLD_TYPE),) if self.old else ()
        answer = json_response(documents.show(entry, old=self.old), status=status)
        return replace(answer, headers=(*(kind or answer.headers), NO_STORE, ("ETag", _tag(entry)), *where))


async def _list(call: _Call) -> Response:
    """All that there are, or a page of them with a link to the next one."""
    limit = _limit(call)
    after = call.request.query_params.get("cursor", "")
    if after and not is_id(after):
        raise RegistryError("bad_request", subject=call.path, error_detail="the cursor is not from a link of this list")
    found = await call.doorway.workers.read(partial(call.doorway.book.page, after, limit + 1))
    entries = found[:limit]
    headers = [NO_STORE]
    if len(found) > limit:
        query = urlencode({"limit": limit, "cursor": entries[-1].subscription.id})
        headers.append(("Link", f"<{call.root}{PATH}?{query}>;rel=next"))
    return json_response([documents.show(entry, old=call.old) for entry in entries], headers=tuple(headers))


async def _create(call: _Call) -> Response:
    draft = await call.subscription(await call.document())
    entry = await call.doorway.commits.write(partial(_insert, call, draft))
    call.doorway.deliveries.changed(entry.subscription.id)
    return call.answer(entry, status=201, location=True)


def _insert(call: _Call, draft: Subscription, batch: Batch) -> ShownSubscription:
    whole = documents.complete(draft, None, check=documents.checks(call.doorway.deliveries.policy))
    with batch.writing() as session:
        return call.doorway.book.create(session, whole)


async def _show(call: _Call) -> Response:
    return call.answer(_found(await call.doorway.workers.read(partial(call.doorway.book.get, call.id)), call))


async def _replace(call: _Call) -> Response:
    document = await call.document()
    if isinstance(document, dict) and document.get("id", call.id) != call.id:
        fault = Finding(path="/id", rule="value", message="it is not that of the path, and ids do not change")
        raise InvalidSubscription([fault])
    draft = await call.subscription(document)
    entry = _found(await call.doorway.commits.write(partial(_update, call, draft)), call)
    call.doorway.deliveries.changed(entry.subscription.id)
    return call.answer(entry)


def _update(call: _Call, draft: Subscription, batch: Batch) -> ShownSubscription | None:
    complete = partial(documents.complete, draft, check=documents.checks(call.doorway.deliveries.policy))
    with batch.writing() as session:
        return call.doorway.book.update(session, call.id, complete, call.require)


async def _delete(call: _Call) -> Response:
    entry = _found(await call.doorway.commits.write(partial(_remove, call)), call)
    call.doorway.deliveries.changed(entry.subscription.id)
    return call.answer(entry)


def _remove(call: _Call, batch: Batch) -> ShownSubscription | None:
    with batch.writing() as session:
        return call.doorway.book.remove(session, call.id, call.require)


def _found(entry: ShownSubscription | None, call: _Call) -> ShownSubscription:
    if entry is None:
        raise RegistryError("not_found", subject=call.path)
    return entry


def _limit(call: _Call) -> int:
    text = call.request.query_params.get("limit")
    if text is None:
        return min(call.doorway.settings.page_size or _PAGE, _PAGE)
    if not _LIMIT.fullmatch(text):
        detail = f'"limit" takes a whole number from 1, not "{text[:40]}"'
        raise RegistryError("bad_request", subject=call.path, error_detail=detail)
    return min(int(text), call.doorway.settings.max_page_size, _PAGE)


def _tag(entry: ShownSubscription) -> str:
    """Another one each time the subscription is written; what its deliveries do is no reason to refuse an update."""
    subscription = entry.subscription
    return entity_tag(dump_json(documents.describe(subscription)), str(subscription.revision))


def _told(error: Exception, path: str) -> RegistryError | None:
    """What is wrong with a request, in the words of the catalogue; None for what is not its fault."""
    match error:
        case InvalidSubscription():
            faults = error.faults
        case SubscriptionError():
            place, _, message = str(error).partition(": ")
            faults = (Finding(path=place, rule="value", message=message),)
        case TooManySubscriptions():
            return RegistryError("bad_request", subject=path, error_detail=str(error))
        case _:
            return None
    detail = f"the subscription cannot be taken: {faults[0].path or '/'}: {faults[0].message}"
    return RegistryError("bad_request", subject=path, error_detail=detail, faults=faults)


_METHODS: Final = ("GET", "POST", "OPTIONS")
_AGREED: Final = b"Thank you. Events will be delivered from now on.\n"


def consent_routes(
    subscriptions: SubscriptionStore, deliveries: Deliveries, workers: Workers, commits: Commits[Batch]
) -> list[Route]:
    """``/subscriptions/{id}/consent``: GET, which a person may do in a browser, and POST both agree."""
    return [Route(CALLBACK, Consents(subscriptions, deliveries, workers, commits))]


class Consents:
    """An ASGI application, and no function, so that every method comes here."""

    def __init__(
        self, subscriptions: SubscriptionStore, deliveries: Deliveries, workers: Workers, commits: Commits[Batch]
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

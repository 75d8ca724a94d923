"""The CloudEvents Subscriptions API: manage subscriptions to changes, and show their deliveries (D-25 to D-34).

There are two forms of a subscription (``events.subscriptions.documents``). Clients request the older form by its media
type.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Final

from starlette.routing import Route

from signalbook.access.base import Action
from signalbook.api.kernel.caching import check_conditions, compute_entity_tag
from signalbook.api.kernel.errors import NO_STORE
from signalbook.api.kernel.paging import build_next_link
from signalbook.api.kernel.requests import HTTPRequest, parse_json_body
from signalbook.api.kernel.responses import Header, Response, json_response
from signalbook.api.kernel.routing import Kernel, PathEndpoint
from signalbook.errors import RegistryError
from signalbook.events.delivery.deliveries import CALLBACK, Deliveries
from signalbook.events.dialects import API_PATHS
from signalbook.events.sinks.base import DeliveryError
from signalbook.events.subscription import Subscription, SubscriptionError
from signalbook.events.subscriptions import documents
from signalbook.events.subscriptions.documents import OLD_TYPE, InvalidSubscription
from signalbook.events.subscriptions.store import ShownSubscription, SubscriptionStore, TooManySubscriptions, is_id
from signalbook.values import JSON, Finding, dump_json

PATH: Final = "/subscriptions"
MAX_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 32
_AGREED: Final = b"Thank you. Events will be delivered from now on.\n"
_PAGE_ENTRIES: Final = 1000
_LOOKUPS: Final = 2
"""The number of requests whose host names are resolved at the same time. Each may block a reading thread
for seconds."""


class SubscriptionsAPI:
    """``/subscriptions`` and ``/subscriptions/{id}`` at the root and below the mounts of the CNCF drafts, with or
    without a trailing slash, and the path at which sinks give their consent."""

    def __init__(self, kernel: Kernel, subscriptions: SubscriptionStore, deliveries: Deliveries) -> None:
        self._kernel = kernel
        self._subscriptions = subscriptions
        self._deliveries = deliveries
        self._checks = documents.checks(deliveries.policy)
        self._lookups = asyncio.Semaphore(_LOOKUPS)

    def routes(self) -> list[Route]:
        kernel, needs = self._kernel, Action.SUBSCRIBE
        many = PathEndpoint({"GET": self._list, "POST": self._create}, kernel, needs=needs, explain=_explain)
        single_handlers = {"GET": self._show, "PUT": self._replace, "DELETE": self._delete}
        # GET changes state here, so there is no HEAD: a person may consent by following a link in a browser. The path
        # is public, because sinks have no credentials except the key in the link.
        consent = PathEndpoint({"GET": self._consent, "POST": self._consent}, kernel, head=False, public=True)
        single = PathEndpoint(single_handlers, kernel, needs=needs, explain=_explain)
        # Each registry offers subscriptions (D-25), and clients see every mount of a CNCF draft as a registry.
        paths = (f"{mount}{PATH}" for mount in ("", *API_PATHS))
        subscription_routes = [
            route for path in paths for route in (*many.routes(path), *single.routes(f"{path}/{{id}}"))
        ]
        return [*subscription_routes, Route(CALLBACK, consent)]

    async def _list(self, request: HTTPRequest) -> Response:
        """Return all subscriptions, or a page with a link to the next one."""
        limit = self._limit(request)
        after = request.query.get("cursor", "")
        if after and not is_id(after):
            raise request.wrong("the cursor is not from a link of this list")
        rows = await self._kernel.workers.read(partial(self._subscriptions.page, after, limit + 1, by=request.access))
        entries = rows[:limit]
        headers = [NO_STORE]
        if len(rows) > limit:
            headers.append(build_next_link(request.root + PATH, limit=limit, cursor=entries[-1].subscription.id))
        old = _is_old(request)
        return json_response([documents.show(entry, old=old) for entry in entries], headers=tuple(headers))

    async def _create(self, request: HTTPRequest) -> Response:
        subscription = await self._read(request, await _read_document(request))
        complete = partial(documents.complete, subscription, None, check=self._checks)
        entry = await self._kernel.write(
            lambda session: self._subscriptions.create(session, complete(), by=request.access),
            request.access,
        )
        self._deliveries.changed(entry.subscription.id)
        location = ("Location", f"{request.root}{PATH}/{entry.subscription.id}")
        return _build_response(request, entry, 201, location)

    async def _show(self, request: HTTPRequest) -> Response:
        entry = await self._kernel.workers.read(
            partial(self._subscriptions.get, request.params["id"], by=request.access)
        )
        return _build_response(request, _require_found(entry, request))

    async def _replace(self, request: HTTPRequest) -> Response:
        document, subscription_id = await _read_document(request), request.params["id"]
        if isinstance(document, dict) and document.get("id", subscription_id) != subscription_id:
            fault = Finding(path="/id", rule="value", message="it is not that of the path, and ids do not change")
            raise InvalidSubscription([fault])
        complete = partial(documents.complete, await self._read(request, document), check=self._checks)
        require = partial(_require, request)
        stored = await self._kernel.write(
            lambda session: self._subscriptions.update(session, subscription_id, complete, require, by=request.access),
            request.access,
        )
        entry = _require_found(stored, request)
        self._deliveries.changed(entry.subscription.id)
        return _build_response(request, entry)

    async def _delete(self, request: HTTPRequest) -> Response:
        subscription_id, require = request.params["id"], partial(_require, request)
        stored = await self._kernel.write(
            lambda session: self._subscriptions.remove(session, subscription_id, require, by=request.access),
            request.access,
        )
        entry = _require_found(stored, request)
        self._deliveries.changed(entry.subscription.id)
        return _build_response(request, entry)

    async def _consent(self, request: HTTPRequest) -> Response:
        """Record the consent of a web hook that calls back (CloudEvents http-webhook.md 4.1.3; D-34)."""
        entry = _require_found(
            await self._kernel.workers.read(partial(self._subscriptions.get, request.params["id"])), request
        )
        # A caller without the key learns nothing, not even whether the subscription exists.
        key, rate = request.query.get("key", ""), request.headers.get("webhook-allowed-rate", "").strip()
        try:
            agreed = await self._kernel.write(
                lambda session: self._deliveries.agree(session, entry.subscription, key, rate)
            )
        except DeliveryError as error:
            raise request.wrong(str(error)) from None
        if not agreed:
            raise RegistryError("not_found", subject=request.path)
        self._deliveries.hurry(entry.subscription.id)
        return Response(headers=(("Content-Type", "text/plain; charset=utf-8"), NO_STORE), body=_AGREED)

    async def _read(self, request: HTTPRequest, document: JSON) -> Subscription:
        """Return the subscription in a document. Raises ``InvalidSubscription``."""
        # Looking up the host of a sink may take seconds, so it is done in a thread and before the write has its turn.
        check = documents.checks(replace(self._deliveries.policy, look=True))
        async with self._lookups:
            return await self._kernel.workers.read(partial(documents.read, document, root=request.root, check=check))

    def _limit(self, request: HTTPRequest) -> int:
        settings = self._kernel.settings
        limit = request.number("limit", digits=19)
        return (
            min(settings.page_size or _PAGE_ENTRIES, _PAGE_ENTRIES)
            if limit is None
            else min(limit, settings.max_page_size, _PAGE_ENTRIES)
        )


async def _read_document(request: HTTPRequest) -> JSON:
    """Return the body. Raises ``missing_body``, ``parsing_data``, ``bad_request``."""
    return parse_json_body(await request.body(MAX_BYTES), request.subject, max_depth=MAX_DEPTH)


def _is_old(request: HTTPRequest) -> bool:
    """Return True if the response has the older form, because of the request or the sent document."""
    accepted = request.headers.get("accept", "")
    sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return OLD_TYPE in accepted or (sent == OLD_TYPE and "application/json" not in accepted)


def _build_response(request: HTTPRequest, entry: ShownSubscription, status: int = 200, *headers: Header) -> Response:
    """Return the response that shows a subscription, in the form that the request accepts."""
    old = _is_old(request)
    response = json_response(documents.show(entry, old=old), status=status)
    kind = (("Content-Type", OLD_TYPE),) if old else response.headers
    return replace(response, headers=(*kind, NO_STORE, ("ETag", _compute_tag(entry)), *headers))


def _require(request: HTTPRequest, entry: ShownSubscription) -> None:
    """Raise ``PreconditionFailed`` unless the conditions of the request are met."""
    check_conditions(request.scope["headers"], _compute_tag(entry), request.path)


def _require_found(entry: ShownSubscription | None, request: HTTPRequest) -> ShownSubscription:
    if entry is None:
        raise RegistryError("not_found", subject=request.path)
    return entry


def _compute_tag(entry: ShownSubscription) -> str:
    """Return the entity tag of a subscription. It changes with each update, but not with the progress of deliveries."""
    subscription = entry.subscription
    return compute_entity_tag(dump_json(documents.describe(subscription)), str(subscription.revision))


def _explain(error: Exception, path: str) -> Exception:
    """Return the error of xRegistry's catalogue for an invalid request; other errors unchanged."""
    match error:
        case InvalidSubscription():
            faults = error.faults
        case SubscriptionError():
            path_in_document, _, message = str(error).partition(": ")
            faults = (Finding(path=path_in_document, rule="value", message=message),)
        case TooManySubscriptions():
            return RegistryError("bad_request", subject=path, error_detail=str(error))
        case _:
            return error
    detail = f"the subscription cannot be taken: {faults[0].path or '/'}: {faults[0].message}"
    return RegistryError("bad_request", subject=path, error_detail=detail, faults=faults)

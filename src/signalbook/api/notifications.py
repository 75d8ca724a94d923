"""Receive notifications of changes from other registries (D-36; CloudEvents http-webhook.md).

An event only says which source has changed. The content is fetched from the source, and only from followed sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from urllib.parse import unquote

from starlette.routing import Route
from starlette.types import Scope

from signalbook.access.base import Action
from signalbook.api.kernel.errors import NO_STORE, Denied, Unsupported, build_problem_response
from signalbook.api.kernel.requests import HTTPRequest
from signalbook.api.kernel.responses import Response, build_options_response
from signalbook.api.kernel.routing import Kernel, PathEndpoint
from signalbook.errors import RegistryError
from signalbook.largejson import parse_untrusted_json
from signalbook.replication.following import Following, RecentlySeen
from signalbook.values import JSON, JSONError, JSONObject, fingerprint

PATH: Final = "/notifications"
STRUCTURED: Final = "application/cloudevents+json"
BATCH: Final = "application/cloudevents-batch+json"
_MAX_EVENT_DEPTH: Final = 32
_REQUIRED_MEMBERS: Final = ("id", "source", "type")


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """The relevant part of an event: ``source`` and ``id`` identify it."""

    source: str
    id: str

    @property
    def mark(self) -> str:
        """A short text that identifies the notice."""
        return fingerprint([self.source, self.id])


def parse(headers: Mapping[str, str], body: bytes) -> list[Notice] | None:
    """Return the events of a request, or None if it contains none (HTTP protocol binding 3).

    Raises ``parsing_data`` and ``bad_request`` for an invalid event.
    """
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media == BATCH:
        events = _parse_json(body)
        if not isinstance(events, list):
            raise _build_error("a batch of events is a JSON array")
        return [_parse_notice(event) for event in events]
    if media == STRUCTURED:
        return [_parse_notice(_parse_json(body))]
    if "ce-specversion" in headers:
        attributes = {
            name.removeprefix("ce-"): unquote(value) for name, value in headers.items() if name.startswith("ce-")
        }
        return [_parse_notice(attributes)]
    return None


def _parse_json(body: bytes) -> JSON:
    try:
        return parse_untrusted_json(body, max_depth=_MAX_EVENT_DEPTH)
    except JSONError as error:
        raise RegistryError("parsing_data", subject=PATH, error_detail=str(error)) from None


def _parse_notice(event: JSON) -> Notice:
    if not isinstance(event, dict):
        raise _build_error("an event is a JSON object")
    members: JSONObject = event
    for name in _REQUIRED_MEMBERS:
        if not isinstance(members.get(name), str) or not members[name]:
            raise _build_error(f'an event has a "{name}", a text that is not empty')
    if members.get("specversion") != "1.0":
        raise _build_error('an event has "specversion": "1.0"')
    return Notice(source=members["source"], id=members["id"])


def _build_error(detail: str) -> RegistryError:
    return RegistryError("bad_request", subject=PATH, error_detail=detail)


MAX_BYTES: Final = 4 * 1024 * 1024
_MAX_SHOWN_CHARS: Final = 300
"""The maximum characters of a source shown in an error."""


class Notifications:
    """The path ``/notifications``: OPTIONS is the handshake of web hooks; POST takes CloudEvents in any
    content mode."""

    def __init__(self, kernel: Kernel, following: Following) -> None:
        self._kernel = kernel
        self._following = following
        # A repeated event is ignored while it is remembered. Processing it again would do no harm.
        self._seen: RecentlySeen[str] = RecentlySeen()

    def routes(self) -> list[Route]:
        """Return the route, with or without a trailing slash."""
        handlers = {"POST": self._receive, "OPTIONS": self._handshake}
        return _Endpoint(handlers, self._kernel, subject=PATH, needs=Action.REPORT).routes(PATH)

    async def _receive(self, request: HTTPRequest) -> Response:
        body = await request.body(MAX_BYTES, required=False)
        notices = await self._kernel.workers.read(partial(parse, request.headers, body))
        if notices is None:
            raise Unsupported("CloudEvents come as application/cloudevents+json, as a batch, or with ce- headers")
        await self._kernel.workers.read(partial(self._take, notices))
        return Response(status=204, headers=(NO_STORE,))

    async def _handshake(self, request: HTTPRequest) -> Response:
        """Allow every origin to send. Events from sources that are not followed are refused later, and have
        no effect."""
        response = build_options_response(("POST", "OPTIONS"))
        origin = request.headers.get("webhook-request-origin", "").strip()
        if not (origin and origin.isascii() and self._following.sources):  # names of hosts are ASCII
            return response
        consent = (("WebHook-Allowed-Origin", origin), ("WebHook-Allowed-Rate", "*"))
        return replace(response, headers=(*response.headers, *consent))

    def _take(self, notices: list[Notice]) -> None:
        """Schedule one comparison for each source. Raises ``Denied`` for a source that is not followed."""
        new = [notice for notice in notices if notice.mark not in self._seen]
        followed = self._following.notify(notice.source for notice in new)
        for notice in new:
            if notice.source in followed:
                self._seen.add(notice.mark)
        unknown = next((notice.source for notice in new if notice.source not in followed), None)
        if unknown is not None:
            raise Denied(f"{unknown[:_MAX_SHOWN_CHARS]} is not followed here (setting follow)")


class _Endpoint(PathEndpoint):
    """An endpoint whose errors are problem documents, since senders of events need not know xRegistry."""

    def failed(self, error: Exception, scope: Scope) -> Response:
        return build_problem_response(error, scope["path"])

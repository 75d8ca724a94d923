"""The change feed: every committed change as a CloudEvent, oldest first, page by page or as it happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import urlencode

from starlette.routing import Route

from signalbook.access.base import Action, Forbidden
from signalbook.access.decisions import Access
from signalbook.access.restricted import is_shown
from signalbook.api.kernel.requests import HTTPRequest
from signalbook.api.kernel.responses import Header, Response, Sendable
from signalbook.api.kernel.routing import Kernel, PathEndpoint, revalidate
from signalbook.api.kernel.streaming import EventStream, is_event_stream_request
from signalbook.engine.engine import Engine, HistoryPruned
from signalbook.errors import RegistryError
from signalbook.events import filters
from signalbook.events.dialects import API_PATHS, EventDialect, of_source
from signalbook.events.feed import Head
from signalbook.values import JSONError, JSONObject, dump_json, parse_json
from signalbook.xid import ROOT

PATH: Final = "/events"
BATCH_TYPE: Final = "application/cloudevents-batch+json; charset=utf-8"
_DEFAULT: Final = 1000
_MAX_EVENTS: Final = 10_000
_LAST_POSITION: Final = 2**63 - 1
_MAX_POSITION_DIGITS: Final = 20
# A filter that hardly any event passes must not keep a reader waiting: the page ends, and a link leads on.
_LOOKED_AT: Final = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedQuery:
    """A reader's query: events after the position ``after`` that pass ``filter``, in a ``dialect``.

    If ``after`` is None, all stored events are meant. ``query`` are the parameters to repeat in links to further pages.
    """

    after: int | None
    limit: int
    dialect: EventDialect
    filter: filters.Filter
    query: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedPage:
    """The events of one page, the position that it reached, and whether there is ``more`` after it."""

    events: tuple[JSONObject, ...]
    after: int
    more: bool


class Feed:
    """``GET /events``: a JSON batch with a ``Link`` to the next page while there is more, or a stream of events.

    A ``Link`` with ``rel=last`` leads to the position after all events: start there after reading the registry itself.

    A position is the ``id`` of an event. With ``after``, or the header ``Last-Event-ID``, a reader continues after the
    last event it has, or gets an error if the following events were pruned. ``filter`` may be repeated. ``source``
    names the API whose events are returned. Requests that accept ``text/event-stream`` get the stream. Only events
    about entities that the caller can read now are returned. A stream checks this each time, and ends when the
    credentials of its request expire.
    """

    def __init__(self, kernel: Kernel, head: Head) -> None:
        self._kernel = kernel
        self._head = head

    def routes(self) -> list[Route]:
        """Return the route, with or without a trailing slash."""
        endpoint = PathEndpoint({"GET": revalidate(self._get)}, self._kernel, subject=PATH, needs=Action.READ)
        return endpoint.routes(PATH)

    async def _get(self, request: HTTPRequest) -> Sendable:
        live = request.method == "GET" and is_event_stream_request(request.scope)
        return await (self._stream(request) if live else self._page(request))

    async def _page(self, request: HTTPRequest) -> Response:
        query, engine = _read_query(request), self._kernel.engine
        last = await self._kernel.workers.read(engine.position)
        page = await self._kernel.workers.read(partial(find_events, engine, query, request.access))
        headers = [("Content-Type", BATCH_TYPE), _link(request.root, query, "last", after=last)]
        if page.more:
            headers.append(_link(request.root, query, "next", after=page.after, limit=query.limit))
        return Response(headers=tuple(headers), body=dump_json(page.events) + b"\n", is_json=True)

    async def _stream(self, request: HTTPRequest) -> EventStream:
        query, kernel = _read_query(request), self._kernel

        async def admit() -> Access:
            access = await kernel.admission.access(request.scope)
            if not access.allows_somewhere(Action.READ):
                raise Forbidden(Action.READ, ROOT)
            return access

        async def load_page(after: int) -> FeedPage:
            return await kernel.workers.read(partial(find_events, kernel.engine, query, await admit(), after))

        after = query.after or 0
        # Errors of the request are raised here, while the response can still be an error.
        return EventStream(load_page, await load_page(after), after, self._head, admit)


def _link(root: str, query: FeedQuery, relation: str, **where: int) -> Header:
    return "Link", f"<{root}{PATH}?{urlencode([*query.query, *where.items()])}>;rel={relation}"


def find_events(engine: Engine, query: FeedQuery, access: Access, after: int | None = None) -> FeedPage:
    """Return a page of committed events that ``access`` shows.

    It starts after ``after`` or, if that is None, after the query's position. Raises ``HistoryPruned`` if the reader
    would miss an event.
    """
    events: list[JSONObject] = []
    at = after or query.after or 0
    for _ in range(_LOOKED_AT // _DEFAULT):
        try:
            records = engine.read_changes(at, _DEFAULT)
        except HistoryPruned as gone:
            if at or query.after is not None:
                raise
            records = engine.read_changes(gone.position, _DEFAULT)
        for record in records:
            for event in query.dialect.events(record) if is_shown(record, access) else ():
                if query.filter(event):
                    if len(events) == query.limit:
                        return FeedPage(events=tuple(events), after=at, more=True)
                    events.append(event)
            at = record.position
        if len(records) < _DEFAULT:
            return FeedPage(events=tuple(events), after=at, more=False)
    return FeedPage(events=tuple(events), after=at, more=True)


def _read_query(request: HTTPRequest) -> FeedQuery:
    parameters = request.query
    texts, source = parameters.getlist("filter"), parameters.get("source", "")
    resumed = {"Last-Event-ID": request.headers.get("last-event-id", "")}
    positions = (
        _read_number(parameters, "after", _LAST_POSITION),
        _read_number(resumed, "Last-Event-ID", _LAST_POSITION),
    )
    limit = _read_number(parameters, "limit", _MAX_EVENTS)
    dialect, filters = _find_dialect(source, request.root), [_filter(text) for text in texts]
    return FeedQuery(
        after=max((position for position in positions if position is not None), default=None),
        limit=_DEFAULT if limit is None else max(1, limit),
        dialect=dialect,
        filter=lambda event: all(passes(event) for passes in filters),
        query=tuple([("source", source)] * bool(source) + [("filter", text) for text in texts]),
    )


def _find_dialect(source: str, root: str) -> EventDialect:
    """Return the dialect of an API, named by its URL or by its path below the root."""
    dialect = of_source(root + source if source.startswith("/") else source, root)
    if dialect is None:
        detail = f'"source" is {root}/ or one of {", ".join(root + path for path in API_PATHS)}, not "{source}"'
        raise RegistryError("bad_request", subject=PATH, error_detail=detail)
    return dialect


def _filter(text: str) -> filters.Filter:
    """Parse a filter: JSON as in the Subscriptions API, or the text of a CloudEvents SQL expression. Raises
    ``bad_filter``."""
    try:
        return filters.parse(parse_json(text.encode("utf-8")) if text.startswith(("{", "[")) else {"sql": text})
    except (filters.FilterError, JSONError) as error:
        raise RegistryError("bad_filter", subject=PATH, value=text, error_detail=str(error)) from None


def _read_number(parameters: Mapping[str, str], name: str, most: int) -> int | None:
    text = parameters.get(name, "")
    if not text:
        return None
    # Python refuses to parse numbers of thousands of digits.
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_POSITION_DIGITS and int(text) <= most):
        detail = f'"{name}" takes a whole number up to {most}, not "{text}"'
        raise RegistryError("bad_request", subject=PATH, error_detail=detail)
    return int(text)

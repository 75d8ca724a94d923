"""The change feed: every committed change as a CloudEvent, oldest first, page by page or as it happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from signalbook.api.kernel import routing
from signalbook.api.kernel.commits import Workers
from signalbook.api.kernel.requests import base_url
from signalbook.api.kernel.responses import Header, Response
from signalbook.api.kernel.streaming import events, wants_events
from signalbook.engine.engine import Engine, HistoryPruned
from signalbook.errors import RegistryError
from signalbook.events import filters
from signalbook.events.dialects import DOORS, Dialect, of_source
from signalbook.events.feed import Head
from signalbook.settings import Settings
from signalbook.values import JSONError, JSONObject, dump_json, parse_json

PATH: Final = "/events"
BATCH_TYPE: Final = "application/cloudevents-batch+json; charset=utf-8"
_DEFAULT: Final = 1000
_MOST: Final = 10_000
_LAST: Final = 2**63 - 1
_DIGITS: Final = 20
# A filter that hardly anything passes must not keep a reader waiting: the page ends, and a link leads on.
_LOOKED_AT: Final = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedQuery:
    """What a reader asks for: events behind the position ``after`` that pass ``filter``, in a ``dialect``.

    Without ``after`` it is all that is kept. ``query`` is how the reader said what it does not want to miss.
    """

    after: int | None
    limit: int
    dialect: Dialect
    filter: filters.Filter
    query: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedPage:
    """Events of one page, the position it reaches to, and whether there is more behind it."""

    events: tuple[JSONObject, ...]
    after: int
    more: bool


def routes(engine: Engine, settings: Settings, workers: Workers, head: Head) -> list[Route]:
    """``GET /events``: a JSON batch, with a ``Link`` to the next page while there is more, or a stream of all to come.

    A ``Link`` with ``rel=last`` leads behind all there are: where to begin for who has read the registry itself.

    A position is the ``id`` of an event; with ``after``, or the header ``Last-Event-ID``, a reader goes on from the
    last one it has, or is told that what comes next is kept no longer. ``filter`` may be repeated; ``source`` names
    the door whose events are wanted. Who accepts ``text/event-stream`` gets the stream.
    """

    async def batch(request: Request) -> Response:
        question = _question(request, settings)
        last = await workers.read(engine.position)
        page = await workers.read(partial(find_events, engine, question))
        root = base_url(request.scope, settings)
        headers = [("Content-Type", BATCH_TYPE), _link(root, question, "last", after=last)]
        if page.more:
            headers.append(_link(root, question, "next", after=page.after, limit=question.limit))
        return Response(headers=tuple(headers), body=dump_json(page.events))

    async def live(scope: Scope, receive: Receive, send: Send) -> None:
        question = _question(Request(scope), settings)

        async def after(position: int) -> FeedPage:
            return await workers.read(partial(find_events, engine, question, position))

        await events(after, question.after or 0, head, receive, send)

    return routing.routes(PATH, batch, live=routing.Live(wanted=wants_events, run=live))


def _link(root: str, question: FeedQuery, relation: str, **where: int) -> Header:
    return "Link", f"<{root}{PATH}?{urlencode([*question.query, *where.items()])}>;rel={relation}"


def find_events(engine: Engine, question: FeedQuery, after: int | None = None) -> FeedPage:
    """One page of what was committed, from the position ``after`` if the question's own is behind already.

    Raises ``Forgotten`` if the reader would miss something that it has not seen.
    """
    found: list[JSONObject] = []
    at = after or question.after or 0
    for _ in range(_LOOKED_AT // _DEFAULT):
        try:
            records = engine.outbox(at, _DEFAULT)
        except HistoryPruned as gone:
            if at or question.after is not None:
                raise
            records = engine.outbox(gone.position, _DEFAULT)
        for record in records:
            for event in question.dialect.events(record):
                if question.filter(event):
                    if len(found) == question.limit:
                        return FeedPage(events=tuple(found), after=at, more=True)
                    found.append(event)
            at = record.position
        if len(records) < _DEFAULT:
            return FeedPage(events=tuple(found), after=at, more=False)
    return FeedPage(events=tuple(found), after=at, more=True)


def _question(request: Request, settings: Settings) -> FeedQuery:
    given = request.query_params
    texts, source = given.getlist("filter"), given.get("source", "")
    resumed = {"Last-Event-ID": request.headers.get("last-event-id", "")}
    positions = (_number(given, "after", _LAST), _number(resumed, "Last-Event-ID", _LAST))
    limit = _number(given, "limit", _MOST)
    return FeedQuery(
        after=max((position for position in positions if position is not None), default=None),
        limit=_DEFAULT if limit is None else max(1, limit),
        dialect=_dialect(source, base_url(request.scope, settings)),
        filter=_every([_filter(text) for text in texts]),
        query=tuple([("source", source)] * bool(source) + [("filter", text) for text in texts]),
    )


def _dialect(source: str, root: str) -> Dialect:
    """The dialect of a door, named by its URL or by its path below the root."""
    found = of_source(root + source if source.startswith("/") else source, root)
    if found is None:
        detail = f'"source" is {root}/ or one of {", ".join(root + door for door in DOORS)}, not "{source}"'
        raise RegistryError("bad_request", subject=PATH, error_detail=detail)
    return found


def _filter(text: str) -> filters.Filter:
    """A filter of the Subscriptions API in JSON, or a CloudEvents SQL expression just as it is."""
    try:
        return filters.parse(parse_json(text.encode("utf-8")) if text.startswith(("{", "[")) else {"sql": text})
    except (filters.FilterError, JSONError) as error:
        raise RegistryError("bad_filter", subject=PATH, value=text, error_detail=str(error)) from None


def _every(parts: list[filters.Filter]) -> Callable[[filters.Event], bool]:
    return lambda event: all(part(event) for part in parts)


def _number(given: Mapping[str, str], name: str, most: int) -> int | None:
    text = given.get(name, "")
    if not text:
        return None
    # Python refuses to read numbers of thousands of digits.
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS and int(text) <= most):
        detail = f'"{name}" takes a whole number up to {most}, not "{text}"'
        raise RegistryError("bad_request", subject=PATH, error_detail=detail)
    return int(text)

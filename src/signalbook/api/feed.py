"""The change feed: every committed change as a CloudEvent, oldest first, page by page."""

from __future__ import annotations

from functools import partial
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.routing import Route

from signalbook.api import reads
from signalbook.api.answers import Answer
from signalbook.api.urls import base_url
from signalbook.api.workers import Workers
from signalbook.engine.engine import Engine
from signalbook.errors import RegistryError
from signalbook.events.cloudevents import cloudevent
from signalbook.settings import Settings
from signalbook.storage.base import Record
from signalbook.values import dump_json

PATH: Final = "/events"
BATCH_TYPE: Final = "application/cloudevents-batch+json; charset=utf-8"
_DEFAULT: Final = 1000
_MOST: Final = 10_000
_DIGITS: Final = 20


def routes(engine: Engine, settings: Settings, workers: Workers) -> list[Route]:
    """``GET /events?after=POSITION&limit=N``: a JSON batch, with a ``Link`` to the next page while there is more.

    A position is the ``id`` of an event; with ``after`` a reader goes on from the last one it has.
    """

    async def feed(request: Request) -> Answer:
        after = _number(request, "after", 0, 2**63 - 1)
        limit = max(1, _number(request, "limit", _DEFAULT, _MOST))
        records = await workers.read(partial(engine.outbox, after, limit + 1))
        return _page(records, limit, base_url(request.scope, settings))

    return reads.routes(PATH, feed)


def _page(records: list[Record], limit: int, root: str) -> Answer:
    """Up to ``limit`` events; a record beyond them only tells that there is more."""
    events = [cloudevent(record, source=f"{root}/") for record in records[:limit]]
    headers = [("Content-Type", BATCH_TYPE)]
    if len(records) > limit:
        query = urlencode({"after": records[limit - 1].position, "limit": limit})
        headers.append(("Link", f"<{root}{PATH}?{query}>;rel=next"))
    return Answer(headers=tuple(headers), body=dump_json(events))


def _number(request: Request, name: str, default: int, most: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return default
    # Python refuses to read numbers of thousands of digits.
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS and int(text) <= most):
        detail = f'"{name}" takes a whole number up to {most}, not "{text}"'
        raise RegistryError("bad_request", subject=PATH, error_detail=detail)
    return int(text)

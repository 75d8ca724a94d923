"""The change feed: every committed change as a CloudEvent, oldest first, page by page."""

from __future__ import annotations

from functools import partial
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from signalbook.api.answers import Answer
from signalbook.api.errors import error_answer, failure_answer
from signalbook.api.urls import base_url
from signalbook.api.workers import Workers
from signalbook.engine.engine import Engine
from signalbook.errors import RegistryError
from signalbook.events.cloudevents import cloudevent
from signalbook.settings import Settings
from signalbook.storage.base import Record, StorageError
from signalbook.values import dump_json

PATH: Final = "/events"
BATCH_TYPE: Final = "application/cloudevents-batch+json; charset=utf-8"
_DEFAULT: Final = 1000
_MOST: Final = 10_000


def routes(engine: Engine, settings: Settings, workers: Workers) -> list[Route]:
    """``GET /events?after=POSITION&limit=N``: a JSON batch, with a ``Link`` to the next page while there is more.

    A position is the ``id`` of an event; with ``after`` a reader goes on from the last one it has.
    """

    async def feed(request: Request) -> Response:
        try:
            after = _number(request, "after", 0, 2**63 - 1)
            limit = max(1, _number(request, "limit", _DEFAULT, _MOST))
            records = await workers.read(partial(engine.outbox, after, limit + 1))
        except RegistryError as error:
            return _response(error_answer(error))
        except StorageError as error:
            return _response(failure_answer(error, PATH))
        return _page(records, limit, base_url(request.scope, settings))

    return [Route(PATH, feed)]


def _page(records: list[Record], limit: int, root: str) -> Response:
    """Up to ``limit`` events; a record beyond them only tells that there is more."""
    events = [cloudevent(record, source=f"{root}/") for record in records[:limit]]
    headers = {}
    if len(records) > limit:
        query = urlencode({"after": records[limit - 1].position, "limit": limit})
        headers["Link"] = f"<{root}{PATH}?{query}>;rel=next"
    return Response(dump_json(events), media_type=BATCH_TYPE, headers=headers)


def _response(answer: Answer) -> Response:
    return Response(answer.body, answer.status, dict(answer.headers))


def _number(request: Request, name: str, default: int, most: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and int(text) <= most):
        detail = f'"{name}" takes a whole number up to {most}, not "{text}"'
        raise RegistryError("bad_request", subject=PATH, error_detail=detail)
    return int(text)

"""``/audit``: the audit log, for callers with the right to ``audit``."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Final

from starlette.routing import Route

from signalbook.access.audit import DONE, REFUSED, format_entry, read_entries
from signalbook.access.base import Action
from signalbook.api.kernel.errors import NO_STORE
from signalbook.api.kernel.paging import build_next_link
from signalbook.api.kernel.requests import HTTPRequest
from signalbook.api.kernel.responses import Response, json_response
from signalbook.api.kernel.routing import Kernel, PathEndpoint
from signalbook.storage.audit import AuditQuery
from signalbook.values import parse_timestamp

PATH: Final = "/audit"
PARAMETERS: Final = ("who", "action", "outcome", "xid", "from", "to", "after")
_PAGE_ENTRIES: Final = 100
_MAX_ENTRIES: Final = 1000
_MAX_TEXT_CHARS: Final = 1000


class AuditAPI:
    """``GET /audit``; with or without a trailing slash."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def routes(self) -> list[Route]:
        """Return the route, with or without a trailing slash."""
        return PathEndpoint({"GET": self._list}, self._kernel, needs=Action.AUDIT).routes(PATH)

    async def _list(self, request: HTTPRequest) -> Response:
        """Return audit entries, the newest first, page by page."""
        limit = min(request.number("limit") or _PAGE_ENTRIES, self._kernel.settings.max_page_size, _MAX_ENTRIES)
        query = _read_query(request)
        entries = await self._kernel.workers.read(partial(read_entries, self._kernel.engine.store, query, limit + 1))
        headers = [NO_STORE]
        if len(entries) > limit:
            filters = {name: request.query[name] for name in PARAMETERS if name in request.query}
            headers.append(
                build_next_link(request.root + PATH, **filters, limit=limit, cursor=entries[limit - 1].number)
            )
        return json_response([format_entry(entry) for entry in entries[:limit]], headers=tuple(headers))


def _read_query(request: HTTPRequest) -> AuditQuery:
    """Return the query in a request. Raises ``bad_request``."""
    parameters = {*PARAMETERS, "limit", "cursor"}
    unknown = next((name for name in request.query if name not in parameters), None)
    if unknown is not None:
        raise request.wrong(f'there is no parameter "{unknown[:40]}", only {", ".join(sorted(parameters))}')
    texts = {name: request.query.get(name, "") for name in ("who", "action", "outcome", "xid")}
    for name, text in texts.items():
        if len(text) > _MAX_TEXT_CHARS or "\0" in text:
            raise request.wrong(f'"{name}" takes a text of at most {_MAX_TEXT_CHARS} characters')
    if texts["outcome"] not in ("", DONE, REFUSED):
        raise request.wrong(f'"outcome" is {DONE} or {REFUSED}')
    return AuditQuery(
        before=request.number("cursor"),
        after=request.number("after") or 0,
        since=_time(request, "from"),
        until=_time(request, "to"),
        **texts,
    )


def _time(request: HTTPRequest, name: str) -> datetime | None:
    text = request.query.get(name)
    if text is None:
        return None
    try:
        return parse_timestamp(text)
    except ValueError:
        raise request.wrong(f'"{name}" takes an RFC3339 timestamp such as 2030-01-31T12:00:00Z') from None

"""``GET /search``: search entities by words, the best match first, with counts by facet (docs/search.md)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from starlette.routing import Route

from signalbook.access.base import Action
from signalbook.api.kernel.errors import NO_STORE
from signalbook.api.kernel.paging import PageCursor, build_next_link, limit_and_cursor
from signalbook.api.kernel.requests import HTTPRequest
from signalbook.api.kernel.responses import Response, json_response
from signalbook.api.kernel.routing import Kernel, PathEndpoint, revalidate
from signalbook.engine.search.query import QueryError, parse_query
from signalbook.engine.search.search import FACETS, Rank, Search, SearchPage
from signalbook.values import JSON

PATH: Final = "/search"
_PARAMETERS: Final = ("q", *FACETS, "deprecated", "versions", "limit", "cursor")
_PAGE_HITS: Final = 20
_MAX_HITS: Final = 100
_VALUES: Final = 20
_MAX_VALUE_CHARS: Final = 1_000
_DEPRECATED: Final = {"true": True, "false": False}
_VERSION_CHOICES: Final = {"default": False, "all": True}


class SearchAPI:
    """The API with the one path ``/search``."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def routes(self) -> list[Route]:
        """Return the route, with or without a trailing slash."""
        endpoint = PathEndpoint({"GET": revalidate(self._get)}, self._kernel, subject=PATH, needs=Action.READ)
        return endpoint.routes(PATH)

    async def _get(self, request: HTTPRequest) -> Response:
        """Return a page of results."""
        search = read_search(request, most=self._kernel.settings.max_page_size)
        page = await self._kernel.workers.read(partial(self._find, search, request))
        headers = [NO_STORE]
        if page.following is not None:
            pairs = [(name, value) for name, value in request.query.multi_items() if name not in ("limit", "cursor")]
            cursor = PageCursor(limit=search.limit, total=page.count, after=list(page.following))
            headers.append(
                build_next_link(request.root + PATH, *pairs, cursor=cursor.text(_build_cursor_scope(search)))
            )
        return json_response(page.to_json(), headers=tuple(headers))

    def _find(self, search: Search, request: HTTPRequest) -> SearchPage:
        with self._kernel.engine.reading(request.access) as view:
            return view.search(search)


def read_search(request: HTTPRequest, *, most: int) -> Search:
    """Return the search in the parameters. Raises ``bad_request``."""
    unknown = next((name for name in request.query if name not in _PARAMETERS), None)
    if unknown is not None:
        raise request.wrong(f'there is no parameter "{unknown[:40]}", only {", ".join(_PARAMETERS)}')
    try:
        query = parse_query(request.query.get("q", ""))
    except QueryError as error:
        raise request.wrong(f'"q" cannot be read: {error}') from None
    search = Search(
        query=query,
        facets={name: _read_values(request, name) for name in FACETS if name in request.query},
        deprecated=_read_choice(request, "deprecated", _DEPRECATED),
        versions=bool(_read_choice(request, "versions", _VERSION_CHOICES)),
        limit=min(request.number("limit") or _PAGE_HITS, _MAX_HITS, most),
    )
    return _resume_search(request, search) if "cursor" in request.query else search


def _read_values(request: HTTPRequest, name: str) -> tuple[str, ...]:
    values = tuple(value for value in request.query.getlist(name) if value)
    if len(values) > _VALUES or any(len(value) > _MAX_VALUE_CHARS for value in values):
        raise request.wrong(f'"{name}" takes up to {_VALUES} values of up to {_MAX_VALUE_CHARS} characters')
    if name != "group":
        return values
    if unrooted := [value for value in values if not value.startswith("/")]:
        raise request.wrong(f'"group" takes the xid of a group, such as /schemagroups/g, not "{unrooted[0][:40]}"')
    return values


def _read_choice(request: HTTPRequest, name: str, choices: dict[str, bool]) -> bool | None:
    text = request.query.get(name, "")
    if text and text not in choices:
        raise request.wrong(f'"{name}" is {" or ".join(choices)}, not "{text[:40]}"')
    return choices.get(text)


def _resume_search(request: HTTPRequest, search: Search) -> Search:
    """Return the search for the page that the cursor names."""
    if "limit" in request.query:
        raise limit_and_cursor(request.subject)
    cursor = PageCursor.read(
        request.query["cursor"],
        _build_cursor_scope(search),
        tuple[int, int, str],
        subject=request.subject,
        advice="search again from the first page",
    )
    return replace(search, limit=cursor.limit, after=Rank(*cursor.after))


def _build_cursor_scope(search: Search) -> list[JSON]:
    """Return the values that a cursor is valid for."""
    facets = {name: sorted(values) for name, values in search.facets.items()}
    return [PATH, search.query.text, facets, search.deprecated, search.versions]

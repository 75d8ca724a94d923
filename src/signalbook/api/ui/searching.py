"""The page of a search: results with the reason for each match, and facets to narrow the search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from signalbook.api.kernel.paging import PageCursor
from signalbook.api.ui.pages import PATH, Crumb, Page, UIRequest
from signalbook.engine.read.view import View
from signalbook.engine.search.query import QueryError, parse_query
from signalbook.engine.search.search import FACETS, Rank, Search, SearchHit, SearchPage
from signalbook.errors import RegistryError
from signalbook.values import JSON

SEARCH: Final = f"{PATH}/-/search"
_PAGE_HITS: Final = 25
_MAX_QUERY_CHARS: Final = 1_000
_MAX_FACET_VALUES: Final = 12
_LINE: Final = 240
_DEPRECATED: Final = "deprecated"
_DEPRECATED_VALUES: Final = {"true": "yes", "false": "no"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SnippetLine:
    """The text of a match in pieces; every second piece is the match.

    ``member`` is True if ``path`` names a member of a schema instead of an attribute. ``schema`` is the xid of that
    schema if it is another entity.
    """

    path: str
    pieces: tuple[str, ...]
    member: bool
    schema: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HitRow:
    """A search result."""

    xid: str
    id: str
    name: str
    kind: str
    group: str
    deprecated: bool
    words: tuple[str, ...]
    snippets: tuple[SnippetLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetValue:
    """A value that narrows the search, or removes the restriction if it is ``chosen``; ``count`` may be unknown."""

    text: str
    count: int | None
    href: str
    chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchContent:
    """A page of results. ``wrong`` is the error of the query. Without a query nothing is searched."""

    text: str
    wrong: str = ""
    count: int = 0
    complete: bool = True
    hits: tuple[HitRow, ...] = ()
    facets: tuple[tuple[str, tuple[FacetValue, ...]], ...] = ()
    chosen: tuple[tuple[str, str], ...] = ()
    next: str | None = None


def page(view: View, request: UIRequest) -> Page:
    """Return the page of a search and its hits."""
    text = request.query.get("q", "").strip()[:_MAX_QUERY_CHARS]
    content = _build_search_content(view, request, text) if text else SearchContent(text="")
    crumbs = (Crumb(text="Registry", href=""), Crumb(text="Search"))
    return Page(template="search.html", title=f"Search: {text}" if text else "Search", content=content, crumbs=crumbs)


def _build_search_content(view: View, request: UIRequest, text: str) -> SearchContent:
    names = (*FACETS, _DEPRECATED)
    chosen = tuple((name, request.query[name][:_MAX_QUERY_CHARS]) for name in names if request.query.get(name))
    facets = dict(chosen)
    deprecated = facets.pop(_DEPRECATED, None)
    if deprecated not in (None, *_DEPRECATED_VALUES):
        raise RegistryError("bad_request", subject=request.subject, error_detail='"deprecated" is true or false')
    try:
        search = Search(
            query=parse_query(text),
            facets={name: (value,) for name, value in facets.items()},
            deprecated=None if deprecated is None else deprecated == "true",
            limit=_PAGE_HITS,
            after=_read_after(request, text, chosen),
        )
    except QueryError as error:
        return SearchContent(text=text, wrong=str(error))
    results = view.search(search)
    return SearchContent(
        text=text,
        count=results.count,
        complete=results.complete,
        hits=tuple(map(_build_row, results.hits)),
        facets=tuple(_list_facets(results, text, chosen)),
        chosen=chosen,
        next=_build_next_link(results, text, chosen),
    )


def _build_row(hit: SearchHit) -> HitRow:
    hit_members = hit.to_json()
    return HitRow(
        xid=str(hit.xid),
        id=hit.xid.id,
        name=hit.name[:_LINE],
        kind=str(hit_members["type"]),
        group="" if hit_members["group"] == hit_members["xid"] else str(hit_members["group"]),
        deprecated=bool(hit_members["deprecated"]),
        words=tuple(str(hit_members[name]) for name in ("format", "envelope", "protocol") if name in hit_members),
        snippets=tuple(
            SnippetLine(
                path=snippet.path,
                pieces=tuple(_split_pieces(snippet.text, snippet.ranges)),
                member=snippet.member,
                schema=snippet.schema,
            )
            for snippet in hit.snippets
        ),
    )


def _split_pieces(text: str, ranges: tuple[tuple[int, int], ...]) -> Iterator[str]:
    """Yield a text cut at its ranges: plain, marked, plain and so on."""
    at = 0
    for start, end in ranges:
        yield text[at:start]
        yield text[start:end]
        at = end
    yield text[at:]


def _list_facets(
    results: SearchPage, text: str, chosen: tuple[tuple[str, str], ...]
) -> Iterator[tuple[str, tuple[FacetValue, ...]]]:
    now = dict(chosen)
    for name in FACETS:
        values = results.facets.get(name, ())[:_MAX_FACET_VALUES]
        if len(values) > 1 or name in now:
            yield name, tuple(_build_facet_value(text, now, name, value, value, count) for value, count in values)
    yield (
        _DEPRECATED,
        tuple(_build_facet_value(text, now, _DEPRECATED, *choice, None) for choice in _DEPRECATED_VALUES.items()),
    )


def _build_facet_value(
    query: str, chosen: dict[str, str], name: str, value: str, label: str, count: int | None
) -> FacetValue:
    """Return a link that narrows the search by a value, or that removes the restriction if the value is chosen."""
    other_facets = {facet: of for facet, of in chosen.items() if facet != name}
    is_chosen = chosen.get(name) == value
    parameters = {"q": query, **other_facets, **({} if is_chosen else {name: value})}
    return FacetValue(text=label, count=count, chosen=is_chosen, href=f"/-/search?{urlencode(parameters)}")


def _build_cursor_scope(text: str, chosen: tuple[tuple[str, str], ...]) -> list[JSON]:
    return ["ui search", text, dict(chosen)]


def _read_after(request: UIRequest, text: str, chosen: tuple[tuple[str, str], ...]) -> Rank | None:
    cursor_text = request.query.get("cursor")
    if not cursor_text:
        return None
    advice = "search again from the first page"
    form = tuple[int, int, str]
    cursor = PageCursor.read(
        cursor_text, _build_cursor_scope(text, chosen), form, subject=request.subject, advice=advice
    )
    return Rank(*cursor.after)


def _build_next_link(results: SearchPage, text: str, chosen: tuple[tuple[str, str], ...]) -> str | None:
    if results.following is None:
        return None
    cursor = PageCursor(limit=_PAGE_HITS, total=results.count, after=list(results.following)).text(
        _build_cursor_scope(text, chosen)
    )
    return f"/-/search?{urlencode({'q': text, **dict(chosen), 'cursor': cursor})}"

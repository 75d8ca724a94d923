"""The page of a search: hits with why they matched, and facets to narrow it by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from signalbook.api.kernel.paging import PageCursor
from signalbook.api.ui.pages import PATH, Crumb, Page, UIRequest
from signalbook.engine.read.view import View
from signalbook.engine.search.finding import FACETS, Place, Search, SearchHit, SearchPage
from signalbook.engine.search.query import QueryError, parse_query
from signalbook.errors import RegistryError
from signalbook.values import JSON

SEARCH: Final = f"{PATH}/-/search"
_PAGE: Final = 25
_LONGEST: Final = 1_000
_CHOICES: Final = 12
_LINE: Final = 240
_DEPRECATED: Final = "deprecated"
_DEPRECATED_VALUES: Final = {"true": "yes", "false": "no"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SnippetLine:
    """The text of a match in pieces; every second piece is the match.

    ``member`` means that ``path`` is one in a schema, not an attribute; ``schema`` is its xid if it is another entity.
    """

    path: str
    pieces: tuple[str, ...]
    member: bool
    schema: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HitRow:
    """A found entity."""

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
    """A value to narrow the search by, or to take away again if it is ``chosen``; ``count`` may not be known."""

    text: str
    count: int | None
    href: str
    chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchContent:
    """A page of hits; ``wrong`` is what is wrong with the query. Without a query nothing is looked for."""

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
    text = request.query.get("q", "").strip()[:_LONGEST]
    content = _content(view, request, text) if text else SearchContent(text="")
    crumbs = (Crumb(text="Registry", href=""), Crumb(text="Search"))
    return Page(template="search.html", title=f"Search: {text}" if text else "Search", content=content, crumbs=crumbs)


def _content(view: View, request: UIRequest, text: str) -> SearchContent:
    names = (*FACETS, _DEPRECATED)
    chosen = tuple((name, request.query[name][:_LONGEST]) for name in names if request.query.get(name))
    facets = dict(chosen)
    deprecated = facets.pop(_DEPRECATED, None)
    if deprecated not in (None, *_DEPRECATED_VALUES):
        raise RegistryError("bad_request", subject=request.subject, error_detail='"deprecated" is true or false')
    try:
        wanted = Search(
            query=parse_query(text),
            facets={name: (value,) for name, value in facets.items()},
            deprecated=None if deprecated is None else deprecated == "true",
            limit=_PAGE,
            after=_after(request, text, chosen),
        )
    except QueryError as error:
        return SearchContent(text=text, wrong=str(error))
    found = view.search(wanted)
    return SearchContent(
        text=text,
        count=found.count,
        complete=found.complete,
        hits=tuple(map(_row, found.hits)),
        facets=tuple(_facets(found, text, chosen)),
        chosen=chosen,
        next=_next(found, text, chosen),
    )


def _row(hit: SearchHit) -> HitRow:
    shown = hit.to_json()
    return HitRow(
        xid=str(hit.xid),
        id=hit.xid.id,
        name=hit.name[:_LINE],
        kind=str(shown["type"]),
        group="" if shown["group"] == shown["xid"] else str(shown["group"]),
        deprecated=bool(shown["deprecated"]),
        words=tuple(str(shown[name]) for name in ("format", "envelope", "protocol") if name in shown),
        snippets=tuple(
            SnippetLine(
                path=each.path, pieces=tuple(_pieces(each.text, each.ranges)), member=each.member, schema=each.schema
            )
            for each in hit.snippets
        ),
    )


def _pieces(text: str, ranges: tuple[tuple[int, int], ...]) -> Iterator[str]:
    """A text cut at its ranges: plain, marked, plain and so on."""
    at = 0
    for start, end in ranges:
        yield text[at:start]
        yield text[start:end]
        at = end
    yield text[at:]


def _facets(
    found: SearchPage, text: str, chosen: tuple[tuple[str, str], ...]
) -> Iterator[tuple[str, tuple[FacetValue, ...]]]:
    now = dict(chosen)
    for name in FACETS:
        values = found.facets.get(name, ())[:_CHOICES]
        if len(values) > 1 or name in now:
            yield name, tuple(_facet_value(text, now, name, value, value, count) for value, count in values)
    yield _DEPRECATED, tuple(_facet_value(text, now, _DEPRECATED, *each, None) for each in _DEPRECATED_VALUES.items())


def _facet_value(
    query: str, chosen: dict[str, str], name: str, value: str, label: str, count: int | None
) -> FacetValue:
    """Return a link that narrows the search by a value, or that takes the value away if it is chosen."""
    others = {each: of for each, of in chosen.items() if each != name}
    is_chosen = chosen.get(name) == value
    parameters = {"q": query, **others, **({} if is_chosen else {name: value})}
    return FacetValue(text=label, count=count, chosen=is_chosen, href=f"/-/search?{urlencode(parameters)}")


def _scope(text: str, chosen: tuple[tuple[str, str], ...]) -> list[JSON]:
    return ["ui search", text, dict(chosen)]


def _after(request: UIRequest, text: str, chosen: tuple[tuple[str, str], ...]) -> Place | None:
    given = request.query.get("cursor")
    if not given:
        return None
    advice = "search again from the first page"
    form = tuple[int, int, str]
    cursor = PageCursor.read(given, _scope(text, chosen), form, subject=request.subject, advice=advice)
    return Place(*cursor.after)


def _next(found: SearchPage, text: str, chosen: tuple[tuple[str, str], ...]) -> str | None:
    if found.following is None:
        return None
    cursor = PageCursor(limit=_PAGE, total=found.count, after=list(found.following)).text(_scope(text, chosen))
    return f"/-/search?{urlencode({'q': text, **dict(chosen), 'cursor': cursor})}"

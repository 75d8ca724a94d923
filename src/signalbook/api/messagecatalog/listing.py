"""Lists of 0.1: filters and pages (domain.md C-29, C-38)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final
from urllib.parse import quote

import msgspec

from signalbook.api.answers import Header
from signalbook.api.messagecatalog.catalog import CatalogView
from signalbook.api.messagecatalog.requests import CatalogRequest
from signalbook.engine.listing import Page, Position
from signalbook.errors import RegistryError
from signalbook.values import JSON, JSONObject, canonical_json, digest
from signalbook.xid import Xid

_MOST: Final = 2**64 - 1
_CHECKED: Final = 16
_NESTED: Final = "definition."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """Up to ``limit`` members behind ``after``; ``total`` is known from the second page on."""

    limit: int | None = None
    after: str = ""
    total: int | None = None


def listed(
    request: CatalogRequest,
    catalog: CatalogView,
    collection: Xid,
    show: Callable[[Xid], JSONObject],
    filterable: Sequence[str],
) -> tuple[list[JSON], tuple[Header, ...]]:
    """Those of a collection's members that the request wants, as ``show`` shows them, and the links to other pages.

    Raises ``bad_filter``, and ``bad_request`` for a ``limit`` or ``cursor`` that is none.
    """
    wanted = _filters(request, filterable)
    page = _page(request)
    if wanted:
        return _sifted(request, page, _shown(catalog, collection, show, page), wanted)
    position = Position(id=page.after) if page.after else None
    xids, found = catalog.page(collection, Page(limit=page.limit, after=position, total=page.total))
    last = found.following.id if found.following else None
    return [show(xid) for xid in xids], tuple(_links(request, page, last, found.total or page.total or 0))


def _shown(
    catalog: CatalogView, collection: Xid, show: Callable[[Xid], JSONObject], page: _Page
) -> Iterator[tuple[Xid, JSONObject]]:
    return ((xid, show(xid)) for xid in catalog.members(collection, page.after))


def _sifted(
    request: CatalogRequest,
    page: _Page,
    members: Iterator[tuple[Xid, JSONObject]],
    wanted: list[tuple[str, str | None]],
) -> tuple[list[JSON], tuple[Header, ...]]:
    """What the filters leave; all of it is counted for the first page."""
    left = ((xid, body) for xid, body in members if all(_holds(body, name, value) for name, value in wanted))
    shown = list(islice(left, page.limit))
    more = next(left, None) is not None
    total = page.total if page.total is not None else len(shown) + more + sum(1 for _ in left)
    last = shown[-1][0].id.lower() if more else None
    return [body for _, body in shown], tuple(_links(request, page, last, total))


def _filters(request: CatalogRequest, filterable: Sequence[str]) -> list[tuple[str, str | None]]:
    """``filter=NAME=VALUE`` or ``filter=NAME``, all of which have to hold (C-29)."""
    found: list[tuple[str, str | None]] = []
    for text in request.values("filter"):
        name, sign, value = text.partition("=")
        if name not in filterable and not (name.startswith(_NESTED) and f"{_NESTED}*" in filterable):
            detail = f"there is no such attribute to filter by; there are: {', '.join(filterable)}"
            raise RegistryError("bad_filter", subject=request.path.text, value=text[:200], error_detail=detail)
        found.append((name, value if sign else None))
    return found


def _holds(shown: JSON, name: str, value: str | None) -> bool:
    for step in name.split("."):
        shown = shown.get(step) if isinstance(shown, dict) else None
    if value is None:
        return shown not in (None, "")
    if isinstance(shown, bool):
        return value == str(shown).lower()
    return isinstance(shown, str | int | float) and value == str(shown)


def _page(request: CatalogRequest) -> _Page:
    limits, cursors = request.values("limit"), request.values("cursor")
    most = request.settings.max_page_size
    if cursors:
        if limits:
            raise _bad(request, "a link to a page has its limit in it; use it as it is, without adding a limit")
        found = _decode(cursors[0], request)
        return _Page(limit=min(found.limit or most, most), after=found.after, total=found.total)
    limit = _limit(limits[0], request) if limits else request.settings.page_size
    return _Page(limit=min(limit, most) if limit else None)


def _limit(text: str, request: CatalogRequest) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 20 and 0 < int(text) <= _MOST:
        return int(text)
    raise _bad(request, f'"limit" needs an unsigned 64-bit integer beyond 0, not "{text[:40]}"')


def _links(request: CatalogRequest, page: _Page, last: str | None, total: int) -> Iterator[Header]:
    """To the next page if there is one, and from all but the first to the first (C-38)."""
    if last is not None:
        yield _link(request, "next", total, _encode(_Page(limit=page.limit, after=last, total=total), request))
    if page.total is not None:
        yield _link(request, "first", total, _encode(_Page(limit=page.limit, after="", total=total), request))


def _link(request: CatalogRequest, relation: str, total: int, cursor: str) -> Header:
    filters = "".join(f"&filter={quote(text, safe='')}" for text in request.values("filter"))
    url = f"{quote(request.base, safe=':/%[]')}{request.path.text}?cursor={cursor}{filters}"
    return "Link", f"<{url}>;rel={relation};count={total}"


def _encode(page: _Page, request: CatalogRequest) -> str:
    content = [page.limit, page.total, page.after]
    sealed = canonical_json([_seal(content, request), *content])
    return base64.urlsafe_b64encode(sealed).decode("ascii").rstrip("=")


def _decode(text: str, request: CatalogRequest) -> _Page:
    try:
        sealed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        seal, limit, total, after = msgspec.json.decode(sealed, type=tuple[str, int, int, str])
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise _bad(request, "the cursor is damaged; begin again with the first page") from None
    if seal != _seal([limit, total, after], request) or limit < 1:
        raise _bad(request, "the cursor is of another request; use a link as it is")
    return _Page(limit=limit, total=total, after=after)


def _seal(content: JSON, request: CatalogRequest) -> str:
    """Ties a cursor to the list and its filters."""
    return digest(canonical_json([request.path.text, request.values("filter"), content]))[:_CHECKED]


def _bad(request: CatalogRequest, detail: str) -> RegistryError:
    return RegistryError("bad_request", subject=request.path.text, error_detail=detail)

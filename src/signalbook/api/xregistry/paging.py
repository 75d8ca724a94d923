"""Pages of a collection: the parameters ``limit`` and ``cursor``, and the links to other pages (pagination/spec.md).

A cursor is what a page has to know of those before it: where it begins, its size, and the total that all tell. It
names nothing that its holder could not ask for anyway, so it is checked for damage, not signed; the flags are in the
link beside it, and it fits no others.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec

from signalbook.api.answers import Header
from signalbook.api.xregistry.flags import QueryFlags
from signalbook.api.xregistry.requests import RegistryRequest
from signalbook.engine.listing import Listed, Page, Position
from signalbook.engine.view import View
from signalbook.engine.view_tree import Node
from signalbook.errors import RegistryError
from signalbook.values import JSON, canonical_json, digest

_MOST: Final = 2**64 - 1
_CHECKED: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cursor:
    """``after`` is None on the first page."""

    limit: int
    total: int
    after: Position | None


def asked(view: View, request: RegistryRequest) -> Page:
    """Which page of its collection a request wants: all of it if it asks for none and the setting ``page_size`` is 0.

    Raises ``bad_request`` for a ``limit`` that is no unsigned 64-bit integer beyond 0, or a ``cursor`` that is not from
    a link of this collection.
    """
    query, settings = request.query.supported(view.capabilities), request.settings
    if not view.capabilities.get("pagination") or not request.path.target.is_collection:
        return Page()
    limit = None if query.limit is None else _limit(query.limit, request)
    if query.cursor is not None:
        if limit is not None:
            raise _bad(request, "a link to a page has its limit in it; use it as it is, without adding a limit")
        cursor = _decode(query.cursor, request)
        return Page(limit=min(cursor.limit, settings.max_page_size), after=cursor.after, total=cursor.total)
    limit = limit or settings.page_size
    return Page(limit=min(limit, settings.max_page_size)) if limit else Page()


def links(request: RegistryRequest, page: Page, listed: Listed[Node]) -> Iterator[Header]:
    """``Link`` headers to the next page, if there is one, and from all but the first to the first (R287-R289)."""
    if page.limit is None:
        return
    if listed.following is not None and listed.total is not None:
        yield _link(request, "next", _Cursor(limit=page.limit, total=listed.total, after=listed.following))
    if page.after is not None and listed.total is not None:
        yield _link(request, "first", _Cursor(limit=page.limit, total=listed.total, after=None))


def _link(request: RegistryRequest, relation: str, cursor: _Cursor) -> Header:
    """``rel`` comes first, and no comma is in the URL: clients take headers apart by hand."""
    sent = [*_flags(request.query), ("cursor", _encode(cursor, request))]
    query = "&".join(f"{name}={quote(value, safe='')}" if value else name for name, value in sent)
    url = f"{quote(request.base_url, safe=':/%[]')}{quote(str(request.path.target), safe='/')}?{query}"
    return "Link", f"<{url}>;rel={relation};count={cursor.total}"


def _flags(query: QueryFlags) -> Iterator[tuple[str, str]]:
    """The flags that shape a page, as they go into a URL."""
    for name in ("binary", "doc"):
        if getattr(query, name):
            yield name, ""
    yield from (("filter", value) for value in query.filter)
    yield from (("inline", value) for value in query.inline)
    for name in ("sort", "specversion"):
        if (value := getattr(query, name)) is not None:
            yield name, value


def _encode(cursor: _Cursor, request: RegistryRequest) -> str:
    after = None if cursor.after is None else [cursor.after.id, cursor.after.value]
    content = [cursor.limit, cursor.total, after]
    sealed = canonical_json([_seal(content, request), *content])
    return base64.urlsafe_b64encode(sealed).decode("ascii").rstrip("=")


def _decode(text: str, request: RegistryRequest) -> _Cursor:
    try:
        sealed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        seal, limit, total, after = msgspec.json.decode(sealed, type=tuple[str, int, int, tuple[str, JSON] | None])
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise _bad(request, "the cursor is damaged; begin again with the first page") from None
    if seal != _seal([limit, total, after], request) or limit < 1 or total < 0:
        raise _bad(request, "the cursor is of another request; use a link as it is, with no flag changed")
    return _Cursor(limit=limit, total=total, after=None if after is None else Position(id=after[0], value=after[1]))


def _seal(content: JSON, request: RegistryRequest) -> str:
    """Ties a cursor to the collection, and to what selects and sorts its members."""
    query = request.query
    return digest(canonical_json([str(request.path.target), query.filter, query.sort, content]))[:_CHECKED]


def _limit(text: str, request: RegistryRequest) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 20 and 0 < int(text) <= _MOST:
        return int(text)
    raise _bad(request, f'"limit" needs an unsigned 64-bit integer beyond 0, not "{text[:40]}"')


def _bad(request: RegistryRequest, detail: str) -> RegistryError:
    return RegistryError("bad_request", subject=request.path.text, error_detail=detail)

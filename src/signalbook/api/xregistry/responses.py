"""Responses of the xRegistry API: what was read or written, as status, headers and body; and pages of collections.

A cursor is what a page has to know of those before it: where it begins, its size, and the total that all of them state.
It names nothing that its holder could not ask for anyway, so it is checked for damage, not signed; the flags are in the
link beside it, and it fits no others (pagination/spec.md).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote

import msgspec

from signalbook import __version__
from signalbook.api.kernel.caching import NO_CACHE, entity_tag, if_modified
from signalbook.api.kernel.responses import JSON_TYPE, UNTRUSTED, Header, Response, encode, json_response, media_type
from signalbook.api.xregistry.requests import NEVER_HEADERS, QueryFlags, RegistryRequest
from signalbook.engine.engine import Session
from signalbook.engine.read.inlining import EntityNode
from signalbook.engine.read.paging import ListedPage, PageRequest, Position
from signalbook.engine.read.view import DocumentView, View, ViewOptions
from signalbook.engine.write.commands import WriteResult
from signalbook.errors import RegistryError
from signalbook.model import AttributeSet, ResourceType
from signalbook.values import JSON, JSONObject, canonical_json, digest
from signalbook.xid import Kind, Xid

_MOST: Final = 2**64 - 1
_CHECKED: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cursor:
    """``after`` is None on the first page."""

    limit: int
    total: int
    after: Position | None


def wanted_page(view: View, request: RegistryRequest) -> PageRequest:
    """Which page of its collection a request wants: all of it if it asks for none and the setting ``page_size`` is 0.

    Raises ``bad_request`` for a ``limit`` that is no unsigned 64-bit integer beyond 0, or a ``cursor`` that is not from
    a link of this collection.
    """
    query, settings = request.query.supported(view.capabilities), request.settings
    if not view.capabilities.get("pagination") or not request.path.target.is_collection:
        return PageRequest()
    limit = None if query.limit is None else _limit(query.limit, request)
    if query.cursor is not None:
        if limit is not None:
            raise _bad_page(request, "a link to a page has its limit in it; use it as it is, without adding a limit")
        cursor = _decode(query.cursor, request)
        return PageRequest(limit=min(cursor.limit, settings.max_page_size), after=cursor.after, total=cursor.total)
    limit = limit or settings.page_size
    return PageRequest(limit=min(limit, settings.max_page_size)) if limit else PageRequest()


def page_links(request: RegistryRequest, page: PageRequest, listed: ListedPage[EntityNode]) -> Iterator[Header]:
    """``Link`` headers to the next page, if there is one, and from all but the first to the first (R287-R289)."""
    if page.limit is None:
        return
    if listed.following is not None and listed.total is not None:
        yield _page_link(request, "next", _Cursor(limit=page.limit, total=listed.total, after=listed.following))
    if page.after is not None and listed.total is not None:
        yield _page_link(request, "first", _Cursor(limit=page.limit, total=listed.total, after=None))


def _page_link(request: RegistryRequest, relation: str, cursor: _Cursor) -> Header:
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
        raise _bad_page(request, "the cursor is damaged; begin again with the first page") from None
    if seal != _seal([limit, total, after], request) or limit < 1 or total < 0:
        raise _bad_page(request, "the cursor is of another request; use a link as it is, with no flag changed")
    return _Cursor(limit=limit, total=total, after=None if after is None else Position(id=after[0], value=after[1]))


def _seal(content: JSON, request: RegistryRequest) -> str:
    """Ties a cursor to the collection, and to what selects and sorts its members."""
    query = request.query
    return digest(canonical_json([str(request.path.target), query.filter, query.sort, content]))[:_CHECKED]


def _limit(text: str, request: RegistryRequest) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 20 and 0 < int(text) <= _MOST:
        return int(text)
    raise _bad_page(request, f'"limit" needs an unsigned 64-bit integer beyond 0, not "{text[:40]}"')


def _bad_page(request: RegistryRequest, detail: str) -> RegistryError:
    return RegistryError("bad_request", subject=request.path.text, error_detail=detail)


_JSON: Final[tuple[Header, ...]] = (("Content-Type", JSON_TYPE),)
_URI_SAFE: Final = "!#$%&'()*+,/:;=?@[]~"


def entity_response(
    view: View, request: RegistryRequest, xid: Xid, *, status: int = 200, extra: tuple[Header, ...] = ()
) -> Response:
    """An entity or collection as metadata."""
    options = request.options(view, xid)
    value = view.collection(xid, options) if xid.is_collection else view.entity(xid, options)
    return limited(json_response(value, status=status, headers=extra), request)


def tree_response(view: View, request: RegistryRequest, options: ViewOptions) -> Response:
    """An entity or collection of any size as metadata; not made at all for a client that has it already."""
    assert request.spool is not None
    xid = request.path.target
    state = (__version__, view.state(), view.model.fingerprint, view.capabilities)
    tag = entity_tag(repr((*state, request.base_url, request.path, request.query)).encode())
    large = Response(headers=(("ETag", tag), NO_CACHE, *_JSON), etag=tag)
    if if_modified(large, request.raw_headers) is not large:
        return large.unmodified
    page = wanted_page(view, request)
    listed = view.listed(xid, options, page) if xid.is_collection else None
    links = tuple(page_links(request, page, listed)) if listed is not None else ()
    pieces = (_fitting(piece, request) for piece in view.pieces(xid, options, listed))
    small, large = Response(headers=(*links, *_JSON)), replace(large, headers=(*links, *large.headers))
    return limited(request.spool.fill(small, large, pieces), request)


def document_response(
    view: View, request: RegistryRequest, xid: Xid, *, status: int = 200, extra: tuple[Header, ...] = ()
) -> Response:
    """A Resource's or Version's document, or the way to it (R156-R161)."""
    found = view.document(xid, request.options(view, xid))
    own = _document_headers(found, xid)
    if found.url is not None and status == 200:
        location = ("Location", quote(found.url, safe=_URI_SAFE))
        return Response(status=303, headers=(location, *extra, *own))
    return limited(Response(status=status, headers=(*extra, *own), body=found.content), request)


def write_response(session: Session, request: RegistryRequest, result: WriteResult) -> Response:
    """The answer to a write: what GET of the same URL would show, with where new entities are (R146, R150-R152)."""
    view, path = session.view, request.path
    if request.method == "DELETE":
        return Response(status=204)
    if path.name:
        value = view.capabilities if path.name == "capabilities" else view.modelsource()
        return limited(json_response(value), request)
    if path.target.is_collection or (request.method == "POST" and path.target.kind in (Kind.REGISTRY, Kind.GROUP)):
        value = view.processed(path.target, result.processed, request.options(view, path.target))
        return limited(json_response(value), request)
    render = entity_response if request.document_type(view) is None else document_response
    status = 201 if result.created else 200
    return render(view, request, result.target, status=status, extra=tuple(_locations(view, request, result)))


def limited(answer: Response, request: RegistryRequest) -> Response:
    """``answer`` if it is not too large to be sent (R203)."""
    _fitting(answer.body, request)
    return answer


def _fitting(content: bytes, request: RegistryRequest) -> bytes:
    limit = request.settings.max_response_bytes
    if len(content) <= limit:
        return content
    detail = f"it has {len(content)} bytes and {limit} are allowed; ask for parts of it, or inline less"
    raise RegistryError("too_large", subject=request.path.text, detail=detail)


def _locations(view: View, request: RegistryRequest, result: WriteResult) -> Iterator[Header]:
    """Where a new entity is (R151), and which Version a write to a Resource or Version made (R152, GAP 9)."""
    if result.created:
        kind = view.model.resource_type(result.target)
        details = "$details" if request.path.details and kind is not None and kind.hasdocument else ""
        yield "Location", f"{request.base_url}{result.target}{details}"
    if result.version is not None and request.path.target.kind in (Kind.RESOURCE, Kind.VERSION):
        yield "Content-Location", f"{request.base_url}{result.version}"


def _document_headers(found: DocumentView, xid: Xid) -> Iterator[Header]:
    contenttype = media_type(found.contenttype)
    if contenttype is not None:
        yield "Content-Type", contenttype
    yield "Content-Disposition", xid.resource_id
    yield from UNTRUSTED
    yield from write_headers(found.attributes, found.type)


def write_headers(attributes: JSONObject, type: ResourceType) -> Iterator[tuple[str, str]]:
    """The headers that show an entity's ``attributes`` beside its document (R158-R160)."""
    never = {*NEVER_HEADERS, type.singular, f"{type.singular}base64"}
    for name, value in attributes.items():
        if name in never:
            continue
        if not isinstance(value, (dict, list)):
            yield f"xRegistry-{name}", encode(_header_text(value))
        elif isinstance(value, dict) and _is_map(name, type.attributes):
            yield from ((f"xRegistry-{name}.{key}", encode(_header_text(item))) for key, item in value.items())


def _is_map(name: str, attributes: AttributeSet) -> bool:
    attribute = attributes.get(name)
    return attribute is not None and attribute.type == "map" and attribute.item is not None and attribute.item.scalar


def _header_text(value: JSON) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)

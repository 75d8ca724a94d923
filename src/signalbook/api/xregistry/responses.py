"""Responses of the xRegistry API to reads and writes, and pages of collections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Final
from urllib.parse import quote

from signalbook.api.kernel.caching import NO_CACHE, compute_entity_tag, if_modified
from signalbook.api.kernel.paging import PageCursor, limit_and_cursor, page_limit
from signalbook.api.kernel.responses import JSON_TYPE, UNTRUSTED, Header, Response, encode, json_response, media_type
from signalbook.api.xregistry.requests import NEVER_HEADERS, QueryFlags, RegistryRequest
from signalbook.engine.engine import Session
from signalbook.engine.read.nodes import EntityNode
from signalbook.engine.read.pages import ListedPage, PageRequest, Position
from signalbook.engine.read.view import DocumentView, View, ViewOptions
from signalbook.engine.write.apply import WriteResult
from signalbook.errors import RegistryError
from signalbook.model import AttributeSet, ResourceType
from signalbook.values import JSON, JSONObject, format_scalar
from signalbook.version import __version__
from signalbook.xid import Kind, Xid

_JSON: Final[tuple[Header, ...]] = (("Content-Type", JSON_TYPE),)
_URI_SAFE: Final = "!#$%&'()*+,/:;=?@[]~"


def choose_page(view: View, request: RegistryRequest) -> PageRequest:
    """Return the requested page of a collection. Without page parameters it has ``page_size`` entries, or all if that
    is 0.

    Raises ``bad_request`` for a ``limit`` that is not an unsigned 64-bit integer above 0, or a ``cursor`` of another
    collection.
    """
    query, settings = request.query.supported(view.capabilities), request.settings
    if not view.capabilities.get("pagination") or not request.path.target.is_collection:
        return PageRequest()
    limit = None if query.limit is None else page_limit(query.limit, subject=request.subject)
    if query.cursor is not None:
        if limit is not None:
            raise limit_and_cursor(request.subject)
        advice = "use a link as it is, with no flag changed"
        form = tuple[bool, str, JSON] | bool
        cursor = PageCursor.read(
            query.cursor, _build_cursor_scope(request), form, subject=request.subject, advice=advice
        )
        place = cursor.after if isinstance(cursor.after, tuple) else None
        return PageRequest(
            limit=min(cursor.limit, settings.max_page_size),
            after=Position(id=place[1], value=place[2]) if place else None,
            total=cursor.total,
            backward=place[0] if place else cursor.after,
        )
    limit = limit or settings.page_size
    return PageRequest(limit=min(limit, settings.max_page_size)) if limit else PageRequest()


def page_links(request: RegistryRequest, page: PageRequest, listed: ListedPage[EntityNode]) -> Iterator[Header]:
    """Yield the ``Link`` headers: next and last if entries follow the page, prev and first if entries precede it."""
    if page.limit is None or listed.total is None:
        return
    links: list[tuple[str, JSON]] = []
    if listed.following is not None:
        links.append(("next", _encode_position(listed.following, backward=False)))
    if listed.preceding is not None:
        links += [("prev", _encode_position(listed.preceding, backward=True)), ("first", False)]
    if listed.following is not None:
        links.append(("last", True))
    for relation, after in links:
        yield _page_link(request, relation, PageCursor(limit=page.limit, total=listed.total, after=after))


def _encode_position(position: Position, *, backward: bool) -> JSON:
    """Return the position in a cursor: where a page begins or, if ``backward``, ends.

    The cursors of the first and the last page have only the direction.
    """
    return [backward, position.id, position.value]


def _page_link(request: RegistryRequest, relation: str, cursor: PageCursor) -> Header:
    """Return a ``Link`` header. ``rel`` comes first and the URL has no comma, since many clients split
    headers by hand."""
    sent = [*_list_page_flags(request.query), ("cursor", cursor.text(_build_cursor_scope(request)))]
    query = "&".join(f"{name}={quote(value, safe='')}" if value else name for name, value in sent)
    url = f"{quote(request.base_url, safe=':/%[]')}{quote(str(request.path.target), safe='/')}?{query}"
    return "Link", f"<{url}>;rel={relation};count={cursor.total}"


def _build_cursor_scope(request: RegistryRequest) -> list[JSON]:
    """Return the values that a cursor is valid for: the collection, and the filter and order of its members."""
    return [str(request.path.target), request.query.filter, request.query.sort]


def _list_page_flags(query: QueryFlags) -> Iterator[tuple[str, str]]:
    """Yield the flags of a page as URL parameters."""
    for name in ("binary", "doc"):
        if getattr(query, name):
            yield name, ""
    yield from (("filter", value) for value in query.filter)
    yield from (("inline", value) for value in query.inline)
    for name in ("sort", "specversion"):
        if (value := getattr(query, name)) is not None:
            yield name, value


def build_entity_response(
    view: View, request: RegistryRequest, xid: Xid, *, status: int = 200, extra: tuple[Header, ...] = ()
) -> Response:
    """Return an entity or collection as metadata."""
    options = request.options(view, xid)
    value = view.render_collection(xid, options) if xid.is_collection else view.render_entity(xid, options)
    return check_size(json_response(value, status=status, headers=extra), request)


def build_tree_response(view: View, request: RegistryRequest, options: ViewOptions) -> Response:
    """Return an entity or collection of any size as metadata. Return 304 without reading it if the client has it
    already."""
    assert request.spool is not None
    xid = request.path.target
    state = (__version__, view.state(), view.model.fingerprint, view.capabilities)
    tag = compute_entity_tag(repr((*state, request.base_url, request.path, request.query)).encode())
    large = Response(headers=(("ETag", tag), NO_CACHE, *_JSON), etag=tag)
    # If the client has the response already, nothing is read or rendered.
    if if_modified(large, request.raw_headers.conditions) is not large:
        return large.unmodified
    page = choose_page(view, request)
    listed = view.list_members(xid, options, page) if xid.is_collection else None
    links = tuple(page_links(request, page, listed)) if listed is not None else ()
    pieces = (_check_fitting(piece, request) for piece in view.stream(xid, options, listed))
    small, large = Response(headers=(*links, *_JSON), is_json=True), replace(large, headers=(*links, *large.headers))
    return check_size(request.spool.fill(small, large, chain(pieces, (b"\n",))), request)


def build_document_response(
    view: View, request: RegistryRequest, xid: Xid, *, status: int = 200, extra: tuple[Header, ...] = ()
) -> Response:
    """Return a Resource's or Version's document, or a redirect to its URL (R156-R161)."""
    document = view.load_document(xid, request.options(view, xid))
    headers = (*extra, *_list_document_headers(document, xid))
    versionid = document.attributes.get("versionid")  # a dangling cross reference has none
    if versionid is not None and not any(name == "Content-Location" for name, _ in extra):
        headers = (("Content-Location", f"{request.base_url}{xid.resource}/versions/{versionid}"), *headers)
    if document.url is not None and status == 200:
        return Response(status=303, headers=(("Location", quote(document.url, safe=_URI_SAFE)), *headers))
    return check_size(Response(status=status, headers=headers, body=document.content), request)


def write_response(session: Session, request: RegistryRequest, result: WriteResult) -> Response:
    """Return the response to a write: the content that GET of the same URL would return, and the locations of new
    entities (R146, R150-R152)."""
    view, path = session.view, request.path
    if request.method == "DELETE":
        return Response(status=204)
    if path.name:
        value = view.capabilities if path.name == "capabilities" else view.modelsource()
        return check_size(json_response(value), request)
    if path.target.is_collection or (request.method == "POST" and path.target.kind in (Kind.REGISTRY, Kind.GROUP)):
        value = view.render_processed(path.target, result.processed, request.options(view, path.target))
        return check_size(json_response(value), request)
    render = build_entity_response if request.find_document_type(view) is None else build_document_response
    status = 201 if result.created else 200
    return render(view, request, result.target, status=status, extra=tuple(_list_locations(view, request, result)))


def check_size(response: Response, request: RegistryRequest) -> Response:
    """Return ``response``. Raise an error if it is too large to be sent (R203)."""
    _check_fitting(response.body, request)
    return response


def _check_fitting(content: bytes, request: RegistryRequest) -> bytes:
    limit = request.settings.max_response_bytes
    if len(content) <= limit:
        return content
    detail = f"it has {len(content)} bytes and {limit} are allowed; ask for parts of it, or inline less"
    raise RegistryError("too_large", subject=request.path.text, detail=detail)


def _list_locations(view: View, request: RegistryRequest, result: WriteResult) -> Iterator[Header]:
    """Yield the location of a new entity (R151), and of the Version that a write created (R152, GAP 9)."""
    if result.created:
        kind = view.model.resource_type(result.target)
        details = "$details" if request.path.details and kind is not None and kind.hasdocument else ""
        yield "Location", f"{request.base_url}{result.target}{details}"
    if result.version is not None and request.path.target.kind in (Kind.RESOURCE, Kind.VERSION):
        yield "Content-Location", f"{request.base_url}{result.version}"


def _list_document_headers(document: DocumentView, xid: Xid) -> Iterator[Header]:
    contenttype = media_type(document.contenttype)
    if contenttype is not None:
        yield "Content-Type", contenttype
    yield "Content-Disposition", xid.resource_id
    yield from UNTRUSTED
    yield from write_headers(document.attributes, document.type)


def write_headers(attributes: JSONObject, type: ResourceType) -> Iterator[tuple[str, str]]:
    """Yield the headers that show an entity's ``attributes`` along with its document (R158-R160)."""
    never = {*NEVER_HEADERS, type.singular, f"{type.singular}base64"}
    for name, value in attributes.items():
        if name in never:
            continue
        if not isinstance(value, (dict, list)):
            yield f"xRegistry-{name}", encode(format_scalar(value))
        elif isinstance(value, dict) and _is_map(name, type.attributes):
            yield from ((f"xRegistry-{name}.{key}", encode(format_scalar(item))) for key, item in value.items())


def _is_map(name: str, attributes: AttributeSet) -> bool:
    attribute = attributes.get(name)
    return attribute is not None and attribute.type == "map" and attribute.item is not None and attribute.item.scalar

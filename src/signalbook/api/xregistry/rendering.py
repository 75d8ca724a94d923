"""Answers of the door: what was read or written, as status, headers and body."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final
from urllib.parse import quote

from signalbook import __version__
from signalbook.api import caching
from signalbook.api.answers import JSON_TYPE, Header, Response, json_response
from signalbook.api.documents import UNTRUSTED, media_type
from signalbook.api.xregistry import headers, paging
from signalbook.api.xregistry.requests import RegistryRequest
from signalbook.engine.changes import Result
from signalbook.engine.engine import Session
from signalbook.engine.view import Document, View, ViewOptions
from signalbook.errors import RegistryError
from signalbook.xid import Kind, Xid

_JSON: Final[tuple[Header, ...]] = (("Content-Type", JSON_TYPE),)
_URI_SAFE: Final = "!#$%&'()*+,/:;=?@[]~"


def shown(
    view: View, request: RegistryRequest, xid: Xid, *, status: int = 200, extra: tuple[Header, ...] = ()
) -> Response:
    """An entity or collection as metadata."""
    options = request.options(view, xid)
    value = view.collection(xid, options) if xid.is_collection else view.entity(xid, options)
    return limited(json_response(value, status=status, headers=extra), request)


def tree(view: View, request: RegistryRequest, options: ViewOptions) -> Response:
    """An entity or collection of any size as metadata; not made at all for a client that has it already."""
    assert request.spool is not None
    xid = request.path.target
    state = (__version__, view.state(), view.model.fingerprint, view.capabilities)
    tag = caching.entity_tag(repr((*state, request.base_url, request.path, request.query)).encode())
    large = Response(headers=(("ETag", tag), caching.NO_CACHE, *_JSON), etag=tag)
    if caching.if_modified(large, request.raw_headers) is not large:
        return large.unmodified
    page = paging.asked(view, request)
    listed = view.listed(xid, options, page) if xid.is_collection else None
    links = tuple(paging.links(request, page, listed)) if listed is not None else ()
    pieces = (_fitting(piece, request) for piece in view.pieces(xid, options, listed))
    small, large = Response(headers=(*links, *_JSON)), replace(large, headers=(*links, *large.headers))
    return limited(request.spool.fill(small, large, pieces), request)


def document(
    view: View, request: RegistryRequest, xid: Xid, *, status: int = 200, extra: tuple[Header, ...] = ()
) -> Response:
    """A Resource's or Version's document, or the way to it (R156-R161)."""
    found = view.document(xid, request.options(view, xid))
    own = _document_headers(found, xid)
    if found.url is not None and status == 200:
        location = ("Location", quote(found.url, safe=_URI_SAFE))
        return Response(status=303, headers=(location, *extra, *own))
    return limited(Response(status=status, headers=(*extra, *own), body=found.content), request)


def written(session: Session, request: RegistryRequest, result: Result) -> Response:
    """The answer to a write: what GET of the same URL would show, with where new entities are (R146, R150-R152)."""
    view, path = session.view, request.path
    told = (("xRegistry-xregcorrelationid", session.correlationid),) if result.changes else ()
    if request.method == "DELETE":
        return Response(status=204, headers=told)
    if path.name:
        value = view.capabilities if path.name == "capabilities" else view.modelsource()
        return limited(json_response(value, headers=told), request)
    if path.target.is_collection or (request.method == "POST" and path.target.kind in (Kind.REGISTRY, Kind.GROUP)):
        value = view.processed(path.target, result.processed, request.options(view, path.target))
        return limited(json_response(value, headers=told), request)
    render = shown if request.document_type(view) is None else document
    status = 201 if result.created else 200
    return render(view, request, result.target, status=status, extra=(*told, *_locations(view, request, result)))


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


def _locations(view: View, request: RegistryRequest, result: Result) -> Iterator[Header]:
    """Where a new entity is (R151), and which Version a write to a Resource or Version made (R152, GAP 9)."""
    if result.created:
        kind = view.model.resource_type(result.target)
        details = "$details" if request.path.details and kind is not None and kind.hasdocument else ""
        yield "Location", f"{request.base_url}{result.target}{details}"
    if result.version is not None and request.path.target.kind in (Kind.RESOURCE, Kind.VERSION):
        yield "Content-Location", f"{request.base_url}{result.version}"


def _document_headers(found: Document, xid: Xid) -> Iterator[Header]:
    contenttype = media_type(found.contenttype)
    if contenttype is not None:
        yield "Content-Type", contenttype
    yield "Content-Disposition", xid.resource_id
    yield from UNTRUSTED
    yield from headers.write(found.attributes, found.type)

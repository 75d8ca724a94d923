"""The Message Catalog API 0.1: everything in JSON, with filters and pages (domain.md C-27 to C-38).

What is posted becomes messages of xRegistry in ``cncf.messagecatalog.conversion``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final
from urllib.parse import quote

from signalbook.access.base import WRITES
from signalbook.api.cncf import CncfRoute, is_mutable
from signalbook.api.kernel.errors import Conflict
from signalbook.api.kernel.paging import PageCursor, limit_and_cursor, page_limit
from signalbook.api.kernel.responses import Header, Response, json_response
from signalbook.api.messagecatalog.catalog import (
    CATALOG,
    DEFINITION,
    DEFINITIONS,
    GROUP,
    GROUPS,
    LOOKUP,
    VERSION,
    VERSIONS,
    CatalogRequest,
    CatalogView,
    CatalogWriter,
    Routes,
    check_authority,
    check_type,
    delete,
    lookup,
    refuse,
)
from signalbook.api.messagecatalog.first_draft import check_group
from signalbook.cncf.ids import draft_id, entity_id
from signalbook.cncf.messagecatalog import definitions, documents
from signalbook.cncf.messagecatalog.definitions import PostedVersion
from signalbook.cncf.messagecatalog.documents import CatalogReader
from signalbook.engine.read.paging import PageRequest, Position
from signalbook.errors import RegistryError
from signalbook.values import JSON, JSONObject
from signalbook.xid import Xid

_NESTED_PREFIX: Final = "definition."


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
    """Return the requested members of a collection, as ``show`` shows them, and links to other pages.

    Raises ``bad_filter``, and ``bad_request`` for an invalid ``limit`` or ``cursor``.
    """
    wanted = _filters(request, filterable)
    page = _page(request)
    if wanted:
        shown = ((xid, show(xid)) for xid in catalog.members(collection, page.after))
        return _sifted(request, page, shown, wanted)
    position = Position(id=page.after) if page.after else None
    xids, found = catalog.page(collection, PageRequest(limit=page.limit, after=position, total=page.total))
    last = found.following.id if found.following else None
    return [show(xid) for xid in xids], tuple(_links(request, page, last, found.total or page.total or 0))


def _sifted(
    request: CatalogRequest,
    page: _Page,
    members: Iterator[tuple[Xid, JSONObject]],
    wanted: list[tuple[str, str | None]],
) -> tuple[list[JSON], tuple[Header, ...]]:
    """Return the members that pass the filters. The first page counts all of them."""
    left = ((xid, body) for xid, body in members if all(_holds(body, name, value) for name, value in wanted))
    shown = list(islice(left, page.limit))
    more = next(left, None) is not None
    # Counting looks at all members, so it is done for the first page only and carried in the cursor.
    total = page.total if page.total is not None else len(shown) + more + sum(1 for _ in left)
    last = shown[-1][0].id.lower() if more else None
    return [body for _, body in shown], tuple(_links(request, page, last, total))


def _filters(request: CatalogRequest, filterable: Sequence[str]) -> list[tuple[str, str | None]]:
    """``filter=NAME=VALUE`` or ``filter=NAME``, all of which have to hold (C-29)."""
    found: list[tuple[str, str | None]] = []
    for text in request.values("filter"):
        name, sign, value = text.partition("=")
        if name not in filterable and not (name.startswith(_NESTED_PREFIX) and f"{_NESTED_PREFIX}*" in filterable):
            detail = f"there is no such attribute to filter by; there are: {', '.join(filterable)}"
            raise RegistryError("bad_filter", subject=request.path.text, value=text[:200], error_detail=detail)
        found.append((name, value if sign else None))
    return found


def _holds(shown: JSON, name: str, value: str | None) -> bool:
    for step in name.split("."):
        shown = shown.get(step) if isinstance(shown, dict) else None
    # Tags are one text with all of them: who looks for one need not know the others.
    if name == definitions.TAGS and isinstance(shown, str) and value in [tag.strip() for tag in shown.split(",")]:
        return True
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
            raise limit_and_cursor(request.subject)
        advice = "use a link as it is"
        found = PageCursor.read(cursors[0], _scope(request), str, subject=request.subject, advice=advice)
        return _Page(limit=min(found.limit, most), after=found.after, total=found.total)
    limit = page_limit(limits[0], subject=request.subject) if limits else request.settings.page_size
    return _Page(limit=min(limit, most) if limit else None)


def _links(request: CatalogRequest, page: _Page, last: str | None, total: int) -> Iterator[Header]:
    """Yield links to the next page, if any, and from later pages to the first (C-38)."""
    if page.limit is None:
        return
    if last is not None:
        yield _link(request, "next", PageCursor(limit=page.limit, after=last, total=total))
    if page.total is not None:
        yield _link(request, "first", PageCursor(limit=page.limit, after="", total=total))


def _link(request: CatalogRequest, relation: str, cursor: PageCursor) -> Header:
    filters = "".join(f"&filter={quote(text, safe='')}" for text in request.values("filter"))
    query = f"cursor={cursor.text(_scope(request))}{filters}"
    url = f"{quote(request.base, safe=':/%[]')}{request.path.text}?{query}"
    return "Link", f"<{url}>;rel={relation};count={cursor.total}"


def _scope(request: CatalogRequest) -> list[JSON]:
    """Return what a cursor is bound to: the list and its filters."""
    return [request.path.text, request.values("filter")]


_WHOLE: Final = "definitions"
"""The query parameter that asks for a group with all its definitions, as a document (C-1)."""
_NESTED: Final = "definition.*"


def features(catalog: CatalogView, _: CatalogRequest) -> Response:
    """Return the features of the catalog for this client (C-27): whether it may update anything."""
    access = catalog.view.access
    update = is_mutable(catalog.view) and any(access.allows_somewhere(action, GROUPS) for action in WRITES)
    return json_response(
        {"filterattributes": list(definitions.GROUP_FILTERS), "pagination": True, "update": update, "updates": update}
    )


def _groups(catalog: CatalogView, request: CatalogRequest) -> Response:
    def show(xid: Xid) -> JSONObject:
        return definitions.render_group(catalog.group(xid))

    found, links = listed(request, catalog, GROUPS, show, definitions.GROUP_FILTERS)
    return json_response(found, headers=links)


def _group(catalog: CatalogView, request: CatalogRequest) -> Response:
    xid = request.path.xid
    body = definitions.render_group(catalog.group(xid))
    if request.values(_WHOLE):
        found = (_whole(catalog, body["format"], each) for each in catalog.members(xid / "messages"))
        body[_WHOLE] = {definition["id"]: definition for definition in found}
    return json_response(body)


def _whole(catalog: CatalogView, form: str, xid: Xid) -> JSONObject:
    """A definition with all its versions embedded."""
    versions = catalog.versions(xid)
    return definitions.build_embedded_definition(
        [definitions.render_definition(form, versions[0], version) for version in reversed(versions)]
    )


def _post_group(writing: CatalogWriter, request: CatalogRequest) -> Response:
    group = _read_group(request)
    xid = GROUPS / entity_id(group.id)
    if writing.catalog.view.exists(xid):
        raise Conflict(str(xid), f"there is a group {group.id} already")
    return _write_group(writing, request, xid, group, status=201)


def _put_group(writing: CatalogWriter, request: CatalogRequest) -> Response:
    check_group(request)
    return _write_group(writing, request, request.path.xid, _read_group(request), status=200)


def _read_group(request: CatalogRequest) -> documents.CatalogGroup:
    reading = CatalogReader()
    group = reading.read_group(
        {"id": draft_id(request.path.xid.id), **request.json} if request.path.id else request.json
    )
    refuse(request.path.text, [*reading.findings, *definitions.validate_stand_alone(request.json)])
    return group


def _write_group(
    writing: CatalogWriter, request: CatalogRequest, xid: Xid, group: documents.CatalogGroup, *, status: int
) -> Response:
    """The group first, then what it embeds, each version as if it were posted (C-31)."""
    writing.put_group(xid, group.document, fixed=True)
    _add(writing, request, xid, group.posted)
    body = definitions.render_group(writing.catalog.group(xid))
    return json_response(body, status=status, headers=(("Location", request.url(xid)),))


def _definitions(catalog: CatalogView, request: CatalogRequest) -> Response:
    form = catalog.format(request.path.group)

    def show(xid: Xid) -> JSONObject:
        latest = catalog.latest(xid)
        return definitions.render_definition(form, latest, latest)

    found, links = listed(request, catalog, request.path.xid, show, (*definitions.DEFINITION_FILTERS, _NESTED))
    return json_response(found, headers=links)


def _post(writing: CatalogWriter, request: CatalogRequest) -> Response:
    """A version, or a document with several; the response shows what is stored of it (C-9)."""
    form = writing.catalog.format(request.path.group)
    reading = CatalogReader()
    posted = reading.read_definition(request.json, form)
    refuse(request.path.text, reading.findings)
    written = _add(writing, request, request.path.group, posted)
    shown = [_shown(writing.catalog, form, xid) for xid in written]
    location = (("Location", request.url(written[-1])),)
    return json_response(
        shown[0] if len(shown) == 1 else definitions.build_embedded_definition(shown), headers=location
    )


def _add(writing: CatalogWriter, request: CatalogRequest, group: Xid, posted: Sequence[PostedVersion]) -> list[Xid]:
    """Versions in their order, all or none. Raises ``bad_request`` with all that is wrong, and ``Conflict``."""
    catalog = writing.catalog
    form = catalog.format(group)
    for each in posted:
        xid = group / "messages" / entity_id(each.id)
        before = catalog.find_latest(xid) if catalog.view.exists(xid) else None
        if before is not None:
            check_type(xid, form, each, before)
            check_authority(xid, each, before)
    there = {entity_id(each.id) for each in posted} | _related(catalog, group, posted)
    refuse(
        request.path.text,
        (
            fault
            for each in posted
            for found in (
                definitions.validate_definition(form, each),
                definitions.validate_strictly(each),
                definitions.validate_relations(each, there),
            )
            for fault in found
        ),
    )
    return [writing.add(group, each).xid for each in posted]


def _related(catalog: CatalogView, group: Xid, posted: Sequence[PostedVersion]) -> set[str]:
    """Return the related definitions that the group has."""
    names = {str(version.document.get("relatedto") or "") for version in posted} - {""}
    return {related for related in map(entity_id, names) if catalog.view.exists(group / "messages" / related)}


def _versions(catalog: CatalogView, request: CatalogRequest) -> Response:
    xid = request.path.xid.owner
    form, versions = catalog.format(request.path.group), catalog.versions(xid)
    return json_response([definitions.render_definition(form, versions[0], version) for version in reversed(versions)])


def _latest(catalog: CatalogView, request: CatalogRequest) -> Response:
    latest = catalog.latest(request.path.xid)
    return json_response(definitions.render_definition(catalog.format(request.path.group), latest, latest))


def _version(catalog: CatalogView, request: CatalogRequest) -> Response:
    return json_response(_shown(catalog, catalog.format(request.path.group), request.path.xid))


def _looked_up(catalog: CatalogView, request: CatalogRequest) -> Response:
    xid = lookup(catalog, request)
    return json_response(_shown(catalog, catalog.format(Xid(xid.parts[:2])), xid))


def _shown(catalog: CatalogView, form: str, xid: Xid) -> JSONObject:
    version = catalog.version(xid)
    return definitions.render_definition(form, catalog.latest(xid.resource), version)


ROUTES: Final[Routes] = {
    CATALOG: CncfRoute(read=_groups, writes={"POST": _post_group}),
    GROUP: CncfRoute(read=_group, writes={"DELETE": delete, "PUT": _put_group}),
    DEFINITIONS: CncfRoute(read=_definitions, writes={"DELETE": delete, "POST": _post}),
    DEFINITION: CncfRoute(read=_latest, writes={"DELETE": delete}),
    VERSIONS: CncfRoute(read=_versions),
    VERSION: CncfRoute(read=_version, writes={"DELETE": delete}),
    LOOKUP: CncfRoute(read=_looked_up),
}

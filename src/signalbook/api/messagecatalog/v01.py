"""The Message Catalog API 0.1: everything in JSON, with filters and pages (C-27 to C-38).

Posted documents are converted to messages of xRegistry in ``cncf.messagecatalog.conversion``.
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
from signalbook.engine.read.pages import PageRequest, Position
from signalbook.errors import RegistryError
from signalbook.values import JSON, JSONObject
from signalbook.xid import Xid

_NESTED_PREFIX: Final = "definition."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """A request for up to ``limit`` members after ``after``. ``total`` is known from the second page on."""

    limit: int | None = None
    after: str = ""
    total: int | None = None


def list_members(
    request: CatalogRequest,
    catalog: CatalogView,
    collection: Xid,
    show: Callable[[Xid], JSONObject],
    filterable: Sequence[str],
) -> tuple[list[JSON], tuple[Header, ...]]:
    """Return the requested members of a collection, as ``show`` shows them, and links to other pages.

    Raises ``bad_filter``, and ``bad_request`` for an invalid ``limit`` or ``cursor``.
    """
    filters = _parse_filters(request, filterable)
    page = _page(request)
    if filters:
        members = ((xid, show(xid)) for xid in catalog.members(collection, page.after))
        return _filter_members(request, page, members, filters)
    position = Position(id=page.after) if page.after else None
    xids, members_page = catalog.page(collection, PageRequest(limit=page.limit, after=position, total=page.total))
    last = members_page.following.id if members_page.following else None
    return [show(xid) for xid in xids], tuple(_build_links(request, page, last, members_page.total or page.total or 0))


def _filter_members(
    request: CatalogRequest,
    page: _Page,
    members: Iterator[tuple[Xid, JSONObject]],
    filters: list[tuple[str, str | None]],
) -> tuple[list[JSON], tuple[Header, ...]]:
    """Return the members that pass the filters. The first page counts all of them."""
    matches = ((xid, body) for xid, body in members if all(_is_match(body, name, value) for name, value in filters))
    page_members = list(islice(matches, page.limit))
    more = next(matches, None) is not None
    # Counting looks at all members, so it is done for the first page only and carried in the cursor.
    total = page.total if page.total is not None else len(page_members) + more + sum(1 for _ in matches)
    last = page_members[-1][0].id.lower() if more else None
    return [body for _, body in page_members], tuple(_build_links(request, page, last, total))


def _parse_filters(request: CatalogRequest, filterable: Sequence[str]) -> list[tuple[str, str | None]]:
    """Return (name, value) for each parameter ``filter=NAME=VALUE``; the value is None for ``filter=NAME`` (C-29)."""
    filters: list[tuple[str, str | None]] = []
    for text in request.values("filter"):
        name, sign, value = text.partition("=")
        if name not in filterable and not (name.startswith(_NESTED_PREFIX) and f"{_NESTED_PREFIX}*" in filterable):
            detail = f"there is no such attribute to filter by; there are: {', '.join(filterable)}"
            raise RegistryError("bad_filter", subject=request.path.text, value=text[:200], error_detail=detail)
        filters.append((name, value if sign else None))
    return filters


def _is_match(member: JSON, name: str, value: str | None) -> bool:
    for step in name.split("."):
        member = member.get(step) if isinstance(member, dict) else None
    # Tags are stored as one text, so a filter for one tag has to match a part of the text.
    if name == definitions.TAGS and isinstance(member, str) and value in [tag.strip() for tag in member.split(",")]:
        return True
    if value is None:
        return member not in (None, "")
    if isinstance(member, bool):
        return value == str(member).lower()
    return isinstance(member, str | int | float) and value == str(member)


def _page(request: CatalogRequest) -> _Page:
    limits, cursors = request.values("limit"), request.values("cursor")
    most = request.settings.max_page_size
    if cursors:
        if limits:
            raise limit_and_cursor(request.subject)
        advice = "use a link as it is"
        cursor = PageCursor.read(cursors[0], _build_cursor_scope(request), str, subject=request.subject, advice=advice)
        return _Page(limit=min(cursor.limit, most), after=cursor.after, total=cursor.total)
    limit = page_limit(limits[0], subject=request.subject) if limits else request.settings.page_size
    return _Page(limit=min(limit, most) if limit else None)


def _build_links(request: CatalogRequest, page: _Page, last: str | None, total: int) -> Iterator[Header]:
    """Yield links to the next page, if any, and from later pages to the first (C-38)."""
    if page.limit is None:
        return
    if last is not None:
        yield _link(request, "next", PageCursor(limit=page.limit, after=last, total=total))
    if page.total is not None:
        yield _link(request, "first", PageCursor(limit=page.limit, after="", total=total))


def _link(request: CatalogRequest, relation: str, cursor: PageCursor) -> Header:
    filters = "".join(f"&filter={quote(text, safe='')}" for text in request.values("filter"))
    query = f"cursor={cursor.text(_build_cursor_scope(request))}{filters}"
    url = f"{quote(request.base, safe=':/%[]')}{request.path.text}?{query}"
    return "Link", f"<{url}>;rel={relation};count={cursor.total}"


def _build_cursor_scope(request: CatalogRequest) -> list[JSON]:
    """Return the values that a cursor is valid for: the list and its filters."""
    return [request.path.text, request.values("filter")]


_WHOLE_PARAMETER: Final = "definitions"
"""The query parameter that asks for a group with all its definitions, as a document (C-1)."""
_NESTED: Final = "definition.*"


def features(catalog: CatalogView, _: CatalogRequest) -> Response:
    """Return the features of the catalog for this client (C-27): whether it may update anything."""
    access = catalog.view.access
    update = is_mutable(catalog.view) and any(access.allows_somewhere(action, GROUPS) for action in WRITES)
    return json_response(
        {"filterattributes": list(definitions.GROUP_FILTERS), "pagination": True, "update": update, "updates": update}
    )


def _list_groups(catalog: CatalogView, request: CatalogRequest) -> Response:
    def show(xid: Xid) -> JSONObject:
        return definitions.render_group(catalog.group(xid))

    bodies, links = list_members(request, catalog, GROUPS, show, definitions.GROUP_FILTERS)
    return json_response(bodies, headers=links)


def _show_group(catalog: CatalogView, request: CatalogRequest) -> Response:
    xid = request.path.xid
    body = definitions.render_group(catalog.group(xid))
    if request.values(_WHOLE_PARAMETER):
        bodies = (
            _render_whole(catalog, body["format"], message_xid) for message_xid in catalog.members(xid / "messages")
        )
        body[_WHOLE_PARAMETER] = {definition["id"]: definition for definition in bodies}
    return json_response(body)


def _render_whole(catalog: CatalogView, form: str, xid: Xid) -> JSONObject:
    """Return a definition with all its versions embedded."""
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
    """Write the group, then the versions that it embeds, each as if it were posted (C-31)."""
    writing.put_group(xid, group.document, fixed=True)
    _add(writing, request, xid, group.posted)
    body = definitions.render_group(writing.catalog.group(xid))
    return json_response(body, status=status, headers=(("Location", request.url(xid)),))


def _list_definitions(catalog: CatalogView, request: CatalogRequest) -> Response:
    form = catalog.format(request.path.group)

    def show(xid: Xid) -> JSONObject:
        latest = catalog.latest(xid)
        return definitions.render_definition(form, latest, latest)

    bodies, links = list_members(request, catalog, request.path.xid, show, (*definitions.DEFINITION_FILTERS, _NESTED))
    return json_response(bodies, headers=links)


def _post(writing: CatalogWriter, request: CatalogRequest) -> Response:
    """Add a version, or the versions in a document with several. The response contains them as stored (C-9)."""
    form = writing.catalog.format(request.path.group)
    reading = CatalogReader()
    posted = reading.read_definition(request.json, form)
    refuse(request.path.text, reading.findings)
    written = _add(writing, request, request.path.group, posted)
    bodies = [_render_version(writing.catalog, form, xid) for xid in written]
    location = (("Location", request.url(written[-1])),)
    return json_response(
        bodies[0] if len(bodies) == 1 else definitions.build_embedded_definition(bodies), headers=location
    )


def _add(writing: CatalogWriter, request: CatalogRequest, group: Xid, posted: Sequence[PostedVersion]) -> list[Xid]:
    """Add versions in their order, all or none. Raises ``bad_request`` with all findings, and ``Conflict``."""
    catalog = writing.catalog
    form = catalog.format(group)
    for version in posted:
        xid = group / "messages" / entity_id(version.id)
        before = catalog.find_latest(xid) if catalog.view.exists(xid) else None
        if before is not None:
            check_type(xid, form, version, before)
            check_authority(xid, version, before)
    there = {entity_id(version.id) for version in posted} | _find_related(catalog, group, posted)
    refuse(
        request.path.text,
        (
            fault
            for version in posted
            for findings in (
                definitions.validate_definition(form, version),
                definitions.validate_strictly(version),
                definitions.validate_relations(version, there),
            )
            for fault in findings
        ),
    )
    return [writing.add(group, version).xid for version in posted]


def _find_related(catalog: CatalogView, group: Xid, posted: Sequence[PostedVersion]) -> set[str]:
    """Return the related definitions that the group has."""
    names = {str(version.document.get("relatedto") or "") for version in posted} - {""}
    return {related for related in map(entity_id, names) if catalog.view.exists(group / "messages" / related)}


def _list_versions(catalog: CatalogView, request: CatalogRequest) -> Response:
    xid = request.path.xid.owner
    form, versions = catalog.format(request.path.group), catalog.versions(xid)
    return json_response([definitions.render_definition(form, versions[0], version) for version in reversed(versions)])


def _show_latest(catalog: CatalogView, request: CatalogRequest) -> Response:
    latest = catalog.latest(request.path.xid)
    return json_response(definitions.render_definition(catalog.format(request.path.group), latest, latest))


def _show_version(catalog: CatalogView, request: CatalogRequest) -> Response:
    return json_response(_render_version(catalog, catalog.format(request.path.group), request.path.xid))


def _show_by_uri(catalog: CatalogView, request: CatalogRequest) -> Response:
    xid = lookup(catalog, request)
    return json_response(_render_version(catalog, catalog.format(Xid(xid.parts[:2])), xid))


def _render_version(catalog: CatalogView, form: str, xid: Xid) -> JSONObject:
    version = catalog.version(xid)
    return definitions.render_definition(form, catalog.latest(xid.resource), version)


ROUTES: Final[Routes] = {
    CATALOG: CncfRoute(read=_list_groups, writes={"POST": _post_group}),
    GROUP: CncfRoute(read=_show_group, writes={"DELETE": delete, "PUT": _put_group}),
    DEFINITIONS: CncfRoute(read=_list_definitions, writes={"DELETE": delete, "POST": _post}),
    DEFINITION: CncfRoute(read=_show_latest, writes={"DELETE": delete}),
    VERSIONS: CncfRoute(read=_list_versions),
    VERSION: CncfRoute(read=_show_version, writes={"DELETE": delete}),
    LOOKUP: CncfRoute(read=_show_by_uri),
}

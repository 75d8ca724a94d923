"""The operations of 0.1: everything in JSON, definitions with what is common to their versions (C-27 to C-38)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from signalbook.api.answers import Answer, json_answer
from signalbook.api.drafts.door import is_mutable
from signalbook.api.messagecatalog.catalog import Catalog
from signalbook.api.messagecatalog.dialect import Dialect, delete, lookup
from signalbook.api.messagecatalog.first import check_group
from signalbook.api.messagecatalog.listing import listed
from signalbook.api.messagecatalog.paths import GROUPS, Place
from signalbook.api.messagecatalog.requests import Request
from signalbook.api.messagecatalog.writing import Writing, check_authority, check_type, refuse
from signalbook.api.problems import Conflict
from signalbook.cncf.ids import draft_id, entity_id
from signalbook.cncf.messagecatalog import definitions, documents
from signalbook.cncf.messagecatalog.definitions import Posted
from signalbook.cncf.messagecatalog.documents import CatalogReader
from signalbook.values import JSONObject
from signalbook.xid import Xid

_WHOLE: Final = "definitions"
"""The query parameter that asks for a group with all its definitions, as a document (C-1)."""
_NESTED: Final = "definition.*"


def _features(catalog: Catalog, _: Request) -> Answer:
    """What the catalog can do for this client (C-27)."""
    update = is_mutable(catalog.view)
    return json_answer(
        {"filterattributes": list(definitions.GROUP_FILTERS), "pagination": True, "update": update, "updates": update}
    )


def _groups(catalog: Catalog, request: Request) -> Answer:
    def show(xid: Xid) -> JSONObject:
        return definitions.render_group(catalog.group(xid))

    found, links = listed(request, catalog, GROUPS, show, definitions.GROUP_FILTERS)
    return json_answer(found, headers=links)


def _group(catalog: Catalog, request: Request) -> Answer:
    xid = request.path.xid
    body = definitions.render_group(catalog.group(xid))
    if request.values(_WHOLE):
        found = (_whole(catalog, body["format"], each) for each in catalog.members(xid / "messages"))
        body[_WHOLE] = {definition["id"]: definition for definition in found}
    return json_answer(body)


def _whole(catalog: Catalog, form: str, xid: Xid) -> JSONObject:
    """A definition with all its versions embedded."""
    versions = catalog.versions(xid)
    return definitions.embedded_definition(
        [definitions.render_definition(form, versions[0], version) for version in reversed(versions)]
    )


def _post_group(writing: Writing, request: Request) -> Answer:
    group = _read_group(request)
    xid = GROUPS / entity_id(group.id)
    if writing.catalog.view.exists(xid):
        raise Conflict(str(xid), f"there is a group {group.id} already")
    return _write_group(writing, request, xid, group, status=201)


def _put_group(writing: Writing, request: Request) -> Answer:
    check_group(request)
    return _write_group(writing, request, request.path.xid, _read_group(request), status=200)


def _read_group(request: Request) -> documents.CatalogGroup:
    reading = CatalogReader()
    group = reading.group({"id": draft_id(request.path.xid.id), **request.json} if request.path.id else request.json)
    refuse(request.path.text, reading.faults)
    return group


def _write_group(writing: Writing, request: Request, xid: Xid, group: documents.CatalogGroup, *, status: int) -> Answer:
    """The group first, then what it embeds, each version as if it were posted (C-31)."""
    writing.put_group(xid, group.document, fixed=True)
    _add(writing, request, xid, group.posted)
    body = definitions.render_group(writing.catalog.group(xid))
    return json_answer(body, status=status, headers=(("Location", request.url(xid)),))


def _definitions(catalog: Catalog, request: Request) -> Answer:
    form = catalog.format(request.path.group)

    def show(xid: Xid) -> JSONObject:
        latest = catalog.latest(xid)
        return definitions.render_definition(form, latest, latest)

    found, links = listed(request, catalog, request.path.xid, show, (*definitions.DEFINITION_FILTERS, _NESTED))
    return json_answer(found, headers=links)


def _post(writing: Writing, request: Request) -> Answer:
    """A version, or a document with several; answered with what is stored of it (C-9)."""
    form = writing.catalog.format(request.path.group)
    reading = CatalogReader()
    posted = reading.definition(request.json, form)
    refuse(request.path.text, reading.faults)
    written = _add(writing, request, request.path.group, posted)
    shown = [_shown(writing.catalog, form, xid) for xid in written]
    location = (("Location", request.url(written[-1])),)
    return json_answer(shown[0] if len(shown) == 1 else definitions.embedded_definition(shown), headers=location)


def _add(writing: Writing, request: Request, group: Xid, posted: Sequence[Posted]) -> list[Xid]:
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
                definitions.definition_findings(form, each),
                definitions.strict_findings(each),
                definitions.relation_findings(each, there),
            )
            for fault in found
        ),
    )
    return [writing.add(group, each).xid for each in posted]


def _related(catalog: Catalog, group: Xid, posted: Sequence[Posted]) -> set[str]:
    """Which of those that are related to the group has."""
    named = {str(each.document.get("relatedto") or "") for each in posted} - {""}
    return {each for each in map(entity_id, named) if catalog.view.exists(group / "messages" / each)}


def _versions(catalog: Catalog, request: Request) -> Answer:
    xid = request.path.xid.owner
    form, versions = catalog.format(request.path.group), catalog.versions(xid)
    return json_answer([definitions.render_definition(form, versions[0], version) for version in reversed(versions)])


def _latest(catalog: Catalog, request: Request) -> Answer:
    latest = catalog.latest(request.path.xid)
    return json_answer(definitions.render_definition(catalog.format(request.path.group), latest, latest))


def _version(catalog: Catalog, request: Request) -> Answer:
    return json_answer(_shown(catalog, catalog.format(request.path.group), request.path.xid))


def _looked_up(catalog: Catalog, request: Request) -> Answer:
    xid = lookup(catalog, request)
    return json_answer(_shown(catalog, catalog.format(Xid(xid.parts[:2])), xid))


def _shown(catalog: Catalog, form: str, xid: Xid) -> JSONObject:
    version = catalog.version(xid)
    return definitions.render_definition(form, catalog.latest(xid.resource), version)


DIALECT: Final = Dialect(
    reads={
        Place.CATALOG: _groups,
        Place.GROUP: _group,
        Place.DEFINITIONS: _definitions,
        Place.DEFINITION: _latest,
        Place.VERSIONS: _versions,
        Place.VERSION: _version,
        Place.LOOKUP: _looked_up,
    },
    writes={
        ("POST", Place.CATALOG): _post_group,
        ("PUT", Place.GROUP): _put_group,
        ("DELETE", Place.GROUP): delete,
        ("POST", Place.DEFINITIONS): _post,
        ("DELETE", Place.DEFINITIONS): delete,
        ("DELETE", Place.DEFINITION): delete,
        ("DELETE", Place.VERSION): delete,
    },
    features=_features,
)

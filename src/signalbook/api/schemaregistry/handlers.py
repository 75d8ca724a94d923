"""What the door does with a request: parse, run, render. A function for each operation (domain.md A-33 to A-54)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from signalbook.api.answers import Answer
from signalbook.api.problems import Conflict
from signalbook.api.schemaregistry import rendering
from signalbook.api.schemaregistry.requests import Place, Request
from signalbook.cncf import schemaregistry as draft
from signalbook.cncf.schemaregistry import draft_format
from signalbook.engine import numbers, uris
from signalbook.engine.commands import Command, DocumentBody, Method
from signalbook.engine.engine import Session
from signalbook.engine.view import View, ViewOptions
from signalbook.errors import RegistryError
from signalbook.values import JSONObject, digest
from signalbook.xid import ROOT, Xid

Read = Callable[[View, Request], Answer]
Write = Callable[[Session, Request], Answer]


def groups(view: View, request: Request) -> Answer:
    """The ids of all groups (A-33)."""
    return _listed(view, request, ROOT)


def group(view: View, request: Request) -> Answer:
    """A group (A-34)."""
    return rendering.shown(draft.render_group(rendering.group(view, request, request.target)), request)


def schemas(view: View, request: Request) -> Answer:
    """The ids of all schemas of a group (A-37)."""
    return _listed(view, request, request.target.owner)


def schema(view: View, request: Request) -> Answer:
    """The latest version of a schema (A-40, A-18)."""
    return rendering.document(view, request, _latest(view, request.target))


def versions(view: View, request: Request) -> Answer:
    """The numbers of a schema's versions (A-42)."""
    return rendering.shown(numbers.listed(view, request.target.owner), request)


def version(view: View, request: Request) -> Answer:
    """A version of a schema (A-43)."""
    return rendering.document(view, request, request.target)


def lookup(view: View, request: Request) -> Answer:
    """The version with a URI (A-43b, A-54)."""
    found = uris.find(view, request.uri, request.places)
    if found is None or draft.number_of(found) is None:
        raise RegistryError("not_found", subject=request.uri)
    return rendering.document(view, request, found)


def put_group(session: Session, request: Request) -> Answer:
    """Create or update a group (A-35, A-44)."""
    body, xid = request.json, request.target
    faults = draft.group_faults(body, request.path.id)
    if faults:
        detail = "this is no schema group"
        raise RegistryError("bad_request", subject=request.path.text, error_detail=detail, faults=faults)
    before = rendering.group(session.view, request, xid) if session.view.exists(xid) else {}
    _check_put(before, body, request)
    session.execute(Command(method=Method.PATCH, target=xid, body=draft.group_attributes(body, before)))
    made = draft.render_group(rendering.group(session.view, request, xid))
    location = (("Location", request.url(xid)),)
    return rendering.shown(made, request, status=200 if before else 201, headers=location)


def post_document(session: Session, request: Request) -> Answer:
    """Register a document: as the first version of a schema, as its next one, or as one that has it (A-39, A-45)."""
    given, xid = request.given, request.target
    if not request.body:
        raise RegistryError("missing_body", subject=request.path.text)
    group = rendering.group(session.view, request, xid)
    latest = _latest_attributes(session.view, xid)
    _check_format(given, group, latest, request)
    attributes = draft.version_attributes(given, group, latest, request.body)
    known = _known(session.view, request, attributes)
    if known is None:
        known = _register(session, request, attributes)
    return rendering.registered(session.view, request, known)


def delete(session: Session, request: Request) -> Answer:
    """Delete what the path names: with all beneath it, of a collection all members (A-36, A-38, A-41, A-51)."""
    session.execute(Command(method=Method.DELETE, target=request.target, base_url=request.root))
    return Answer(status=204)


READS: Final[Mapping[Place, Read]] = {
    Place.LOOKUP: lookup,
    Place.GROUPS: groups,
    Place.GROUP: group,
    Place.SCHEMAS: schemas,
    Place.SCHEMA: schema,
    Place.VERSIONS: versions,
    Place.VERSION: version,
}
WRITES: Final[Mapping[tuple[Place, str], Write]] = {
    (Place.GROUP, "PUT"): put_group,
    (Place.GROUP, "DELETE"): delete,
    (Place.SCHEMAS, "DELETE"): delete,
    (Place.SCHEMA, "POST"): post_document,
    (Place.SCHEMA, "DELETE"): delete,
    (Place.VERSION, "DELETE"): delete,
}


def check(view: View, request: Request) -> None:
    """The registry has schemas, else ``api_not_found``: its model may have none."""
    groups = view.model.groups.get("schemagroups")
    kind = groups.resources.get("schemas") if groups is not None else None
    if kind is None or not kind.hasdocument:
        detail = "the model of this registry has no schemas"
        raise RegistryError("api_not_found", subject=request.path.text, detail=detail)


def _listed(view: View, request: Request, owner: Xid) -> Answer:
    row = view.reader.get(owner)
    if row is None:
        raise RegistryError("not_found", subject=request.path.text)
    return rendering.ids((each.xid for each in view.reader.children([row.key], request.target.parts[-1])), request)


def _latest(view: View, schema: Xid) -> Xid:
    number = numbers.latest(view, schema)
    if number is None:
        raise RegistryError("not_found", subject=str(schema), detail="none of its versions has a number")
    return schema / "versions" / str(number)


def _latest_attributes(view: View, schema: Xid) -> JSONObject | None:
    """What the latest version of a schema says, be it one that is not seen here; None if there is no schema."""
    if not view.exists(schema):
        return None
    number = numbers.latest(view, schema)
    return view.entity(schema if number is None else schema / "versions" / str(number), ViewOptions())


def _check_put(before: JSONObject, body: JSONObject, request: Request) -> None:
    """Raises ``Conflict`` if the group is there already and may not be put like this (A-4, A-44)."""
    if before and request.settings.strict_openapi == "on":
        raise Conflict(request.path.text, "the group exists already (setting strict_openapi)")
    stated = draft_format(before)
    if before and before["schemascount"] and body.get("format") != stated:
        detail = f"the format of the group stays {stated or 'open'} as long as it has schemas"
        raise Conflict(request.path.text, detail)


def _check_format(given: draft.Given, group: JSONObject, latest: JSONObject | None, request: Request) -> None:
    """Raises ``bad_request`` (A-15, A-16), and ``Conflict`` for another format than that of the schema."""
    fault = draft.format_fault(given, group, latest)
    if fault is not None:
        detail = "the format is not right"
        raise RegistryError("bad_request", subject=request.path.text, error_detail=detail, faults=[fault])
    other = draft.other_format(given, latest)
    if other is not None:
        raise Conflict(request.path.text, f'the schema has the format "{other}", and all its versions do')


def _known(view: View, request: Request, attributes: JSONObject) -> Xid | None:
    """The version that holds the document already, if one does (A-45). An id of one's own makes it another version.

    Raises ``Conflict`` if that id, and so the URI, is taken by another document (A-21).
    """
    contenttype = request.headers.get("content-type")
    if "globaluri" not in attributes:
        holder = numbers.holder(view, request.target, request.body, contenttype)
        return None if holder is None else holder.xid
    uri = draft.version_uri(attributes, request.target, request.base)
    taken = uris.find(view, uri, request.places)
    if taken is None:
        return None
    row = view.reader.get(taken)
    same = row is not None and row.document == digest(request.body) and row.attributes.get("contenttype") == contenttype
    if same and taken.resource == request.target and draft.number_of(taken) is not None:
        return taken
    raise Conflict(request.path.text, f"the URI {uri} is that of another version already: {taken}")


def _register(session: Session, request: Request, attributes: JSONObject) -> Xid:
    """Store the document as a new version. Raises ``Conflict`` if there is no number left for it."""
    content = DocumentBody(content=request.body, contenttype=request.headers.get("content-type"), attributes=attributes)
    command = Command(method=Method.POST, target=request.target, document=content, base_url=request.root)
    made = session.execute(command).target
    if draft.number_of(made) is None:
        raise Conflict(request.path.text, "the schema has had all the versions that can be counted")
    return made

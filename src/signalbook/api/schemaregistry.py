"""The API of the Schema Registry draft 0.2 (A.5, A-33 to A-54)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from starlette.routing import Route
from starlette.types import Scope

from signalbook.access.base import Action, Forbidden
from signalbook.api.cncf import CncfAPI, CncfPath, CncfRequest, CncfRoute, find_route, path_below
from signalbook.api.kernel.errors import Conflict
from signalbook.api.kernel.requests import decode_header
from signalbook.api.kernel.responses import OCTETS, UNTRUSTED, Header, Response, encode, json_response, media_type
from signalbook.api.kernel.routing import Kernel
from signalbook.cncf import schemaregistry as draft
from signalbook.cncf.ids import MOUNTS, draft_id, entity_id, is_segment, schema_path
from signalbook.cncf.lookup import (
    UriBases,
    find_by_uri,
    find_latest_number,
    find_version_with_document,
    list_version_numbers,
)
from signalbook.cncf.schemaregistry import (
    ATTRIBUTES,
    GROUPS,
    Stated,
    build_version_headers,
    draft_format,
    validate_metadata,
    version_id,
    version_uri,
)
from signalbook.engine.engine import Session
from signalbook.engine.read.view import View, ViewOptions
from signalbook.engine.write.commands import Command, DocumentBody, Method
from signalbook.errors import RegistryError
from signalbook.settings import SettingError
from signalbook.values import JSON, JSONObject, digest
from signalbook.xid import Xid, XidError, check_id, version_number

(MOUNT,) = MOUNTS["schemagroups"]
_SHOWN_LENGTH: Final = 200
_URI_SAFE: Final = "!#$%&'()*+,/:;=?@[]~"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPath(CncfPath):
    """A path of this API. ``target`` is the xid for the path, or None if no entity can have this path.

    ``fault`` says why ``target`` is None. It is reported only if the path supports the request's method.
    """

    target: Xid | None = GROUPS
    fault: str = ""


def parse_path(text: str) -> SchemaPath:
    """Parse the percent-encoded path ``text``. Raises ``api_not_found``."""
    template, ids = find_route(ROUTES, text)
    # An empty id: the path has two slashes in a row.
    if not all(ids):
        raise RegistryError("api_not_found", subject=text)
    path_id = ids[:2][-1] if ids else ""
    try:
        target = _parse_target(tuple(text.removesuffix("/").split("/")[1:]))
    except XidError as error:
        return SchemaPath(template=template, text=text, id=path_id, target=None, fault=str(error))
    return SchemaPath(template=template, text=text, id=path_id, target=target)


def _parse_target(parts: tuple[str, ...]) -> Xid:
    """Return the xid of a path. Raises ``XidError`` if no entity can have this path."""
    xid_parts: list[str] = []
    for position, part in enumerate(parts):
        if position in (1, 3):
            if not is_segment(part):
                raise XidError("an id is a segment of a path without colon (RFC3986 segment-nz-nc)")
            part = check_id(entity_id(part))
        elif position == 5 and version_number(part) is None:
            raise XidError("a version is a number from 1 on, without leading zeros")
        xid_parts.append(part)
    return Xid(tuple(xid_parts))


@dataclass(frozen=True, kw_only=True)
class SchemaRequest(CncfRequest[SchemaPath]):
    """A request to the API."""

    def prepare(self) -> None:
        """Decode the body of a group. The body of a POST is a document, and is not decoded."""
        if self.method == "PUT":
            super().prepare()

    @property
    def target(self) -> Xid:
        """The xid of the path. Raises ``not_found``, and ``malformed_id`` for a path to be created."""
        if self.path.target is not None:
            return self.path.target
        if self.method in ("PUT", "POST"):
            quoted_id = self.path.id[:_SHOWN_LENGTH]
            raise RegistryError("malformed_id", subject=self.path.text, id=quoted_id, error_detail=self.path.fault)
        raise RegistryError("not_found", subject=self.path.text, detail=self.path.fault)

    @property
    def places(self) -> UriBases:
        """The base URLs from which the URIs of schema versions are built."""
        return UriBases(groups="schemagroups", root=self.root)

    def url(self, xid: Xid) -> str:
        """Return the URL of an entity in this API."""
        return f"{self.base}{schema_path(xid)}"

    @property
    def given(self) -> Stated:
        """The metadata of the posted document, from the query or from headers (A-47). Raises ``bad_request``."""
        metadata = Stated(**{name: self._read_metadata(name) for name in ATTRIBUTES})
        faults = validate_metadata(metadata)
        if faults:
            detail = "what came beside the document cannot be used"
            raise RegistryError("bad_request", subject=self.path.text, error_detail=detail, faults=faults)
        return metadata

    def _read_metadata(self, name: str) -> str:
        """Return an attribute from the query or a header, or "". Raises ``bad_request`` for contradictory values."""
        values = {value for key, value in self.query if key == name}
        header = f"schema-{name}"
        if header in self.headers:
            values.add(self._decode_header(header, name))
        if len(values) > 1:
            raise self.wrong(f'"{name}" is given more than once, and differently (query, header {header})')
        if name == "format" and values == {""}:
            raise self.wrong('"format" needs to be a name, or to be left out')
        return values.pop() if values else ""

    def _decode_header(self, header: str, name: str) -> str:
        value = self.headers[header]
        if name in ("id", "authority"):  # URIs are ASCII, and their percent-encoding is kept
            return value.strip(" \t")
        return decode_header(value, header, subject=self.subject)


def build_limited_json(
    value: JSON, request: SchemaRequest, *, status: int = 200, headers: tuple[Header, ...] = ()
) -> Response:
    """Return a group or a list as JSON."""
    return check_size(json_response(value, status=status, headers=headers), request)


def build_version_response(view: View, request: SchemaRequest, xid: Xid) -> Response:
    """Return a version: its document with the attributes as headers (A-46, A-48, A-49), or a redirect to its URL."""
    document = view.load_document(xid, ViewOptions(base_url=request.root))
    headers = (
        ("Content-Type", media_type(document.contenttype) or OCTETS),
        *list_version_headers(request, xid, document.attributes, group_of(view, request, xid)),
        *UNTRUSTED,
    )
    if document.url is not None:
        # The second header is the Location of the version itself: that of the document takes its place.
        location = quote(document.url, safe=_URI_SAFE)
        return Response(status=303, headers=(("Location", location), *headers[:1], *headers[2:]))
    return check_size(Response(headers=headers, body=document.content), request)


def group_of(view: View, request: SchemaRequest, xid: Xid) -> JSONObject:
    """Return the group of a version or schema in xRegistry's form. Raises ``not_found``."""
    return view.render_entity(Xid(xid.parts[:2]), ViewOptions(base_url=request.root))


def list_version_headers(
    request: SchemaRequest, xid: Xid, version: Mapping[str, JSON], group: Mapping[str, JSON]
) -> Iterator[Header]:
    """Yield the headers of a version (A-46, A-48), its URL first."""
    uri = version_uri(version, xid, request.base)
    yield "Location", request.url(xid)
    yield "Schema-Id", _encode_uri(version_id(version, xid))
    yield "Schema-Id-Location", f"{request.base}/schema?uri={quote(uri, safe='')}"
    yield "Schema-Version", str(version_number(xid.version_id))
    for name, value in build_version_headers(version, group):
        yield name, _encode_uri(value) if name == "Schema-Authority" else encode(value)


def check_size(response: Response, request: SchemaRequest) -> Response:
    """Return ``response``. Raises ``too_large`` if it is too large to be sent."""
    size, limit = len(response.body), request.settings.max_response_bytes
    if size <= limit:
        return response
    detail = f"it has {size} bytes and {limit} are allowed (setting max_response_bytes)"
    raise RegistryError("too_large", subject=request.path.text, detail=detail)


def _encode_uri(text: str) -> str:
    """Return a URI as a header value. Characters that are invalid in a URI, stored by another API, are encoded."""
    return quote(text, safe=_URI_SAFE)


def list_groups(view: View, request: SchemaRequest) -> Response:
    """Return the ids of all groups (A-33). Groups that the caller cannot read are included if it may list ids (A-9)."""
    return build_limited_json([draft_id(group_id) for group_id in view.list_group_ids(request.target)], request)


def show_group(view: View, request: SchemaRequest) -> Response:
    """Return a group (A-34). If the caller cannot read it, return only its id (A-10)."""
    if not view.access.is_readable(request.target) and view.can_see_group_id(request.target):
        return build_limited_json({"id": draft_id(request.target.id)}, request)
    return build_limited_json(draft.render_group(group_of(view, request, request.target)), request)


def list_schemas(view: View, request: SchemaRequest) -> Response:
    """Return the ids of all schemas of a group (A-37)."""
    row = view.reader.get(request.target.owner)
    if row is None:
        raise RegistryError("not_found", subject=request.path.text)
    members = view.reader.children([row.key], request.target.parts[-1])
    return build_limited_json([draft_id(schema.xid.id) for schema in members], request)


def show_latest(view: View, request: SchemaRequest) -> Response:
    """Return the latest version of a schema (A-40, A-18)."""
    return build_version_response(view, request, _find_latest(view, request.target))


def list_versions(view: View, request: SchemaRequest) -> Response:
    """Return the numbers of a schema's versions (A-42)."""
    return build_limited_json(list_version_numbers(view, request.target.owner), request)


def show_version(view: View, request: SchemaRequest) -> Response:
    """Return a version of a schema (A-43)."""
    return build_version_response(view, request, request.target)


def lookup(view: View, request: SchemaRequest) -> Response:
    """Return the version with a URI (A-43b, A-54)."""
    xid = find_by_uri(view, request.uri, request.places)
    if xid is None or version_number(xid.version_id) is None:
        raise RegistryError("not_found", subject=request.uri)
    return build_version_response(view, request, xid)


def put_group(session: Session, request: SchemaRequest) -> Response:
    """Create or update a group (A-35, A-44)."""
    body, xid = request.json, request.target
    faults = draft.validate_group(body, request.path.id)
    if faults:
        detail = "this is no schema group"
        raise RegistryError("bad_request", subject=request.path.text, error_detail=detail, faults=faults)
    before = group_of(session.view, request, xid) if session.view.exists(xid) else {}
    _check_put(before, body, request)
    session.execute(Command(method=Method.PATCH, target=xid, body=draft.group_attributes(body, before)))
    group = draft.render_group(group_of(session.view, request, xid))
    location = (("Location", request.url(xid)),)
    return build_limited_json(group, request, status=200 if before else 201, headers=location)


def post_document(session: Session, request: SchemaRequest) -> Response:
    """Register a document: as the first version of a schema, as its next version, or as the version that already has it
    (A-39, A-45)."""
    metadata, xid = request.given, request.target
    if not request.body:
        raise RegistryError("missing_body", subject=request.path.text)
    group = group_of(session.view, request, xid)
    latest = _load_latest_attributes(session.view, xid)
    _check_format(metadata, group, latest, request)
    attributes = draft.build_version_attributes(metadata, group, latest, request.body)
    version_xid = _find_known(session.view, request, metadata, attributes)
    if version_xid is None:
        version_xid = _register(session, request, attributes)
    version = session.view.render_entity(version_xid, ViewOptions(base_url=request.root))
    headers = tuple(list_version_headers(request, version_xid, version, group))
    return json_response({"id": version_id(version, version_xid)}, headers=headers)


def delete(session: Session, request: SchemaRequest) -> Response:
    """Delete the entity in the path with everything below it; for a collection, all members (A-36, A-38,
    A-41, A-51)."""
    session.execute(Command(method=Method.DELETE, target=request.target, base_url=request.root))
    return Response(status=204)


def _find_latest(view: View, schema: Xid) -> Xid:
    number = find_latest_number(view, schema)
    if number is None:
        raise RegistryError("not_found", subject=str(schema), detail="none of its versions has a number")
    return schema / "versions" / str(number)


def _load_latest_attributes(view: View, schema: Xid) -> JSONObject | None:
    """Return the attributes of a schema's latest version, or None if the schema does not exist.

    If no version has a number, so that this API shows none, return those of the default Version.
    """
    if not view.exists(schema):
        return None
    number = find_latest_number(view, schema)
    return view.render_entity(schema if number is None else schema / "versions" / str(number), ViewOptions())


def _check_put(before: JSONObject, body: JSONObject, request: SchemaRequest) -> None:
    """Raise ``Conflict`` if the group exists and may not be replaced by ``body`` (A-4, A-44)."""
    if before and request.settings.strict_openapi == "on":
        raise Conflict(request.path.text, "the group exists already (setting strict_openapi)")
    stated = draft_format(before)
    if before and before["schemascount"] and body.get("format") != stated:
        detail = f"the format of the group stays {stated or 'open'} as long as it has schemas"
        raise Conflict(request.path.text, detail)


def _check_format(metadata: draft.Stated, group: JSONObject, latest: JSONObject | None, request: SchemaRequest) -> None:
    """Raise ``bad_request`` for an invalid format (A-15, A-16), and ``Conflict`` for a format other than
    the schema's."""
    fault = draft.validate_format(metadata, group, latest)
    if fault is not None:
        detail = "the format is not right"
        raise RegistryError("bad_request", subject=request.path.text, error_detail=detail, faults=[fault])
    other = draft.other_format(metadata, latest)
    if other is not None:
        raise Conflict(request.path.text, f'the schema has the format "{other}", and all its versions do')


def _find_known(view: View, request: SchemaRequest, metadata: Stated, attributes: JSONObject) -> Xid | None:
    """Return the version that already holds the document, or None (A-45).

    Another id, description or authority makes a new version, because it would be lost otherwise. Raises ``Conflict`` if
    the id, and so the URI, belongs to another document (A-21).
    """
    beside = {name: value for name in ("description", "authority") if (value := getattr(metadata, name))}
    texts: JSONObject = {"contenttype": request.headers.get("content-type"), **beside}
    # Without an explicit id, the same bytes are the same version, however often they are posted.
    if "globaluri" not in attributes:
        holder = find_version_with_document(view, request.target, request.body, texts)
        return None if holder is None else holder.xid
    uri = draft.version_uri(attributes, request.target, request.base)
    uri_xid = find_by_uri(view, uri, request.places)
    if uri_xid is None:
        return None
    row = view.reader.get(uri_xid)
    same = row is not None and row.document == digest(request.body)
    same = same and row is not None and all(row.attributes.get(name) == value for name, value in texts.items())
    if same and uri_xid.resource == request.target and version_number(uri_xid.version_id) is not None:
        return uri_xid
    raise Conflict(request.path.text, f"the URI {uri} is that of another version already: {uri_xid}")


def _register(session: Session, request: SchemaRequest, attributes: JSONObject) -> Xid:
    """Store the document as a new version. Raises ``Conflict`` if the schema has no version number left."""
    content = DocumentBody(content=request.body, contenttype=request.headers.get("content-type"), attributes=attributes)
    target, root = request.target, request.root
    command = Command(method=Method.POST, target=target, document=content, base_url=root, counts_on=True)
    version = session.execute(command).target
    if version_number(version.version_id) is None:
        raise Conflict(request.path.text, "the schema has had all the versions that can be counted")
    return version


Read = Callable[[View, SchemaRequest], Response]
Write = Callable[[Session, SchemaRequest], Response]

ROUTES: Final[Mapping[str, CncfRoute[Read, Write]]] = {
    "/schema": CncfRoute(read=lookup),
    "/schemagroups": CncfRoute(read=list_groups),
    "/schemagroups/{}": CncfRoute(read=show_group, writes={"PUT": put_group, "DELETE": delete}),
    "/schemagroups/{}/schemas": CncfRoute(read=list_schemas, writes={"DELETE": delete}),
    "/schemagroups/{}/schemas/{}": CncfRoute(read=show_latest, writes={"POST": post_document, "DELETE": delete}),
    "/schemagroups/{}/schemas/{}/versions": CncfRoute(read=list_versions),
    "/schemagroups/{}/schemas/{}/versions/{}": CncfRoute(read=show_version, writes={"DELETE": delete}),
}


def routes(kernel: Kernel) -> list[Route]:
    """Return the routes of the API. Raises ``SettingError`` for an invalid ``strict_openapi``."""
    if kernel.settings.strict_openapi not in ("off", "on"):
        raise SettingError(f"strict_openapi is off or on, not {kernel.settings.strict_openapi!r}")
    api = SchemaRegistryAPI(kernel)
    return [Route(MOUNT, api), Route(f"{MOUNT}/{{path:any}}", api)]


class SchemaRegistryAPI(CncfAPI[SchemaRequest]):
    """The Schema Registry API 0.2."""

    writes = frozenset(method for route in ROUTES.values() for method in route.writes)

    def request(self, scope: Scope, body: bytes) -> SchemaRequest:
        path = parse_path(path_below(scope, MOUNT))
        return SchemaRequest.of(scope, body, self.kernel.settings, path=path, mount=MOUNT)

    def subject(self, scope: Scope) -> str:
        return path_below(scope, MOUNT)

    def check_model(self, view: View, request: SchemaRequest) -> None:
        """Raise ``api_not_found`` if the registry's model has no schemas with documents."""
        groups = view.model.groups.get("schemagroups")
        kind = groups.resources.get("schemas") if groups is not None else None
        if kind is None or not kind.hasdocument:
            detail = "the model of this registry has no schemas"
            raise RegistryError("api_not_found", subject=request.path.text, detail=detail)

    def check(self, view: View, request: SchemaRequest) -> None:
        """Check as the other drafts do, and raise ``Forbidden`` below a visible group that the caller cannot read
        (A-10)."""
        super().check(view, request)
        parts = self.target(request).parts
        group = Xid(parts[:2])
        if len(parts) > len(group.parts) and not view.access.is_readable(group) and view.can_see_group_id(group):
            raise Forbidden(Action.READ, group)

    def methods(self, request: SchemaRequest, *, read_only: bool) -> tuple[str, ...]:
        writes = () if read_only else ROUTES[request.path.template].writes
        return ("GET", "HEAD", *writes, "OPTIONS")

    def target(self, request: SchemaRequest) -> Xid:
        return request.path.target or GROUPS

    def read(self, view: View, request: SchemaRequest) -> Response:
        return ROUTES[request.path.template].read(view, request)

    def write(self, session: Session, request: SchemaRequest) -> Response:
        return ROUTES[request.path.template].writes[request.method](session, request)

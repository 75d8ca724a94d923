"""The first Message Catalog draft: documents as they were sent, with their attributes in headers (B-17 to B-24)."""

from __future__ import annotations

from typing import Final

from signalbook.api.cncf import CncfRoute
from signalbook.api.kernel.requests import decode_header
from signalbook.api.kernel.responses import Header, Response, encode, json_response
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
    check_type,
    delete,
    lookup,
    refuse,
)
from signalbook.cncf.ids import draft_id, is_segment, message_path
from signalbook.cncf.messagecatalog import definitions, originals
from signalbook.cncf.messagecatalog.definitions import PostedVersion
from signalbook.cncf.messagecatalog.originals import KNOWN, Content
from signalbook.errors import RegistryError
from signalbook.values import JSONObject, dump_json
from signalbook.xid import Xid

PREFIX: Final = "MessageDefinition-"
_ATTRIBUTES: Final = {"id": "versionuri", "format": "format", "description": "description", "authority": "authority"}
"""The attributes that are sent in the query and in headers (A-47): the name there, and the name in the API 0.1."""
_URIS: Final = ("id", "authority")
"""The attributes that are URIs. In headers they are not percent-encoded again."""
_NO_TYPE: Final = "application/octet-stream"


def _list_groups(catalog: CatalogView, _: CatalogRequest) -> Response:
    return json_response([draft_id(xid.id) for xid in catalog.members(GROUPS)])


def _show_group(catalog: CatalogView, request: CatalogRequest) -> Response:
    return json_response(definitions.render_first_group(catalog.group(request.path.xid)))


def _put_group(writing: CatalogWriter, request: CatalogRequest) -> Response:
    check_group(request)
    written = writing.put_group(request.path.xid, request.json, fixed=False)
    headers: tuple[Header, ...] = (("Location", request.url(written.xid)),) if written.created else ()
    body = definitions.render_first_group(writing.catalog.group(written.xid))
    return json_response(body, status=201 if written.created else 200, headers=headers)


def check_group(request: CatalogRequest) -> None:
    """Check that the body of a PUT is a group with the path's id. Raises ``bad_request`` with all findings."""
    body, path_id = request.json, request.path.id
    if not is_segment(path_id):
        raise RegistryError("malformed_id", subject=request.path.text, id=path_id[:200], error_detail="it has a colon")
    if body.get("id", path_id) != path_id:
        detail = f"the id in the body is {str(body['id'])[:200]!r}, that of the path {path_id!r}"
        raise RegistryError("bad_request", subject=request.path.text, error_detail=detail)
    refuse(request.path.text, definitions.validate_group(body))


def _list_definitions(catalog: CatalogView, request: CatalogRequest) -> Response:
    catalog.group(request.path.group)
    return json_response([draft_id(xid.id) for xid in catalog.members(request.path.xid)])


def _list_versions(catalog: CatalogView, request: CatalogRequest) -> Response:
    return json_response(catalog.numbers(request.path.xid.owner))


def _show_latest(catalog: CatalogView, request: CatalogRequest) -> Response:
    return _build_document_response(catalog, request, catalog.latest(request.path.xid))


def _show_version(catalog: CatalogView, request: CatalogRequest) -> Response:
    return _build_document_response(catalog, request, catalog.version(request.path.xid))


def _show_by_uri(catalog: CatalogView, request: CatalogRequest) -> Response:
    return _build_document_response(catalog, request, catalog.version(lookup(catalog, request)))


def _build_document_response(catalog: CatalogView, request: CatalogRequest, version: JSONObject) -> Response:
    """Return a document as it was sent, with its attributes as headers (A-48, A-49)."""
    xid = Xid.parse(version["xid"]).resource / "versions" / version["versionid"]
    form = catalog.format(Xid(xid.parts[:2]))
    content = originals.render_content(form, draft_id(xid.resource_id), int(xid.version_id), version)
    headers = (("Content-Type", content.contenttype or _NO_TYPE), *_build_version_headers(request, xid, form, version))
    return Response(headers=headers, body=content.body)


def _build_version_headers(request: CatalogRequest, xid: Xid, format: str, version: JSONObject) -> tuple[Header, ...]:
    """Return the headers that describe a version. URIs are sent as they are, texts are percent-encoded."""
    location = request.url(xid)
    values = {
        "Id": _find_id(xid, version),
        "Id-Location": location,
        "Version": version["versionid"],
        "Format": encode(format),
        "Description": encode(str(version.get("description") or "")),
        "Authority": version.get("authority"),
    }
    return (("Location", location), *((f"{PREFIX}{name}", value) for name, value in values.items() if value))


def _post(writing: CatalogWriter, request: CatalogRequest) -> Response:
    posted = _read_posted(writing.catalog, request)
    written = writing.add(request.path.group, posted)
    version = writing.catalog.version(written.xid)
    headers = _build_version_headers(request, written.xid, writing.catalog.format(request.path.group), version)
    return Response(
        headers=(("Content-Type", "application/json"), *headers),
        body=dump_json({"id": _find_id(written.xid, version)}) + b"\n",
        is_json=True,
    )


def _read_posted(catalog: CatalogView, request: CatalogRequest) -> PostedVersion:
    """Return the document in the body with its attributes. Raises ``bad_request`` and ``Conflict``."""
    path, form = request.path, catalog.format(request.path.group)
    definition_id = draft_id(path.xid.id)
    if not is_segment(path.id):
        raise RegistryError("malformed_id", subject=path.text, id=path.id[:200], error_detail="it has a colon")
    attributes = _read_attributes(request)
    document = request.read_json() if form in KNOWN else None
    content = Content(body=request.body, contenttype=_read_content_type(request))
    posted = definitions.read_first_draft(definition_id, form, document, content, attributes)
    before = catalog.find_latest(path.xid) if catalog.view.exists(path.xid) else None
    if before is not None:
        check_type(path.xid, form, posted, before)
    refuse(path.text, definitions.validate_first_definition(form, definition_id, document, attributes))
    return posted


def _read_attributes(request: CatalogRequest) -> JSONObject:
    """Return the attributes in the query or in headers. If both state an attribute, they must agree (A-47)."""
    attributes: JSONObject = {}
    for name, attribute in _ATTRIBUTES.items():
        values = [*request.values(name)]
        header = request.headers.get(f"{PREFIX}{name}".lower())
        if header is not None:
            values.append(
                header if name in _URIS else decode_header(header, f"{PREFIX}{name}", subject=request.subject)
            )
        if len(set(values)) > 1:
            detail = f"{name} is given more than once, and differently"
            raise RegistryError("bad_request", subject=request.path.text, error_detail=detail)
        if values and values[0]:
            attributes[attribute] = values[0]
    return attributes


def _read_content_type(request: CatalogRequest) -> str | None:
    """Return the content type as sent (A-49). Raises ``header_error`` if it is not valid in a response header."""
    value = request.headers.get("content-type")
    if value is not None and not (value.isascii() and value.isprintable()):
        detail = "it needs to be printable ASCII"
        raise RegistryError("header_error", subject=request.path.text, name="Content-Type", error_detail=detail)
    return value


def _find_id(xid: Xid, version: JSONObject) -> str:
    """Return a version's id, or its path if it has no id (A-20)."""
    return str(version.get("globaluri") or message_path(xid))


ROUTES: Final[Routes] = {
    CATALOG: CncfRoute(read=_list_groups),
    GROUP: CncfRoute(read=_show_group, writes={"DELETE": delete, "PUT": _put_group}),
    DEFINITIONS: CncfRoute(read=_list_definitions, writes={"DELETE": delete}),
    DEFINITION: CncfRoute(read=_show_latest, writes={"DELETE": delete, "POST": _post}),
    VERSIONS: CncfRoute(read=_list_versions),
    VERSION: CncfRoute(read=_show_version, writes={"DELETE": delete}),
    LOOKUP: CncfRoute(read=_show_by_uri),
}

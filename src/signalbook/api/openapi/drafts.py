"""The APIs of the CNCF drafts, path by path as they are routed (A-33 to A-46, B-17 to B-24, C-27 to C-38)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from signalbook.api.cncf import CncfRoute
from signalbook.api.messagecatalog import first_draft, v01
from signalbook.api.messagecatalog.catalog import CATALOG, DEFINITIONS, FIRST, GROUP, LOOKUP, V01
from signalbook.api.openapi.components import (
    IF_MATCH,
    IF_NONE_MATCH,
    JSON_BODY,
    LIMIT,
    TEXT,
    array_of,
    complete_object,
    condition,
    object_of,
    problem_responses,
    query,
    reference,
    response,
)
from signalbook.api.schemaregistry import MOUNT, ROUTES
from signalbook.model import Model
from signalbook.values import JSONObject

_PATH_PARAMETERS: Final = ("group", "name", "version")
"""The names of the ids in paths, in their order."""
_IDS: Final[JSONObject] = {"type": "array", "uniqueItems": True, "items": {"type": "string", "minLength": 1}}
_NUMBER_LIST: Final = array_of({"type": "integer", "minimum": 1})
_GROUP: Final = "Draft.Group"
_DEFINITION: Final = "Draft.Definition"
_ADDED: Final = complete_object({"id": TEXT})
_URI: Final[JSONObject] = {"description": "The URI of a version.", "required": True, "schema": TEXT}
_FILTER: Final[JSONObject] = {"description": "NAME=VALUE or NAME.", "schema": array_of(TEXT)}
_CURSOR: Final[JSONObject] = {"description": "From the link to another page.", "schema": TEXT}
_WHOLE_PARAMETER: Final[JSONObject] = {"description": "With all definitions, if there is a value.", "schema": TEXT}
_VERSION_HEADERS: Final = {MOUNT: "Schema-", FIRST: first_draft.PREFIX}
_SENT: Final = ("Description", "Format", "Id", "Authority")
_TOLD: Final = ("Id", "Id-Location", "Version")
_TAGS: Final = {MOUNT: "Schema Registry 0.2", FIRST: "Message Catalog, first draft", V01: "Message Catalog 0.1"}
_ROUTES: Final[Mapping[str, Mapping[str, CncfRoute[Any, Any]]]] = {
    MOUNT: ROUTES,
    FIRST: first_draft.ROUTES,
    V01: v01.ROUTES,
}


def draft_paths(model: Model, *, mutable: bool) -> JSONObject:
    """Return the paths that the ``model`` has entities for, without OPTIONS and HEAD."""
    return {
        f"{mount}{_build_path(template)}": _build_path_item(mount, template, route.writes if mutable else ())
        for mount, routes in _ROUTES.items()
        if _is_served(mount, model)
        for template, route in routes.items()
    }


def _is_served(mount: str, model: Model) -> bool:
    group, name = ("schemagroups", "schemas") if mount == MOUNT else ("messagegroups", "messages")
    resource_type = model.groups[group].resources.get(name) if group in model.groups else None
    return resource_type is not None and (resource_type.hasdocument or mount != MOUNT)


def draft_schemas() -> JSONObject:
    """Return the schemas of the paths. Groups and definitions may have more than the common members."""
    time: JSONObject = {"type": "string", "format": "date-time"}
    common: JSONObject = {
        "id": {"type": "string", "minLength": 1},
        "format": {"type": "string", "minLength": 1},
        "createdtimeutc": time,
        "updatedtimeutc": time,
    }
    version: JSONObject = {"version": {"type": "integer", "minimum": 1}, "definition": {"type": "object"}}
    required = ["id", "createdtimeutc", "updatedtimeutc"]
    return {
        _GROUP: object_of(common, *required),
        _DEFINITION: object_of(common | version, *required, "format", *version),
    }


def _build_path(template: str) -> str:
    for name in _PATH_PARAMETERS:
        template = template.replace("{}", f"{{{name}}}", 1)
    return template


def _build_path_item(mount: str, template: str, writes: Iterable[str]) -> JSONObject:
    ids = _PATH_PARAMETERS[: template.count("{}")]
    item: JSONObject = {"parameters": [{"name": name, "in": "path", "required": True, "schema": TEXT} for name in ids]}
    conditions = [condition(IF_MATCH), condition(IF_NONE_MATCH)]
    item["get"] = {
        **_build_operation_head(mount, template, "get"),
        "parameters": [*_list_parameters(mount, template), condition(IF_NONE_MATCH)],
        "responses": {
            "200": _build_read_response(mount, template),
            "304": response("The client has it already.", "ETag"),
            **problem_responses(400, 404, 406, 503),
        },
    }
    for method in writes:
        item[method.lower()] = {
            **_build_operation_head(mount, template, method.lower()),
            "parameters": [*_list_metadata_parameters(mount, method), *conditions],
            **_build_request_body(mount, method),
            "responses": {
                **_build_write_response(mount, template, method),
                **problem_responses(400, 404, 405, 406, 409, 412, 503),
            },
        }
    return item


def _build_operation_head(mount: str, template: str, method: str) -> JSONObject:
    words = [mount.removeprefix("/compat"), *_build_path(template).split("/")]
    parts = "_".join(word.strip("{}/").replace("/", "_") for word in words if word)
    return {"operationId": f"{method}_{parts}", "tags": [_TAGS[mount]]}


def _list_parameters(mount: str, template: str) -> Iterator[JSONObject]:
    if template in ("/schema", LOOKUP):
        yield query("uri", _URI)
    elif mount == V01 and template in (CATALOG, DEFINITIONS):
        yield from (query("filter", _FILTER), query("limit", LIMIT), query("cursor", _CURSOR))
    elif mount == V01 and template == GROUP:
        yield query("definitions", _WHOLE_PARAMETER)


def _build_read_response(mount: str, template: str) -> JSONObject:
    """Return the response to GET: a document as it was sent, except in API 0.1 of the catalog, which always returns
    JSON."""
    depth = template.count("{}")
    listed = template.rpartition("/")[2] != "{}" and "uri" not in [
        parameter["name"] for parameter in _list_parameters(mount, template)
    ]
    if depth == 1 and not listed:
        return response("The group.", "ETag", json=reference(_GROUP))
    if mount == V01:
        schema = reference(_GROUP if depth == 0 and listed else _DEFINITION)
        return response("As it is now.", "ETag", json=array_of(schema) if listed else schema)
    if listed:
        return response("What there is.", "ETag", json=_NUMBER_LIST if depth == 2 else _IDS)
    return _with_headers(mount, response("The document as it was sent.", "ETag", "Location", content={"*/*": {}}))


def _with_headers(mount: str, answer: JSONObject) -> JSONObject:
    added = {f"{_VERSION_HEADERS[mount]}{name}": {"schema": TEXT} for name in _TOLD}
    return {**answer, "headers": answer["headers"] | added}


def _list_metadata_parameters(mount: str, method: str) -> Iterable[JSONObject]:
    """Yield the metadata that can accompany a document (A-47)."""
    if method != "POST" or mount == V01:
        return ()
    prefix = _VERSION_HEADERS[mount]
    headers = [{"name": f"{prefix}{name}", "in": "header", "schema": TEXT} for name in _SENT]
    return [*headers, *(query(name.lower(), {"schema": TEXT}) for name in _SENT)]


def _build_request_body(mount: str, method: str) -> JSONObject:
    if method == "DELETE":
        return {}
    document = method == "POST" and mount != V01
    content: JSONObject = {"*/*": {}} if document else {JSON_BODY: {"schema": {"type": "object"}}}
    return {"requestBody": {"required": True, "content": content}}


def _build_write_response(mount: str, template: str, method: str) -> JSONObject:
    if method == "DELETE":
        return {"204": response("It is gone.")}
    if method == "POST" and mount != V01:
        return {"200": _with_headers(mount, response("The version that has it.", "Location", json=_ADDED))}
    if method == "POST" and template == DEFINITIONS:
        return {"200": response("What is stored of it.", "Location", json={"type": "object", "required": ["id"]})}
    group = reference(_GROUP)
    created = {"201": response("Created.", "Location", json=group)}
    return created if method == "POST" else {"200": response("As it is now.", json=group), **created}

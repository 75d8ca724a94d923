"""The whole OpenAPI document, made from the model and the capabilities in force (core/http.md "Registry HTTP APIs")."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

from signalbook.api.openapi.access import access_paths, access_schemas
from signalbook.api.openapi.components import (
    IF_MATCH,
    IF_NONE_MATCH,
    JSON_BODY,
    LIMIT,
    PARAMETERS,
    TEXT,
    build_request_schema,
    build_response_schema,
    components,
    condition,
    error_responses,
    header,
    identifier,
    map_of,
    query,
    reference,
    response,
)
from signalbook.api.openapi.confluent import confluent_paths, confluent_schemas
from signalbook.api.openapi.drafts import draft_paths, draft_schemas
from signalbook.api.openapi.extensions import (
    pipeline_paths,
    pipeline_schemas,
    search_paths,
    search_schemas,
    service_paths,
    service_schemas,
    subscription_paths,
    subscription_schemas,
)
from signalbook.api.registrypaths import ALWAYS_THERE, NAMES
from signalbook.engine.write.commands import METHODS, Method
from signalbook.model import SPECVERSION, AttributeSet, Model, ResourceType
from signalbook.values import JSONObject
from signalbook.version import __version__
from signalbook.xid import Kind

_DESCRIPTION: Final = f"An xRegistry {SPECVERSION} server. Paths and schemas follow from the model of this registry."
_REGISTRY: Final = "registry"
_ALWAYS: Final = ("self", "xid")
_OBJECT: Final[JSONObject] = {"type": "object"}
META: Final = ".meta"
_KEPT: Final = ("ETag", "Cache-Control")
INPUT: Final = ".input"
VERSION: Final = ".version"
_COLLECTIONS: Final = (Kind.GROUPS, Kind.RESOURCES, Kind.VERSIONS)
_OWNERS: Final = (Kind.REGISTRY, Kind.GROUP)
_OF_ONE_RESOURCE: Final = (Kind.RESOURCE, Kind.META, Kind.VERSIONS, Kind.VERSION)
_SHOWING: Final = ("inline", "doc", "binary", "filter", "specversion")
_READ_ERRORS: Final = (400, 404, 406, 503)
_WRITE_ERRORS: Final = (400, 404, 406, 409, 412, 503)
_UNSETTABLE: Final = ("contenttype", "meta", "versions")


@dataclass(frozen=True, slots=True, kw_only=True)
class PathItem:
    """A path of the API. ``path`` is its template, ``schema`` the component of its entity, or of the members of its
    collection.

    ``nested`` are the components of the members of nested collections, by plural. ``document`` is the Resource type if
    the path shows documents instead of metadata. ``flags`` are the flags that are switched on.
    """

    path: str
    kind: Kind
    tag: str
    schema: str
    flags: tuple[str, ...]
    paged: bool
    mutable: bool
    nested: tuple[tuple[str, str], ...] = ()
    document: ResourceType | None = None

    @property
    def methods(self) -> tuple[Method, ...]:
        """The methods that are allowed to write here."""
        methods = METHODS[self.kind] if self.mutable else ()
        return methods if self.document is None else tuple(m for m in methods if m is not Method.PATCH)


def describe(model: Model, capabilities: JSONObject, *, base_url: str) -> JSONObject:
    """Return the OpenAPI 3.1 description of the API below ``base_url``.

    Only paths, flags and writes that the ``capabilities`` allow are included. Parts of the result are cached, so
    callers must not change it.
    """
    info = {"title": "Signalbook", "version": __version__, "description": _DESCRIPTION}
    host = "/".join(base_url.split("/")[:3])
    available = tuple((name, bool(row.get("mutable"))) for name, row in capabilities["available"].items())
    described = _describe_parts(model, tuple(capabilities["flags"]), capabilities["pagination"], available)
    # Set after the cached part, because the URL depends on the host name that the client uses.
    paths = {**described["paths"], **service_paths(host)}
    return {"openapi": "3.1.0", "info": info, "servers": [{"url": base_url}], **described, "paths": paths}


@lru_cache(maxsize=2)
def _describe_parts(
    model: Model, flags: tuple[str, ...], paged: bool, available: tuple[tuple[str, bool], ...]
) -> JSONObject:
    flags = tuple(name for name in PARAMETERS if name in flags)
    there = dict(available)
    mutable = there.get("entities", False)
    paths = {item.path: operations(item) for item in _list_path_items(model, flags, paged=paged, mutable=mutable)}
    beside = {
        f"/{name}": _build_plain_item(name, [method for method in methods if method == "GET" or there[name]])
        for name, methods in NAMES.items()
        if name in there or name in ALWAYS_THERE
    }
    services = service_schemas() | subscription_schemas() | pipeline_schemas() | access_schemas()
    services |= search_schemas()
    schemas = dict(_list_schemas(model)) | services | draft_schemas() | confluent_schemas()
    extension_paths = subscription_paths() | pipeline_paths() | access_paths() | search_paths()
    extension_paths |= draft_paths(model, mutable=mutable) | confluent_paths(model, mutable=mutable)
    return {"paths": {**paths, **beside, **extension_paths}, "components": components(schemas, flags)}


def _list_path_items(model: Model, flags: tuple[str, ...], *, paged: bool, mutable: bool) -> Iterator[PathItem]:
    item = partial(PathItem, flags=flags, paged=paged, mutable=mutable)
    groups = tuple((plural, plural) for plural in model.groups)
    yield item(path="/", kind=Kind.REGISTRY, tag=_REGISTRY, schema=_REGISTRY, nested=groups)
    for plural, group in model.groups.items():
        path = f"/{plural}/{{groupid}}"
        nested = tuple((name, _find_component_name(resource)) for name, resource in group.resources.items())
        yield item(path=f"/{plural}", kind=Kind.GROUPS, tag=plural, schema=plural)
        yield item(path=path, kind=Kind.GROUP, tag=plural, schema=plural, nested=nested)
        for name, resource in group.resources.items():
            yield from _list_resource_items(f"{path}/{name}", resource, partial(item, tag=plural))


def _list_resource_items(path: str, type: ResourceType, item: Callable[..., PathItem]) -> Iterator[PathItem]:
    schema = _find_component_name(type)
    resource_path = f"{path}/{{resourceid}}"
    version = f"{resource_path}/versions/{{versionid}}"
    yield item(path=path, kind=Kind.RESOURCES, schema=schema)
    yield item(path=f"{resource_path}/meta", kind=Kind.META, schema=f"{schema}{META}")
    yield item(path=f"{resource_path}/versions", kind=Kind.VERSIONS, schema=f"{schema}{VERSION}")
    metadata = "$details" if type.hasdocument else ""
    yield item(path=f"{resource_path}{metadata}", kind=Kind.RESOURCE, schema=schema)
    yield item(path=f"{version}{metadata}", kind=Kind.VERSION, schema=f"{schema}{VERSION}")
    if type.hasdocument:
        yield item(path=resource_path, kind=Kind.RESOURCE, schema=schema, document=type)
        yield item(path=version, kind=Kind.VERSION, schema=f"{schema}{VERSION}", document=type)


def _list_schemas(model: Model) -> Iterator[tuple[str, JSONObject]]:
    groups = {plural: plural for plural in model.groups}
    yield from _build_both_schemas(
        _REGISTRY, model.attributes, groups, ("specversion", "registryid", *_ALWAYS, "epoch")
    )
    for plural, group in model.groups.items():
        nested = {name: _find_component_name(resource) for name, resource in group.resources.items()}
        yield from _build_both_schemas(plural, group.attributes, nested, (f"{group.singular}id", *_ALWAYS, "epoch"))
    resources = [resource for group in model.groups.values() for resource in group.resources.values()]
    for resource in {resource.origin: resource for resource in resources}.values():
        yield from _list_resource_schemas(resource)


def _find_component_name(type: ResourceType) -> str:
    """Return the component of a Resource type. A type has one component, even if several Group types use it."""
    return type.origin.strip("/").replace("/", ".")


def _list_resource_schemas(type: ResourceType) -> Iterator[tuple[str, JSONObject]]:
    name = _find_component_name(type)
    identity = (f"{type.singular}id", *_ALWAYS)
    whole = AttributeSet({**type.attributes, **type.resourceattributes})
    yield from _build_both_schemas(f"{name}{META}", type.metaattributes, {}, identity)
    yield from _build_both_schemas(
        f"{name}{VERSION}", type.attributes, {}, (*identity, "versionid", "epoch", "isdefault")
    )
    yield from _build_both_schemas(name, whole, {"versions": f"{name}{VERSION}"}, identity, meta=f"{name}{META}")


def _build_both_schemas(
    name: str, attributes: AttributeSet, nested: Mapping[str, str], required: Iterable[str], meta: str = ""
) -> Iterator[tuple[str, JSONObject]]:
    """Yield the schemas of an entity in responses and in requests; nested entities use the schemas of the same kind."""

    def build_nested(suffix: str) -> JSONObject:
        maps = {plural: map_of(reference(f"{schema}{suffix}")) for plural, schema in nested.items()}
        return {**maps, "meta": reference(f"{meta}{suffix}")} if meta else maps

    yield name, build_response_schema(attributes, build_nested(""), required)
    yield f"{name}{INPUT}", build_request_schema(attributes, build_nested(INPUT))


def _build_plain_item(name: str, methods: Iterable[str]) -> JSONObject:
    success = {"200": response("As it is now.", "ETag", "Cache-Control", json=_OBJECT)}
    item: JSONObject = {}
    for method in methods:
        operation: JSONObject = {"operationId": f"{method.lower()}_{name.strip('.')}", "tags": [_REGISTRY]}
        conditions = (IF_NONE_MATCH,) if method == "GET" else (IF_MATCH, IF_NONE_MATCH)
        operation["parameters"] = [condition(header) for header in conditions]
        if method == "GET":
            operation["responses"] = {
                **success,
                "304": response("The client has it already."),
                **error_responses(400, 406, 503),
            }
        else:
            operation["requestBody"] = {"required": True, "content": {JSON_BODY: {"schema": _OBJECT}}}
            operation["responses"] = {**success, **error_responses(400, 406, 412, 503)}
        item[method.lower()] = operation
    return item


def operations(item: PathItem) -> JSONObject:
    """Return the operations of one path."""
    names = [part.strip("{}").partition("}")[0] for part in item.path.split("/") if part.startswith("{")]
    writes = {method.value.lower(): _build_write_operation(item, method) for method in item.methods}
    return {
        "parameters": [identifier(name) for name in names],
        "get": {
            **_build_operation_head(item, "get"),
            "parameters": list(_read_parameters(item)),
            "responses": _read_responses(item),
        },
        **writes,
    }


def _build_operation_head(item: PathItem, method: str) -> JSONObject:
    steps = [step.replace("$", "_") for step in item.path.split("/") if step]
    return {
        "operationId": "_".join([method, *(step.replace("{", "").replace("}", "") for step in steps)]),
        "tags": [item.tag],
    }


def _read_parameters(item: PathItem) -> Iterator[JSONObject]:
    flags = (*_SHOWING, "collections") if item.kind in _OWNERS else _SHOWING
    yield from _list_flags(item, (*flags, "sort") if item.kind in _COLLECTIONS else flags)
    if item.kind in _COLLECTIONS and item.paged:
        yield query("limit", LIMIT)
    yield condition(IF_NONE_MATCH)


def _read_responses(item: PathItem) -> JSONObject:
    responses = {"304": response("The client has it already.", *_KEPT), **error_responses(*_READ_ERRORS)}
    return {**_build_read_response(item, "200", "As it is now.", _KEPT), **responses}


def _build_read_response(item: PathItem, status: str, text: str, headers: Iterable[str] = ()) -> JSONObject:
    """Return the response to GET of a path; for a document it may be a redirect (R157)."""
    if item.document is None:
        return {status: response(text, *headers, json=_build_entity_schema(item))}
    beside = {name: {"schema": TEXT} for name in _list_header_names(item.document, settable=False)}
    here = response(text, "Content-Disposition", *headers, content={"*/*": {}})
    here["headers"] |= beside
    elsewhere = response("The document is elsewhere.", "Location", "Content-Disposition", *headers)
    elsewhere["headers"] |= beside
    return {status: here, "303": elsewhere}


def _build_entity_schema(item: PathItem) -> JSONObject:
    if item.kind in _COLLECTIONS:
        return map_of(reference(item.schema))
    if item.kind in _OWNERS:
        return {"anyOf": [reference(item.schema), _build_collections_schema(item, "")]}
    return reference(item.schema)


def _build_collections_schema(item: PathItem, suffix: str) -> JSONObject:
    """Return the nested collections and nothing else (R145, R177)."""
    maps = {plural: map_of(reference(f"{schema}{suffix}")) for plural, schema in item.nested}
    return {"type": "object", "properties": maps, "additionalProperties": False}


def _build_write_operation(item: PathItem, method: Method) -> JSONObject:
    operation = _build_operation_head(item, method.value.lower())
    operation["parameters"] = list(_write_parameters(item, method))
    body = _build_request_body(item, method)
    if body is not None:
        operation["requestBody"] = body
    operation["responses"] = {**_build_write_response(item, method), **error_responses(*_WRITE_ERRORS)}
    return operation


def _write_parameters(item: PathItem, method: Method) -> Iterator[JSONObject]:
    flags: tuple[str, ...] = ("ignore", "specversion")
    if method is not Method.DELETE:
        flags = (*_SHOWING, "ignore")
    elif item.kind not in _COLLECTIONS:
        flags = ("epoch", *flags)
    if item.kind in _OF_ONE_RESOURCE and not (item.kind is Kind.RESOURCE and method is Method.DELETE):
        flags = (*flags, "setdefaultversionid")
    yield from _list_flags(item, flags)
    if item.document is not None and method is not Method.DELETE:
        for name in _list_header_names(item.document, settable=True):
            yield {"name": name, "in": "header", "schema": TEXT}
    yield from (condition(name) for name in (IF_MATCH, IF_NONE_MATCH))


def _build_request_body(item: PathItem, method: Method) -> JSONObject | None:
    if method is Method.DELETE:
        media = {"schema": map_of({"type": "object"})}
        return {"content": {JSON_BODY: media}} if item.kind in _COLLECTIONS else None
    if item.document is not None:
        return {"description": "The document; attributes are headers.", "content": {"*/*": {}}}
    if method is Method.POST and item.kind in _OWNERS:
        schema = _build_collections_schema(item, INPUT)
    elif item.kind in _COLLECTIONS:
        schema = map_of(reference(f"{item.schema}{INPUT}"))
    else:
        posted = method is Method.POST and item.kind is Kind.RESOURCE
        schema = reference(f"{item.schema}{VERSION if posted else ''}{INPUT}")
    return {"required": True, "content": {JSON_BODY: {"schema": schema}}}


def _build_write_response(item: PathItem, method: Method) -> JSONObject:
    if method is Method.DELETE:
        return {"204": response("It is gone.")}
    if item.kind in _COLLECTIONS:
        return {"200": response("What was processed.", json=map_of(reference(item.schema)))}
    if method is Method.POST and item.kind in _OWNERS:
        return {"200": response("What was processed.", json=_build_collections_schema(item, ""))}
    if item.document is None and method is Method.POST:
        return _add_created_response(item, response("The Version.", json=reference(f"{item.schema}{VERSION}")))
    ok_responses = _build_read_response(item, "200", "As it is now.")
    elsewhere = {status: other for status, other in ok_responses.items() if status != "200"}
    return {**_add_created_response(item, ok_responses["200"]), **elsewhere}


def _add_created_response(item: PathItem, ok_response: JSONObject) -> JSONObject:
    """Return the responses of a write that may create an entity (R151, R152). The Registry is never created."""
    if item.kind is Kind.REGISTRY:
        return {"200": ok_response}
    added = {name: header(name) for name in ("Location", "Content-Location")}
    return {
        "200": ok_response,
        "201": {**ok_response, "description": "Created.", "headers": {**ok_response["headers"], **added}},
    }


def _list_flags(item: PathItem, names: Iterable[str]) -> Iterator[JSONObject]:
    return ({"$ref": f"#/components/parameters/{name}"} for name in names if name in item.flags)


def _list_header_names(type: ResourceType, *, settable: bool) -> Iterator[str]:
    """Return the headers for scalar attributes of a document (R158, R162). Map entries are left out: their names are
    unknown."""
    excluded = (type.singular, f"{type.singular}base64", *_UNSETTABLE)
    sets = (type.attributes,) if settable else (type.attributes, type.resourceattributes)
    for name, attribute in ((name, attribute) for attributes in sets for name, attribute in attributes.items()):
        if name != "*" and name not in excluded and attribute.scalar and not (settable and attribute.readonly):
            yield f"xRegistry-{name}"

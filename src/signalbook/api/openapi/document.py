"""The whole OpenAPI document, made from the model and the capabilities in force (core/http.md "Registry HTTP APIs")."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

from signalbook import __version__
from signalbook.api.openapi.components import (
    IF_MATCH,
    IF_NONE_MATCH,
    JSON_BODY,
    LIMIT,
    PARAMETERS,
    TEXT,
    components,
    condition,
    error_responses,
    header,
    identifier,
    map_of,
    query,
    reference,
    response,
    shown_schema,
    written_schema,
)
from signalbook.api.openapi.extensions import pipeline_paths, pipeline_schemas, subscription_paths, subscription_schemas
from signalbook.api.xregistry.requests import NAMES
from signalbook.engine.write.commands import METHODS, Method
from signalbook.model import SPECVERSION, AttributeSet, Model, ResourceType
from signalbook.values import JSONObject
from signalbook.xid import Kind

_COLLECTIONS: Final = (Kind.GROUPS, Kind.RESOURCES, Kind.VERSIONS)
_OWNERS: Final = (Kind.REGISTRY, Kind.GROUP)
_OF_ONE_RESOURCE: Final = (Kind.RESOURCE, Kind.META, Kind.VERSIONS, Kind.VERSION)
_SHOWING: Final = ("inline", "doc", "binary", "filter", "specversion")
_READ_ERRORS: Final = (400, 404, 406, 503)
_WRITE_ERRORS: Final = (400, 404, 406, 412, 503)
_UNSETTABLE: Final = ("contenttype", "meta", "versions")


@dataclass(frozen=True, slots=True, kw_only=True)
class PathItem:
    """One kind of path. ``path`` is its template, ``schema`` the component of the entity, or of the members, there.

    ``nested`` are the components of what is in its collections, by plural; ``document`` is the type whose documents
    are shown here instead of metadata. ``flags`` are those that are switched on.
    """

    path: str
    kind: Kind
    tag: str
    schema: str
    flags: tuple[str, ...]
    paged: bool
    nested: tuple[tuple[str, str], ...] = ()
    document: ResourceType | None = None

    @property
    def methods(self) -> tuple[Method, ...]:
        """Writes that are allowed here."""
        methods = METHODS[self.kind]
        return methods if self.document is None else tuple(m for m in methods if m is not Method.PATCH)


def item(place: PathItem) -> JSONObject:
    """The operations of one path."""
    names = [part.strip("{}").partition("}")[0] for part in place.path.split("/") if part.startswith("{")]
    operations = {method.value.lower(): _write(place, method) for method in place.methods}
    return {
        "parameters": [identifier(name) for name in names],
        "get": {**_named(place, "get"), "parameters": list(_read_parameters(place)), "responses": _read_answers(place)},
        **operations,
    }


def _named(place: PathItem, method: str) -> JSONObject:
    steps = [step.replace("$", "_") for step in place.path.split("/") if step]
    return {
        "operationId": "_".join([method, *(step.replace("{", "").replace("}", "") for step in steps)]),
        "tags": [place.tag],
    }


def _read_parameters(place: PathItem) -> Iterator[JSONObject]:
    wanted = (*_SHOWING, "collections") if place.kind in _OWNERS else _SHOWING
    yield from _flags(place, (*wanted, "sort") if place.kind in _COLLECTIONS else wanted)
    if place.kind in _COLLECTIONS and place.paged:
        yield query("limit", LIMIT)
    yield condition(IF_NONE_MATCH)


def _read_answers(place: PathItem) -> JSONObject:
    answers = {"304": response("The client has it already.", *_KEPT), **error_responses(*_READ_ERRORS)}
    return {**_shown(place, "200", "As it is now.", _KEPT), **answers}


_KEPT: Final = ("ETag", "Cache-Control")


def _shown(place: PathItem, status: str, text: str, headers: Iterable[str] = ()) -> JSONObject:
    """The answer that shows what is at a place; a document may be elsewhere (R157)."""
    if place.document is None:
        return {status: response(text, *headers, json=_whole(place))}
    beside = {name: {"schema": TEXT} for name in _header_names(place.document, settable=False)}
    here = response(text, "Content-Disposition", *headers, content={"*/*": {}})
    here["headers"] |= beside
    elsewhere = response("The document is elsewhere.", "Location", "Content-Disposition", *headers)
    elsewhere["headers"] |= beside
    return {status: here, "303": elsewhere}


def _whole(place: PathItem) -> JSONObject:
    if place.kind in _COLLECTIONS:
        return map_of(reference(place.schema))
    if place.kind in _OWNERS:
        return {"anyOf": [reference(place.schema), _only_collections(place, "")]}
    return reference(place.schema)


def _only_collections(place: PathItem, suffix: str) -> JSONObject:
    """The nested collections and nothing else (R145, R177)."""
    maps = {plural: map_of(reference(f"{schema}{suffix}")) for plural, schema in place.nested}
    return {"type": "object", "properties": maps, "additionalProperties": False}


def _write(place: PathItem, method: Method) -> JSONObject:
    operation = _named(place, method.value.lower())
    operation["parameters"] = list(_write_parameters(place, method))
    body = _body(place, method)
    if body is not None:
        operation["requestBody"] = body
    operation["responses"] = {**_written(place, method), **error_responses(*_WRITE_ERRORS)}
    return operation


def _write_parameters(place: PathItem, method: Method) -> Iterator[JSONObject]:
    wanted: tuple[str, ...] = ("ignore", "specversion")
    if method is not Method.DELETE:
        wanted = (*_SHOWING, "ignore")
    elif place.kind not in _COLLECTIONS:
        wanted = ("epoch", *wanted)
    if place.kind in _OF_ONE_RESOURCE and not (place.kind is Kind.RESOURCE and method is Method.DELETE):
        wanted = (*wanted, "setdefaultversionid")
    yield from _flags(place, wanted)
    if place.document is not None and method is not Method.DELETE:
        for name in _header_names(place.document, settable=True):
            yield {"name": name, "in": "header", "schema": TEXT}
    yield from (condition(name) for name in (IF_MATCH, IF_NONE_MATCH))


def _body(place: PathItem, method: Method) -> JSONObject | None:
    if method is Method.DELETE:
        named = {"schema": map_of({"type": "object"})}
        return {"content": {JSON_BODY: named}} if place.kind in _COLLECTIONS else None
    if place.document is not None:
        return {"description": "The document; attributes are headers.", "content": {"*/*": {}}}
    if method is Method.POST and place.kind in _OWNERS:
        schema = _only_collections(place, INPUT)
    elif place.kind in _COLLECTIONS:
        schema = map_of(reference(f"{place.schema}{INPUT}"))
    else:
        posted = method is Method.POST and place.kind is Kind.RESOURCE
        schema = reference(f"{place.schema}{VERSION if posted else ''}{INPUT}")
    return {"required": True, "content": {JSON_BODY: {"schema": schema}}}


INPUT: Final = ".input"
VERSION: Final = ".version"


def _written(place: PathItem, method: Method) -> JSONObject:
    if method is Method.DELETE:
        return {"204": response("It is gone.")}
    if place.kind in _COLLECTIONS:
        return {"200": response("What was processed.", json=map_of(reference(place.schema)))}
    if method is Method.POST and place.kind in _OWNERS:
        return {"200": response("What was processed.", json=_only_collections(place, ""))}
    if place.document is None and method is Method.POST:
        return _created(place, response("The Version.", json=reference(f"{place.schema}{VERSION}")))
    shown = _shown(place, "200", "As it is now.")
    elsewhere = {status: answer for status, answer in shown.items() if status != "200"}
    return {**_created(place, shown["200"]), **elsewhere}


def _created(place: PathItem, answer: JSONObject) -> JSONObject:
    """The same with what a creation adds (R151, R152); the Registry is never created."""
    if place.kind is Kind.REGISTRY:
        return {"200": answer}
    added = {name: header(name) for name in ("Location", "Content-Location")}
    return {"200": answer, "201": {**answer, "description": "Created.", "headers": {**answer["headers"], **added}}}


def _flags(place: PathItem, wanted: Iterable[str]) -> Iterator[JSONObject]:
    return ({"$ref": f"#/components/parameters/{name}"} for name in wanted if name in place.flags)


def _header_names(type: ResourceType, *, settable: bool) -> Iterator[str]:
    """Scalar attributes beside a document (R158, R162); the entries of maps have names that nobody knows before."""
    own = (type.singular, f"{type.singular}base64", *_UNSETTABLE)
    sets = (type.attributes,) if settable else (type.attributes, type.resourceattributes)
    for name, attribute in ((name, attribute) for known in sets for name, attribute in known.items()):
        if name != "*" and name not in own and attribute.scalar and not (settable and attribute.readonly):
            yield f"xRegistry-{name}"


_DESCRIPTION: Final = f"An xRegistry {SPECVERSION} server. Paths and schemas follow from the model of this registry."
_REGISTRY: Final = "registry"
_ALWAYS: Final = ("self", "xid")
_OBJECT: Final[JSONObject] = {"type": "object"}
META: Final = ".meta"


def describe(model: Model, flags: tuple[str, ...], *, paged: bool, base_url: str) -> JSONObject:
    """The API below ``base_url`` in OpenAPI 3.1, with the ``flags`` that are switched on and, if ``paged``, pages.

    What is in the result is shared: not to be changed.
    """
    info = {"title": "Signalbook", "version": __version__, "description": _DESCRIPTION}
    return {"openapi": "3.1.0", "info": info, "servers": [{"url": base_url}], **_described(model, flags, paged)}


@lru_cache(maxsize=2)
def _described(model: Model, flags: tuple[str, ...], paged: bool) -> JSONObject:
    flags = tuple(name for name in PARAMETERS if name in flags)
    paths = {place.path: item(place) for place in _places(model, flags, paged=paged)}
    beside = {f"/{name}": _plain(name, methods) for name, methods in NAMES.items()}
    found = components({**dict(_schemas(model)), **subscription_schemas(), **pipeline_schemas()}, flags)
    return {"paths": {**paths, **beside, **subscription_paths(), **pipeline_paths()}, "components": found}


def _places(model: Model, flags: tuple[str, ...], *, paged: bool) -> Iterator[PathItem]:
    place = partial(PathItem, flags=flags, paged=paged)
    groups = tuple((plural, plural) for plural in model.groups)
    yield place(path="/", kind=Kind.REGISTRY, tag=_REGISTRY, schema=_REGISTRY, nested=groups)
    for plural, group in model.groups.items():
        path = f"/{plural}/{{groupid}}"
        nested = tuple((name, _name(resource)) for name, resource in group.resources.items())
        yield place(path=f"/{plural}", kind=Kind.GROUPS, tag=plural, schema=plural)
        yield place(path=path, kind=Kind.GROUP, tag=plural, schema=plural, nested=nested)
        for name, resource in group.resources.items():
            yield from _resource_places(f"{path}/{name}", resource, partial(place, tag=plural))


def _resource_places(path: str, type: ResourceType, place: Callable[..., PathItem]) -> Iterator[PathItem]:
    schema = _name(type)
    one = f"{path}/{{resourceid}}"
    version = f"{one}/versions/{{versionid}}"
    yield place(path=path, kind=Kind.RESOURCES, schema=schema)
    yield place(path=f"{one}/meta", kind=Kind.META, schema=f"{schema}{META}")
    yield place(path=f"{one}/versions", kind=Kind.VERSIONS, schema=f"{schema}{VERSION}")
    metadata = "$details" if type.hasdocument else ""
    yield place(path=f"{one}{metadata}", kind=Kind.RESOURCE, schema=schema)
    yield place(path=f"{version}{metadata}", kind=Kind.VERSION, schema=f"{schema}{VERSION}")
    if type.hasdocument:
        yield place(path=one, kind=Kind.RESOURCE, schema=schema, document=type)
        yield place(path=version, kind=Kind.VERSION, schema=f"{schema}{VERSION}", document=type)


def _schemas(model: Model) -> Iterator[tuple[str, JSONObject]]:
    groups = {plural: plural for plural in model.groups}
    yield from _both(_REGISTRY, model.attributes, groups, ("specversion", "registryid", *_ALWAYS, "epoch"))
    for plural, group in model.groups.items():
        nested = {name: _name(resource) for name, resource in group.resources.items()}
        yield from _both(plural, group.attributes, nested, (f"{group.singular}id", *_ALWAYS, "epoch"))
    resources = [resource for group in model.groups.values() for resource in group.resources.values()]
    for resource in {resource.origin: resource for resource in resources}.values():
        yield from _resource_schemas(resource)


def _name(type: ResourceType) -> str:
    """The component of a Resource type: one, in however many Group types it is."""
    return type.origin.strip("/").replace("/", ".")


def _resource_schemas(type: ResourceType) -> Iterator[tuple[str, JSONObject]]:
    name = _name(type)
    identity = (f"{type.singular}id", *_ALWAYS)
    whole = AttributeSet({**type.attributes, **type.resourceattributes})
    yield from _both(f"{name}{META}", type.metaattributes, {}, identity)
    yield from _both(f"{name}{VERSION}", type.attributes, {}, (*identity, "versionid", "epoch", "isdefault"))
    yield from _both(name, whole, {"versions": f"{name}{VERSION}"}, identity, meta=f"{name}{META}")


def _both(
    name: str, attributes: AttributeSet, nested: Mapping[str, str], required: Iterable[str], meta: str = ""
) -> Iterator[tuple[str, JSONObject]]:
    """The schemas of an entity in responses and in requests, which differ in the same way in the entities in it."""

    def below(suffix: str) -> JSONObject:
        maps = {plural: map_of(reference(f"{schema}{suffix}")) for plural, schema in nested.items()}
        return {**maps, "meta": reference(f"{meta}{suffix}")} if meta else maps

    yield name, shown_schema(attributes, below(""), required)
    yield f"{name}{INPUT}", written_schema(attributes, below(INPUT))


def _plain(name: str, methods: Iterable[str]) -> JSONObject:
    shown = {"200": response("As it is now.", "ETag", "Cache-Control", json=_OBJECT)}
    item: JSONObject = {}
    for method in methods:
        operation: JSONObject = {"operationId": f"{method.lower()}_{name.strip('.')}", "tags": [_REGISTRY]}
        conditions = (IF_NONE_MATCH,) if method == "GET" else (IF_MATCH, IF_NONE_MATCH)
        operation["parameters"] = [condition(header) for header in conditions]
        if method == "GET":
            operation["responses"] = {
                **shown,
                "304": response("The client has it already."),
                **error_responses(400, 406, 503),
            }
        else:
            operation["requestBody"] = {"required": True, "content": {JSON_BODY: {"schema": _OBJECT}}}
            operation["responses"] = {**shown, **error_responses(400, 406, 412, 503)}
        item[method.lower()] = operation
    return item

"""The whole description, made from the model and the capabilities in force."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Final

from signalbook import __version__
from signalbook.api.openapi import operations, parts, pipelines, schemas, subscriptions
from signalbook.api.openapi.operations import INPUT, VERSION, PathItem
from signalbook.api.openapi.schemas import map_of, reference
from signalbook.api.xregistry.paths import NAMES
from signalbook.model import SPECVERSION, AttributeSet, Model, ResourceType
from signalbook.values import JSONObject
from signalbook.xid import Kind

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
    flags = tuple(name for name in parts.PARAMETERS if name in flags)
    paths = {place.path: operations.item(place) for place in _places(model, flags, paged=paged)}
    beside = {f"/{name}": _plain(name, methods) for name, methods in NAMES.items()}
    components = parts.components({**dict(_schemas(model)), **subscriptions.schemas(), **pipelines.schemas()}, flags)
    return {"paths": {**paths, **beside, **subscriptions.paths(), **pipelines.paths()}, "components": components}


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

    yield name, schemas.shown(attributes, below(""), required)
    yield f"{name}{INPUT}", schemas.written(attributes, below(INPUT))


def _plain(name: str, methods: Iterable[str]) -> JSONObject:
    shown = {"200": parts.answer("As it is now.", "ETag", "Cache-Control", json=_OBJECT)}
    item: JSONObject = {}
    for method in methods:
        operation: JSONObject = {"operationId": f"{method.lower()}_{name.strip('.')}", "tags": [_REGISTRY]}
        conditions = (parts.IF_NONE_MATCH,) if method == "GET" else (parts.IF_MATCH, parts.IF_NONE_MATCH)
        operation["parameters"] = [parts.condition(condition) for condition in conditions]
        if method == "GET":
            operation["responses"] = {
                **shown,
                "304": parts.answer("The client has it already."),
                **parts.errors(400, 406, 503),
            }
        else:
            operation["requestBody"] = {"required": True, "content": {parts.JSON: {"schema": _OBJECT}}}
            operation["responses"] = {**shown, **parts.errors(400, 406, 412, 503)}
        item[method.lower()] = operation
    return item

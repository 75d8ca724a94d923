"""What may be done at each kind of path (core/http.md "Registry HTTP APIs")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from signalbook.api.openapi import parts
from signalbook.api.openapi.schemas import map_of, reference
from signalbook.engine.commands import METHODS, Method
from signalbook.model import ResourceType
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
        "parameters": [parts.identifier(name) for name in names],
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
        yield parts.query("limit", parts.LIMIT)
    yield parts.condition(parts.IF_NONE_MATCH)


def _read_answers(place: PathItem) -> JSONObject:
    answers = {"304": parts.answer("The client has it already.", *_KEPT), **parts.errors(*_READ_ERRORS)}
    return {**_shown(place, "200", "As it is now.", _KEPT), **answers}


_KEPT: Final = ("ETag", "Cache-Control")


def _shown(place: PathItem, status: str, text: str, headers: Iterable[str] = ()) -> JSONObject:
    """The answer that shows what is at a place; a document may be elsewhere (R157)."""
    if place.document is None:
        return {status: parts.answer(text, *headers, json=_whole(place))}
    beside = {name: {"schema": parts.TEXT} for name in _header_names(place.document, settable=False)}
    here = parts.answer(text, "Content-Disposition", *headers, content={"*/*": {}})
    here["headers"] |= beside
    elsewhere = parts.answer("The document is elsewhere.", "Location", "Content-Disposition", *headers)
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
    operation["responses"] = {**_written(place, method), **parts.errors(*_WRITE_ERRORS)}
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
            yield {"name": name, "in": "header", "schema": parts.TEXT}
    yield from (parts.condition(name) for name in (parts.IF_MATCH, parts.IF_NONE_MATCH))


def _body(place: PathItem, method: Method) -> JSONObject | None:
    if method is Method.DELETE:
        named = {"schema": map_of({"type": "object"})}
        return {"content": {parts.JSON: named}} if place.kind in _COLLECTIONS else None
    if place.document is not None:
        return {"description": "The document; attributes are headers.", "content": {"*/*": {}}}
    if method is Method.POST and place.kind in _OWNERS:
        schema = _only_collections(place, INPUT)
    elif place.kind in _COLLECTIONS:
        schema = map_of(reference(f"{place.schema}{INPUT}"))
    else:
        posted = method is Method.POST and place.kind is Kind.RESOURCE
        schema = reference(f"{place.schema}{VERSION if posted else ''}{INPUT}")
    return {"required": True, "content": {parts.JSON: {"schema": schema}}}


INPUT: Final = ".input"
VERSION: Final = ".version"


def _written(place: PathItem, method: Method) -> JSONObject:
    if method is Method.DELETE:
        return {"204": parts.answer("It is gone.")}
    if place.kind in _COLLECTIONS:
        return {"200": parts.answer("What was processed.", json=map_of(reference(place.schema)))}
    if method is Method.POST and place.kind in _OWNERS:
        return {"200": parts.answer("What was processed.", json=_only_collections(place, ""))}
    if place.document is None and method is Method.POST:
        return _created(place, parts.answer("The Version.", json=reference(f"{place.schema}{VERSION}")))
    shown = _shown(place, "200", "As it is now.")
    elsewhere = {status: answer for status, answer in shown.items() if status != "200"}
    return {**_created(place, shown["200"]), **elsewhere}


def _created(place: PathItem, answer: JSONObject) -> JSONObject:
    """The same with what a creation adds (R151, R152); the Registry is never created."""
    if place.kind is Kind.REGISTRY:
        return {"200": answer}
    added = {name: parts.header(name) for name in ("Location", "Content-Location")}
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

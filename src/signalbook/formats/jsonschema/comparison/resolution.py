"""The terms of one document and of everything it refers to: resources, anchors, references, keywords of all drafts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from signalbook.formats.base import pointer as pointer_of
from signalbook.formats.jsonschema import regexes
from signalbook.formats.jsonschema.comparison.terms import Accepts, Says, Term, made
from signalbook.formats.jsonschema.document import (
    UNUSABLE,
    JsonSchemaDocument,
    absolute,
    by_schema_uri,
    fragment_of,
    meta_validator,
    uri_of,
)
from signalbook.values import JSON, JSONObject, step_into

# Makes the term of a sub-schema, given the tokens that lead to it.
Sub = Callable[..., Any]

ONE: Final = (
    "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties", "not", "if",
    "then", "else",
)  # fmt: skip
MANY: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
NAMED: Final = ("properties", "patternProperties", "dependentSchemas", "definitions", "$defs", "dependencies")
_PLAIN: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "const")
_COUNTS: Final = (
    "minLength", "minItems", "minProperties", "maxLength", "maxItems", "maxProperties", "minContains", "maxContains",
)  # fmt: skip
# The year each keyword came with, where that is not the first one.
_SINCE: Final = {
    "const": 2017, "contains": 2017, "propertyNames": 2017, "if": 2018, "then": 2018, "else": 2018,
    "dependentRequired": 2019, "dependentSchemas": 2019, "minContains": 2019, "maxContains": 2019,
    "unevaluatedProperties": 2019, "unevaluatedItems": 2019, "prefixItems": 2020,
}  # fmt: skip


def says(schema: JSONObject, year: int, sub: Sub) -> dict[str, Any]:
    """Return the statements of a schema object. The caller handles references.

    ``sub(schema, *tokens)`` returns the term of a sub-schema.
    """
    known = {keyword: value for keyword, value in schema.items() if _SINCE.get(keyword, 0) <= year}
    found: dict[str, Any] = {keyword: known[keyword] for keyword in _PLAIN if keyword in known}
    found |= {keyword: int(known[keyword]) for keyword in _COUNTS if keyword in known}
    found |= {keyword: sub(known[keyword], keyword) for keyword in ONE if keyword in known}
    for keyword in ("allOf", "anyOf", "oneOf"):
        if keyword in known:
            found[keyword] = tuple(sub(item, keyword, index) for index, item in enumerate(known[keyword]))
    for keyword in ("properties", "patternProperties", "dependentSchemas"):
        if keyword in known:
            found[keyword] = {name: sub(item, keyword, name) for name, item in known[keyword].items()}
    _sets(known, found)
    _exclusive(known, found)
    _dependencies(known, found)
    found |= _items(known, year, sub) | _content(known, year)
    _schema_dependencies(known, sub, found)
    return {keyword: value for keyword, value in found.items() if not _idle(keyword, value, found)}


def children(schema: JSONObject) -> Iterator[tuple[tuple[str, ...], JSON]]:
    """Every sub-schema of a schema object with the tokens that lead to it, whatever the draft."""
    for keyword in (*ONE, "items", "additionalItems"):
        if isinstance(schema.get(keyword), dict):
            yield (keyword,), schema[keyword]
    for keyword in (*MANY, "items"):
        if isinstance(schema.get(keyword), list):
            yield from (((keyword, str(index)), item) for index, item in enumerate(schema[keyword]))
    for keyword in NAMED:
        if isinstance(schema.get(keyword), dict):
            yield from (((keyword, name), item) for name, item in schema[keyword].items())


def _sets(known: JSONObject, found: dict[str, Any]) -> None:
    if "type" in known:
        found["type"] = frozenset([known["type"]] if isinstance(known["type"], str) else known["type"])
    if isinstance(known.get("required"), list):
        found["required"] = frozenset(known["required"])
    if isinstance(known.get("enum"), list):
        found["enum"] = tuple(known["enum"])
    if known.get("uniqueItems") is True:
        found["uniqueItems"] = True


def _content(known: JSONObject, year: int) -> dict[str, Any]:
    """Asserted by the validator in the two drafts that allow it."""
    named = (known.get("contentEncoding"), known.get("contentMediaType"))
    return {"content": named} if year in (2017, 2018) and any(named) else {}


def _exclusive(known: JSONObject, found: dict[str, Any]) -> None:
    """Draft-04 says with a boolean that the bound beside it is itself excluded."""
    for closed, opened in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(known.get(opened), bool):
            del found[opened]
            if known[opened] and closed in found:
                found[opened] = found.pop(closed)


def _dependencies(known: JSONObject, found: dict[str, Any]) -> None:
    """The older keyword is still honoured in the newer drafts."""
    older = known.get("dependencies", {})
    named = {
        **{name: need for name, need in older.items() if isinstance(need, list)},
        **known.get("dependentRequired", {}),
    }
    for name in older.keys() & known.get("dependentRequired", {}).keys():
        if isinstance(older[name], list):
            named[name] = [*older[name], *named[name]]
    if named:
        found["dependentRequired"] = {name: frozenset(need) for name, need in named.items()}


def _schema_dependencies(known: JSONObject, sub: Sub, found: dict[str, Any]) -> None:
    older = {
        name: sub(item, "dependencies", name)
        for name, item in known.get("dependencies", {}).items()
        if not isinstance(item, list)
    }
    if older:
        found["dependencies"] = older


def _items(known: JSONObject, year: int, sub: Sub) -> dict[str, Any]:
    items = known.get("items")
    if isinstance(items, list) and year < 2020:
        found = {"prefixItems": tuple(sub(item, "items", index) for index, item in enumerate(items))}
        rest = {"items": sub(known["additionalItems"], "additionalItems")} if "additionalItems" in known else {}
        return {**found, **rest}
    prefix = tuple(sub(item, "prefixItems", index) for index, item in enumerate(known.get("prefixItems", ())))
    return {**({"prefixItems": prefix} if prefix else {}), **({} if items is None else {"items": sub(items, "items")})}


def _idle(keyword: str, value: Any, found: dict[str, Any]) -> bool:
    """Return True if a keyword has no effect as it stands."""
    if keyword in ("minLength", "minItems", "minProperties", "required", "allOf", "prefixItems"):
        return not value
    if keyword in ("then", "else"):
        return "if" not in found
    return keyword in ("minContains", "maxContains") and "contains" not in found


_DYNAMIC = ("$dynamicRef", "$recursiveRef")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SchemaResource:
    """A schema with a URI of its own: a document, or a part of one that has an ``$id``.

    ``document`` is the URI of the document it is in, ``pointer`` where in it.
    """

    uri: str
    document: str
    pointer: str
    root: JSON


class Resources:
    """All resources and anchors of a document and its references.

    ``anchors`` has the pointer of (resource, name); ``dynamic`` are those of dynamic references, with the name "" for
    ``$recursiveAnchor``. ``scoped`` tells whether there are any.
    """

    def __init__(self, document: JsonSchemaDocument) -> None:
        self.year = document.dialect.year
        self.by_uri: dict[str, SchemaResource] = {}
        self.anchors: dict[tuple[str, str], str] = {}
        self.dynamic: set[tuple[str, str]] = set()
        for uri, root in document.documents.items():
            self._index(uri, root)
        self.scoped = self.year >= 2019 and any(_mentions(root, _DYNAMIC) for root in document.documents.values())

    def at(self, node: JSON, outer: SchemaResource) -> SchemaResource:
        """The resource that a schema within ``outer`` belongs to: its own, if it has a URI."""
        own = own_uri(node, self.year)
        return self.by_uri.get(absolute(outer.uri, own), outer) if own else outer

    def _index(self, uri: str, root: JSON) -> None:
        own = own_uri(root, self.year)
        top = SchemaResource(uri=absolute(uri, own) if own else uri, document=uri, pointer="", root=root)
        self.by_uri[uri] = self.by_uri[top.uri] = top
        waiting: list[tuple[JSON, SchemaResource, str]] = [(root, top, "")]
        while waiting:
            node, resource, pointer = waiting.pop()
            if isinstance(node, dict):
                resource, pointer = self._enter(node, resource, pointer)
                self._anchor(node, resource, pointer)
                waiting.extend((child, resource, pointer + pointer_of(tokens)) for tokens, child in children(node))

    def _enter(self, node: JSONObject, resource: SchemaResource, pointer: str) -> tuple[SchemaResource, str]:
        own = own_uri(node, self.year)
        if not own or node is resource.root:
            return resource, pointer
        uri = absolute(resource.uri, own)
        inner = SchemaResource(uri=uri, document=resource.document, pointer=resource.pointer + pointer, root=node)
        return self.by_uri.setdefault(uri, inner), ""

    def _anchor(self, node: JSONObject, resource: SchemaResource, pointer: str) -> None:
        own = node.get("id" if self.year == 2013 else "$id")
        if self.year < 2019 and isinstance(own, str) and fragment_of(own):
            self.anchors[resource.uri, fragment_of(own)] = pointer
        for keyword in ("$anchor", "$dynamicAnchor") if self.year >= 2019 else ():
            if isinstance(node.get(keyword), str):
                self.anchors[resource.uri, node[keyword]] = pointer
        if self.year == 2020 and isinstance(node.get("$dynamicAnchor"), str):
            self.dynamic.add((resource.uri, node["$dynamicAnchor"]))
        if self.year == 2019 and node.get("$recursiveAnchor") is True and not pointer:
            self.dynamic.add((resource.uri, ""))


def own_uri(node: JSON, year: int) -> str:
    """Return a schema's own URI, if it is more than a fragment."""
    if not isinstance(node, dict) or (year < 2019 and isinstance(node.get("$ref"), str)):
        return ""
    own = node.get("id" if year == 2013 else "$id")
    return own.partition("#")[0] if isinstance(own, str) else ""


def _mentions(value: JSON, keywords: tuple[str, ...]) -> bool:
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if any(keyword in node for keyword in keywords):
                return True
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return False


_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Spot:
    """A schema's place: the innermost resource and the pointer in it.

    ``scope`` are the resources gone through to get there, outermost first, where a dynamic reference may ask for them.
    """

    resource: SchemaResource
    pointer: str
    scope: tuple[str, ...]


class Library:
    """Makes each term once."""

    def __init__(self, document: JsonSchemaDocument) -> None:
        self.document = document
        self.year = document.dialect.year
        self.resources = Resources(document)
        self.terms: dict[tuple[str, str, tuple[str, ...]], Term] = {}
        self.checked: dict[Term, bool] = {}

    def refer(self, uri: str) -> Term:
        """The term at an absolute URI."""
        return self._refer(uri, Spot(self.resources.by_uri[self.document.base], "", ()))

    def _refer(self, reference: str, spot: Spot) -> Term:
        uri, fragment = absolute(spot.resource.uri, reference), fragment_of(reference)
        target = self.resources.by_uri.get(uri)
        pointed = not fragment or fragment.startswith("/")
        pointer = fragment if pointed else self.resources.anchors.get((target.uri, fragment)) if target else None
        if target is None or pointer is None:
            return self._opaque(uri_of(uri, fragment))
        found = self._descend(target, pointer, spot.scope)
        return (
            found
            if found.raw is not _MISSING and self._is_schema(found, pointer)
            else self._opaque(uri_of(uri, fragment))
        )

    def _is_schema(self, term: Term, pointer: str) -> bool:
        """Return True if a target is a schema. Places that the draft does not know have not been checked yet."""
        keyword, _, name = pointer[1:].partition("/")
        known = ("definitions", "$defs") if self.year >= 2019 else ("definitions",)
        if not pointer or (keyword in known and "/" not in name):
            return True
        if term not in self.checked:
            self.checked[term] = bool(meta_validator(self.document.dialect).is_valid(term.raw))
        return self.checked[term]

    def _descend(self, resource: SchemaResource, pointer: str, scope: tuple[str, ...]) -> Term:
        node, done = resource.root, ""
        for token in pointer.split("/")[1:]:
            node, done = _step(node, token), f"{done}/{token}"
            inner = self.resources.at(node, resource)
            if inner is not resource:
                resource, done = inner, ""
        return self._term(node, Spot(resource, done, scope))

    def _term(self, schema: JSON, spot: Spot) -> Term:
        if self.resources.scoped and spot.resource.uri not in spot.scope:
            spot = Spot(spot.resource, spot.pointer, (*spot.scope, spot.resource.uri))
        key = (spot.resource.uri, spot.pointer, spot.scope)
        if key not in self.terms:
            self.terms[key] = Term(
                self._path(spot), schema, self.year, lambda: self._says(schema, spot), lambda: self._accepts(spot)
            )
        return self.terms[key]

    def _path(self, spot: Spot) -> str:
        pointer, home = spot.resource.pointer + spot.pointer, spot.resource.document
        return pointer if home == self.document.base else uri_of(home, pointer)

    def _sub(self, schema: JSON, spot: Spot, *tokens: str | int) -> Term:
        inner = self.resources.at(schema, spot.resource)
        pointer = spot.pointer + pointer_of(tokens) if inner is spot.resource else ""
        return self._term(schema, Spot(inner, pointer, spot.scope))

    def _says(self, schema: JSON, spot: Spot) -> Says:
        if not isinstance(schema, dict):
            return {"never": True} if schema is False else {}
        if self.document.is_foreign(spot.resource.root):
            return {"ref": self._opaque(uri_of(spot.resource.uri, spot.pointer))}
        reference = schema.get("$ref")
        if self.year < 2019 and isinstance(reference, str):
            return {"ref": self._refer(reference, spot)}
        found: dict[str, Any] = says(schema, self.year, lambda item, *tokens: self._sub(item, spot, *tokens))
        if isinstance(reference, str):
            found["ref"] = self._refer(reference, spot)
        dynamic = schema.get("$dynamicRef" if self.year == 2020 else "$recursiveRef")
        if isinstance(dynamic, str) and self.year >= 2019:
            found["dynamicRef"] = self._outermost(dynamic, spot)
        return found

    def _outermost(self, reference: str, spot: Spot) -> Term:
        """Return the target of a dynamic reference: the outermost anchor of the name, if the nearest one is dynamic."""
        name, nearest = fragment_of(reference), absolute(spot.resource.uri, reference)
        for uri in spot.scope if (nearest, name) in self.resources.dynamic else ():
            if (uri, name) in self.resources.dynamic:
                pointer = self.resources.anchors.get((uri, name), "")
                return self._descend(self.resources.by_uri[uri], pointer, spot.scope)
        return self._refer(reference, spot)

    def _accepts(self, spot: Spot) -> Accepts | None:
        if self.resources.scoped or self.document.is_foreign(spot.resource.root):
            return None
        try:
            validator = self.document.validator(uri_of(spot.resource.uri, spot.pointer))
        except UNUSABLE:
            return None
        return partial(regexes.is_valid, validator)

    def _opaque(self, uri: str) -> Term:
        """Something only the validator understands: the same as itself and as nothing else."""
        known = by_schema_uri(uri) is not None
        key = (uri, "opaque", ())
        if key not in self.terms:
            says = {"opaque": (uri, "" if known else self.document.fingerprint)}
            self.terms[key] = made(says, self.year, uri)
        return self.terms[key]


def _step(node: JSON, token: str) -> JSON:
    try:
        return step_into(node, token)
    except LookupError:
        return _MISSING

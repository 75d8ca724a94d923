"""Build the terms of a document and of all documents that it refers to, for all drafts of JSON Schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from signalbook.formats.base import format_pointer as pointer_of
from signalbook.formats.jsonschema import regexes
from signalbook.formats.jsonschema.comparison.terms import Accepts, Keywords, Term, make_term
from signalbook.formats.jsonschema.dialects import UNUSABLE, find_by_schema_uri, find_meta_validator
from signalbook.formats.jsonschema.document import JsonSchemaDocument, find_fragment, make_uri, resolve_uri
from signalbook.values import JSON, JSONObject, step_into

# A function that makes the term of a sub-schema; the further arguments are the path tokens that lead to it.
MakeTerm = Callable[..., Any]

SINGLE_KEYWORDS: Final = (
    "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties", "not", "if",
    "then", "else",
)  # fmt: skip
LIST_KEYWORDS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
MAP_KEYWORDS: Final = ("properties", "patternProperties", "dependentSchemas", "definitions", "$defs", "dependencies")
_VALUE_KEYWORDS: Final = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "const",
)  # fmt: skip
_COUNT_KEYWORDS: Final = (
    "minLength", "minItems", "minProperties", "maxLength", "maxItems", "maxProperties", "minContains", "maxContains",
)  # fmt: skip
# The year of the draft that introduced each keyword; keywords of the first draft are not listed.
_YEAR_BY_KEYWORD: Final = {
    "const": 2017, "contains": 2017, "propertyNames": 2017, "if": 2018, "then": 2018, "else": 2018,
    "dependentRequired": 2019, "dependentSchemas": 2019, "minContains": 2019, "maxContains": 2019,
    "unevaluatedProperties": 2019, "unevaluatedItems": 2019, "prefixItems": 2020,
}  # fmt: skip


def read_keywords(schema: JSONObject, year: int, make_term: MakeTerm) -> dict[str, Any]:
    """Return the keywords of a schema object without its references, which the caller resolves.

    ``make_term(schema, *tokens)`` returns the term of a sub-schema.
    """
    keywords = {keyword: value for keyword, value in schema.items() if _YEAR_BY_KEYWORD.get(keyword, 0) <= year}
    result: dict[str, Any] = {keyword: keywords[keyword] for keyword in _VALUE_KEYWORDS if keyword in keywords}
    result |= {keyword: int(keywords[keyword]) for keyword in _COUNT_KEYWORDS if keyword in keywords}
    result |= {keyword: make_term(keywords[keyword], keyword) for keyword in SINGLE_KEYWORDS if keyword in keywords}
    for keyword in ("allOf", "anyOf", "oneOf"):
        if keyword in keywords:
            result[keyword] = tuple(make_term(item, keyword, index) for index, item in enumerate(keywords[keyword]))
    for keyword in ("properties", "patternProperties", "dependentSchemas"):
        if keyword in keywords:
            result[keyword] = {name: make_term(item, keyword, name) for name, item in keywords[keyword].items()}
    _read_sets(keywords, result)
    _read_exclusive(keywords, result)
    _read_dependencies(keywords, result)
    result |= _read_items(keywords, year, make_term) | _read_content(keywords, year)
    _read_schema_dependencies(keywords, make_term, result)
    return {keyword: value for keyword, value in result.items() if not _is_idle(keyword, value, result)}


def list_children(schema: JSONObject) -> Iterator[tuple[tuple[str, ...], JSON]]:
    """Yield every sub-schema of ``schema`` with the path tokens that lead to it, for keywords of all drafts."""
    for keyword in (*SINGLE_KEYWORDS, "items", "additionalItems"):
        if isinstance(schema.get(keyword), dict):
            yield (keyword,), schema[keyword]
    for keyword in (*LIST_KEYWORDS, "items"):
        if isinstance(schema.get(keyword), list):
            yield from (((keyword, str(index)), item) for index, item in enumerate(schema[keyword]))
    for keyword in MAP_KEYWORDS:
        if isinstance(schema.get(keyword), dict):
            yield from (((keyword, name), item) for name, item in schema[keyword].items())


def _read_sets(keywords: JSONObject, result: dict[str, Any]) -> None:
    if "type" in keywords:
        result["type"] = frozenset([keywords["type"]] if isinstance(keywords["type"], str) else keywords["type"])
    if isinstance(keywords.get("required"), list):
        result["required"] = frozenset(keywords["required"])
    if isinstance(keywords.get("enum"), list):
        result["enum"] = tuple(keywords["enum"])
    if keywords.get("uniqueItems") is True:
        result["uniqueItems"] = True


def _read_content(keywords: JSONObject, year: int) -> dict[str, Any]:
    """Return ``contentEncoding`` and ``contentMediaType``, which the validator checks in two drafts only."""
    content = (keywords.get("contentEncoding"), keywords.get("contentMediaType"))
    return {"content": content} if year in (2017, 2018) and any(content) else {}


def _read_exclusive(keywords: JSONObject, result: dict[str, Any]) -> None:
    """Convert the boolean ``exclusiveMinimum`` and ``exclusiveMaximum`` of draft-04 to bounds."""
    for closed, opened in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(keywords.get(opened), bool):
            del result[opened]
            if keywords[opened] and closed in result:
                result[opened] = result.pop(closed)


def _read_dependencies(keywords: JSONObject, result: dict[str, Any]) -> None:
    """Convert the lists in ``dependencies``, which newer drafts still support, to ``dependentRequired``."""
    older = keywords.get("dependencies", {})
    required = {
        **{name: need for name, need in older.items() if isinstance(need, list)},
        **keywords.get("dependentRequired", {}),
    }
    for name in older.keys() & keywords.get("dependentRequired", {}).keys():
        if isinstance(older[name], list):
            required[name] = [*older[name], *required[name]]
    if required:
        result["dependentRequired"] = {name: frozenset(need) for name, need in required.items()}


def _read_schema_dependencies(keywords: JSONObject, make_term: MakeTerm, result: dict[str, Any]) -> None:
    older = {
        name: make_term(item, "dependencies", name)
        for name, item in keywords.get("dependencies", {}).items()
        if not isinstance(item, list)
    }
    if older:
        result["dependencies"] = older


def _read_items(keywords: JSONObject, year: int, make_term: MakeTerm) -> dict[str, Any]:
    items = keywords.get("items")
    if isinstance(items, list) and year < 2020:
        result: dict[str, Any] = {
            "prefixItems": tuple(make_term(item, "items", index) for index, item in enumerate(items))
        }
        if "additionalItems" in keywords:
            result["items"] = make_term(keywords["additionalItems"], "additionalItems")
        return result
    prefix = tuple(make_term(item, "prefixItems", index) for index, item in enumerate(keywords.get("prefixItems", ())))
    return {
        **({"prefixItems": prefix} if prefix else {}),
        **({} if items is None else {"items": make_term(items, "items")}),
    }


def _is_idle(keyword: str, value: Any, result: dict[str, Any]) -> bool:
    """Return True if ``keyword`` with ``value`` has no effect."""
    if keyword in ("minLength", "minItems", "minProperties", "required", "allOf", "prefixItems"):
        return not value
    if keyword in ("then", "else"):
        return "if" not in result
    return keyword in ("minContains", "maxContains") and "contains" not in result


_DYNAMIC = ("$dynamicRef", "$recursiveRef")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SchemaResource:
    """A schema with its own URI: a document, or a part of a document that has an ``$id``.

    ``document`` is the URI of the document that contains it, ``pointer`` its place in that document.
    """

    uri: str
    document: str
    pointer: str
    root: JSON


class Resources:
    """The resources and anchors of a document and of the documents that it refers to.

    ``anchors`` has a JSON Pointer by resource URI and anchor name. ``dynamic`` has the keys of the anchors for dynamic
    references, with the name "" for ``$recursiveAnchor``. ``scoped`` is True if there are dynamic references.
    """

    def __init__(self, document: JsonSchemaDocument) -> None:
        self.year = document.dialect.year
        self.by_uri: dict[str, SchemaResource] = {}
        self.anchors: dict[tuple[str, str], str] = {}
        self.dynamic: set[tuple[str, str]] = set()
        for uri, root in document.documents.items():
            self._index(uri, root)
        self.scoped = self.year >= 2019 and any(_has_keywords(root, _DYNAMIC) for root in document.documents.values())

    def find_resource(self, node: JSON, outer: SchemaResource) -> SchemaResource:
        """Return the resource that the schema ``node`` belongs to: its own if it has a URI, otherwise ``outer``."""
        uri = find_own_uri(node, self.year)
        return self.by_uri.get(resolve_uri(outer.uri, uri), outer) if uri else outer

    def _index(self, uri: str, root: JSON) -> None:
        reference = find_own_uri(root, self.year)
        top = SchemaResource(uri=resolve_uri(uri, reference) if reference else uri, document=uri, pointer="", root=root)
        self.by_uri[uri] = self.by_uri[top.uri] = top
        waiting: list[tuple[JSON, SchemaResource, str]] = [(root, top, "")]
        while waiting:
            node, resource, pointer = waiting.pop()
            if isinstance(node, dict):
                resource, pointer = self._enter_resource(node, resource, pointer)
                self._add_anchors(node, resource, pointer)
                waiting.extend((child, resource, pointer + pointer_of(tokens)) for tokens, child in list_children(node))

    def _enter_resource(self, node: JSONObject, resource: SchemaResource, pointer: str) -> tuple[SchemaResource, str]:
        reference = find_own_uri(node, self.year)
        if not reference or node is resource.root:
            return resource, pointer
        uri = resolve_uri(resource.uri, reference)
        inner = SchemaResource(uri=uri, document=resource.document, pointer=resource.pointer + pointer, root=node)
        return self.by_uri.setdefault(uri, inner), ""

    def _add_anchors(self, node: JSONObject, resource: SchemaResource, pointer: str) -> None:
        id_text = node.get("id" if self.year == 2013 else "$id")
        if self.year < 2019 and isinstance(id_text, str) and find_fragment(id_text):
            self.anchors[resource.uri, find_fragment(id_text)] = pointer
        for keyword in ("$anchor", "$dynamicAnchor") if self.year >= 2019 else ():
            if isinstance(node.get(keyword), str):
                self.anchors[resource.uri, node[keyword]] = pointer
        if self.year == 2020 and isinstance(node.get("$dynamicAnchor"), str):
            self.dynamic.add((resource.uri, node["$dynamicAnchor"]))
        if self.year == 2019 and node.get("$recursiveAnchor") is True and not pointer:
            self.dynamic.add((resource.uri, ""))


def find_own_uri(node: JSON, year: int) -> str:
    """Return the URI that a schema declares for itself; empty if there is none or if it is only a fragment."""
    if not isinstance(node, dict) or (year < 2019 and isinstance(node.get("$ref"), str)):
        return ""
    id_text = node.get("id" if year == 2013 else "$id")
    return id_text.partition("#")[0] if isinstance(id_text, str) else ""


def _has_keywords(value: JSON, keywords: tuple[str, ...]) -> bool:
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


_NO_NODE: Final = object()


@dataclass(frozen=True, slots=True)
class SchemaPosition:
    """The place of a schema: the innermost resource and the pointer in it.

    ``scope`` lists the resources on the path to this place, outermost first; dynamic references are resolved with it.
    """

    resource: SchemaResource
    pointer: str
    scope: tuple[str, ...]


class TermLibrary:
    """A factory and cache of the terms of one document."""

    def __init__(self, document: JsonSchemaDocument) -> None:
        self.document = document
        self.year = document.dialect.year
        self.resources = Resources(document)
        self.terms: dict[tuple[str, str, tuple[str, ...]], Term] = {}
        self.checked: dict[Term, bool] = {}

    def refer(self, uri: str) -> Term:
        """Return the term at ``uri``, absolute or relative to the document."""
        return self._resolve(uri, SchemaPosition(self.resources.by_uri[self.document.base], "", ()))

    def _resolve(self, reference: str, position: SchemaPosition) -> Term:
        uri, fragment = resolve_uri(position.resource.uri, reference), find_fragment(reference)
        target = self.resources.by_uri.get(uri)
        pointed = not fragment or fragment.startswith("/")
        pointer = fragment if pointed else self.resources.anchors.get((target.uri, fragment)) if target else None
        if target is None or pointer is None:
            return self._make_opaque(make_uri(uri, fragment))
        term = self._find_term(target, pointer, position.scope)
        return (
            term
            if term.raw is not _NO_NODE and self._is_schema(term, pointer)
            else self._make_opaque(make_uri(uri, fragment))
        )

    def _is_schema(self, term: Term, pointer: str) -> bool:
        """Return True if the target of a reference is a valid schema. Targets at unknown keywords
        have not been checked yet.
        """
        keyword, _, name = pointer[1:].partition("/")
        definition_keywords = ("definitions", "$defs") if self.year >= 2019 else ("definitions",)
        if not pointer or (keyword in definition_keywords and "/" not in name):
            return True
        if term not in self.checked:
            self.checked[term] = bool(find_meta_validator(self.document.dialect).is_valid(term.raw))
        return self.checked[term]

    def _find_term(self, resource: SchemaResource, pointer: str, scope: tuple[str, ...]) -> Term:
        node, pointer_so_far = resource.root, ""
        for token in pointer.split("/")[1:]:
            node, pointer_so_far = _step_into(node, token), f"{pointer_so_far}/{token}"
            inner = self.resources.find_resource(node, resource)
            if inner is not resource:
                resource, pointer_so_far = inner, ""
        return self._make_term(node, SchemaPosition(resource, pointer_so_far, scope))

    def _make_term(self, schema: JSON, position: SchemaPosition) -> Term:
        if self.resources.scoped and position.resource.uri not in position.scope:
            position = SchemaPosition(position.resource, position.pointer, (*position.scope, position.resource.uri))
        key = (position.resource.uri, position.pointer, position.scope)
        if key not in self.terms:
            self.terms[key] = Term(
                self._format_path(position),
                schema,
                self.year,
                lambda: self._read_keywords(schema, position),
                lambda: self._make_check(position),
            )
        return self.terms[key]

    def _format_path(self, position: SchemaPosition) -> str:
        pointer, home = position.resource.pointer + position.pointer, position.resource.document
        return pointer if home == self.document.base else make_uri(home, pointer)

    def _make_sub_term(self, schema: JSON, position: SchemaPosition, *tokens: str | int) -> Term:
        inner = self.resources.find_resource(schema, position.resource)
        pointer = position.pointer + pointer_of(tokens) if inner is position.resource else ""
        return self._make_term(schema, SchemaPosition(inner, pointer, position.scope))

    def _read_keywords(self, schema: JSON, position: SchemaPosition) -> Keywords:
        if not isinstance(schema, dict):
            return {"never": True} if schema is False else {}
        if self.document.is_foreign(position.resource.root):
            return {"ref": self._make_opaque(make_uri(position.resource.uri, position.pointer))}
        reference = schema.get("$ref")
        if self.year < 2019 and isinstance(reference, str):
            return {"ref": self._resolve(reference, position)}
        result: dict[str, Any] = read_keywords(
            schema, self.year, lambda item, *tokens: self._make_sub_term(item, position, *tokens)
        )
        if isinstance(reference, str):
            result["ref"] = self._resolve(reference, position)
        dynamic = schema.get("$dynamicRef" if self.year == 2020 else "$recursiveRef")
        if isinstance(dynamic, str) and self.year >= 2019:
            result["dynamicRef"] = self._resolve_dynamic(dynamic, position)
        return result

    def _resolve_dynamic(self, reference: str, position: SchemaPosition) -> Term:
        """Return the target of a dynamic reference: the outermost anchor of that name if the
        nearest anchor is dynamic.
        """
        name, nearest = find_fragment(reference), resolve_uri(position.resource.uri, reference)
        for uri in position.scope if (nearest, name) in self.resources.dynamic else ():
            if (uri, name) in self.resources.dynamic:
                pointer = self.resources.anchors.get((uri, name), "")
                return self._find_term(self.resources.by_uri[uri], pointer, position.scope)
        return self._resolve(reference, position)

    def _make_check(self, position: SchemaPosition) -> Accepts | None:
        if self.resources.scoped or self.document.is_foreign(position.resource.root):
            return None
        try:
            validator = self.document.validator(make_uri(position.resource.uri, position.pointer))
        except UNUSABLE:
            return None
        return partial(regexes.is_valid, validator)

    def _make_opaque(self, uri: str) -> Term:
        """Return the term for a schema that only the validator understands; it equals only terms of the same URI and
        document.
        """
        is_known = find_by_schema_uri(uri) is not None
        key = (uri, "opaque", ())
        if key not in self.terms:
            keywords = {"opaque": (uri, "" if is_known else self.document.fingerprint)}
            self.terms[key] = make_term(keywords, self.year, uri)
        return self.terms[key]


def _step_into(node: JSON, token: str) -> JSON:
    try:
        return step_into(node, token)
    except LookupError:
        return _NO_NODE

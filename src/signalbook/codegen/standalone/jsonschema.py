"""JSON Schemas of all drafts in one normal form, which libraries read alike.

The normal form is draft 2020-12 with a part of its vocabulary. All references are resolved: a reference points to a
definition in ``$defs`` of the same document, and no schema has an id, an anchor or a dynamic reference. Keywords that
say nothing about values (annotations, ``format``) and keywords that the draft of the schema does not have are removed.
``content…`` says something about values in draft-07 alone. Patterns are in the syntax that the engine of the language
reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from signalbook.codegen.base import Inexpressible
from signalbook.codegen.standalone.patterns import portable
from signalbook.formats.jsonschema.document import JsonSchemaDocument, find_fragment, resolve_uri, walk
from signalbook.values import JSON, JSONObject, step_into

MOST_RULES: Final = 200_000
_SIZES: Final = ("minLength", "maxLength", "minProperties", "maxProperties", "minItems", "maxItems")
_BOUNDS: Final = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))
_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SINGLE: Final = ("not", "additionalProperties")
# Keywords that a year brought.
_SINCE: Final = {
    2017: ("contains", "propertyNames"),
    2018: ("if", "then", "else"),
    2019: ("unevaluatedProperties", "unevaluatedItems"),
}
_HERE_ALONE: Final = ("not", "if", "then", "else")
_BELOW: Final = (
    "additionalProperties", "propertyNames", "items", "contains", "unevaluatedProperties", "unevaluatedItems",
)  # fmt: skip
_MAPS: Final = ("properties", "patternProperties")
# Keywords whose schemas have names, and all others that have schemas.
_NAMED: Final = frozenset({*_MAPS, "dependentSchemas", "dependencies", "$defs", "definitions"})
_WITH_SCHEMAS: Final = frozenset({*_LISTS, *_HERE_ALONE, *_BELOW, "prefixItems", "additionalItems"})
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
CONTENT: Final = ("contentEncoding", "contentMediaType")
_YEAR_CONST: Final = 2017
_YEAR_CONTENT: Final = 2018
_YEAR_REF_BESIDE: Final = 2019
_YEAR_PREFIX: Final = 2020

Place = tuple[JSON, str]
"""A schema, and the URI that references in it are relative to."""


class JsonSchemas:
    """The schemas that were requested of one document, and those they refer to.

    ``rules`` are schemas in the normal form, except that each sub-schema is its place in ``rules``. ``pattern`` makes
    a pattern that the language's engine reads, and raises ``Inexpressible`` if there is none.
    """

    format: Final[Literal["json"]] = "json"

    def __init__(self, document: JsonSchemaDocument, pattern: Callable[[str], str] = portable) -> None:
        self.rules: list[Any] = []
        self._roots: set[int] = set()
        self._referred: set[int] = set()
        self._pattern = pattern
        self._failures: dict[int, Inexpressible] = {}  # of places that have no rule
        self._year = document.dialect.year
        self._known: dict[tuple[int, str], int] = {}
        self._waiting: list[tuple[int, Place]] = []
        self._kept: list[JSON] = []  # schemas made here, so that no two have one address
        self._resources: dict[str, JSON] = dict(document.documents)
        self._anchors: dict[tuple[str, str], JSON] = {}
        self._dynamic: Counter[str] = Counter()
        self._acyclic: set[int] = set()
        self._checked: set[int] = set()
        for base, root in document.documents.items():
            self._read_names(root, base)

    def _read_names(self, root: JSON, base: str) -> None:
        # What looks like an id in an unknown keyword is none where another schema has the same.
        for _, node, scope in sorted(walk(root, base), key=lambda item: not _is_schema_path(item[0])):
            identifier = self._find_identifier(node)
            if identifier:
                if identifier.startswith("#"):
                    self._anchors.setdefault((scope, identifier[1:]), node)
                else:
                    self._resources.setdefault(scope, node)
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(keyword), str):
                    self._anchors.setdefault((scope, node[keyword]), node)
            if isinstance(node.get("$dynamicAnchor"), str):
                self._dynamic[node["$dynamicAnchor"]] += 1
            if node.get("$recursiveAnchor") is True:
                self._dynamic[""] += 1

    def _find_identifier(self, node: JSONObject) -> str:
        """Return the id of a schema; nothing for one next to a reference, which older drafts ignore."""
        identifier = node.get("$id") or node.get("id")
        is_ignored = self._year < _YEAR_REF_BESIDE and "$ref" in node
        return identifier if isinstance(identifier, str) and not is_ignored else ""

    def _find_scope(self, node: JSONObject, scope: str) -> str:
        identifier = self._find_identifier(node)
        return scope if not identifier or identifier.startswith("#") else resolve_uri(scope, identifier)

    @property
    def document(self) -> JSONObject:
        """The schemas in the normal form: those whose names ``of`` has returned, and those they refer to.

        A schema that no reference leads to stands where it is used, so schemas are nested as in the document.
        """
        reachable: set[int] = set()
        for root in self._roots:
            reachable.update(_find_reachable(self.rules, root, reachable))
        referred = {place for place in self._referred & reachable if isinstance(self.rules[place], dict)}
        definitions = sorted(self._roots | referred)
        writer = _Writer(self.rules, frozenset(definitions))
        return {"$schema": _DIALECT, "$defs": {str(place): writer.definition(place) for place in definitions}}

    def of(self, schema: Any) -> str:
        """Return the name of a schema of the document in ``$defs``. Raises ``Inexpressible``."""
        return str(self.at(schema.uri))

    def at(self, uri: str) -> int:
        """Return the place of the schema at a URI in ``rules``. Raises ``Inexpressible``."""
        base, _, _ = uri.partition("#")
        place = self._index(*self._resolve(uri, base))
        while self._waiting:
            index, (node, scope) = self._waiting.pop()
            assert isinstance(node, dict)
            try:
                self.rules[index] = self._build_rule(node, scope)
            except Inexpressible as error:
                self._failures[index] = error
        # Others of the document may refer to the same place, or have nothing to do with it.
        for index in _find_reachable(self.rules, place, set()) if self._failures else ():
            if index in self._failures:
                raise self._failures[index]
        self._check_cycles(place)
        self._roots.add(place)
        return place

    def _resolve(self, reference: str, scope: str) -> Place:
        target, fragment = resolve_uri(scope, reference), find_fragment(reference)
        if target not in self._resources:
            raise Inexpressible(f"its schema refers to {target}, whose rules are not at hand")
        node = self._resources[target]
        if not fragment:
            return node, target
        if fragment.startswith("/"):
            return self._follow_pointer(node, target, fragment)
        if (target, fragment) not in self._anchors:
            raise Inexpressible(f"its schema refers to {reference}, which is not there")
        return self._anchors[target, fragment], target

    def _follow_pointer(self, node: JSON, scope: str, pointer: str) -> Place:
        for part in pointer.split("/")[1:]:
            scope = self._find_scope(node, scope) if isinstance(node, dict) else scope
            try:
                node = step_into(node, part)
            except LookupError:
                node = True
        return node, scope

    def _index(self, node: JSON, scope: str) -> int:
        if not isinstance(node, dict):
            node = node is not False
        else:
            scope = self._find_scope(node, scope)
        key = (id(node), "" if isinstance(node, bool) else scope)
        if key not in self._known:
            if len(self.rules) >= MOST_RULES:
                raise Inexpressible(f"its schema has more than {MOST_RULES} parts")
            self._known[key] = len(self.rules)
            self.rules.append(node if isinstance(node, bool) else True)
            if isinstance(node, dict):
                self._waiting.append((self._known[key], (node, scope)))
        return self._known[key]

    def _build_rule(self, node: JSONObject, scope: str) -> JSONObject:
        def sub(schema: JSON) -> int:
            return self._index(schema, scope)

        referred = [self._index(*self._resolve(part, scope)) for part in self._list_references(node)]
        self._referred.update(referred)
        if referred and self._year < _YEAR_REF_BESIDE:
            return {"allOf": referred}
        rule: JSONObject = {name: _read_size(node[name]) for name in _SIZES if name in node}
        rule |= {name: node[name] for name in ("required", "enum", "multipleOf") if name in node}
        if self._year == _YEAR_CONTENT:
            rule |= {name: node[name] for name in CONTENT if name in node}
        if node.get("uniqueItems"):
            rule["uniqueItems"] = True
        if "pattern" in node:
            rule["pattern"] = self._pattern(node["pattern"])
        if "type" in node:
            rule["type"] = node["type"] if isinstance(node["type"], list) else [node["type"]]
        rule |= _read_bounds(node)
        rule |= {name: sub(node[name]) for name in (*_SINGLE, *self._list_since()) if name in node}
        rule |= self._build_items(node, sub)
        rule |= self._build_members(node, sub)
        lists: dict[str, list[int]] = {name: [sub(part) for part in node[name]] for name in _LISTS if name in node}
        every = [*lists.pop("allOf", []), *referred, *self._add_const(node, rule)]
        return {**rule, **lists, **({"allOf": every} if every else {})}

    def _list_since(self) -> Iterator[str]:
        return (name for year, keywords in _SINCE.items() if year <= self._year for name in keywords)

    def _list_references(self, node: JSONObject) -> Iterator[str]:
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            reference = node.get(keyword)
            if not isinstance(reference, str) or (keyword != "$ref" and self._year < _YEAR_REF_BESIDE):
                continue
            # One anchor of a name is found from everywhere alike.
            if keyword == "$dynamicRef" and self._dynamic[find_fragment(reference)] > 1:
                raise Inexpressible(f"its schema has {keyword} {reference}, which depends on who refers to it")
            if keyword == "$recursiveRef" and self._dynamic[""] > 1:
                raise Inexpressible(f"its schema has {keyword}, which depends on who refers to it")
            yield reference

    def _add_const(self, node: JSONObject, rule: JSONObject) -> Iterator[int]:
        if "const" not in node or self._year < _YEAR_CONST:
            return
        if "enum" not in rule:
            rule["enum"] = [node["const"]]
            return
        self._kept.append({"enum": [node["const"]]})
        yield self._index(self._kept[-1], "")

    def _build_items(self, node: JSONObject, sub: Callable[[JSON], int]) -> JSONObject:
        rule: JSONObject = {}
        items, additional = node.get("items"), node.get("additionalItems")
        prefix = node.get("prefixItems") if self._year >= _YEAR_PREFIX else items if isinstance(items, list) else None
        if isinstance(prefix, list):
            rule["prefixItems"] = [sub(schema) for schema in prefix]
        remaining = additional if isinstance(items, list) else items
        if remaining is not None:
            rule["items"] = sub(remaining)
        if self._year >= _YEAR_REF_BESIDE and "contains" in node:
            rule |= {name: _read_size(node[name]) for name in ("minContains", "maxContains") if name in node}
        return rule

    def _build_members(self, node: JSONObject, sub: Callable[[JSON], int]) -> JSONObject:
        rule: JSONObject = {}
        if "properties" in node:
            rule["properties"] = {name: sub(schema) for name, schema in node["properties"].items()}
        if "patternProperties" in node:
            rule["patternProperties"] = self._build_patterns(node["patternProperties"], sub)
        both = node.get("dependencies", {})  # validators read it in all drafts
        requires = {**{n: v for n, v in both.items() if isinstance(v, list)}, **self._new(node, "dependentRequired")}
        dependents = {**{n: v for n, v in both.items() if not isinstance(v, list)},
                      **self._new(node, "dependentSchemas")}  # fmt: skip
        if requires:
            rule["dependentRequired"] = requires
        if dependents:
            rule["dependentSchemas"] = {name: sub(schema) for name, schema in dependents.items()}
        return rule

    def _build_patterns(self, patterns: JSONObject, sub: Callable[[JSON], int]) -> JSONObject:
        places: dict[str, list[int]] = {}
        for pattern, schema in patterns.items():
            places.setdefault(self._pattern(pattern), []).append(sub(schema))
        # Several patterns may be one to the language's engine.
        return {
            pattern: same[0] if len(same) == 1 else self._add_rule({"allOf": same}) for pattern, same in places.items()
        }

    def _add_rule(self, rule: JSONObject) -> int:
        self.rules.append(rule)
        return len(self.rules) - 1

    def _new(self, node: JSONObject, keyword: str) -> JSONObject:
        value: JSONObject = node.get(keyword, {}) if self._year >= _YEAR_REF_BESIDE else {}
        return value

    def _check_cycles(self, start: int) -> None:
        """Raise ``Inexpressible`` where checking a value would lead back to the same rule for the same value."""
        acyclic = self._acyclic
        path: dict[int, Iterator[int]] = {}
        reachable = _find_reachable(self.rules, start, self._checked)
        for first in reachable:
            path[first] = _list_in_place(self.rules[first])
            while path:
                index, inner = next(reversed(path.items()))
                following = next(inner, None)
                if following is None or index in acyclic:
                    acyclic.add(index)
                    del path[index]
                elif following in path:
                    raise Inexpressible("its schema refers to itself for the same value, without end")
                elif following not in acyclic:
                    path[following] = _list_in_place(self.rules[following])
        self._checked.update(reachable)


def _find_reachable(rules: list[JSON], start: int, checked: set[int]) -> list[int]:
    """Return the rules that can be reached and are not known yet."""
    seen, waiting, reachable = {start}, [start], []
    while waiting:
        index = waiting.pop()
        if index in checked:
            continue
        reachable.append(index)
        for inner in _list_below(rules[index]):
            if inner not in seen:
                seen.add(inner)
                waiting.append(inner)
    return reachable


def _list_in_place(rule: Any) -> Iterator[int]:
    if isinstance(rule, dict):
        for name in _LISTS:
            yield from rule.get(name, ())
        yield from (rule[name] for name in _HERE_ALONE if name in rule)
        yield from rule.get("dependentSchemas", {}).values()


def _list_below(rule: Any) -> Iterator[int]:
    if isinstance(rule, dict):
        yield from _list_in_place(rule)
        for name in _MAPS:
            yield from rule.get(name, {}).values()
        yield from rule.get("prefixItems", ())
        yield from (rule[name] for name in _BELOW if name in rule)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes rules as schemas. Others refer to ``definitions``."""

    rules: list[Any]
    definitions: frozenset[int]

    def definition(self, place: int) -> JSON:
        rule = self.rules[place]
        if not isinstance(rule, dict):
            return bool(rule)
        if rule.keys() == {"allOf"} and len(rule["allOf"]) == 1:
            return self._write(rule["allOf"][0])
        schema: JSONObject = dict(rule)
        for name in (*_LISTS, "prefixItems"):
            if name in rule:
                schema[name] = list(map(self._write, rule[name]))
        for name in (*_MAPS, "dependentSchemas"):
            if name in rule:
                schema[name] = {key: self._write(inner) for key, inner in rule[name].items()}
        schema |= {name: self._write(rule[name]) for name in (*_HERE_ALONE, *_BELOW) if name in rule}
        return schema

    def _write(self, place: int) -> JSON:
        if place in self.definitions and isinstance(self.rules[place], dict):
            return {"$ref": f"#/$defs/{place}"}
        return self.definition(place)


def _read_size(size: Any) -> JSON:
    return int(size) if isinstance(size, float) and size.is_integer() else size


def _read_bounds(node: JSONObject) -> JSONObject:
    bounds: dict[str, JSON] = {}
    for bound, exclusive in _BOUNDS:
        if node.get(exclusive) is True:  # draft 04
            bounds[exclusive] = node.get(bound)
            continue
        if bound in node:
            bounds[bound] = node[bound]
        if exclusive in node and not isinstance(node[exclusive], bool):
            bounds[exclusive] = node[exclusive]
    return {name: value for name, value in bounds.items() if value is not None}


def _is_schema_path(path: tuple[str | int, ...]) -> bool:
    """Return True if a path leads through keywords that have schemas."""
    parts = iter(path)
    for keyword in parts:
        if keyword in _NAMED:
            next(parts, None)  # the name of a schema
        elif not isinstance(keyword, int) and keyword not in _WITH_SCHEMAS:
            return False
    return True

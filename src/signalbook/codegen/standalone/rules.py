"""JSON Schemas as a flat table of rules, one vocabulary for all drafts, every reference resolved.

A rule is ``true``, ``false`` or an object; sub-schemas are places in the table. So a program in any language checks a
value with a few dozen lines, and needs neither drafts nor URIs.

====================================================== ===========================================================
``type`` (list), ``values`` (list)                      as ``type``, ``enum``
``min``, ``max``, ``above``, ``below``, ``multiple``    bounds that are included, or not; ``multipleOf``
``minLength``, ``maxLength``, ``pattern``               of texts, in code points
``required``, ``minProperties``, ``maxProperties``      as in JSON Schema
``properties``, ``patterns``, ``others``, ``names``     ``patternProperties`` (pairs), ``additionalProperties``,
                                                        ``propertyNames``
``requires``, ``dependents``                            ``dependentRequired``, ``dependentSchemas``
``prefix``, ``items``, ``minItems``, ``maxItems``       leading items, all others; ``unique`` is ``uniqueItems``
``contains``, ``minContains``, ``maxContains``          as in JSON Schema
``all``, ``any``, ``one``, ``not``, ``if``, ...         ``allOf``, ``anyOf``, ``oneOf``
``unevaluatedProperties``, ``unevaluatedItems``         as in JSON Schema
====================================================== ===========================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

from signalbook.codegen.base import Inexpressible
from signalbook.codegen.standalone.patterns import portable
from signalbook.formats.jsonschema.document import JsonSchemaDocument, find_fragment, resolve_uri, walk
from signalbook.values import JSON, JSONObject, step_into

MOST_RULES: Final = 200_000
_SAME: Final = (
    "minLength", "maxLength", "required", "minProperties", "maxProperties", "minItems", "maxItems",
)  # fmt: skip
_CALLED: Final = {"uniqueItems": "unique", "multipleOf": "multiple", "enum": "values"}
_BOUNDS: Final = (("minimum", "exclusiveMinimum", "min", "above"), ("maximum", "exclusiveMaximum", "max", "below"))
_LISTS: Final = {"allOf": "all", "anyOf": "any", "oneOf": "one"}
_SINGLE: Final = {"not": "not", "additionalProperties": "others"}
# Keywords that a year brought.
_SINCE: Final = {
    2017: {"contains": "contains", "propertyNames": "names"},
    2018: {"if": "if", "then": "then", "else": "else"},
    2019: {"unevaluatedProperties": "unevaluatedProperties", "unevaluatedItems": "unevaluatedItems"},
}
_HERE: Final = ("all", "any", "one")
_HERE_ALONE: Final = ("not", "if", "then", "else")
_YEAR_CONST: Final = 2017
_YEAR_REF_BESIDE: Final = 2019
_YEAR_PREFIX: Final = 2020

Place = tuple[JSON, str]
"""A schema, and the URI that references in it are relative to."""


class SchemaRules:
    """The rules of one document, and of what it refers to; ``rules`` grows as places are asked for.

    ``pattern`` makes a pattern that the language's engine reads, and raises ``Inexpressible`` if there is none.
    """

    format: Final[Literal["json"]] = "json"

    def __init__(self, document: JsonSchemaDocument, pattern: Callable[[str], str] = portable) -> None:
        self.rules: list[JSON] = []
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
        for _, node, scope in walk(root, base):
            identifier = node.get("$id") or node.get("id")
            if isinstance(identifier, str):
                if identifier.startswith("#"):
                    self._anchors[scope, identifier[1:]] = node
                else:
                    self._resources.setdefault(scope, node)
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(keyword), str):
                    self._anchors[scope, node[keyword]] = node
            if isinstance(node.get("$dynamicAnchor"), str):
                self._dynamic[node["$dynamicAnchor"]] += 1
            if node.get("$recursiveAnchor") is True:
                self._dynamic[""] += 1

    @property
    def document(self) -> JSON:
        """The table."""
        return self.rules

    def of(self, schema: Any) -> int:
        """The place of a schema of the document. Raises ``Inexpressible``."""
        return self.at(schema.uri)

    def at(self, uri: str) -> int:
        """The place of the schema at a URI. Raises ``Inexpressible``."""
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
            scope = _find_scope(node, scope) if isinstance(node, dict) else scope
            try:
                node = step_into(node, part)
            except LookupError:
                node = True
        return node, scope

    def _index(self, node: JSON, scope: str) -> int:
        if not isinstance(node, dict):
            node = node is not False
        else:
            scope = _find_scope(node, scope)
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
        if referred and self._year < _YEAR_REF_BESIDE:
            return {"all": referred}
        rule: JSONObject = {name: node[name] for name in _SAME if name in node}
        rule |= {ours: node[name] for name, ours in _CALLED.items() if node.get(name) not in (None, False)}
        if "pattern" in node:
            rule["pattern"] = self._pattern(node["pattern"])
        if "type" in node:
            rule["type"] = node["type"] if isinstance(node["type"], list) else [node["type"]]
        rule |= _read_bounds(node)
        for name, ours in {**_SINGLE, **self._list_since()}.items():
            if name in node:
                rule[ours] = sub(node[name])
        rule |= self._build_items(node, sub)
        rule |= self._build_members(node, sub)
        lists = {ours: [sub(part) for part in node[name]] for name, ours in _LISTS.items() if name in node}
        every = [*lists.pop("all", []), *referred, *self._add_const(node, rule)]
        return {**rule, **lists, **({"all": every} if every else {})}

    def _list_since(self) -> Mapping[str, str]:
        return {
            name: ours for year, keywords in _SINCE.items() if year <= self._year for name, ours in keywords.items()
        }

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
        if "values" not in rule:
            rule["values"] = [node["const"]]
            return
        self._kept.append({"enum": [node["const"]]})
        yield self._index(self._kept[-1], "")

    def _build_items(self, node: JSONObject, sub: Callable[[JSON], int]) -> JSONObject:
        rule: JSONObject = {}
        items, additional = node.get("items"), node.get("additionalItems")
        prefix = node.get("prefixItems") if self._year >= _YEAR_PREFIX else items if isinstance(items, list) else None
        if isinstance(prefix, list):
            rule["prefix"] = [sub(schema) for schema in prefix]
        remaining = additional if isinstance(items, list) else items
        if remaining is not None:
            rule["items"] = sub(remaining)
        if self._year >= _YEAR_REF_BESIDE and "contains" in node:
            rule |= {name: node[name] for name in ("minContains", "maxContains") if name in node}
        return rule

    def _build_members(self, node: JSONObject, sub: Callable[[JSON], int]) -> JSONObject:
        rule: JSONObject = {}
        if "properties" in node:
            rule["properties"] = {name: sub(schema) for name, schema in node["properties"].items()}
        if "patternProperties" in node:
            rule["patterns"] = [
                [self._pattern(pattern), sub(schema)] for pattern, schema in node["patternProperties"].items()
            ]
        both = node.get("dependencies", {}) if self._year < _YEAR_REF_BESIDE else {}
        requires = {**{n: v for n, v in both.items() if isinstance(v, list)}, **self._new(node, "dependentRequired")}
        dependents = {**{n: v for n, v in both.items() if not isinstance(v, list)},
                      **self._new(node, "dependentSchemas")}  # fmt: skip
        if requires:
            rule["requires"] = requires
        if dependents:
            rule["dependents"] = {name: sub(schema) for name, schema in dependents.items()}
        return rule

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
        for name in _HERE:
            yield from rule.get(name, ())
        yield from (rule[name] for name in _HERE_ALONE if name in rule)
        yield from rule.get("dependents", {}).values()


def _list_below(rule: Any) -> Iterator[int]:
    if isinstance(rule, dict):
        yield from _list_in_place(rule)
        yield from rule.get("properties", {}).values()
        yield from (index for _, index in rule.get("patterns", ()))
        yield from rule.get("prefix", ())
        names = ("others", "names", "items", "contains", "unevaluatedProperties", "unevaluatedItems")
        yield from (rule[name] for name in names if name in rule)


def _read_bounds(node: JSONObject) -> JSONObject:
    bounds: dict[str, JSON] = {}
    for bound, exclusive, ours, strict in _BOUNDS:
        if node.get(exclusive) is True:  # draft 04
            bounds[strict] = node.get(bound)
            continue
        if bound in node:
            bounds[ours] = node[bound]
        if exclusive in node and not isinstance(node[exclusive], bool):
            bounds[strict] = node[exclusive]
    return {name: value for name, value in bounds.items() if value is not None}


def _find_scope(node: JSONObject, scope: str) -> str:
    identifier = node.get("$id") or node.get("id")
    return resolve_uri(scope, identifier) if isinstance(identifier, str) and not identifier.startswith("#") else scope

"""The check of JSON Structure documents: report every finding with its path."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from signalbook.formats.base import Path, make_finding
from signalbook.formats.jsonstructure.types import (
    COMPOUND,
    ENCODINGS,
    IDENTIFIER,
    IMPORTS,
    PRIMITIVES,
    TYPES,
    Structure,
    list_extended,
)
from signalbook.values import JSON, Finding, JSONObject, canonical_json

Findings = Iterator[Finding]

_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:[^\s]+", re.ASCII)
# Keywords that are allowed for some types only.
_BELONGS: Final[dict[str, frozenset[str]]] = {
    "properties": frozenset({"object", "tuple"}),
    "required": frozenset({"object"}),
    "additionalProperties": frozenset({"object"}),
    "items": frozenset({"array", "set"}),
    "values": frozenset({"map"}),
    "tuple": frozenset({"tuple"}),
    "choices": frozenset({"choice"}),
    "selector": frozenset({"choice"}),
    "abstract": frozenset({"object", "tuple"}),
    "$extends": frozenset({"object", "tuple", "choice"}),
    "maxLength": frozenset({"string"}),
    "precision": frozenset({"number", "decimal"}),
    "scale": frozenset({"number", "decimal"}),
    "contentEncoding": frozenset({"binary"}),
}
_NEEDS: Final = {
    "object": "properties", "array": "items", "set": "items", "map": "values", "tuple": "tuple", "choice": "choices",
}  # fmt: skip
_ROOT_ONLY: Final = ("$schema", "$id", "$root", "$offers", "definitions")


def find_findings(structure: Structure) -> Findings:
    """Yield all findings about a document."""
    return _Inspector(structure).check_document()


class _Inspector:
    """Walks through a document once and yields the findings."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.root = structure.root
        self.imports = not _collect_names(self.root).isdisjoint(IMPORTS)

    def check_document(self) -> Findings:
        for keyword in ("$schema", "$id"):
            value = self.root.get(keyword)
            if not isinstance(value, str) or not _ABSOLUTE.fullmatch(value):
                yield make_finding((keyword,), keyword, f"a document needs {keyword} with an absolute URI")
        yield from self._check_root_type()
        yield from self._check_offers()
        if "type" in self.root:
            yield from self.check_schema(self.root, (), root=True)
        definitions = self.root.get("definitions", {})
        if not isinstance(definitions, dict):
            yield make_finding(("definitions",), "definitions", "definitions must be an object of types and namespaces")
        else:
            yield from self.check_namespace(definitions, ("definitions",))

    def _check_root_type(self) -> Findings:
        if "$root" in self.root:
            yield from self._check_pointer(self.root["$root"], ("$root",))
            if "type" in self.root:
                yield make_finding(("$root",), "$root", "a document has either a type or $root, not both")
        elif "type" not in self.root and "definitions" not in self.root and not self.imports:
            yield make_finding((), "type", "a document needs a type, $root or definitions")
        kind = self.root.get("type")
        if kind is not None and not isinstance(kind, str):
            yield make_finding(("type",), "type", "a document names its type; use $root for references and unions")
        if self.root.get("name") is None and kind is not None:
            yield make_finding(("name",), "name", "a document with a type of its own needs a name")
        elif "name" in self.root and not isinstance(self.root["name"], str):
            yield make_finding(("name",), "name", "a name must be a string")

    def _check_offers(self) -> Findings:
        offers = self.root.get("$offers", {})
        if not isinstance(offers, dict):
            yield make_finding(("$offers",), "$offers", "$offers must be an object of add-ins")
            return
        for name, pointers in offers.items():
            for pointer in pointers if isinstance(pointers, list) else [pointers]:
                yield from self._check_pointer(pointer, ("$offers", name))

    def check_namespace(self, namespace: JSONObject, path: Path) -> Findings:
        """Yield the findings about the types and namespaces in ``namespace``."""
        for name, item in namespace.items():
            here = (*path, name)
            if name in IMPORTS:
                yield from self._import(item, here)
            elif not IDENTIFIER.fullmatch(name):
                yield make_finding(here, "identifier", f"{name!r} is no name: letters, digits, _, no digit first")
            elif not isinstance(item, dict):
                yield make_finding(here, "definitions", "expected a type or a namespace, which are objects")
            elif "type" in item:
                yield from self.check_schema(item, here)
            else:
                yield from self.check_namespace(item, here)

    def _import(self, value: JSON, path: Path) -> Findings:
        if not isinstance(value, str) or not _ABSOLUTE.fullmatch(value):
            yield make_finding(path, str(path[-1]), "an import needs an absolute URI")

    def check_schema(self, schema: JSON, path: Path, *, root: bool = False) -> Findings:
        """Yield the findings about the type declaration ``schema``; ``root`` is True for the top of the document."""
        if not isinstance(schema, dict):
            yield make_finding(path, "schema", "expected a type declaration, which is an object")
            return
        if "type" not in schema:
            rule, text = ("$ref", "$ref belongs into type") if "$ref" in schema else ("type", "a type is missing")
            yield make_finding(path, rule, text)
            return
        kind = schema["type"]
        yield from self._check_kind(kind, (*path, "type"))
        yield from self._check_keywords(schema, kind, path, root=root)
        if isinstance(kind, str) and kind in COMPOUND:
            yield from self._check_compound(schema, kind, path)
        yield from self._check_values(schema, kind, path)

    def _check_kind(self, kind: JSON, path: Path, *, inside: bool = False) -> Findings:
        if isinstance(kind, str):
            if kind not in TYPES:
                yield make_finding(path, "type", f"there is no type {kind!r}")
            elif inside and kind in COMPOUND - {"any"}:
                yield make_finding(path, "type", f"a union cannot declare the type {kind!r} in place; refer to it")
        elif isinstance(kind, list) and kind and not inside:
            for index, member in enumerate(kind):
                yield from self._check_kind(member, (*path, index), inside=True)
        elif isinstance(kind, dict) and "$ref" in kind:
            yield from self._check_reference(kind["$ref"], (*path, "$ref"))
        elif inside and isinstance(kind, dict) and kind.get("type") in ("array", "set", "map"):
            yield from self.check_schema(kind, path)
        else:
            yield make_finding(path, "type", 'expected the name of a type, {"$ref": ...} or a list of these')

    def _check_reference(self, reference: JSON, path: Path) -> Findings:
        yield from self._check_pointer(reference, path)
        target = self._find_target(reference)
        if target is not None and target.get("abstract") is True:
            yield make_finding(path, "abstract", f"{reference} is abstract: types can extend it, but no value has it")
        if target is not None and self._is_endless(target):
            yield make_finding(path, "$ref", f"{reference} leads to itself and never to a type")

    def _find_target(self, reference: JSON) -> JSONObject | None:
        schema = self.structure.lookup(reference) if isinstance(reference, str) else None
        return schema if isinstance(schema, dict) and "type" in schema else None

    def _is_endless(self, schema: JSONObject) -> bool:
        """Return True if the references of a type lead back to the type without reaching another declaration."""
        waiting, seen = [schema], set[int]()
        while waiting:
            kind = waiting.pop().get("type")
            for member in kind if isinstance(kind, list) else [kind]:
                target = self._find_target(member["$ref"]) if isinstance(member, dict) and "$ref" in member else None
                # Compare identities, because different pointers may lead to the same declaration.
                if target is schema:
                    return True
                if target is not None and id(target) not in seen:
                    seen.add(id(target))
                    waiting.append(target)
        return False

    def _check_pointer(self, reference: JSON, path: Path) -> Findings:
        rule = str(path[-1]) if path[-1] in ("$root", "$ref", "$extends") else str(path[0])
        if not isinstance(reference, str) or not reference.startswith("#/"):
            yield make_finding(path, rule, "expected a JSON Pointer into this document, such as #/definitions/Address")
        elif self._find_target(reference) is None and not self.imports:
            yield make_finding(path, rule, f"{reference} names no type of this document")

    def _check_keywords(self, schema: JSONObject, kind: JSON, path: Path, *, root: bool) -> Findings:
        for keyword, kinds in _BELONGS.items():
            if keyword in schema and not (isinstance(kind, str) and kind in kinds):
                type_names = " and ".join(sorted(kinds))
                yield make_finding((*path, keyword), keyword, f"{keyword} is for {type_names}, not for this type")
        for keyword in _ROOT_ONLY if not root else ():
            if keyword in schema:
                yield make_finding((*path, keyword), keyword, f"{keyword} belongs to the top of a document")
        name = schema.get("name")
        if "name" in schema and not (isinstance(name, str) and IDENTIFIER.fullmatch(name)):
            yield make_finding(
                (*path, "name"), "name", "a name must have letters, digits and _ only, and no digit first"
            )
        for keyword in ("maxLength", "precision", "scale"):
            value = schema.get(keyword, 0)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                yield make_finding((*path, keyword), keyword, f"{keyword} must be a whole number, not below 0")
        if schema.get("contentEncoding", "base64") not in ENCODINGS:
            yield make_finding((*path, "contentEncoding"), "contentEncoding", f"expected one of {', '.join(ENCODINGS)}")

    def _check_compound(self, schema: JSONObject, kind: str, path: Path) -> Findings:
        yield from self._check_extends(schema, path)
        needed = _NEEDS.get(kind)
        if needed is not None and needed not in schema and not (kind == "object" and list_extended(schema)):
            yield make_finding(path, needed, f"a type {kind} needs {needed}")
        for keyword in ("items", "values"):
            if keyword in schema:
                yield from self.check_schema(schema[keyword], (*path, keyword))
        for keyword in ("properties", "choices"):
            if keyword in schema:
                yield from self._check_members(schema[keyword], (*path, keyword))
        more: dict[str, Callable[[JSONObject, Path], Findings]] = {
            "object": self._check_object, "tuple": self._check_tuple, "choice": self._check_choice,
        }  # fmt: skip
        if kind in more:
            yield from more[kind](schema, path)

    def _check_members(self, members: JSON, path: Path) -> Findings:
        if not isinstance(members, dict) or not members:
            yield make_finding(path, str(path[-1]), f"{path[-1]} must be an object with at least one type declaration")
            return
        for name, member in members.items():
            if not IDENTIFIER.fullmatch(name):
                yield make_finding(
                    (*path, name), "identifier", f"{name!r} is no name: letters, digits, _, no digit first"
                )
            yield from self.check_schema(member, (*path, name))

    def _check_object(self, schema: JSONObject, path: Path) -> Findings:
        more = schema.get("additionalProperties")
        if more is not None and not isinstance(more, bool):
            yield from self.check_schema(more, (*path, "additionalProperties"))
        if more is not None and schema.get("abstract") is True:
            text = "an abstract type is always open: leave additionalProperties away"
            yield make_finding((*path, "additionalProperties"), "additionalProperties", text)
        names = schema.get("required", [])
        sets = (
            names
            if isinstance(names, list) and names and all(isinstance(required_set, list) for required_set in names)
            else [names]
        )
        for required_set in sets:
            yield from self._check_names(required_set, self.structure.list_properties(schema), (*path, "required"))

    def _check_tuple(self, schema: JSONObject, path: Path) -> Findings:
        members = self.structure.list_properties(schema)
        names = schema.get("tuple", [])
        yield from self._check_names(names, members, (*path, "tuple"))
        missing = [name for name in members if isinstance(names, list) and name not in names]
        if missing and "tuple" in schema:
            yield make_finding((*path, "tuple"), "tuple", f"the order lacks {', '.join(missing)}")

    def _check_names(self, names: JSON, members: JSONObject, path: Path) -> Findings:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            yield make_finding(path, str(path[-1]), f"{path[-1]} must be a list of names of properties")
            return
        for name in names:
            if name not in members:
                yield make_finding(path, str(path[-1]), f"there is no property {name!r}")

    def _check_choice(self, schema: JSONObject, path: Path) -> Findings:
        inline = "$extends" in schema
        if inline and not isinstance(schema.get("selector"), str):
            yield make_finding((*path, "selector"), "selector", "a choice that extends a type needs a selector")
        if "selector" in schema and not inline:
            yield make_finding((*path, "selector"), "selector", "a selector is for a choice that extends a type")

    def _check_extends(self, schema: JSONObject, path: Path) -> Findings:
        pointers = schema.get("$extends", [])
        here = (*path, "$extends")
        for pointer in pointers if isinstance(pointers, list) else [pointers]:
            yield from self._check_pointer(pointer, here)
            base = self._find_target(pointer)
            if base is not None and base.get("abstract") is not True and schema.get("abstract") is not True:
                yield make_finding(here, "$extends", f"{pointer} is not abstract, so that only add-ins can extend it")
        properties = schema.get("properties")
        for base in self.structure.list_bases(schema):
            theirs = base.get("properties")
            both = (
                properties.keys() & theirs.keys() if isinstance(properties, dict) and isinstance(theirs, dict) else ()
            )
            for name in sorted(both):
                text = f"{name!r} is inherited and cannot be declared again"
                yield make_finding((*path, "properties", name), "$extends", text)
            if any(self._find_target(pointer) is schema for pointer in list_extended(base)):
                yield make_finding(here, "$extends", "a type cannot extend itself")

    def _check_values(self, schema: JSONObject, kind: JSON, path: Path) -> Findings:
        """Yield the findings about ``enum`` and ``const``."""
        listed: dict[str, Any] = {"enum": schema.get("enum"), "const": [schema.get("const")]}
        for keyword, values in listed.items():
            if keyword not in schema:
                continue
            here = (*path, keyword)
            if not isinstance(kind, str) or kind not in PRIMITIVES:
                yield make_finding(here, keyword, f"{keyword} is for primitive types")
            elif not isinstance(values, list) or not values:
                yield make_finding(here, keyword, "expected a list of values")
            else:
                yield from _check_listed(values, kind, schema, here)


def _check_listed(values: list[JSON], kind: str, schema: JSONObject, path: Path) -> Findings:
    if len(set(list_identities(values))) < len(values):
        yield make_finding(path, str(path[-1]), "the values must differ from each other")
    if kind == "string" and "maxLength" not in schema and set(map(type, values)) == {str}:
        return
    plain = {name: item for name, item in schema.items() if isinstance(item, (int, str)) and not isinstance(item, bool)}
    for index, value in enumerate(values):
        try:
            wrong = PRIMITIVES[kind](value, plain)
        except (KeyError, TypeError):
            return  # because of wrong keywords, which have their own findings
        if wrong:
            yield make_finding(
                (*path, index) if path[-1] == "enum" else path, str(path[-1]), f"{value!r} is no {kind}: {wrong}"
            )


def list_identities(values: list[JSON]) -> list[str | bytes]:
    """Return a key for each value that is equal for equal values, with a fast path for the common case of strings."""
    if set(map(type, values)) == {str}:
        return values
    return [value if isinstance(value, str) else canonical_json(value) for value in values]


def list_containers(node: JSONObject | list[JSON]) -> list[JSON]:
    """Return the objects and arrays that are items or members of ``node``."""
    items = node.values() if isinstance(node, dict) else node
    if {dict, list}.isdisjoint(map(type, items)):
        return []
    return [item for item in items if isinstance(item, (dict, list))]


def _collect_names(value: JSON) -> set[str]:
    """Return the names of all members in a document, at any depth."""
    names: set[str] = set()
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            names.update(node)  # `|= node.keys()` would copy the whole set
        if isinstance(node, (dict, list)):
            waiting += list_containers(node)
    return names

"""Validating JSON payloads by a JSON Structure schema."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from signalbook.formats.base import MAX_FINDINGS, pointer, shorten
from signalbook.formats.jsonstructure.types import PRIMITIVES, Structure, required
from signalbook.values import JSON, Finding, JSONObject, canonical_json

Path = tuple[str | int, ...]
Findings = Iterator[Finding]
# What a document may say about itself beside its data.
_INSTANCE: Final = frozenset({"$schema", "$uses"})
# Types tried for one payload; unions of unions multiply.
_MAX_STEPS: Final = 200_000
_MAX_REFERENCES: Final = 64


def violations(structure: Structure, schema: JSONObject, value: JSON) -> list[Finding]:
    """Every violation in a JSON value, at most ``MAX_FINDINGS``."""
    holder = _Holder(structure)
    try:
        return list(islice(holder.hold(value, schema, ()), MAX_FINDINGS))
    except (_TooMuch, RecursionError):
        text = "the schema asks for more work than any payload is worth"
        return [Finding(path="", rule="work", message=text)]


class _TooMuch(Exception):
    """The steps are used up."""


def _finding(path: Path, rule: str, message: str) -> Finding:
    return Finding(path=pointer(path), rule=rule, message=shorten(message))


class _Holder:
    """Walks a value and its schema together."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.steps = 0

    def hold(self, value: JSON, schema: JSON, path: Path) -> Findings:
        """What is wrong with a value."""
        self.steps += 1
        if self.steps > _MAX_STEPS:
            raise _TooMuch
        if not isinstance(schema, dict):
            return
        kind = schema.get("type")
        if isinstance(kind, dict):
            yield from self.hold(value, self.structure.lookup(kind["$ref"]) if "$ref" in kind else kind, path)
        elif isinstance(kind, list):
            yield from self._union(value, kind, path)
        elif isinstance(kind, str):
            yield from self._typed(value, kind, schema, path)

    def _typed(self, value: JSON, kind: str, schema: JSONObject, path: Path) -> Findings:
        wrong = PRIMITIVES[kind](value, schema) if kind in PRIMITIVES else ""
        if wrong:
            yield _finding(path, "type", f"{wrong} ({kind})")
            return
        if kind not in PRIMITIVES and kind != "any":
            yield from getattr(self, f"_{kind}")(value, schema, path)
        if "const" in schema and canonical_json(value) != canonical_json(schema["const"]):
            yield _finding(path, "const", f"expected {schema['const']!r}")
        if "enum" in schema and canonical_json(value) not in map(canonical_json, schema["enum"]):
            yield _finding(path, "enum", f"{value!r} is not one of the listed values")

    def _union(self, value: JSON, kinds: list[JSON], path: Path) -> Findings:
        """Of several types the first that fits counts."""
        schemas = [{"type": kind} if not isinstance(kind, dict) or "$ref" in kind else kind for kind in kinds]
        if all(next(self.hold(value, schema, path), None) is not None for schema in schemas):
            named = ", ".join(
                str(kind.get("$ref", "a type")) if isinstance(kind, dict) else str(kind) for kind in kinds
            )
            yield _finding(path, "type", f"expected one of these types: {named}")

    def _object(self, value: JSON, schema: JSONObject, path: Path, extra: frozenset[str] = frozenset()) -> Findings:
        if not isinstance(value, dict):
            yield _finding(path, "type", "expected an object")
            return
        members = self.structure.properties(schema)
        yield from self._required(value, schema, path)
        more = schema.get("additionalProperties", True)
        for name, item in value.items():
            if name in members:
                yield from self.hold(item, members[name], (*path, name))
            elif name in extra or (not path and name in _INSTANCE):
                continue
            elif more is False:
                yield _finding((*path, name), "additionalProperties", f"there is no property {name!r}")
            else:
                yield from self.hold(item, more, (*path, name))

    def _required(self, value: JSONObject, schema: JSONObject, path: Path) -> Findings:
        sets = required(self.structure, schema)
        if len(sets) == 1:
            missing = [name for name in dict.fromkeys(sets[0]) if name not in value]
            yield from (_finding(path, "required", f"the property {name!r} is missing") for name in missing)
        elif sum(value.keys() >= set(one) for one in sets) != 1:
            named = " or ".join(", ".join(one) for one in sets)
            yield _finding(path, "required", f"exactly one of these sets of properties is needed: {named}")

    def _array(self, value: JSON, schema: JSONObject, path: Path) -> Findings:
        if not isinstance(value, list):
            yield _finding(path, "type", "expected an array")
            return
        for index, item in enumerate(value):
            yield from self.hold(item, schema["items"], (*path, index))

    def _set(self, value: JSON, schema: JSONObject, path: Path) -> Findings:
        yield from self._array(value, schema, path)
        if isinstance(value, list) and len(set(map(canonical_json, value))) < len(value):
            yield _finding(path, "set", "the items of a set must differ from each other")

    def _map(self, value: JSON, schema: JSONObject, path: Path) -> Findings:
        if not isinstance(value, dict):
            yield _finding(path, "type", "expected an object that maps keys to values")
            return
        for name, item in value.items():
            yield from self.hold(item, schema["values"], (*path, name))

    def _tuple(self, value: JSON, schema: JSONObject, path: Path) -> Findings:
        members = self.structure.properties(schema)
        names = schema["tuple"]
        if not isinstance(value, list) or len(value) != len(names):
            yield _finding(path, "tuple", f"expected an array of {len(names)} items: {', '.join(names)}")
            return
        for index, name in enumerate(names):
            yield from self.hold(value[index], members[name], (*path, index))

    def _choice(self, value: JSON, schema: JSONObject, path: Path) -> Findings:
        choices, selector = schema["choices"], schema.get("selector")
        if selector is not None and "$extends" in schema:
            yield from self._inline(value, choices, selector, path)
        elif not isinstance(value, dict) or len(value) != 1 or not choices.keys() >= value.keys():
            yield _finding(path, "choice", f"expected an object with one of these members: {', '.join(choices)}")
        else:
            ((name, item),) = value.items()
            yield from self.hold(item, choices[name], (*path, name))

    def _inline(self, value: JSON, choices: JSONObject, selector: str, path: Path) -> Findings:
        chosen = value.get(selector) if isinstance(value, dict) else None
        if not isinstance(chosen, str) or chosen not in choices:
            named = ", ".join(choices)
            yield _finding((*path, selector), "choice", f"expected an object whose {selector!r} is one of: {named}")
            return
        schema = resolved(self.structure, choices[chosen])
        if schema.get("type") == "object":
            yield from self._object(value, schema, path, frozenset({selector}))
        else:
            yield _finding(path, "choice", f"{chosen!r} is no type of objects")


def resolved(structure: Structure, schema: JSON) -> JSONObject:
    """A schema, or the type it refers to."""
    for _ in range(_MAX_REFERENCES):
        kind = schema.get("type") if isinstance(schema, dict) else None
        if not isinstance(kind, dict):
            break
        schema = structure.lookup(kind["$ref"]) if "$ref" in kind else kind
    return schema if isinstance(schema, dict) else {}

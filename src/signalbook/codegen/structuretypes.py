"""The types of a JSON Structure document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from signalbook.codegen.datatypes import (
    ANY,
    NULL,
    ClosedSet,
    DataRecord,
    DataType,
    ListType,
    MapType,
    PlainKind,
    PlainType,
    RecordMember,
    RecordTable,
    union,
)
from signalbook.formats.jsonstructure.format import JsonStructure
from signalbook.formats.jsonstructure.types import FLOATS, INTEGERS, PRIMITIVES, Structure, required, resolved
from signalbook.values import JSON, JSONObject

_KINDS: Final[dict[str, PlainKind]] = {
    "boolean": "boolean", **dict.fromkeys(INTEGERS, "integer"), **dict.fromkeys(FLOATS, "number"),
}  # fmt: skip
"""Of types that are not text in JSON."""


class StructureTypes:
    """The types of one document, in ``table``."""

    def __init__(self, structure: Structure, table: RecordTable) -> None:
        self._structure = structure
        self._table = table

    def root(self, schema: JsonStructure, hint: str) -> DataType:
        """The type of whole payloads."""
        named = schema.structure.root.get("$root")
        link = schema.link or (named if isinstance(named, str) and "type" not in schema.structure.root else "")
        pointer = link.removeprefix(":").removeprefix("#").removeprefix("/")
        return self.of(schema.schema, pointer.rpartition("/")[2] or hint, f"/{pointer}" if pointer else "")

    def of(self, schema: JSON, hint: str, path: str) -> DataType:
        """The type of the values of ``schema``, which is at ``path``, a JSON Pointer."""
        kind = schema.get("type", "any") if isinstance(schema, dict) else "any"
        if isinstance(kind, list):
            stated = [each if isinstance(each, dict) and "$ref" not in each else {"type": each} for each in kind]
            return union(self.of(each, hint, f"{path}/type/{index}") for index, each in enumerate(stated))
        if isinstance(kind, dict):
            if "$ref" not in kind:
                return self.of(kind, hint, f"{path}/type")
            pointer = str(kind["$ref"]).removeprefix("#")
            return self.of(self._structure.lookup(pointer), pointer.rpartition("/")[2], pointer)
        return self._named(schema, str(kind), hint, path) if isinstance(schema, dict) else ANY

    def _named(self, schema: JSONObject, kind: str, hint: str, path: str) -> DataType:
        match kind:
            case "null":
                return NULL
            case "object":
                return self._object(schema, hint, path, "")
            case "array" | "set":
                return ListType(self.of(schema["items"], f"{hint} item", f"{path}/items"))
            case "map":
                return MapType(self.of(schema["values"], f"{hint} value", f"{path}/values"))
            case "tuple":
                members = self._structure.properties(schema)
                return ListType(
                    union(
                        self.of(members[each], f"{hint} {each}", f"{path}/properties/{each}")
                        for each in schema["tuple"]
                    )
                )
            case "choice":
                return union(self._choices(schema, hint, path))
        return _listed(schema) or (PlainType(_KINDS.get(kind, "text")) if kind in PRIMITIVES else ANY)

    def _object(self, schema: JSONObject, hint: str, path: str, selected: str, selector: str = "") -> DataType:
        """A record; one that is ``selected`` among others says so in the member ``selector``."""

        def fill(record: DataRecord) -> None:
            sets = required(self._structure, schema)
            always = set(sets[0]).intersection(*sets[1:])
            chosen = [RecordMember(name=selector, type=ClosedSet((selected,)), required=True)] if selector else []
            record.members = (*chosen, *self._members(schema, hint, path, always, selector))
            more = schema.get("additionalProperties")
            record.extra = (
                self.of(more, f"{hint} member", f"{path}/additionalProperties") if isinstance(more, dict) else None
            )

        key = f"{path}@{selector}={selected}" if selector else path
        return self._table.refer(key, hint, fill, str(schema.get("description") or ""))

    def _members(
        self, schema: JSONObject, hint: str, path: str, always: set[str], selector: str
    ) -> Iterator[RecordMember]:
        for name, each in self._structure.properties(schema).items():
            if name != selector:
                yield RecordMember(
                    name=name,
                    type=self.of(each, f"{hint} {name}", f"{path}/properties/{name}"),
                    required=name in always,
                    description=str(each.get("description") or "") if isinstance(each, dict) else "",
                )

    def _choices(self, schema: JSONObject, hint: str, path: str) -> Iterator[DataType]:
        """Objects with one member, the choice; or, with a selector, objects that have it in this member."""
        selector = str(schema["selector"]) if "selector" in schema and "$extends" in schema else ""
        for name, each in schema["choices"].items():
            place = f"{path}/choices/{name}"
            if selector:
                found = resolved(self._structure, each)
                yield self._object(found, name, place, name, selector) if found.get("type") == "object" else ANY
            else:
                yield self._single(name, each, f"{hint} {name}", place)

    def _single(self, name: str, schema: JSON, hint: str, path: str) -> DataType:
        def fill(record: DataRecord) -> None:
            record.members = (RecordMember(name=name, type=self.of(schema, hint, path), required=True),)

        return self._table.refer(f"{path}@", f"{hint} choice", fill)


def _listed(schema: JSONObject) -> DataType | None:
    """The values that a type has, where it lists them and all are text, whole numbers or truth values."""
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(listed, list) or not all(isinstance(each, str | int | bool) for each in listed):
        return None
    return ClosedSet(tuple({repr(each): each for each in listed}.values()))

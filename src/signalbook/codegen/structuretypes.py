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
from signalbook.formats.jsonstructure.types import FLOATS, INTEGERS, PRIMITIVES, Structure, list_required, resolve_type
from signalbook.values import JSON, JSONObject

_PLAIN_KINDS: Final[dict[str, PlainKind]] = {
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
        root_pointer = schema.structure.root.get("$root")
        link = schema.link or (
            root_pointer if isinstance(root_pointer, str) and "type" not in schema.structure.root else ""
        )
        pointer = link.removeprefix(":").removeprefix("#").removeprefix("/")
        return self.of(schema.schema, pointer.rpartition("/")[2] or hint, f"/{pointer}" if pointer else "")

    def of(self, schema: JSON, hint: str, path: str) -> DataType:
        """The type of the values of ``schema``, which is at ``path``, a JSON Pointer."""
        kind = schema.get("type", "any") if isinstance(schema, dict) else "any"
        if isinstance(kind, list):
            stated = [part if isinstance(part, dict) and "$ref" not in part else {"type": part} for part in kind]
            return union(self.of(part, hint, f"{path}/type/{index}") for index, part in enumerate(stated))
        if isinstance(kind, dict):
            if "$ref" not in kind:
                return self.of(kind, hint, f"{path}/type")
            pointer = str(kind["$ref"]).removeprefix("#")
            return self.of(self._structure.lookup(pointer), pointer.rpartition("/")[2], pointer)
        return self._build_type(schema, str(kind), hint, path) if isinstance(schema, dict) else ANY

    def _build_type(self, schema: JSONObject, kind: str, hint: str, path: str) -> DataType:
        match kind:
            case "null":
                return NULL
            case "object":
                return self._build_object(schema, hint, path, "")
            case "array" | "set":
                return ListType(self.of(schema["items"], f"{hint} item", f"{path}/items"))
            case "map":
                return MapType(self.of(schema["values"], f"{hint} value", f"{path}/values"))
            case "tuple":
                members = self._structure.list_properties(schema)
                return ListType(
                    union(
                        self.of(members[name], f"{hint} {name}", f"{path}/properties/{name}")
                        for name in schema["tuple"]
                    )
                )
            case "choice":
                return union(self._build_choices(schema, hint, path))
        return _find_listed(schema) or (PlainType(_PLAIN_KINDS.get(kind, "text")) if kind in PRIMITIVES else ANY)

    def _build_object(self, schema: JSONObject, hint: str, path: str, selected: str, selector: str = "") -> DataType:
        """Return a record; one that is ``selected`` among others says so in the member ``selector``."""

        def fill(record: DataRecord) -> None:
            sets = list_required(self._structure, schema)
            always = set(sets[0]).intersection(*sets[1:])
            chosen = [RecordMember(name=selector, type=ClosedSet((selected,)), required=True)] if selector else []
            record.members = (*chosen, *self._build_members(schema, hint, path, always, selector))
            more = schema.get("additionalProperties")
            record.extra = (
                self.of(more, f"{hint} member", f"{path}/additionalProperties") if isinstance(more, dict) else None
            )

        key = f"{path}@{selector}={selected}" if selector else path
        return self._table.refer(key, hint, fill, str(schema.get("description") or ""))

    def _build_members(
        self, schema: JSONObject, hint: str, path: str, always: set[str], selector: str
    ) -> Iterator[RecordMember]:
        for name, member in self._structure.list_properties(schema).items():
            if name != selector:
                yield RecordMember(
                    name=name,
                    type=self.of(member, f"{hint} {name}", f"{path}/properties/{name}"),
                    required=name in always,
                    description=str(member.get("description") or "") if isinstance(member, dict) else "",
                )

    def _build_choices(self, schema: JSONObject, hint: str, path: str) -> Iterator[DataType]:
        """Yield a type for each choice: an object with one member, or with the selector as a member."""
        selector = str(schema["selector"]) if "selector" in schema and "$extends" in schema else ""
        for name, choice in schema["choices"].items():
            place = f"{path}/choices/{name}"
            if selector:
                target = resolve_type(self._structure, choice)
                yield self._build_object(target, name, place, name, selector) if target.get("type") == "object" else ANY
            else:
                yield self._build_single(name, choice, f"{hint} {name}", place)

    def _build_single(self, name: str, schema: JSON, hint: str, path: str) -> DataType:
        def fill(record: DataRecord) -> None:
            record.members = (RecordMember(name=name, type=self.of(schema, hint, path), required=True),)

        return self._table.refer(f"{path}@", f"{hint} choice", fill)


def _find_listed(schema: JSONObject) -> DataType | None:
    """Return the values that a type has, where it lists them and all are text, whole numbers or truth values."""
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(listed, list) or not all(isinstance(value, str | int | bool) for value in listed):
        return None
    return ClosedSet(tuple({repr(value): value for value in listed}.values()))

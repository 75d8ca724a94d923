"""Avro schemas as trees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from signalbook.formats.avro.document import PRIMITIVES, Type
from signalbook.formats.tree import Kind, Room, SchemaNode, format_text, list_constraints, take_first
from signalbook.values import JSONObject

_NODE_KINDS: Final[dict[str, Kind]] = {
    "record": "object",
    "array": "array",
    "map": "map",
    "null": "null",
    "boolean": "boolean",
    "int": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "bytes": "bytes",
    "fixed": "bytes",
    "string": "string",
    "enum": "string",
}
_LOGICAL: Final[dict[str, Kind]] = {
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "date": "date",
    "time-millis": "time",
    "time-micros": "time",
    "decimal": "decimal",
}
_BOUNDS: Final = ("precision", "scale", "size", "default")


def make_tree(root: Type, types: Mapping[str, JSONObject]) -> SchemaNode:
    """Return the tree of a type, with references to named types replaced by their definitions."""
    return _Tree(types).node(root, "", ())


class _Tree:
    """Builds one tree; a type inside itself is not expanded again."""

    def __init__(self, types: Mapping[str, JSONObject]) -> None:
        self._types = types
        self._room = Room()

    def node(self, type: Type, name: str, above: tuple[str, ...], field: JSONObject | None = None) -> SchemaNode:
        """Return the node of ``type``. If it is the type of ``field``, the description is that of the field."""
        definition = self._types[type] if isinstance(type, str) and type not in PRIMITIVES else type
        if isinstance(definition, list):
            return self._build_union(definition, name, above, field)
        kind = definition if isinstance(definition, str) else str(definition["type"])
        schema: JSONObject = {} if isinstance(definition, str) else definition
        full = str(schema.get("name", ""))
        cut = full in above or not self._room.take(len(above))
        logical = str(schema.get("logicalType", ""))
        members = () if cut else self._build_members(schema, kind, (*above, full))
        return SchemaNode(
            kind=_LOGICAL.get(logical, _NODE_KINDS.get(kind, "any")),
            type=" ".join(part for part in (kind, logical, full) if part),
            name=name,
            required=_is_required(field),
            description=format_text((field or {}).get("doc") or schema.get("doc") or ""),
            constraints=_list_constraints(schema, field),
            values=_list_values(schema, kind),
            members=members,
            cut=cut or len(members) < len(schema.get("fields", ())),
        )

    def _build_union(
        self, branches: list[Type], name: str, above: tuple[str, ...], field: JSONObject | None
    ) -> SchemaNode:
        alternatives = [branch for branch in branches if branch != "null"]
        nullable = len(alternatives) < len(branches)
        if len(alternatives) == 1:
            node = self.node(alternatives[0], name, above, field)
            return SchemaNode(
                kind=node.kind, type=node.type, name=name, required=node.required, nullable=nullable,
                values=node.values, description=node.description, constraints=node.constraints, members=node.members,
                cut=node.cut,
            )  # fmt: skip
        shares = self._room.share(alternatives) if self._room.take(len(above)) else ()
        members = tuple(self.node(branch, "", (*above, "")) for branch in shares)
        return SchemaNode(
            kind="choice",
            type="union",
            name=name,
            required=_is_required(field),
            nullable=nullable,
            description=format_text((field or {}).get("doc") or ""),
            members=members,
            cut=len(members) < len(alternatives),
        )

    def _build_members(self, schema: JSONObject, kind: str, above: tuple[str, ...]) -> tuple[SchemaNode, ...]:
        if kind == "record":
            fields = self._room.share(schema["fields"])
            return tuple(self.node(part["type"], part["name"], above, part) for part in fields)
        inner = schema.get("items" if kind == "array" else "values")
        return () if inner is None else (self.node(inner, "", above),)


def _is_required(field: JSONObject | None) -> bool:
    """Return True if ``field`` has no default for writers that do not have the field; False if there is no field."""
    return field is not None and "default" not in field


def _list_constraints(schema: JSONObject, field: JSONObject | None) -> tuple[tuple[str, str], ...]:
    symbols = (("one of", ", ".join(take_first(schema["symbols"]))),) if "symbols" in schema else ()
    return (*symbols, *list_constraints(schema, _BOUNDS[:3]), *list_constraints(field or {}, _BOUNDS[3:]))


def _list_values(schema: JSONObject, kind: str) -> tuple[Any, ...]:
    if kind == "fixed":
        return (bytes(int(schema["size"])),) if int(schema["size"]) <= 1024 and "logicalType" not in schema else ()
    return take_first(schema.get("symbols"))

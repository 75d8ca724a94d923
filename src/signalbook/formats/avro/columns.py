"""The columns of an Avro schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from signalbook.formats.avro.document import PRIMITIVES, Type
from signalbook.formats.shape import Anything, Field, Kind, ListOf, MapOf, Scalar, Shape, Struct
from signalbook.values import JSON, JSONObject

_PLAIN: Final[dict[str, Kind]] = {
    "boolean": "bool",
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "bytes": "bytes",
    "fixed": "bytes",
    "string": "string",
    "enum": "string",
}
_LOGICAL: Final[dict[tuple[str, str], Kind]] = {
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("int", "date"): "date",
    ("int", "time-millis"): "time",
    ("long", "time-micros"): "time",
    ("string", "uuid"): "uuid",
}


def shape_of(node: Type, types: Mapping[str, JSONObject], *, nullable: bool = False) -> Shape:
    """The shape of values of ``node``; a union of more than null and one type, and recursion, become ``Anything``."""
    return _shape(node, types, nullable, frozenset())


def _shape(node: Type, types: Mapping[str, JSONObject], nullable: bool, above: frozenset[str]) -> Shape:
    if isinstance(node, str) and node not in PRIMITIVES:
        if node in above:
            return Anything(nullable=nullable)
        node = types[node]
    if isinstance(node, list):
        others = [item for item in node if item != "null"]
        nullable = nullable or len(others) < len(node)
        return _shape(others[0], types, nullable, above) if len(others) == 1 else Anything(nullable=nullable)
    if isinstance(node, str):
        return _scalar(node, {"type": node}, nullable)
    if node["type"] == "array":
        return ListOf(item=_shape(node["items"], types, False, above), nullable=nullable)
    if node["type"] == "map":
        return MapOf(value=_shape(node["values"], types, False, above), nullable=nullable)
    if node["type"] == "record":
        return Struct(fields=_fields(node, types, above | {node["name"]}), nullable=nullable)
    return _scalar(node["type"], node, nullable)


def _fields(node: JSONObject, types: Mapping[str, JSONObject], above: frozenset[str]) -> tuple[Field, ...]:
    return tuple(
        Field(
            name=part["name"],
            attribute=part["name"],
            shape=_shape(part["type"], types, False, above),
            required=True,
            description=str(part.get("doc", "")),
        )
        for part in node["fields"]
    )


def _scalar(kind: str, node: JSONObject, nullable: bool) -> Shape:
    if kind == "null":
        return Scalar(kind="string", nullable=True)
    logical = node.get("logicalType", "")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = int(node.get("precision", 0)), int(node.get("scale", 0))
        return Scalar(kind="decimal", nullable=nullable, precision=precision, scale=scale)
    return Scalar(kind=_LOGICAL.get((kind, logical), _PLAIN[kind]), nullable=nullable)


def constants(node: Type, types: Mapping[str, JSONObject]) -> dict[str, frozenset[JSON]]:
    """The enum fields of a record, each with its symbols."""
    node = types.get(node, node) if isinstance(node, str) else node
    found: dict[str, frozenset[JSON]] = {}
    for part in node.get("fields", ()) if isinstance(node, dict) else ():
        kind = part["type"]
        kind = types.get(kind, kind) if isinstance(kind, str) else kind
        if isinstance(kind, dict) and kind["type"] == "enum":
            found[part["name"]] = frozenset(kind["symbols"])
    return found

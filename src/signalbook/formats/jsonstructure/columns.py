"""The columns of a JSON Structure type.

Values stay as JSON has them: large integers, decimals, dates and bytes are text there, and remain text in the columns.
"""

from __future__ import annotations

from typing import Final

from signalbook.formats.jsonstructure.instances import resolved
from signalbook.formats.jsonstructure.primitives import KINDS, PRIMITIVES
from signalbook.formats.jsonstructure.structure import Structure, required
from signalbook.formats.shape import Anything, Field, ListOf, MapOf, Scalar, Shape, Struct, bounded
from signalbook.values import JSON, JSONObject

_MAX_LEVELS: Final = 32
_Above = tuple[JSONObject, ...]


def shape_of(structure: Structure, schema: JSON, above: _Above = (), *, nullable: bool = False) -> Shape:
    """The shape that every value of a type fits."""
    kinds = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kinds, list):
        others = [kind for kind in kinds if kind != "null"]
        if len(others) != 1:
            return Anything(nullable=True)
        return shape_of(structure, {"type": others[0]}, above, nullable=nullable or len(others) < len(kinds))
    if isinstance(kinds, dict):
        return shape_of(structure, resolved(structure, schema), above, nullable=nullable)
    if len(above) >= _MAX_LEVELS or any(schema is one for one in above):
        return Anything(nullable=nullable)
    return _shape(structure, schema, above, nullable) if isinstance(schema, dict) else Anything(nullable=nullable)


def _shape(structure: Structure, schema: JSONObject, above: _Above, nullable: bool) -> Shape:
    kind = schema.get("type", "any")
    above = (*above, schema)
    if kind == "object":
        return bounded(Struct(fields=_fields(structure, schema, above), nullable=nullable))
    if kind in ("array", "set"):
        return ListOf(item=shape_of(structure, schema["items"], above), nullable=nullable)
    if kind == "map":
        return MapOf(value=shape_of(structure, schema["values"], above), nullable=nullable)
    if kind in PRIMITIVES:
        return Scalar(kind=KINDS.get(kind, "string"), nullable=nullable or kind == "null")
    return Anything(nullable=nullable)


def _fields(structure: Structure, schema: JSONObject, above: _Above) -> tuple[Field, ...]:
    sets = required(structure, schema)
    always = set(sets[0]).intersection(*sets[1:])
    return tuple(
        Field(
            name=name,
            attribute=name,
            shape=shape_of(structure, member, above),
            required=name in always,
            description=str(member.get("description", "")) if isinstance(member, dict) else "",
        )
        for name, member in structure.properties(schema).items()
    )


def constants(structure: Structure, schema: JSONObject) -> dict[str, frozenset[JSON]]:
    """Required properties of an object that have listed values, and the selector of a choice, by name (K-30)."""
    if schema.get("type") == "choice" and isinstance(schema.get("selector"), str):
        return {schema["selector"]: frozenset(schema["choices"])}
    if schema.get("type") != "object":
        return {}
    sets = required(structure, schema)
    always = set(sets[0]).intersection(*sets[1:])
    found: dict[str, frozenset[JSON]] = {}
    for name, member in structure.properties(schema).items():
        declared = resolved(structure, member)
        values = [declared["const"]] if "const" in declared else declared.get("enum")
        if values and name in always:
            found[name] = frozenset(values)
    return found

"""Avro payloads into columns: what the native module has to know of a schema to read its binary encoding.

Of unions of several types, and of types inside themselves, columns hold JSON text, which the module writes to the byte
as the slow path does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from fastavro.read import LOGICAL_READERS

from signalbook.formats import Shape, Struct
from signalbook.formats.avro.document import PRIMITIVES, Type
from signalbook.formats.avro.format import AvroSchema
from signalbook.pipeline import columns
from signalbook.pipeline.fastpath import native
from signalbook.pipeline.fastpath.native import Decode, NoPlan
from signalbook.values import JSONObject

# As native/src/avro.rs reads it.
Plan = tuple[Any, ...]
_DAY: Final = 86_400_000_000
# Bounds in the column's unit, and how many of those a unit of the payload is.
_TIMES: Final = {
    ("long", "timestamp-millis"): (columns.MICROSECONDS, 1000),
    ("long", "timestamp-micros"): (columns.MICROSECONDS, 1),
    ("int", "time-millis"): ((0, _DAY - 1), 1000),
    ("long", "time-micros"): ((0, _DAY - 1), 1),
}


# Decimals that columns have room for.
_MOST_DIGITS: Final = 38


def avro_decoder(schema: AvroSchema, shape: Shape) -> Decode:
    """Return the decoder of payloads to the arrays of ``columns.payload(shape)``. Raises ``NoPlan``.

    Null is not a payload, so schemas that allow it have no decoder; nor have decimals of more than 38 digits.
    """
    types = schema.names.types
    node = _resolved(schema.type, types)
    # a schema that reads what another wrote resolves names and defaults, which is left to the slow path
    if schema.writer is not None or isinstance(node, list) or node["type"] == "null":
        raise NoPlan
    members = isinstance(shape, Struct) and bool(shape.fields)
    fields = columns.payload(shape)
    kind = pa.struct(fields) if members else fields[0].type
    read = native.module().AvroDecoder(_plan(schema.type, types, kind, frozenset())).read
    return native.decoder(read, native.Reading(kind), members=members)


def _resolved(node: Type, types: Mapping[str, JSONObject]) -> Any:
    return types.get(node, {"type": node}) if isinstance(node, str) else node


def _plan(node: Type, types: Mapping[str, JSONObject], kind: pa.DataType, above: frozenset[str]) -> Plan:
    """Return the plan from values to a column of ``kind``. ``above`` are the surrounding records."""
    if isinstance(node, list):
        return _optional(node, types, kind, above)
    node = _resolved(node, types)
    name = node["type"]
    if name == "record":
        if node["name"] in above or not node["fields"]:
            return _text_plan(node, types)
        inside = above | {node["name"]}
        fields = zip(node["fields"], kind, strict=True)
        return "record", [_plan(part["type"], types, field.type, inside) for part, field in fields]
    if name == "array":
        return "array", _plan(node["items"], types, kind.value_type, above)
    if name == "map":
        return "map", _plan(node["values"], types, kind.item_type, above)
    return _scalar(node, nanos=kind == columns.TIMESTAMP)


def _optional(node: list[Type], types: Mapping[str, JSONObject], kind: pa.DataType, above: frozenset[str]) -> Plan:
    """A value or null, by the number of the branch that null is; of other unions the text."""
    if len(node) != 2 or "null" not in node or node[0] == node[1]:
        return _text_plan(node, types)
    # Which branch is null differs from schema to schema, and is the first thing in the bytes of the value.
    null = node.index("null")
    other = _resolved(node[1 - null], types)
    if other.get("name") in above:
        return _text_plan(node, types)
    return "optional", null, _plan(other, types, kind, above)


def _scalar(node: JSONObject, *, nanos: bool = False) -> Plan:
    """A value that has none inside it; of times in nanoseconds the column may be one of times, or of numbers."""
    name, logical = node["type"], node.get("logicalType")
    if name == "enum":
        return "enum", list(node["symbols"])
    if logical == "timestamp-nanos" and nanos:
        return ("nanos",)
    if f"{name}-{logical}" in LOGICAL_READERS:
        found = _logical(name, str(logical), node)
        if found is not None:
            return found
    if name == "fixed":
        return "fixed", int(node["size"])
    if name not in PRIMITIVES:
        raise NoPlan
    return (name,)


def _logical(name: str, logical: str, node: JSONObject) -> Plan | None:
    """A value that a logical type makes another one; ``None`` for those that stay what they are."""
    if logical == "decimal":
        digits = int(node.get("precision", 0))
        if not 0 < digits <= _MOST_DIGITS:
            raise NoPlan
        return "decimal", digits, int(node["size"]) if name == "fixed" else None, int(node.get("scale", 0))
    if logical == "date":
        return "date", *columns.DAYS
    if (name, logical) not in _TIMES:
        return None
    (low, high), factor = _TIMES[name, logical]
    return "time", low // factor, high // factor, factor


def _text_plan(node: Type, types: Mapping[str, JSONObject]) -> Plan:
    """Return the plan for any value as text. Recursive types are plans of their own, by number."""
    named: dict[str, int] = {}
    whole = _text(node, types, frozenset(), named)
    plans: list[Plan] = []
    # A plan may name further types.
    while len(plans) < len(named):
        plans.append(_text(list(named)[len(plans)], types, frozenset(), named))
    return "text", whole, plans


def _text(node: Type, types: Mapping[str, JSONObject], above: frozenset[str], named: dict[str, int]) -> Plan:
    """Return the plan as native/src/avrotext.rs reads it. ``above`` are the surrounding records."""
    if isinstance(node, list):
        return "union", [_text(branch, types, above, named) for branch in node]
    node = _resolved(node, types)
    name = node["type"]
    if name == "record":
        if node["name"] in above:
            return "named", named.setdefault(node["name"], len(named))
        inside = above | {node["name"]}
        return "object", [(part["name"], _text(part["type"], types, inside, named)) for part in node["fields"]]
    if name == "array":
        return "array", _text(node["items"], types, above, named)
    if name == "map":
        return "map", _text(node["values"], types, above, named)
    found = _scalar(node)
    if found[0] == "time":
        return "instant" if "timestamp" in node["logicalType"] else "clock", *found[1:]
    return found

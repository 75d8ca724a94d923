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
_MAX_DIGITS: Final = 38


def build_avro_decoder(schema: AvroSchema, shape: Shape) -> Decode:
    """Return the decoder of payloads to the arrays of ``columns.payload(shape)``. Raises ``NoPlan``.

    Null is not a payload, so schemas that allow it have no decoder; nor have decimals of more than 38 digits.
    """
    types = schema.names.types
    node = _resolve_type(schema.type, types)
    # a schema that reads what another wrote resolves names and defaults, which is left to the slow path
    if schema.writer is not None or isinstance(node, list) or node["type"] == "null":
        raise NoPlan
    members = isinstance(shape, Struct) and bool(shape.fields)
    fields = columns.build_payload(shape)
    kind = pa.struct(fields) if members else fields[0].type
    read = native.load_module().AvroDecoder(_plan(schema.type, types, kind, frozenset())).read
    return native.build_decoder(read, native.Reading(kind), members=members)


def _resolve_type(node: Type, types: Mapping[str, JSONObject]) -> Any:
    return types.get(node, {"type": node}) if isinstance(node, str) else node


def _plan(node: Type, types: Mapping[str, JSONObject], kind: pa.DataType, above: frozenset[str]) -> Plan:
    """Return the plan from values to a column of ``kind``. ``above`` are the surrounding records."""
    if isinstance(node, list):
        return _plan_optional(node, types, kind, above)
    node = _resolve_type(node, types)
    name = node["type"]
    if name == "record":
        if node["name"] in above or not node["fields"]:
            return _plan_text(node, types)
        inside = above | {node["name"]}
        fields = zip(node["fields"], kind, strict=True)
        return "record", [_plan(part["type"], types, field.type, inside) for part, field in fields]
    if name == "array":
        return "array", _plan(node["items"], types, kind.value_type, above)
    if name == "map":
        return "map", _plan(node["values"], types, kind.item_type, above)
    return _plan_scalar(node, nanos=kind == columns.TIMESTAMP)


def _plan_optional(node: list[Type], types: Mapping[str, JSONObject], kind: pa.DataType, above: frozenset[str]) -> Plan:
    """A value or null, by the number of the branch that null is; of other unions the text."""
    if len(node) != 2 or "null" not in node or node[0] == node[1]:
        return _plan_text(node, types)
    # Which branch is null differs from schema to schema, and is the first thing in the bytes of the value.
    null = node.index("null")
    other = _resolve_type(node[1 - null], types)
    if other.get("name") in above:
        return _plan_text(node, types)
    return "optional", null, _plan(other, types, kind, above)


def _plan_scalar(node: JSONObject, *, nanos: bool = False) -> Plan:
    """A value that has none inside it; of times in nanoseconds the column may be one of times, or of numbers."""
    name, logical = node["type"], node.get("logicalType")
    if name == "enum":
        return "enum", list(node["symbols"])
    if logical == "timestamp-nanos" and nanos:
        return ("nanos",)
    if f"{name}-{logical}" in LOGICAL_READERS:
        plan = _plan_logical(name, str(logical), node)
        if plan is not None:
            return plan
    if name == "fixed":
        return "fixed", int(node["size"])
    if name not in PRIMITIVES:
        raise NoPlan
    return (name,)


def _plan_logical(name: str, logical: str, node: JSONObject) -> Plan | None:
    """A value that a logical type makes another one; ``None`` for those that stay what they are."""
    if logical == "decimal":
        digits = int(node.get("precision", 0))
        if not 0 < digits <= _MAX_DIGITS:
            raise NoPlan
        return "decimal", digits, int(node["size"]) if name == "fixed" else None, int(node.get("scale", 0))
    if logical == "date":
        return "date", *columns.DAYS
    if (name, logical) not in _TIMES:
        return None
    (low, high), factor = _TIMES[name, logical]
    return "time", low // factor, high // factor, factor


def _plan_text(node: Type, types: Mapping[str, JSONObject]) -> Plan:
    """Return the plan for any value as text. Recursive types are plans of their own, by number."""
    type_numbers: dict[str, int] = {}
    root = _plan_text_node(node, types, frozenset(), type_numbers)
    plans: list[Plan] = []
    # A plan may name further types.
    while len(plans) < len(type_numbers):
        plans.append(_plan_text_node(list(type_numbers)[len(plans)], types, frozenset(), type_numbers))
    return "text", root, plans


def _plan_text_node(
    node: Type, types: Mapping[str, JSONObject], above: frozenset[str], type_numbers: dict[str, int]
) -> Plan:
    """Return the plan as native/src/avrotext.rs reads it. ``above`` are the surrounding records."""
    if isinstance(node, list):
        return "union", [_plan_text_node(branch, types, above, type_numbers) for branch in node]
    node = _resolve_type(node, types)
    name = node["type"]
    if name == "record":
        if node["name"] in above:
            return "named", type_numbers.setdefault(node["name"], len(type_numbers))
        inside = above | {node["name"]}
        return "object", [
            (part["name"], _plan_text_node(part["type"], types, inside, type_numbers)) for part in node["fields"]
        ]
    if name == "array":
        return "array", _plan_text_node(node["items"], types, above, type_numbers)
    if name == "map":
        return "map", _plan_text_node(node["values"], types, above, type_numbers)
    plan = _plan_scalar(node)
    if plan[0] == "time":
        return "instant" if "timestamp" in node["logicalType"] else "clock", *plan[1:]
    return plan

"""Plan how the native module reads Avro's binary encoding into columns.

For unions of several types and for recursive types, columns hold JSON text. The native module writes exactly the same
bytes of text as the slow path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from fastavro.read import LOGICAL_READERS

from signalbook.formats import Shape, Struct
from signalbook.formats.avro.document import PRIMITIVES, Type
from signalbook.formats.avro.format import AvroSchema
from signalbook.pipeline import columns, native
from signalbook.pipeline.native import Decode, NoPlan
from signalbook.values import JSONObject

# A plan in the form that native/src/avro.rs reads.
Plan = tuple[Any, ...]
_DAY: Final = 86_400_000_000
# The bounds of values in the column's unit, and the number of these units in one unit of the payload.
_TIMES: Final = {
    ("long", "timestamp-millis"): (columns.MICROSECONDS, 1000),
    ("long", "timestamp-micros"): (columns.MICROSECONDS, 1),
    ("int", "time-millis"): ((0, _DAY - 1), 1000),
    ("long", "time-micros"): ((0, _DAY - 1), 1),
}


# The largest number of digits of a decimal column.
_MAX_DIGITS: Final = 38


def build_avro_decoder(schema: AvroSchema, shape: Shape) -> Decode:
    """Return the decoder of payloads to the arrays of ``columns.build_payload(shape)``.

    Raises ``NoPlan`` for schemas that allow null, because null is not a payload, and for decimals of more than 38
    digits.
    """
    types = schema.names.types
    node = _resolve_type(schema.type, types)
    # a schema that reads payloads of another schema has to resolve names and defaults, which only the slow path does
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
    """Return the plan of a union: a value or null, with the number of the null branch. Other unions become text."""
    if len(node) != 2 or "null" not in node or node[0] == node[1]:
        return _plan_text(node, types)
    # Which branch is null differs from schema to schema, and is the first thing in the bytes of the value.
    null = node.index("null")
    other = _resolve_type(node[1 - null], types)
    if other.get("name") in above:
        return _plan_text(node, types)
    return "optional", null, _plan(other, types, kind, above)


def _plan_scalar(node: JSONObject, *, nanos: bool = False) -> Plan:
    """Return the plan of a value without inner values.

    Times in nanoseconds have a column of times with ``nanos``, and else a column of numbers.
    """
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
    """Return the plan of a value that its logical type converts, ``None`` if the type does not convert it."""
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
    """Return the plan for any value as text. Recursive types have separate plans, which plans refer to by number."""
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

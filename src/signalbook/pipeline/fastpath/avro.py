"""Avro payloads in binary: what the native module has to know of a schema to decode them into columns.

Schemas with maps, unions of several types, recursion, or logical types that are not below have no plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from signalbook.formats.avro.document import Type
from signalbook.formats.avro.format import AvroSchema
from signalbook.pipeline import columns
from signalbook.pipeline.fastpath import native
from signalbook.pipeline.fastpath.native import Decode, NoPlan
from signalbook.values import JSONObject

# As native/src/avro.rs reads it.
Plan = tuple[Any, ...]

_PLAIN: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
# What the years 1 to 9999 are in the units of columns; Python has no other dates, and so the slow path has none.
_MICROSECONDS: Final = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_DAYS: Final = (-719_162, 2_932_896)
_DAY: Final = 86_400_000_000
# Bounds in the column's unit, and how many of those a unit of the payload is.
_TIMES: Final = {
    ("long", "timestamp-millis"): (_MICROSECONDS, 1000),
    ("long", "timestamp-micros"): (_MICROSECONDS, 1),
    ("int", "time-millis"): ((0, _DAY - 1), 1000),
    ("long", "time-micros"): ((0, _DAY - 1), 1),
}


def decoder(schema: AvroSchema) -> Decode:
    """From payloads to the arrays of ``columns.payload(schema.shape())``. Raises ``NoPlan``."""
    types = schema.names.types
    node = types.get(schema.type, schema.type) if isinstance(schema.type, str) else schema.type
    # a schema that reads what another wrote resolves names and defaults, which is left to the slow path
    if schema.writer is not None or not isinstance(node, dict) or node["type"] != "record" or not node["fields"]:
        raise NoPlan
    kind = pa.struct(columns.payload(schema.shape()))
    read = native.module().AvroDecoder(_record(node, types, kind)).read
    return native.decoder(read, native.plain(kind), members=True)


def _plan(node: Type, types: Mapping[str, JSONObject], kind: pa.DataType) -> Plan:
    if isinstance(node, list):
        return _optional(node, types, kind)
    if isinstance(node, str):
        node = types.get(node, {"type": node})
    name, logical = node["type"], node.get("logicalType")
    if logical is not None:
        return _logical(name, logical)
    if name == "record" and pa.types.is_struct(kind):  # of one inside itself the column is text
        return _record(node, types, kind)
    if name == "array":
        return "array", _plan(node["items"], types, kind.value_type)
    if name == "enum":
        return "enum", list(node["symbols"])
    if name == "fixed":
        return "fixed", int(node["size"])
    if name not in _PLAIN:
        raise NoPlan
    return (name,)


def _record(node: JSONObject, types: Mapping[str, JSONObject], kind: pa.StructType) -> Plan:
    fields = zip(node["fields"], kind, strict=True)
    return "record", [_plan(part["type"], types, field.type) for part, field in fields]


def _optional(node: list[Type], types: Mapping[str, JSONObject], kind: pa.DataType) -> Plan:
    """A value or null, by the number of the branch that null is."""
    if len(node) != 2 or "null" not in node or node[0] == node[1]:
        raise NoPlan
    null = node.index("null")
    return "optional", null, _plan(node[1 - null], types, kind)


def _logical(name: str, logical: str) -> Plan:
    if (name, logical) == ("string", "uuid"):
        return ("uuid",)
    if (name, logical) == ("int", "date"):
        return "date", *_DAYS
    if (name, logical) not in _TIMES:
        raise NoPlan
    (low, high), factor = _TIMES[name, logical]
    return "time", low // factor, high // factor, factor

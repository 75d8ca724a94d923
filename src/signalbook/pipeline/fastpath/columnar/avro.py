"""Avro in binary, straight into columns.

The decoder of a schema is made once, of one function for each node. Schemas with maps, unions of several types,
recursion, or logical types that are not below have none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from signalbook.formats.avro.document import Type
from signalbook.formats.avro.format import AvroSchema
from signalbook.pipeline import columns
from signalbook.pipeline.fastpath.columnar.cursors import Cursors, spread
from signalbook.pipeline.fastpath.columnar.lists import MOST_ROUNDS, Items
from signalbook.pipeline.fastpath.native import Inexpressible
from signalbook.values import JSONObject

# Reads one value of each payload.
Read = Callable[[Cursors], pa.Array]

_INT: Final = (-(2**31), 2**31 - 1)
# What the years 1 to 9999 are in the units of logical types, with their factors to those of the column.
_MICROSECONDS: Final = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_DAYS: Final = (-719_162, 2_932_896)
_DAY: Final = 86_400_000_000
_LOGICAL: Final = {
    ("long", "timestamp-millis"): (_MICROSECONDS, 1000),
    ("long", "timestamp-micros"): (_MICROSECONDS, 1),
    ("int", "date"): (_DAYS, 1),
    ("int", "time-millis"): ((0, _DAY - 1), 1000),
    ("long", "time-micros"): ((0, _DAY - 1), 1),
}
_UUID: Final = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


def decoder(schema: AvroSchema) -> Callable[[Cursors], list[pa.Array]] | None:
    """From payloads to the arrays of ``columns.payload(schema.shape())``, or ``None`` where there is no such thing."""
    node, types = schema.type, schema.names.types
    node = types[node] if isinstance(node, str) and node in types else node
    fields = list(columns.payload(schema.shape()))
    if schema.writer is not None or not isinstance(node, dict) or node["type"] != "record" or not node["fields"]:
        return None
    try:
        reads = [_node(part["type"], types, field.type) for part, field in zip(node["fields"], fields, strict=True)]
    except Inexpressible:
        return None
    return lambda cursors: [read(cursors) for read in reads]


def _node(node: Type, types: Mapping[str, JSONObject], kind: pa.DataType) -> Read:
    if isinstance(node, list):
        return _optional(node, types, kind)
    if isinstance(node, str):
        node = types.get(node, {"type": node})
    name, logical = node["type"], node.get("logicalType")
    if logical is not None:
        return _logical(name, logical, kind)
    if name == "record" and pa.types.is_struct(kind):
        return _record(node, types, kind)
    if name == "array":
        return _array(node, types, kind)
    if name == "enum":
        return _enum(node["symbols"])
    if name == "fixed":
        size = int(node["size"])
        return lambda cursors: cursors.binary(np.full(len(cursors), size, np.int64))
    return _plain(name)


def _plain(name: Any) -> Read:
    if name not in _PLAIN:
        raise Inexpressible
    return _PLAIN[name]


def _boolean(cursors: Cursors) -> pa.Array:
    byte = cursors.byte()
    cursors.refuse(byte > 1)
    return pa.array(byte == 1)


def _int(cursors: Cursors) -> pa.Array:
    value = cursors.zigzag()
    cursors.refuse((value < _INT[0]) | (value > _INT[1]))
    return pa.array(value.astype(np.int32))


_PLAIN: Final[dict[str, Read]] = {
    "null": lambda cursors: pa.nulls(len(cursors), pa.string()),
    "boolean": _boolean,
    "int": _int,
    "long": lambda cursors: pa.array(cursors.zigzag()),
    "float": lambda cursors: pa.array(cursors.fixed("<f4")),
    "double": lambda cursors: pa.array(cursors.fixed("<f8")),
    "bytes": lambda cursors: cursors.binary(cursors.zigzag()),
    "string": lambda cursors: cursors.text(cursors.zigzag()),
}


def _logical(name: str, logical: str, kind: pa.DataType) -> Read:
    if (name, logical) == ("string", "uuid"):
        return _uuid
    if (name, logical) not in _LOGICAL:
        raise Inexpressible
    (low, high), factor = _LOGICAL[name, logical]
    width: Any = np.int32 if name == "int" and logical == "date" else np.int64

    def read(cursors: Cursors) -> pa.Array:
        value = cursors.zigzag()
        outside = (value < low // factor) | (value > high // factor)
        cursors.refuse(outside)
        return pa.array((np.where(outside, 0, value) * factor).astype(width)).view(kind)

    return read


def _uuid(cursors: Cursors) -> pa.Array:
    """A text in the canonical form; others stand for the same, and are for the thorough way."""
    found = cursors.text(cursors.zigzag())
    cursors.refuse(~pc.match_substring_regex(found, _UUID).to_numpy(zero_copy_only=False))
    return found


def _enum(symbols: list[str]) -> Read:
    names = pa.array(symbols, pa.string())

    def read(cursors: Cursors) -> pa.Array:
        index = cursors.zigzag()
        outside = (index < 0) | (index >= len(names))
        cursors.refuse(outside)
        return names.take(pa.array(np.where(outside, 0, index)))

    return read


def _record(node: JSONObject, types: Mapping[str, JSONObject], kind: pa.StructType) -> Read:
    fields = list(kind)
    reads = [_node(part["type"], types, field.type) for part, field in zip(node["fields"], fields, strict=True)]
    return lambda cursors: pa.StructArray.from_arrays([read(cursors) for read in reads], fields=fields)


def _optional(node: list[Type], types: Mapping[str, JSONObject], kind: pa.DataType) -> Read:
    """A value or null."""
    if len(node) != 2 or "null" not in node or node[0] == node[1]:
        raise Inexpressible
    there = 1 - node.index("null")
    inner = _node(node[there], types, kind)

    def read(cursors: Cursors) -> pa.Array:
        index = cursors.zigzag()
        cursors.refuse((index != 0) & (index != 1))
        present = index == there
        if present.all():
            return inner(cursors)
        numbers = np.flatnonzero(present)
        if not len(numbers):
            return pa.nulls(len(cursors), kind)
        part = cursors.some(numbers)
        found = inner(part)
        cursors.join(part, numbers)
        return spread(found, present)

    return read


def _array(node: JSONObject, types: Mapping[str, JSONObject], kind: pa.ListType) -> Read:
    item = _node(node["items"], types, kind.value_type)

    def read(cursors: Cursors) -> pa.Array:
        items = Items(kind)
        lists = np.arange(len(cursors))
        while len(lists):
            part = cursors.some(lists)
            counts = part.zigzag()
            # a negative count has the size of the block behind it, which hardly anyone writes
            outside = (counts < 0) | (counts > MOST_ROUNDS - len(items))
            part.refuse(outside)
            cursors.join(part, lists)
            going = (counts > 0) & ~outside
            lists, counts = lists[going], counts[going]
            for number in range(counts.max(initial=0)):
                owners = lists[counts > number]
                if not cursors.rounds.spend():
                    cursors.bad[lists] = True  # also those that only lack their end
                    return items.lists(len(cursors))
                part = cursors.some(owners)
                items.add(item(part), owners)
                cursors.join(part, owners)
        return items.lists(len(cursors))

    return read

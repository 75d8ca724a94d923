"""Payloads of other versions of a schema: the columns that their writer has for them, made into those of the reader.

What they become is what the slow path makes of them: of Avro what its schema resolution says, of JSON Schema and
Protobuf what the writer has under the reader's names. Where columns do not say that, payloads are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from signalbook.formats import Anything, ListOf, MapOf, Scalar, Schema, Shape, Struct, as_sent
from signalbook.formats.avro import json_encoding
from signalbook.formats.avro.document import Type
from signalbook.formats.avro.format import AvroSchema
from signalbook.messages import CompiledDefinition
from signalbook.messages.definitions.schemas import SchemaUse
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import MISFITS, ValueForm, builder
from signalbook.pipeline.fastpath import payloads
from signalbook.pipeline.fastpath.native import Decode, Decoded, NoPlan, PayloadSpans
from signalbook.pipeline.landing.rows import layout
from signalbook.values import JSONObject

Convert = Callable[[pa.Array], pa.Array]
_Bad = npt.NDArray[np.bool_]
# From columns, and which rows are not to be taken, to other columns.
_Members = Callable[[list[pa.Array], _Bad], list[pa.Array]]
_PROMOTED: Final = {
    ("int", "long"): (pa.int64(),),
    ("int", "float"): (pa.float64(), pa.float32()),
    ("int", "double"): (pa.float64(),),
    ("long", "float"): (pa.float64(), pa.float32()),
    ("long", "double"): (pa.float64(),),
    ("float", "double"): (pa.float64(),),
}
"""By way of which types, as values are in Python on the slow path."""
_NUMBERS: Final = frozenset({"int", "long", "float", "double"})
_TEXTS: Final = frozenset({"string", "bytes"})


def decoder(definition: CompiledDefinition, use: SchemaUse) -> Decode | None:
    """Return the decoder of payloads written with ``use`` into the columns of the definition's table, or None."""
    own, schema = definition.schema_use.schema, use.schema
    if own is None or schema is None:
        return None
    typed, written = definition.policy.typed, schema
    if isinstance(schema, AvroSchema) and schema.writer is not None:
        written = schema.writer
    decode = payloads.decoder(written, definition.payload_type, typed=typed)
    if decode is None or written is own:
        return decode
    try:
        return _resolved(definition, decode, own, written)
    except NoPlan:
        return None


def _resolved(definition: CompiledDefinition, decode: Decode, own: Schema, written: Schema) -> Decode:
    typed, rescues = definition.policy.typed, layout(definition).rescues
    shapes = [each.shape() if typed else as_sent(each.shape()) for each in (own, written)]
    reader, writer = shapes
    if not (isinstance(reader, Struct) and isinstance(writer, Struct) and reader.fields and writer.fields):
        raise NoPlan
    kinds = [pa.struct(columns.payload(each)) for each in shapes]
    if isinstance(own, AvroSchema) and isinstance(written, AvroSchema):
        members = _Resolution(written, own).record(written.type, own.type, kinds[1], kinds[0], reader)
    else:
        members = _by_name(writer, reader, kinds[1], kinds[0], rescues=rescues)
    return _converted(decode, members, len(writer.fields))


def _converted(decode: Decode, members: _Members, width: int) -> Decode:
    def converted(payloads: PayloadSpans) -> Decoded:
        found, refused = decode(payloads)
        if len(refused) == len(payloads):
            return [], refused
        own, rest = found[:width], found[width:]
        bad = np.zeros(len(payloads) - len(refused), np.bool_)
        for each in rest:
            # What the writer has no column for may be what the reader has one for.
            bad |= each.is_valid().to_numpy(zero_copy_only=False)
        arrays = [*members(own, bad), *rest]
        if not bad.any():
            return arrays, refused
        taken = np.delete(np.arange(len(payloads)), refused)
        kept = pa.array(np.flatnonzero(~bad))
        return [array.take(kept) for array in arrays], sorted([*refused, *taken[bad].tolist()])

    return converted


class _Resolution:
    """Avro's schema resolution, as far as columns can say it. Every method raises ``NoPlan``."""

    def __init__(self, writer: AvroSchema, reader: AvroSchema) -> None:
        self._writer = writer
        self._reader = reader

    def record(self, written: Type, read: Type, kind: pa.StructType, wanted: pa.StructType, shape: Struct) -> _Members:
        """Return the plan from the columns of the writer's record to those of the reader's."""
        own, other = _node(read, self._reader), _node(written, self._writer)
        if not (own["type"] == other["type"] == "record" and _alike(own, other)):
            raise NoPlan
        if own.get("aliases") or any(part.get("aliases") for part in own["fields"]):
            raise NoPlan
        places = {part["name"]: number for number, part in enumerate(other["fields"])}
        made: list[tuple[int, Convert]] = []
        for part, column, field in zip(own["fields"], wanted, shape.fields, strict=True):
            place = places.get(part["name"])
            if place is None:
                made.append((0, _default(part, self._reader, field.shape, column.type)))
            else:
                source = other["fields"][place]["type"]
                convert = self._value(source, part["type"], kind[place].type, column.type, field.shape)
                made.append((place, convert))
        return lambda arrays, _: [convert(arrays[place]) for place, convert in made]

    def _value(self, written: Type, read: Type, kind: pa.DataType, wanted: pa.DataType, shape: Shape) -> Convert:
        if isinstance(written, list) or isinstance(read, list):
            return self._union(written, read, kind, wanted, shape)
        own, other = _node(read, self._reader), _node(written, self._writer)
        name, source = own["type"], other["type"]
        if own.get("logicalType") != other.get("logicalType"):
            raise NoPlan
        if (source, name) in _PROMOTED and not own.get("logicalType"):
            return _cast(_PROMOTED[source, name])
        if name != source:
            raise NoPlan
        if name == "record":
            if not (isinstance(shape, Struct) and pa.types.is_struct(kind) and pa.types.is_struct(wanted)):
                raise NoPlan
            return _struct(self.record(other, own, kind, wanted, shape), wanted)
        if name == "array" and isinstance(shape, ListOf):
            item = self._value(other["items"], own["items"], kind.value_type, wanted.value_type, shape.item)
            return _list(item, wanted)
        if name == "map" and isinstance(shape, MapOf):
            value = self._value(other["values"], own["values"], kind.item_type, wanted.item_type, shape.value)
            return _map(value, wanted)
        named = name not in ("enum", "fixed") or _alike(own, other)
        same = own.get("size") == other.get("size") and set(other.get("symbols", ())) <= set(own.get("symbols", ()))
        if not (named and same and kind == wanted) or own.get("aliases") or name == "array":
            raise NoPlan
        return _as_it_is

    def _union(self, written: Type, read: Type, kind: pa.DataType, wanted: pa.DataType, shape: Shape) -> Convert:
        """A value or null becomes one, and so does a value; a union of several types only what it is."""
        others, own = _branches(written), _branches(read)
        if len(others) == len(own) == 1 and ("null" not in written or "null" in read):
            return self._value(others[0], own[0], kind, wanted, shape)
        whole = [schema.names.complete(node) for schema, node in ((self._writer, written), (self._reader, read))]
        kinds = [_kind_of(each) for each in own]
        # The first that a number fits is taken, which need not be its own.
        several = sum(each in _NUMBERS for each in kinds) > 1 or sum(each in _TEXTS for each in kinds) > 1
        if whole[0] != whole[1] or several or kind != wanted:
            raise NoPlan
        return _as_it_is


def _node(node: Type, schema: AvroSchema) -> JSONObject:
    found = schema.names.types.get(node, {"type": node}) if isinstance(node, str) else node
    return dict(found)


def _alike(own: JSONObject, other: JSONObject) -> bool:
    """Return True if two named types have the same name."""
    return str(own["name"]).rpartition(".")[2] == str(other["name"]).rpartition(".")[2]


def _branches(node: Type) -> list[Type]:
    return [each for each in node if each != "null"] if isinstance(node, list) else [node]


def _kind_of(node: Type) -> Any:
    return node["type"] if isinstance(node, dict) else node


def _as_it_is(array: pa.Array) -> pa.Array:
    return array


def _cast(types: Sequence[pa.DataType]) -> Convert:
    def cast(array: pa.Array) -> pa.Array:
        for each in types:
            array = array.cast(each, safe=False)
        return array

    return cast


def _default(part: JSONObject, schema: AvroSchema, shape: Shape, kind: pa.DataType) -> Convert:
    """The default of a field of the reader for as many rows as there are."""
    if "default" not in part:
        raise NoPlan
    try:
        one = builder(shape, kind, ValueForm.DECODED)([json_encoding.read_default(part, schema.names.types)], True)
    except (*MISFITS, RecursionError):
        raise NoPlan from None
    return lambda array: one.take(pa.array(np.zeros(len(array), np.int64)))


def _struct(members: _Members, kind: pa.StructType) -> Convert:
    nothing = np.zeros(0, np.bool_)

    def convert(array: pa.Array) -> pa.Array:
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(members(array.flatten(), nothing), fields=list(kind), mask=mask)

    return convert


def _list(item: Convert, kind: pa.ListType) -> Convert:
    def convert(array: pa.Array) -> pa.Array:
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(array.offsets, item(array.values), type=kind, mask=mask)

    return convert


def _map(value: Convert, kind: pa.MapType) -> Convert:
    def convert(array: pa.Array) -> pa.Array:
        mask = array.is_null() if array.null_count else None
        return pa.MapArray.from_arrays(array.offsets, array.keys, value(array.items), kind, mask=mask)

    return convert


def _by_name(writer: Struct, reader: Struct, kind: pa.StructType, wanted: pa.StructType, *, rescues: bool) -> _Members:
    """Return the plan from columns of a version without schema resolution to those of the same names.

    Members that the reader does not have are ``rescues`` of the slow path, if the table has them. Raises ``NoPlan``.
    """
    places = {field.name: number for number, field in enumerate(writer.fields)}
    names = {field.name for field in reader.fields}
    lost = [number for name, number in places.items() if name not in names] if rescues else []
    made: list[tuple[int, pa.DataType, _Members | None]] = []
    for field, column in zip(reader.fields, wanted, strict=True):
        place = places.get(field.name, -1)
        shape = writer.fields[place].shape if place >= 0 else field.shape
        members = None
        if not _same(shape, field.shape):
            if not (isinstance(shape, Struct) and isinstance(field.shape, Struct)):
                raise NoPlan
            if not (pa.types.is_struct(kind[place].type) and pa.types.is_struct(column.type)):
                raise NoPlan
            members = _by_name(shape, field.shape, kind[place].type, column.type, rescues=rescues)
        made.append((place, column.type, members))

    def convert(arrays: list[pa.Array], bad: _Bad) -> list[pa.Array]:
        for number in lost:
            bad |= arrays[number].is_valid().to_numpy(zero_copy_only=False)
        found = []
        for place, column, members in made:
            array = pa.nulls(len(bad), column) if place < 0 else arrays[place]
            if members is not None:
                mask = array.is_null() if array.null_count else None
                inner = members(array.flatten(), bad)
                array = pa.StructArray.from_arrays(inner, fields=list(column), mask=mask)
            found.append(array)
        return found

    return convert


def _same(one: Shape, other: Shape) -> bool:
    """Return True if the columns of two shapes are the same, with the same meaning."""
    match one, other:
        case Scalar(), Scalar():
            return _scalar(one) == _scalar(other)
        case ListOf(), ListOf():
            return _same(one.item, other.item)
        case MapOf(), MapOf():
            return _same(one.value, other.value)
        case Struct(), Struct():
            names = [[field.name for field in each.fields] for each in (one, other)]
            pairs = zip(one.fields, other.fields, strict=False)
            return names[0] == names[1] and all(_same(a.shape, b.shape) for a, b in pairs)
    return isinstance(one, Anything) and isinstance(other, Anything)


def _scalar(shape: Scalar) -> tuple[Any, ...]:
    return shape.kind, shape.sent, shape.precision, shape.scale, shape.zoned

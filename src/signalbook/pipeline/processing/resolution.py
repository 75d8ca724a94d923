"""Decode payloads of another version of a schema (the writer) into the columns of the definition's own (the reader).

The result is the same as on the slow path. For Avro it follows Avro's schema resolution. For JSON Schema and Protobuf,
the reader's columns get the writer's values of the same names. Payloads are refused if columns cannot express this.
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
from signalbook.pipeline.arrays import MISFITS, ValueForm, make_builder
from signalbook.pipeline.native import Decode, Decoded, NoPlan, PayloadSpans
from signalbook.pipeline.processing import decoding
from signalbook.pipeline.tables.layout import find_layout
from signalbook.values import JSONObject

Convert = Callable[[pa.Array], pa.Array]
_Bad = npt.NDArray[np.bool_]
# A function from the writer's columns to the reader's. It marks rows to refuse in its second argument.
_Members = Callable[[list[pa.Array], _Bad], list[pa.Array]]
_PROMOTED: Final = {
    ("int", "long"): (pa.int64(),),
    ("int", "float"): (pa.float64(), pa.float32()),
    ("int", "double"): (pa.float64(),),
    ("long", "float"): (pa.float64(), pa.float32()),
    ("long", "double"): (pa.float64(),),
    ("float", "double"): (pa.float64(),),
}
"""Avro's promotions, with the Arrow types to cast to, one after the other, as the slow path converts in Python."""
_NUMBER_TYPES: Final = frozenset({"int", "long", "float", "double"})
_TEXT_TYPES: Final = frozenset({"string", "bytes"})


def find_decoder(definition: CompiledDefinition, use: SchemaUse) -> Decode | None:
    """Return the decoder of payloads written with ``use`` into the columns of the definition's table.

    Return None if there is no such decoder.
    """
    own_schema, schema = definition.schema_use.schema, use.schema
    if own_schema is None or schema is None:
        return None
    typed, written = definition.policy.typed, schema
    if isinstance(schema, AvroSchema) and schema.writer is not None:
        written = schema.writer
    decode = decoding.find_decoder(written, definition.payload_type, typed=typed)
    if decode is None or written is own_schema:
        return decode
    try:
        return _build_resolved_decoder(definition, decode, own_schema, written)
    except NoPlan:
        return None


def _build_resolved_decoder(
    definition: CompiledDefinition, decode: Decode, own_schema: Schema, written: Schema
) -> Decode:
    typed, rescues = definition.policy.typed, find_layout(definition).rescues
    shapes = [schema.shape() if typed else as_sent(schema.shape()) for schema in (own_schema, written)]
    reader, writer = shapes
    if not (isinstance(reader, Struct) and isinstance(writer, Struct) and reader.fields and writer.fields):
        raise NoPlan
    kinds = [pa.struct(columns.build_payload(shape)) for shape in shapes]
    if isinstance(own_schema, AvroSchema) and isinstance(written, AvroSchema):
        members = _Resolution(written, own_schema).plan_record(
            written.type, own_schema.type, kinds[1], kinds[0], reader
        )
    else:
        members = _plan_by_name(writer, reader, kinds[1], kinds[0], rescues=rescues)
    return _build_converting_decoder(decode, members, len(writer.fields))


def _build_converting_decoder(decode: Decode, members: _Members, width: int) -> Decode:
    def decode_resolved(payloads: PayloadSpans) -> Decoded:
        decoded, refused = decode(payloads)
        if len(refused) == len(payloads):
            return [], refused
        member_arrays, rescued = decoded[:width], decoded[width:]
        bad = np.zeros(len(payloads) - len(refused), np.bool_)
        for rescued_array in rescued:
            # The reader may have a column for a value for which the writer has none.
            bad |= rescued_array.is_valid().to_numpy(zero_copy_only=False)
        arrays = [*members(member_arrays, bad), *rescued]
        if not bad.any():
            return arrays, refused
        accepted = np.delete(np.arange(len(payloads)), refused)
        sound = pa.array(np.flatnonzero(~bad))
        return [array.take(sound) for array in arrays], sorted([*refused, *accepted[bad].tolist()])

    return decode_resolved


class _Resolution:
    """Avro's schema resolution for columns. Every method raises ``NoPlan`` if columns cannot express it."""

    def __init__(self, writer: AvroSchema, reader: AvroSchema) -> None:
        self._writer = writer
        self._reader = reader

    def plan_record(
        self, written: Type, read: Type, source_type: pa.StructType, target_type: pa.StructType, shape: Struct
    ) -> _Members:
        """Return the function from the columns of the writer's record ``written`` to those of the reader's ``read``.

        ``shape`` is the shape of the reader's record.
        """
        reader_node, writer_node = _resolve_node(read, self._reader), _resolve_node(written, self._writer)
        if not (reader_node["type"] == writer_node["type"] == "record" and _has_same_name(reader_node, writer_node)):
            raise NoPlan
        if reader_node.get("aliases") or any(part.get("aliases") for part in reader_node["fields"]):
            raise NoPlan
        places = {part["name"]: number for number, part in enumerate(writer_node["fields"])}
        conversions: list[tuple[int, Convert]] = []
        for part, column, field in zip(reader_node["fields"], target_type, shape.fields, strict=True):
            place = places.get(part["name"])
            if place is None:
                conversions.append((0, _build_default(part, self._reader, field.shape, column.type)))
            else:
                source = writer_node["fields"][place]["type"]
                convert = self._plan_value(source, part["type"], source_type[place].type, column.type, field.shape)
                conversions.append((place, convert))
        return lambda arrays, _: [convert(arrays[place]) for place, convert in conversions]

    def _plan_value(
        self, written: Type, read: Type, source_type: pa.DataType, target_type: pa.DataType, shape: Shape
    ) -> Convert:
        if isinstance(written, list) or isinstance(read, list):
            return self._plan_union(written, read, source_type, target_type, shape)
        reader_node, writer_node = _resolve_node(read, self._reader), _resolve_node(written, self._writer)
        name, source = reader_node["type"], writer_node["type"]
        if reader_node.get("logicalType") != writer_node.get("logicalType"):
            raise NoPlan
        if (source, name) in _PROMOTED and not reader_node.get("logicalType"):
            return _build_cast(_PROMOTED[source, name])
        if name != source:
            raise NoPlan
        if name == "record":
            if not (isinstance(shape, Struct) and pa.types.is_struct(source_type) and pa.types.is_struct(target_type)):
                raise NoPlan
            members = self.plan_record(writer_node, reader_node, source_type, target_type, shape)
            return _build_struct_conversion(members, target_type)
        if name == "array" and isinstance(shape, ListOf):
            item = self._plan_value(
                writer_node["items"], reader_node["items"], source_type.value_type, target_type.value_type, shape.item
            )
            return _build_list_conversion(item, target_type)
        if name == "map" and isinstance(shape, MapOf):
            value = self._plan_value(
                writer_node["values"], reader_node["values"], source_type.item_type, target_type.item_type, shape.value
            )
            return _build_map_conversion(value, target_type)
        has_same_name = name not in ("enum", "fixed") or _has_same_name(reader_node, writer_node)
        is_within = set(writer_node.get("symbols", ())) <= set(reader_node.get("symbols", ()))
        same = reader_node.get("size") == writer_node.get("size") and is_within
        if not (has_same_name and same and source_type == target_type) or reader_node.get("aliases") or name == "array":
            raise NoPlan
        return _keep_array

    def _plan_union(
        self, written: Type, read: Type, source_type: pa.DataType, target_type: pa.DataType, shape: Shape
    ) -> Convert:
        """Plan a value or null as a nullable value, and any other union only if both sides are the same union."""
        writer_branches, reader_branches = _list_branches(written), _list_branches(read)
        if len(writer_branches) == len(reader_branches) == 1 and ("null" not in written or "null" in read):
            return self._plan_value(writer_branches[0], reader_branches[0], source_type, target_type, shape)
        whole = [schema.names.complete(node) for schema, node in ((self._writer, written), (self._reader, read))]
        kinds = [_find_kind(branch) for branch in reader_branches]
        # If a union has several types of numbers or of texts, the slow path reads a value as the first type that fits,
        # which may not be the type that it was written with.
        several = any(sum(kind in types for kind in kinds) > 1 for types in (_NUMBER_TYPES, _TEXT_TYPES))
        if whole[0] != whole[1] or several or source_type != target_type:
            raise NoPlan
        return _keep_array


def _resolve_node(node: Type, schema: AvroSchema) -> JSONObject:
    resolved = schema.names.types.get(node, {"type": node}) if isinstance(node, str) else node
    return dict(resolved)


def _has_same_name(reader: JSONObject, writer: JSONObject) -> bool:
    """Return True if two named types have the same name, whatever their namespaces are."""
    return str(reader["name"]).rpartition(".")[2] == str(writer["name"]).rpartition(".")[2]


def _list_branches(node: Type) -> list[Type]:
    return [branch for branch in node if branch != "null"] if isinstance(node, list) else [node]


def _find_kind(node: Type) -> Any:
    return node["type"] if isinstance(node, dict) else node


def _keep_array(array: pa.Array) -> pa.Array:
    return array


def _build_cast(types: Sequence[pa.DataType]) -> Convert:
    def cast(array: pa.Array) -> pa.Array:
        for arrow_type in types:
            array = array.cast(arrow_type, safe=False)
        return array

    return cast


def _build_default(part: JSONObject, schema: AvroSchema, shape: Shape, arrow_type: pa.DataType) -> Convert:
    """Return the function that fills a column with the default of the reader's field ``part``.

    Raises ``NoPlan`` without a default, or if the default does not fit the column.
    """
    if "default" not in part:
        raise NoPlan
    try:
        build = make_builder(shape, arrow_type, ValueForm.DECODED)
        default = build([json_encoding.read_default(part, schema.names.types)], True)
    except (*MISFITS, RecursionError):
        raise NoPlan from None
    return lambda array: default.take(pa.array(np.zeros(len(array), np.int64)))


def _build_struct_conversion(members: _Members, kind: pa.StructType) -> Convert:
    nothing = np.zeros(0, np.bool_)

    def convert(array: pa.Array) -> pa.Array:
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(members(array.flatten(), nothing), fields=list(kind), mask=mask)

    return convert


def _build_list_conversion(item: Convert, kind: pa.ListType) -> Convert:
    def convert(array: pa.Array) -> pa.Array:
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(array.offsets, item(array.values), type=kind, mask=mask)

    return convert


def _build_map_conversion(value: Convert, kind: pa.MapType) -> Convert:
    def convert(array: pa.Array) -> pa.Array:
        mask = array.is_null() if array.null_count else None
        return pa.MapArray.from_arrays(array.offsets, array.keys, value(array.items), kind, mask=mask)

    return convert


def _plan_by_name(
    writer: Struct, reader: Struct, source_type: pa.StructType, target_type: pa.StructType, *, rescues: bool
) -> _Members:
    """Return the function from the writer's columns to the reader's columns of the same names. Raises ``NoPlan``.

    If the table ``rescues`` members without a column, rows with members that the reader lacks go the slow path.
    """
    places = {field.name: number for number, field in enumerate(writer.fields)}
    names = {field.name for field in reader.fields}
    lost = [number for name, number in places.items() if name not in names] if rescues else []
    conversions: list[tuple[int, pa.DataType, _Members | None]] = []
    for field, column in zip(reader.fields, target_type, strict=True):
        place = places.get(field.name, -1)
        shape = writer.fields[place].shape if place >= 0 else field.shape
        members = None
        if not _is_same(shape, field.shape):
            if not (isinstance(shape, Struct) and isinstance(field.shape, Struct)):
                raise NoPlan
            if not (pa.types.is_struct(source_type[place].type) and pa.types.is_struct(column.type)):
                raise NoPlan
            members = _plan_by_name(shape, field.shape, source_type[place].type, column.type, rescues=rescues)
        conversions.append((place, column.type, members))

    def convert(arrays: list[pa.Array], bad: _Bad) -> list[pa.Array]:
        for number in lost:
            bad |= arrays[number].is_valid().to_numpy(zero_copy_only=False)
        converted = []
        for place, column, members in conversions:
            array = pa.nulls(len(bad), column) if place < 0 else arrays[place]
            if members is not None:
                mask = array.is_null() if array.null_count else None
                inner = members(array.flatten(), bad)
                array = pa.StructArray.from_arrays(inner, fields=list(column), mask=mask)
            converted.append(array)
        return converted

    return convert


def _is_same(first: Shape, second: Shape) -> bool:
    """Return True if the columns of two shapes are the same, with the same meaning."""
    match first, second:
        case Scalar(), Scalar():
            return _describe_scalar(first) == _describe_scalar(second)
        case ListOf(), ListOf():
            return _is_same(first.item, second.item)
        case MapOf(), MapOf():
            return _is_same(first.value, second.value)
        case Struct(), Struct():
            names = [[field.name for field in shape.fields] for shape in (first, second)]
            pairs = zip(first.fields, second.fields, strict=False)
            return names[0] == names[1] and all(_is_same(a.shape, b.shape) for a, b in pairs)
    return isinstance(first, Anything) and isinstance(second, Anything)


def _describe_scalar(shape: Scalar) -> tuple[Any, ...]:
    return shape.kind, shape.sent, shape.precision, shape.scale, shape.zoned

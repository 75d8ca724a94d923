"""Plan how the native module reads Protobuf payloads into columns, in binary and in Protobuf's JSON."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from signalbook.formats import Shape, Struct
from signalbook.formats.protobuf.convert import map_value
from signalbook.formats.protobuf.format import ProtobufSchema
from signalbook.pipeline import columns, native
from signalbook.pipeline.native import Decode, NoPlan, check_json_name

# A plan in the form that native/src/protobuf.rs reads.
Plan = tuple[Any, ...]
_F: Final = FieldDescriptor
_SCALARS: Final = {
    _F.TYPE_BOOL: "bool", _F.TYPE_STRING: "string", _F.TYPE_BYTES: "bytes", _F.TYPE_FLOAT: "float",
    _F.TYPE_DOUBLE: "double", _F.TYPE_INT32: "int32", _F.TYPE_INT64: "int64", _F.TYPE_UINT32: "uint32",
    _F.TYPE_UINT64: "uint64", _F.TYPE_SINT32: "sint32", _F.TYPE_SINT64: "sint64", _F.TYPE_FIXED32: "fixed32",
    _F.TYPE_FIXED64: "fixed64", _F.TYPE_SFIXED32: "sfixed32", _F.TYPE_SFIXED64: "sfixed64",
}  # fmt: skip
_PACKAGE: Final = "google.protobuf."
_WRAPPED: Final = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
_WRAPPERS: Final = frozenset(f"{_PACKAGE}{name}Value" for name in _WRAPPED)
_WELL_KNOWN: Final = {
    f"{_PACKAGE}Timestamp": "timestamp", f"{_PACKAGE}Duration": "duration", f"{_PACKAGE}FieldMask": "field_mask",
    f"{_PACKAGE}Struct": "struct", f"{_PACKAGE}Value": "value", f"{_PACKAGE}ListValue": "list_value",
}  # fmt: skip
# Well-known types whose column may have their own type, or text.
_TIMES: Final = frozenset({f"{_PACKAGE}Timestamp", f"{_PACKAGE}Duration"})
_AS_TEXT: Final = "_text"
# The limit of oneofs of a message: the native module records in 64 bits which of them have occurred.
_MAX_CHOICES: Final = 64


def build_protobuf_decoder(schema: ProtobufSchema, shape: Shape, *, in_json: bool = False) -> Decode:
    """Return the decoder of payloads, binary or with ``in_json``, to the arrays of ``columns.build_payload(shape)``.

    A payload with an ``Any``, or with a message inside one of its own type, is refused. Raises ``NoPlan`` for message
    types that cannot be planned, such as types with groups, without fields, or of the package ``google.protobuf``.
    """
    if not isinstance(shape, Struct) or not shape.fields or schema.descriptor.full_name.startswith(_PACKAGE):
        raise NoPlan
    kind = pa.struct(columns.build_payload(shape))
    decoder = native.load_module().ProtobufDecoder(_plan_message(schema.descriptor, kind))
    return native.build_decoder(decoder.read_json if in_json else decoder.read, native.Reading(kind), members=True)


def _plan_message(descriptor: Descriptor, kind: pa.StructType) -> Plan:
    # the oneof of an optional field of proto3 has only this field, and is left out
    choices = [choice.full_name for choice in descriptor.oneofs if len(choice.fields) > 1]
    if len(choices) > _MAX_CHOICES:
        raise NoPlan
    return tuple(
        _plan_field(field, column.type, choices) for field, column in zip(descriptor.fields, kind, strict=True)
    )


def _plan_field(field: FieldDescriptor, kind: pa.DataType, choices: list[str]) -> Plan:
    entry = map_value(field)
    if entry is not None:
        (name, arguments), zero = _plan_map_entry(field, entry, kind), ""
    else:
        name, arguments, zero = _plan_value(field, kind.value_type if field.is_repeated else kind)
    label = "repeated" if field.is_repeated else "required" if field.is_required else "optional"
    choice = field.containing_oneof.full_name if field.containing_oneof is not None else None
    return (
        field.number,
        name,
        arguments,
        label,
        None if field.has_presence or field.is_repeated else zero,
        choices.index(choice) if choice in choices else None,
        field.name,
        check_json_name(field.json_name),
    )


def _plan_map_entry(field: FieldDescriptor, value: FieldDescriptor, kind: pa.MapType) -> tuple[str, Any]:
    """Return the plan of a map: the kinds of its keys and values, and the value that stands for an absent one."""
    assert field.message_type is not None
    key = _SCALARS[field.message_type.fields_by_name["key"].type]
    name, arguments, zero = _plan_value(value, kind.item_type)
    plain = value.message_type is None
    return "map", ((None, key), (None, name, arguments, zero if plain else None))


def _plan_value(field: FieldDescriptor, kind: pa.DataType) -> tuple[str, Any, str]:
    """Return the kind of a field's values, the arguments of this kind, and the name that stands for zero."""
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return "enum", list(names.items()), names.get(0) or "0"
    if field.type in _SCALARS:
        return _SCALARS[field.type], None, ""
    if field.type != _F.TYPE_MESSAGE or field.message_type is None:
        raise NoPlan
    name = field.message_type.full_name
    if name in _WRAPPERS:
        return "wrapped", (None, *_plan_value(field.message_type.fields_by_name["value"], kind)), ""
    if pa.types.is_struct(kind):
        return "message", _plan_message(field.message_type, kind), ""
    if name in _WELL_KNOWN:
        return _WELL_KNOWN[name] + (_AS_TEXT if name in _TIMES and pa.types.is_string(kind) else ""), None, ""
    return "unplanned" if field.message_type.fields else "empty", None, ""

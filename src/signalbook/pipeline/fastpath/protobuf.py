"""Protobuf payloads: what the native module has to know of a message type to decode them into columns.

Types with maps, groups, recursion or well-known types have no plan.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from signalbook.formats import Struct
from signalbook.formats.protobuf.format import ProtobufSchema
from signalbook.pipeline import columns
from signalbook.pipeline.fastpath import native
from signalbook.pipeline.fastpath.native import Decode, NoPlan

# As native/src/protobuf.rs reads it.
Plan = tuple[Any, ...]

_F: Final = FieldDescriptor
_SCALARS: Final = {
    _F.TYPE_BOOL: "bool", _F.TYPE_STRING: "string", _F.TYPE_BYTES: "bytes", _F.TYPE_FLOAT: "float",
    _F.TYPE_DOUBLE: "double", _F.TYPE_INT32: "int32", _F.TYPE_INT64: "int64", _F.TYPE_UINT32: "uint32",
    _F.TYPE_UINT64: "uint64", _F.TYPE_SINT32: "sint32", _F.TYPE_SINT64: "sint64", _F.TYPE_FIXED32: "fixed32",
    _F.TYPE_FIXED64: "fixed64", _F.TYPE_SFIXED32: "sfixed32", _F.TYPE_SFIXED64: "sfixed64",
}  # fmt: skip
# The native module keeps in one word which of them have come.
_MOST_CHOICES: Final = 64


def decoder(schema: ProtobufSchema) -> Decode:
    """From payloads to the arrays of ``columns.payload(schema.shape())``. Raises ``NoPlan``."""
    shape = schema.shape()
    if not isinstance(shape, Struct) or not shape.fields:
        raise NoPlan
    kind = pa.struct(columns.payload(shape))
    read = native.module().ProtobufDecoder(_message(schema.descriptor, kind)).read
    return native.decoder(read, native.plain(kind), members=True)


def _message(descriptor: Descriptor, kind: pa.StructType) -> Plan:
    # the choice of an optional field of proto3 has it alone
    choices = [choice.full_name for choice in descriptor.oneofs if len(choice.fields) > 1]
    if len(choices) > _MOST_CHOICES:
        raise NoPlan
    return tuple(_field(field, column.type, choices) for field, column in zip(descriptor.fields, kind, strict=True))


def _field(field: FieldDescriptor, kind: pa.DataType, choices: list[str]) -> Plan:
    if field.is_repeated and not pa.types.is_list(kind):
        raise NoPlan
    name, arguments, zero = _kind(field, kind.value_type if field.is_repeated else kind)
    label = "repeated" if field.is_repeated else "required" if field.is_required else "optional"
    choice = field.containing_oneof.full_name if field.containing_oneof is not None else None
    return (
        field.number,
        name,
        arguments,
        label,
        None if field.has_presence or field.is_repeated else zero,
        choices.index(choice) if choice in choices else None,
    )


def _kind(field: FieldDescriptor, kind: pa.DataType) -> tuple[str, Any, str]:
    """The kind of a field's values, with what there is to say of it, and the name that stands for zero."""
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return "enum", list(names.items()), names.get(0) or "0"
    if field.type in _SCALARS:
        return _SCALARS[field.type], None, ""
    if field.type != _F.TYPE_MESSAGE or field.message_type is None or not pa.types.is_struct(kind):
        raise NoPlan
    return "message", _message(field.message_type, kind), ""

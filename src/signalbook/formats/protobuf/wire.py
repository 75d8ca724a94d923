"""What becomes of a single Protobuf value whose field changes its type: nothing, some loss, or nonsense."""

from __future__ import annotations

from typing import Final

from google.protobuf.descriptor import FieldDescriptor

_F: Final = FieldDescriptor
_NAMES: Final[dict[int, str]] = {
    _F.TYPE_DOUBLE: "double", _F.TYPE_FLOAT: "float", _F.TYPE_INT64: "int64", _F.TYPE_UINT64: "uint64",
    _F.TYPE_INT32: "int32", _F.TYPE_FIXED64: "fixed64", _F.TYPE_FIXED32: "fixed32", _F.TYPE_BOOL: "bool",
    _F.TYPE_STRING: "string", _F.TYPE_GROUP: "group", _F.TYPE_MESSAGE: "message", _F.TYPE_BYTES: "bytes",
    _F.TYPE_UINT32: "uint32", _F.TYPE_ENUM: "enum", _F.TYPE_SFIXED32: "sfixed32", _F.TYPE_SFIXED64: "sfixed64",
    _F.TYPE_SINT32: "sint32", _F.TYPE_SINT64: "sint64",
}  # fmt: skip
# Types that share their bytes, by the Protobuf guide's "Updating A Message Type": not yet their values.
_ALIKE: Final = (
    {"int32", "uint32", "int64", "uint64", "bool", "enum"},
    {"sint32", "sint64"},
    {"string", "bytes"},
    {"message", "bytes"},
    {"fixed32", "sfixed32"},
    {"fixed64", "sfixed64"},
)
# Types whose every value is the same value of another type, in JSON too.
_WIDER: Final = {
    "int32": {"int64", "enum"},
    "uint32": {"int64", "uint64"},
    "sint32": {"sint64"},
}
# The same, but not in JSON: true is no number, a name of an enum neither, text no base64.
_WIDER_ON_THE_WIRE: Final = {
    "bool": {"int32", "uint32", "int64", "uint64", "enum"},
    "enum": {"int32", "int64"},
    "string": {"bytes"},
    "message": {"bytes"},
}


def type_name(field: FieldDescriptor) -> str:
    """A field's type as documents write it."""
    declared = field.message_type or field.enum_type
    return str(declared.full_name) if declared is not None else _NAMES[field.type]


def change(writer: FieldDescriptor, reader: FieldDescriptor) -> tuple[str, str] | None:
    """The rule that reading one type as another breaks, with words for people; None where every value stays itself."""
    old, new = _NAMES[writer.type], _NAMES[reader.type]
    closed = reader.enum_type is not None and reader.enum_type.is_closed
    if new in _WIDER.get(old, ()) and not closed:
        return None
    if new in _WIDER_ON_THE_WIRE.get(old, ()) and not closed:
        return "json_type_changed", f"{old} and {new} are the same bytes, but not the same JSON"
    if any({old, new} <= group for group in _ALIKE):
        return "type_narrowed", f"some values of {old} are others when read as {new}, or cannot be read"
    return "type_changed", f"what is written as {old} cannot be read as {new}"

"""The types of a Protobuf message."""

from __future__ import annotations

from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from signalbook.codegen.datatypes import (
    ANY,
    NULL,
    ClosedSet,
    DataRecord,
    DataType,
    ListType,
    MapType,
    PlainKind,
    PlainType,
    RecordMember,
    RecordTable,
    union,
)
from signalbook.formats.protobuf.convert import map_value

_F: Final = FieldDescriptor
_PLAIN_KINDS: Final[dict[int, PlainKind]] = {
    _F.TYPE_DOUBLE: "number", _F.TYPE_FLOAT: "number", _F.TYPE_BOOL: "boolean", _F.TYPE_STRING: "text",
    _F.TYPE_BYTES: "bytes",
}  # fmt: skip
_GOOGLE: Final = "google.protobuf."
# As they are decoded: text of the JSON mapping, a JSON value, the value that is wrapped.
_WELL_KNOWN_TYPES: Final[dict[str, DataType]] = {
    **{f"{_GOOGLE}{name}": PlainType("text") for name in ("Timestamp", "Duration", "FieldMask")},
    **{f"{_GOOGLE}{name}": ANY for name in ("Any", "Struct", "Value", "ListValue")},
    **{f"{_GOOGLE}{name}Value": PlainType("number") for name in ("Double", "Float")},
    **{f"{_GOOGLE}{name}Value": PlainType("integer") for name in ("Int64", "UInt64", "Int32", "UInt32")},
    f"{_GOOGLE}BoolValue": PlainType("boolean"),
    f"{_GOOGLE}StringValue": PlainType("text"),
    f"{_GOOGLE}BytesValue": PlainType("bytes"),
}


class ProtobufTypes:
    """The types of one message and of those it uses, in ``table``."""

    def __init__(self, table: RecordTable) -> None:
        self._table = table

    def message(self, descriptor: Descriptor) -> DataType:
        """The type of the messages of a descriptor."""
        well_known = _WELL_KNOWN_TYPES.get(descriptor.full_name)
        if well_known is not None:
            return well_known

        def fill(record: DataRecord) -> None:
            record.members = tuple(map(self._build_member, descriptor.fields))

        return self._table.refer(descriptor.full_name, descriptor.name, fill)

    def _build_member(self, field: FieldDescriptor) -> RecordMember:
        entry = map_value(field)
        if entry is not None:
            kind: DataType = MapType(self._build_single(entry))
        elif field.is_repeated:
            kind = ListType(self._build_single(field))
        else:
            kind = self._build_single(field)
            # Decoded, what is not set is null, but for messages, which are left out.
            if field.has_presence and not field.is_required and field.message_type is None:
                kind = union((kind, NULL))
        return RecordMember(name=field.name, type=kind, required=field.is_required)

    def _build_single(self, field: FieldDescriptor) -> DataType:
        if field.message_type is not None:
            return self.message(field.message_type)
        if field.enum_type is not None:
            names = tuple(value.name for value in field.enum_type.values)
            # An open enumeration has numbers that nobody named yet.
            return ClosedSet(names) if field.enum_type.is_closed else union((ClosedSet(names), PlainType("integer")))
        return PlainType(_PLAIN_KINDS.get(field.type, "integer"))

"""Convert Protobuf messages to Python values and columns, with one cached plan for each message type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool

from signalbook.formats.shape import Anything, Field, Kind, ListOf, MapOf, Scalar, Shape, Struct, limit_columns
from signalbook.values import JSON

# A function that converts a message or the value of a field to a decoded value.
Convert = Callable[[Any], JSON]

_F: Final = FieldDescriptor
_SCALAR_KINDS: Final[dict[int, Kind]] = {
    _F.TYPE_DOUBLE: "float64", _F.TYPE_FLOAT: "float32", _F.TYPE_BOOL: "bool", _F.TYPE_STRING: "string",
    _F.TYPE_BYTES: "bytes", _F.TYPE_ENUM: "string", _F.TYPE_INT64: "int64", _F.TYPE_SINT64: "int64",
    _F.TYPE_SFIXED64: "int64", _F.TYPE_INT32: "int32", _F.TYPE_SINT32: "int32", _F.TYPE_SFIXED32: "int32",
    _F.TYPE_UINT32: "int64", _F.TYPE_FIXED32: "int64", _F.TYPE_UINT64: "uint64", _F.TYPE_FIXED64: "uint64",
}  # fmt: skip
_GOOGLE: Final = "google.protobuf."
# The values of these types are text as in the JSON mapping, which keeps nanoseconds.
_AS_TEXT: Final = frozenset(_GOOGLE + name for name in ("Timestamp", "Duration", "FieldMask"))
_TIME_KINDS: Final[dict[str, Kind]] = {_GOOGLE + "Timestamp": "timestamp", _GOOGLE + "Duration": "duration"}
_AS_JSON: Final = frozenset(_GOOGLE + name for name in ("Any", "Struct", "Value", "ListValue"))
_WRAPPED: Final = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
_WRAPPERS: Final = frozenset(f"{_GOOGLE}{name}Value" for name in _WRAPPED)
_MAX_NESTING: Final = 64


class Plans:
    """The conversions for the message types of one descriptor pool."""

    def __init__(self, pool: DescriptorPool) -> None:
        self._pool = pool
        self._plans: dict[str, Convert] = {}

    def message(self, descriptor: Descriptor) -> Convert:
        """Return the conversion of messages of one type to objects by field name.

        Unset message fields are left out, which distinguishes an unset ``Value`` from a null ``Value``. Other unset
        fields with presence become None, also those of types that are text or wrap a scalar (such as ``Timestamp``).
        """
        name = descriptor.full_name
        if name not in self._plans:
            # Cached by type name and looked up when a message is converted, because a type may contain itself.
            self._plans[name] = self._plan_well_known(name) or self._plan_members(descriptor)
        return self._plans[name]

    def _plan_well_known(self, name: str) -> Convert | None:
        if name in _AS_TEXT:
            return lambda message: message.ToJsonString()
        if name in _AS_JSON:
            return lambda message: json_format.MessageToDict(message, descriptor_pool=self._pool)
        return (lambda message: message.value) if name in _WRAPPERS else None

    def _plan_members(self, descriptor: Descriptor) -> Convert:
        members = [(field.name, self._plan_getter(field), _is_left_out(field)) for field in descriptor.fields]
        return lambda message: {
            name: get(message) for name, get, left_out in members if not left_out or message.HasField(name)
        }

    def _plan_getter(self, field: FieldDescriptor) -> Convert:
        name, entry = field.name, map_value(field)
        convert = self._plan_value(entry or field)
        if entry is not None:
            return lambda message: {_format_key(key): convert(value) for key, value in getattr(message, name).items()}
        if field.is_repeated:
            return lambda message: [convert(item) for item in getattr(message, name)]
        if field.has_presence:
            return lambda message: convert(getattr(message, name)) if message.HasField(name) else None
        return lambda message: convert(getattr(message, name))

    def _plan_value(self, field: FieldDescriptor) -> Convert:
        descriptor = field.message_type
        if descriptor is not None:
            return lambda message: self.message(descriptor)(message)  # looked up late: a type may contain itself
        if field.enum_type is not None:
            return _plan_enum(field.enum_type)
        return lambda value: value


def make_shape(descriptor: Descriptor, comments: Mapping[str, str]) -> Shape:
    """Return the columns of a message type; a message inside itself becomes ``Anything``.

    ``comments`` are the descriptions of fields by full name.
    """
    return _Shapes(comments).message(descriptor, ())


class _Shapes:
    """The shapes of message types, each built once."""

    def __init__(self, comments: Mapping[str, str]) -> None:
        self._comments = comments
        self._known: dict[str, Shape] = {}

    def message(self, descriptor: Descriptor, above: tuple[str, ...]) -> Shape:
        name = descriptor.full_name
        # A column cannot contain itself, so a recursive message becomes JSON text.
        if name in above or len(above) == _MAX_NESTING:
            return Anything()
        if name not in self._known:
            inside = (*above, name)
            fields = tuple(self._build_field(field, inside) for field in descriptor.fields)
            self._known[name] = limit_columns(Struct(fields=fields))
        return self._known[name]

    def _build_field(self, field: FieldDescriptor, above: tuple[str, ...]) -> Field:
        entry = map_value(field)
        single = self._build_single(entry or field, above)
        shape: Shape = single
        if entry is not None:
            shape = MapOf(value=single)
        elif field.is_repeated:
            shape = ListOf(item=single)
        elif field.has_presence and not field.is_required:
            shape = replace(single, nullable=True)
        description = self._comments.get(field.full_name, "")
        return Field(name=field.name, attribute=field.name, shape=shape, required=True, description=description)

    def _build_single(self, field: FieldDescriptor, above: tuple[str, ...]) -> Shape:
        descriptor = field.message_type
        if descriptor is None:
            return Scalar(kind=_SCALAR_KINDS[field.type])
        name = descriptor.full_name
        if name in _AS_TEXT:
            kind = _TIME_KINDS.get(name)
            return Scalar(kind=kind or "string", sent="string" if kind else None)
        if name in _AS_JSON:
            return Anything()
        if name in _WRAPPERS:
            return Scalar(kind=_SCALAR_KINDS[descriptor.fields_by_name["value"].type])
        return self.message(descriptor, above)


def map_value(field: FieldDescriptor) -> FieldDescriptor | None:
    """Return the field for the values of the map ``field``, or None if ``field`` is not a map."""
    descriptor = field.message_type
    is_map = descriptor is not None and descriptor.GetOptions().map_entry
    return descriptor.fields_by_name["value"] if descriptor is not None and is_map else None


def _is_left_out(field: FieldDescriptor) -> bool:
    """Return True if the decoded object leaves out the field when it is unset."""
    descriptor = field.message_type
    return (
        descriptor is not None
        and not field.is_repeated
        and descriptor.full_name not in _AS_TEXT
        and descriptor.full_name not in _WRAPPERS
    )


def _format_key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _plan_enum(descriptor: EnumDescriptor) -> Convert:
    """Return the conversion of an enum's numbers to names; an unknown number becomes its text."""
    names = {number: value.name for number, value in descriptor.values_by_number.items()}
    return lambda number: names.get(number) or str(number)

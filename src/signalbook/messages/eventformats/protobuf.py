"""Read and write the Protobuf event format and its batches (CloudEvents Protobuf format 2 to 5).

The field numbers are those of its .proto file.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from signalbook.messages.cloudevents import (
    Attribute,
    CloudEvent,
    check_attributes,
    encode_binary,
    make_decode_error,
    make_event_error,
)
from signalbook.uris import is_uri

_Field: Final = descriptor_pb2.FieldDescriptorProto
_PACKAGE: Final = "io.cloudevents.v1"
_FIELD_TYPES: Final = {
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
}
# Attributes with separate fields.
_REQUIRED_FIELDS: Final = {"specversion": "spec_version", "id": "id", "source": "source", "type": "type"}
_SECONDS_RANGE: Final = range(-62_135_596_800, 253_402_300_800)
_UNIX_EPOCH: Final = datetime(1970, 1, 1)


def _add(file: descriptor_pb2.FileDescriptorProto, name: str, oneof: str, *fields: str) -> None:
    """Add a message type. Each of ``fields`` is ``type name number``.

    A leading ``|`` makes the field a member of ``oneof``, a leading ``*`` makes it repeated.
    """
    message = file.message_type.add(name=name)
    if oneof:
        message.oneof_decl.add(name=oneof)
    for text in fields:
        kind, field, number = text.strip("*|").split()
        label = _Field.LABEL_REPEATED if text.startswith("*") else _Field.LABEL_OPTIONAL
        added = message.field.add(name=field, number=int(number), label=label)
        if text.startswith("|"):
            added.oneof_index = 0
        if kind in _FIELD_TYPES:
            added.type = _FIELD_TYPES[kind]
        else:
            added.type, added.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"


def _build_types() -> tuple[Any, Any]:
    """Return the classes of events and batches, from their own pool, because another package may define the same names.

    On the wire a map is a list of entries, well-known types are ordinary messages, and an event in a batch is bytes. So
    no other definitions are needed.
    """
    file = descriptor_pb2.FileDescriptorProto(name="cloudevents.proto", package=_PACKAGE, syntax="proto3")
    _add(file, "Timestamp", "", "int64 seconds 1", "int32 nanos 2")
    _add(file, "Any", "", "string type_url 1", "bytes value 2")
    _add(
        file, "Value", "attr", "|bool ce_boolean 1", "|int32 ce_integer 2", "|string ce_string 3", "|bytes ce_bytes 4",
        "|string ce_uri 5", "|string ce_uri_ref 6", "|Timestamp ce_timestamp 7",
    )  # fmt: skip
    _add(file, "Entry", "", "string key 1", "Value value 2")
    _add(
        file, "CloudEvent", "data", "string id 1", "string source 2", "string spec_version 3", "string type 4",
        "*Entry attributes 5", "|bytes binary_data 6", "|string text_data 7", "|Any proto_data 8",
    )  # fmt: skip
    _add(file, "CloudEventBatch", "", "*bytes events 1")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    event, batch = (pool.FindMessageTypeByName(f"{_PACKAGE}.{name}") for name in ("CloudEvent", "CloudEventBatch"))
    return message_factory.GetMessageClass(event), message_factory.GetMessageClass(batch)


_Event, _Batch = _build_types()


class ProtobufEventFormat:
    """The Protobuf event format."""

    def decode(self, body: bytes) -> CloudEvent:
        """Return the event in a message.

        Timestamps become text, binary attributes base64. Unset attributes are left out.
        """
        event = _parse(_Event(), body)
        attributes: dict[str, Attribute] = {name: getattr(event, field) for name, field in _REQUIRED_FIELDS.items()}
        attributes = {name: value for name, value in attributes.items() if value}
        for entry in event.attributes:
            if entry.key in _REQUIRED_FIELDS:
                raise make_event_error(
                    entry.key, "exclusive", f"{entry.key} has a field of its own, and is no other attribute"
                )
            value = _convert_attribute(entry.key, entry.value)
            if value is not None:
                attributes[entry.key] = value
        body_of = _DATA.get(event.WhichOneof("data"))
        if event.WhichOneof("data") == "proto_data":
            _complete_uri(attributes, event.proto_data.type_url)
        check_attributes(attributes)
        return CloudEvent(attributes=attributes, body=None if body_of is None else body_of(event))

    def encode(self, event: CloudEvent) -> bytes:
        """Return a message with binary data."""
        attributes = dict(event.attributes)
        if event.value is not msgspec.UNSET:
            attributes.setdefault("datacontenttype", "application/json")
        message = _Event(
            **{field: str(attributes.pop(name)) for name, field in _REQUIRED_FIELDS.items() if name in attributes}
        )
        for name, value in attributes.items():
            added = message.attributes.add(key=name)
            setattr(added.value, _VALUE_FIELDS[type(value)], value)
        body = event.payload()
        if body is not None:
            message.binary_data = body
        written: bytes = message.SerializeToString()
        return written

    def split(self, body: bytes) -> list[bytes]:
        """Return the events of a batch message as they were written."""
        return list(_parse(_Batch(), body).events)


_VALUE_FIELDS: Final = {bool: "ce_boolean", int: "ce_integer", str: "ce_string"}
_DATA: Final[dict[str | None, Any]] = {
    "binary_data": lambda event: event.binary_data,
    "text_data": lambda event: event.text_data.encode(),
    "proto_data": lambda event: event.proto_data.value,
}


def _parse(message: Any, body: bytes) -> Any:
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise make_decode_error("protobuf", f"not a {type(message).DESCRIPTOR.name} in Protobuf: {error}") from None
    return message


def _convert_attribute(name: str, value: Any) -> Attribute | None:
    kind = value.WhichOneof("attr")
    if kind is None:
        return None
    native_value = getattr(value, kind)
    if kind == "ce_timestamp":
        return _format_timestamp(name, native_value)
    return encode_binary(native_value) if kind == "ce_bytes" else native_value


def _format_timestamp(name: str, value: Any) -> str:
    """Return RFC 3339 text with as many fractional digits as needed. Raises ``EventError`` for invalid times."""
    if value.seconds not in _SECONDS_RANGE or not 0 <= value.nanos < 1_000_000_000:
        raise make_event_error(name, "timestamp", f"{name} is no time in the years 1 to 9999")
    # Format without a zone and append Z, because Python would write an offset and cut off nanoseconds.
    moment = _UNIX_EPOCH + timedelta(seconds=value.seconds)
    fraction = f".{value.nanos:09}".rstrip("0") if value.nanos else ""
    return f"{moment.isoformat()}{fraction}Z"


def _complete_uri(attributes: dict[str, Attribute], type_url: str) -> None:
    """Add the scheme that type URLs lack to ``dataschema``, because that attribute must be an absolute URI."""
    if attributes.get("dataschema") == type_url and not is_uri(type_url) and is_uri(f"https://{type_url}"):
        attributes["dataschema"] = f"https://{type_url}"

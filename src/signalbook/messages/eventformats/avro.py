"""Read and write the Avro event format: a record with a map of attributes and data (CloudEvents Avro format 2.4)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final

import fastavro
import msgspec

from signalbook.formats.avro import BROKEN, FORMAT
from signalbook.formats.base import is_json
from signalbook.messages.cloudevents import (
    Attribute,
    CloudEvent,
    check_attributes,
    encode_binary,
    make_decode_error,
    make_event_error,
)
from signalbook.values import JSON, MAX_DEPTH, JSONObject, deeper_than, dump_json

_ATTRIBUTE_FIELD: Final = {
    "name": "attribute",
    "type": {"type": "map", "values": ["null", "boolean", "int", "string", "bytes"]},
}
_INNER: Final = {"type": "map", "values": "Value"}, {"type": "array", "items": "Value"}
_VALUE_TYPE: Final = {
    "type": "record",
    "name": "Value",
    "fields": [{"name": "value", "type": {"type": "map", "values": ["null", "boolean", *_INNER, "double", "string"]}}],
}
_MAP: Final = {"type": "map", "values": ["null", "boolean", _VALUE_TYPE, "double", "string"]}
_ARRAY: Final = {"type": "array", "items": "Value"}


def _build_schema(map: JSONObject, array: JSONObject) -> JSONObject:
    data = ["bytes", "null", "boolean", map, array, "double", "string"]
    return {"type": "record", "name": "Event", "fields": [_ATTRIBUTE_FIELD, {"name": "data", "type": data}]}


# The format's schema for JSON values is recursive, and a decoder that is safe from deep nesting is slow. So events are
# first read with a schema that has empty records in place of maps and arrays.
CLOUDEVENTS_SCHEMA: Final = _build_schema(_MAP, _ARRAY)
"""The Avro schema of events in the CloudEvents Avro format."""

_full: Final = FORMAT.parse(dump_json(CLOUDEVENTS_SCHEMA), "Avro")
_quick: Final = fastavro.parse_schema(
    _build_schema(*({"type": "record", "name": name, "fields": []} for name in ("Map", "Array")))
)


class AvroEventFormat:
    """The Avro event format."""

    def decode(self, body: bytes) -> CloudEvent:
        """Return the event in a datum. An attribute that is ``null`` counts as unset, a binary one becomes base64."""
        record = _read_record(body)
        attributes = {
            name: _convert_attribute(value) for name, value in record["attribute"].items() if value is not None
        }
        check_attributes(attributes)
        return _with_data(attributes, record["data"])

    def encode(self, event: CloudEvent) -> bytes:
        """Return a datum with the data as bytes. The format cannot express all JSON values (``_convert_value``)."""
        attributes, body = dict(event.attributes), event.payload()
        if event.value is not msgspec.UNSET:
            attributes.setdefault("datacontenttype", "application/json")
        stream = BytesIO()
        fastavro.schemaless_writer(stream, _quick, {"attribute": attributes, "data": body})
        return stream.getvalue()

    def split(self, _body: bytes) -> list[bytes]:
        """Raise ``EventError``, because this format has no batches."""
        raise make_decode_error("batch", "the Avro format has no batches")


def read_datum(stream: BytesIO) -> Any:
    """Return the next datum of a stream. Raises one of ``BROKEN``."""
    start = stream.tell()
    record: Any = fastavro.schemaless_reader(stream, _quick, None)
    # Read again with the full schema only if data is a map or an array, which is rare.
    if not isinstance(record["data"], dict):
        return record
    stream.seek(start)
    return _full.read_datum(stream, _full.parsed, None)


def _read_record(body: bytes) -> Any:
    stream = BytesIO(body)
    try:
        record = read_datum(stream)
    except BROKEN as error:
        raise make_decode_error("avro", f"not a CloudEvent in Avro: {error or type(error).__name__}") from None
    if stream.tell() != len(body):
        raise make_decode_error("avro", f"{len(body) - stream.tell()} bytes follow the CloudEvent in Avro")
    return record


def _convert_attribute(value: str | int | bool | bytes) -> Attribute:
    return encode_binary(value) if isinstance(value, bytes) else value


def _with_data(attributes: Mapping[str, Attribute], data: Any) -> CloudEvent:
    """Return an event with ``data``.

    Bytes are kept; other data is a JSON value, or text if the content type is not JSON.
    """
    if data is None:
        return CloudEvent(attributes=attributes)
    if isinstance(data, bytes):
        return CloudEvent(attributes=attributes, body=data)
    declared = attributes.get("datacontenttype")
    if declared is None or is_json(str(declared)):
        return CloudEvent(attributes=attributes, value=_check_depth(_convert_value(data)))
    if not isinstance(data, str):
        raise make_event_error("data", "type", "data must be bytes or a string, as datacontenttype is no JSON type")
    return CloudEvent(attributes=attributes, body=data.encode())


def _check_depth(value: JSON) -> JSON:
    """Return ``value``. Raises ``EventError`` if it is nested deeper than JSON text may be."""
    if deeper_than(value, MAX_DEPTH):
        raise make_decode_error("depth", f"data is nested deeper than {MAX_DEPTH} levels")
    return value


def _convert_value(data: Any) -> JSON:
    """Return the JSON value of Avro data.

    In the outermost map and in arrays, an object is a record that contains a map. In other maps it is a map.
    """
    match data:
        case dict():
            return {
                name: _unwrap(value) if isinstance(value, dict) else _convert_scalar(value)
                for name, value in data.items()
            }
        case list():
            return [_unwrap(item) for item in data]
    return _convert_scalar(data)


def _unwrap(record: dict[str, Any]) -> JSON:
    return {name: _convert_value(value) for name, value in record["value"].items()}


def _convert_scalar(value: Any) -> JSON:
    """Return a scalar, with whole numbers as ``int``, as in JSON text. Raises ``EventError`` for infinity and NaN."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        raise make_event_error("data", "number", f"data has {value}, which is no value of JSON")
    # The format has no integers in data. Beyond 2**53, a double does not identify an integer.
    return int(value) if value.is_integer() and abs(value) <= 2**53 else value

"""Convert landed rows back to attributes and payloads.

A row does not preserve whether an optional member was absent or null, how numbers and times were spelled, or fractions
of a microsecond. If the policy says so, it also loses members that no schema declares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from typing import Any

from signalbook.formats import Anything, ListOf, MapOf, Schema, Shape, Struct
from signalbook.formats.avro.format import AvroSchema
from signalbook.messages.cloudevents import SPECVERSION
from signalbook.pipeline import columns, exact, rescue
from signalbook.pipeline.columns import ATTRIBUTES
from signalbook.values import JSON, JSONError, format_timestamp, parse_json

_TEXT_FORMATS = ("jsonschema/", "jsonstructure/")
# A function from a value of a column to the value in a payload.
_Rebuild = Callable[[Any], JSON]


def read_attributes(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the context attributes of a landed event; extensions as text."""
    values = {name: row.get(f"ce_{name}") for name in ATTRIBUTES} | dict(row.get("ce_extensions") or ())
    stated = {name: _convert_to_json(value) for name, value in values.items() if value is not None}
    return {"specversion": SPECVERSION, **stated}


def has_json_payloads(schema: Schema) -> bool:
    """Return True if payloads of a schema are JSON."""
    return schema.format.lower().startswith(_TEXT_FORMATS)


def build_payload_reader(schema: Schema) -> Callable[[Mapping[str, Any]], JSON]:
    """Return a function from landed rows to their payloads, in the form that ``Schema.validate`` takes.

    Call this once for many rows, because finding the column of each member takes longer than reading it.
    """
    held, shape = _build_held_reader(schema), schema.shape()

    def payload(row: Mapping[str, Any]) -> JSON:
        return rescue.restore(held(row), rescue.read(shape, row.get(columns.RESCUE.names[0])))

    # Avro needs the numbers for names such as "NaN". Protobuf and XML Schema accept the names themselves.
    return (lambda row: schema.with_numbers(payload(row))) if isinstance(schema, AvroSchema) else payload


def _build_held_reader(schema: Schema) -> Callable[[Mapping[str, Any]], JSON]:
    """Return a function from landed rows to the part of their payloads that columns hold."""
    shape, text = schema.shape(), has_json_payloads(schema)
    if isinstance(shape, Struct) and shape.fields:
        return _build_members(shape, columns.build_payload(shape).names, text)
    whole = _build_value(shape, text)
    return lambda row: whole(row.get(columns.PAYLOAD))


def read_opaque(row: Mapping[str, Any]) -> bytes | None:
    """Return the payload of a landed row whose definition has no schema, as it was sent. None without a payload."""
    text, binary = row.get(columns.OPAQUE.names[0]), row.get(columns.OPAQUE.names[1])
    return text.encode() if isinstance(text, str) else binary


def _build_members(shape: Struct, names: Sequence[str], in_json: bool) -> _Rebuild:
    parts = [
        (field.name, name, _build_value(field.shape, in_json), field.required and field.shape.nullable)
        for field, name in zip(shape.fields, names, strict=True)
    ]

    def members(row: Mapping[str, Any]) -> JSON:
        values = ((name, part, row.get(column), always) for name, column, part, always in parts)
        return {name: part(value) for name, part, value, always in values if value is not None or always}

    return members


def _build_value(shape: Shape, in_json: bool) -> _Rebuild:
    """Return the function from values of a column to payload values of ``shape``.

    Values of another type, which columns of older tables have, are only converted to JSON.
    """
    kind, rebuild = _find_conversion(shape, in_json)

    def build(value: Any) -> JSON:
        if value is None:
            return None
        return rebuild(value) if isinstance(value, kind) else _convert_older(value)

    return build


def _find_conversion(shape: Shape, in_json: bool) -> tuple[type, _Rebuild]:
    """Return the Python type of the values of a column for ``shape``, and the function that converts them."""
    match shape:
        case Anything():
            return object, _parse_value
        case ListOf():
            item = _build_value(shape.item, in_json)
            return list, lambda items: [item(element) for element in items]
        case MapOf():
            return list, _build_entries(_build_value(shape.value, in_json))
        case Struct() if shape.fields:
            return dict, _build_members(shape, [field.name for field in columns.find_arrow_type(shape)], in_json)
        case Struct():
            return object, lambda _: {}
    if shape.sent is not None:
        return object, partial(exact.restore_sent, shape)
    if shape.kind == "uint64":
        return Decimal, int
    return object, _convert_to_json if in_json else _keep_value


def _build_entries(value: _Rebuild) -> _Rebuild:
    def build(entries: list[Any]) -> JSON:
        if not all(isinstance(entry, tuple) for entry in entries):
            return _convert_older(entries)
        return {name: value(entry_value) for name, entry_value in entries}

    return build


def _keep_value(value: Any) -> JSON:
    return value


def _convert_older(value: Any) -> JSON:
    """Return a value from an older table, whose columns had other types, as a JSON value."""
    if isinstance(value, dict):
        return {name: _convert_older(member) for name, member in value.items()}
    return [_convert_older(member) for member in value] if isinstance(value, (list, tuple)) else _convert_to_json(value)


def _parse_value(text: Any) -> JSON:
    """Parse a value of a column of JSON text. Values from a narrower column of an older table stay as they are."""
    try:
        return parse_json(text, exact=True) if isinstance(text, str) else text
    except JSONError:
        return text


def _convert_to_json(value: Any) -> Any:
    """Return a value of a column as a JSON value: times become text, decimals become numbers."""
    if isinstance(value, datetime):
        return format_timestamp(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    return exact.read_number(value) if isinstance(value, Decimal) else value

"""Landed rows on their way back: what their columns still know of the messages they were.

Lost are members that no schema declared, whether an optional member was absent or null, spellings of numbers and times,
and what is finer than a microsecond.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import msgspec

from signalbook.formats import Anything, ListOf, MapOf, Schema, Shape, Struct
from signalbook.messages.cloudevents import SPECVERSION
from signalbook.pipeline import columns
from signalbook.pipeline.envelopes import ATTRIBUTES
from signalbook.values import JSON, format_timestamp

_TEXT_FORMATS = ("jsonschema/", "jsonstructure/")


def attributes(row: Mapping[str, Any]) -> dict[str, Any]:
    """The context attributes of a landed event; extensions as text."""
    found = {name: row.get(f"ce_{name}") for name in ATTRIBUTES} | dict(row.get("ce_extensions") or ())
    stated = {name: _text(value) for name, value in found.items() if value is not None}
    return {"specversion": SPECVERSION, **stated}


def payload(schema: Schema, row: Mapping[str, Any]) -> JSON:
    """The payload of a landed row by the schema of its definition, as ``Schema.validate`` takes it."""
    shape = schema.shape()
    in_json = schema.format.lower().startswith(_TEXT_FORMATS)
    if isinstance(shape, Struct) and shape.fields:
        return _members(shape, columns.payload(shape).names, row, in_json)
    return _value(shape, row.get(columns.PAYLOAD), in_json)


def opaque(row: Mapping[str, Any]) -> bytes | None:
    """The payload of a landed row whose definition names no schema, as it was sent."""
    text, binary = row.get(columns.OPAQUE.names[0]), row.get(columns.OPAQUE.names[1])
    return text.encode() if isinstance(text, str) else binary


def _members(shape: Struct, names: list[str], row: Mapping[str, Any], in_json: bool) -> JSON:
    found = {}
    for field, name in zip(shape.fields, names, strict=True):
        value = row.get(name)
        if value is not None or (field.required and field.shape.nullable):
            found[field.name] = _value(field.shape, value, in_json)
    return found


def _value(shape: Shape, value: Any, in_json: bool) -> JSON:
    if value is None:
        return None
    match shape:
        case Anything():
            return _parsed(value)
        case ListOf():
            return [_value(shape.item, item, in_json) for item in value]
        case MapOf():
            return {name: _value(shape.value, item, in_json) for name, item in value}
        case Struct() if shape.fields:
            return _members(shape, [field.name for field in columns.arrow_type(shape)], value, in_json)
        case Struct():
            return {}
    if isinstance(value, Decimal) and shape.kind == "uint64":
        return int(value)
    return _text(value) if in_json else value


def _parsed(text: Any) -> JSON:
    """JSON out of its column; the column of an older table may have had a narrower type."""
    try:
        return msgspec.json.decode(text) if isinstance(text, str) else text
    except msgspec.DecodeError:
        return text


def _text(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, datetime):
        return format_timestamp(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    return float(value) if isinstance(value, Decimal) else value

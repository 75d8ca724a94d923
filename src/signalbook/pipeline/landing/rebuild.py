"""Landed rows on their way back: what their columns still know of the messages they were.

Lost are members that no schema declared, whether an optional member was absent or null, spellings of numbers and times,
and what is finer than a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import msgspec

from signalbook.formats import Anything, ListOf, MapOf, Schema, Shape, Struct
from signalbook.messages.cloudevents import SPECVERSION
from signalbook.pipeline import columns
from signalbook.pipeline.columns import ATTRIBUTES
from signalbook.values import JSON, format_timestamp

_TEXT_FORMATS = ("jsonschema/", "jsonstructure/")
# From what a column has to what a payload has.
_Rebuild = Callable[[Any], JSON]


def attributes_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The context attributes of a landed event; extensions as text."""
    found = {name: row.get(f"ce_{name}") for name in ATTRIBUTES} | dict(row.get("ce_extensions") or ())
    stated = {name: _text(value) for name, value in found.items() if value is not None}
    return {"specversion": SPECVERSION, **stated}


def payloads_of(schema: Schema) -> Callable[[Mapping[str, Any]], JSON]:
    """A function from landed rows to their payloads by the schema of their definition, as ``Schema.validate`` takes it.

    Made once for many rows, since finding out which column a member is in takes longer than reading it.
    """
    shape = schema.shape()
    in_json = schema.format.lower().startswith(_TEXT_FORMATS)
    if isinstance(shape, Struct) and shape.fields:
        return _members(shape, columns.payload(shape).names, in_json)
    whole = _value(shape, in_json)
    return lambda row: whole(row.get(columns.PAYLOAD))


def opaque_of(row: Mapping[str, Any]) -> bytes | None:
    """The payload of a landed row whose definition names no schema, as it was sent."""
    text, binary = row.get(columns.OPAQUE.names[0]), row.get(columns.OPAQUE.names[1])
    return text.encode() if isinstance(text, str) else binary


def _members(shape: Struct, names: Sequence[str], in_json: bool) -> _Rebuild:
    parts = [
        (field.name, name, _value(field.shape, in_json), field.required and field.shape.nullable)
        for field, name in zip(shape.fields, names, strict=True)
    ]

    def members(row: Mapping[str, Any]) -> JSON:
        values = ((name, part, row.get(column), always) for name, column, part, always in parts)
        return {name: part(value) for name, part, value, always in values if value is not None or always}

    return members


def _value(shape: Shape, in_json: bool) -> _Rebuild:
    """For a column of the shape's own type; a value of another, out of an older table, stays what it is."""
    kind, rebuild = _present(shape, in_json)

    def build(value: Any) -> JSON:
        if value is None:
            return None
        return rebuild(value) if isinstance(value, kind) else _older(value)

    return build


def _present(shape: Shape, in_json: bool) -> tuple[type, _Rebuild]:
    """Of what type values in the column are, and what they come to."""
    match shape:
        case Anything():
            return object, _parsed
        case ListOf():
            item = _value(shape.item, in_json)
            return list, lambda items: [item(each) for each in items]
        case MapOf():
            return list, _entries(_value(shape.value, in_json))
        case Struct() if shape.fields:
            return dict, _members(shape, [field.name for field in columns.arrow_type(shape)], in_json)
        case Struct():
            return object, lambda _: {}
    if shape.kind == "uint64":
        return Decimal, int
    return object, _text if in_json else _same


def _entries(value: _Rebuild) -> _Rebuild:
    def build(entries: list[Any]) -> JSON:
        if not all(isinstance(entry, tuple) for entry in entries):
            return _older(entries)
        return {name: value(each) for name, each in entries}

    return build


def _same(value: Any) -> JSON:
    return value


def _older(value: Any) -> JSON:
    """A value by itself, as JSON has it."""
    if isinstance(value, dict):
        return {name: _older(each) for name, each in value.items()}
    return [_older(each) for each in value] if isinstance(value, (list, tuple)) else _text(value)


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

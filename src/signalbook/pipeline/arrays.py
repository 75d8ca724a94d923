"""Payload values into Arrow arrays, column by column.

Compiled once per schema into nested functions from a list of values to an array: one list comprehension per column
beats a conversion per message several times. Values come in one of two forms: objects of a ``formats.Typed`` decoder,
or what ``Schema.decode`` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, time
from decimal import Decimal
from enum import Enum
from itertools import accumulate, chain
from operator import attrgetter, methodcaller
from typing import Any, Final

import msgspec
import pyarrow as pa

from signalbook.formats import Anything, Field, ListOf, MapOf, Scalar, Shape, Struct
from signalbook.pipeline import columns
from signalbook.values import dump_json, parse_timestamp

Values = Sequence[Any]
Build = Callable[[Values], pa.Array]
# What Arrow and the conversions below raise for a value that does not fit its column.
MISFITS: Final = (pa.ArrowException, OverflowError, TypeError, ValueError)


class Form(Enum):
    """How values arrive."""

    TYPED = "objects of a typed decoder"
    DECODED = "dicts, lists and Python scalars"


def payload_builder(shape: Shape, form: Form) -> Callable[[Values], list[pa.Array]]:
    """A function from payload values (``None``: no payload) to the arrays of ``columns.payload(shape)``.

    The function raises one of ``MISFITS`` if a value does not fit its column.
    """
    types = [field.type for field in columns.payload(shape)]
    if isinstance(shape, Struct) and shape.fields:
        members = [_member(field, column, form) for field, column in zip(shape.fields, types, strict=True)]
        return lambda values: _members(members, values)
    whole = _build(shape, types[0], form)
    if isinstance(shape, Anything):
        return lambda values: [whole([msgspec.UNSET if value is None else value for value in values])]
    return lambda values: [whole(values)]


def opaque_arrays(payloads: Sequence[bytes | None]) -> list[pa.Array]:
    """The arrays of ``columns.OPAQUE``: text where a payload is UTF-8, else bytes."""
    texts = [_text(payload) for payload in payloads]
    rest = [payload if text is None else None for payload, text in zip(payloads, texts, strict=True)]
    return [pa.array(texts, pa.string()), pa.array(rest, pa.binary())]


def text_map(maps: Sequence[Iterable[tuple[str, str]] | None]) -> pa.Array:
    """A ``columns.TEXT_MAP`` array; ``None`` is null."""
    if not any(maps):
        return pa.nulls(len(maps), columns.TEXT_MAP)
    return pa.array([None if entries is None else list(entries) for entries in maps], columns.TEXT_MAP)


def timestamps(texts: pa.Array) -> pa.Array:
    """RFC3339 texts as ``columns.TIMESTAMP``, digits beyond microseconds cut. Raises one of ``MISFITS``."""
    for unit in ("us", "ns"):
        try:
            return texts.cast(pa.timestamp(unit, "UTC")).cast(columns.TIMESTAMP, safe=False)
        except pa.ArrowException:
            continue
    return pa.array([None if text is None else parse_timestamp(text) for text in texts.to_pylist()], columns.TIMESTAMP)


def _text(payload: bytes | None) -> str | None:
    try:
        return None if payload is None else payload.decode()
    except UnicodeDecodeError:
        return None


def _build(shape: Shape, type: pa.DataType, form: Form) -> Build:
    """From values to an array. ``None`` is a null; what is absent is ``UNSET`` for ``Anything``, else ``None`` too."""
    match shape:
        case Scalar():
            return _scalar(shape, type, form)
        case ListOf():
            return _list(shape, type, form)
        case MapOf():
            return _map(shape, type, form)
        case Struct() if shape.fields:
            return _struct(shape, type, form)
        case Struct():
            return lambda values: pa.array([None if value is None else "{}" for value in values], type)
        case Anything():
            return _raw_text if form is Form.TYPED else _dumped_text


def _raw_text(values: Values) -> pa.Array:
    unset = msgspec.UNSET
    return pa.array([None if value is unset else bytes(value) for value in values], pa.string())


def _dumped_text(values: Values) -> pa.Array:
    unset = msgspec.UNSET
    return pa.array([None if value is unset else dump_json(value) for value in values], pa.string())


def _struct(shape: Struct, type: pa.DataType, form: Form) -> Build:
    members = [_member(field, type.field(i).type, form) for i, field in enumerate(shape.fields)]
    fields = list(type)

    def build(values: Values) -> pa.Array:
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(_members(members, values), fields=fields, mask=mask)

    return build


Member = Callable[[Values, bool], pa.Array]


def _members(members: Sequence[Member], objects: Values) -> list[pa.Array]:
    gaps = any(value is None for value in objects)
    return [member(objects, gaps) for member in members]


def _member(field: Field, type: pa.DataType, form: Form) -> Member:
    """From objects to the array of one of their members; with ``gaps`` some of the objects are ``None``."""
    build, get, unset = _build(field.shape, type, form), _getter(field, form), msgspec.UNSET
    keeps_absent = isinstance(field.shape, Anything)
    missing = unset if keeps_absent else None

    def member(objects: Values, gaps: bool) -> pa.Array:
        values = [missing if value is None else get(value) for value in objects] if gaps else list(map(get, objects))
        if not (field.required or keeps_absent):
            values = [None if value is unset else value for value in values]
        return build(values)

    return member


def _getter(field: Field, form: Form) -> Callable[[Any], Any]:
    return attrgetter(field.attribute) if form is Form.TYPED else methodcaller("get", field.name, msgspec.UNSET)


def _list(shape: ListOf, type: pa.DataType, form: Form) -> Build:
    item = _build(shape.item, type.value_type, form)

    def build(values: Values) -> pa.Array:
        offsets = pa.array(_offsets(values), pa.int32())
        items = item(list(chain.from_iterable(value for value in values if value is not None)))
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.ListArray.from_arrays(offsets, items, type=type, mask=mask)

    return build


def _map(shape: MapOf, type: pa.DataType, form: Form) -> Build:
    item = _build(shape.value, type.item_type, form)

    def build(values: Values) -> pa.Array:
        present = [value for value in values if value is not None]
        keys = pa.array(list(chain.from_iterable(present)), pa.string())
        items = item(list(chain.from_iterable(value.values() for value in present)))
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.MapArray.from_arrays(pa.array(_offsets(values), pa.int32()), keys, items, type=type, mask=mask)

    return build


def _offsets(values: Values) -> list[int]:
    return list(accumulate((0 if value is None else len(value) for value in values), initial=0))


def _scalar(shape: Scalar, type: pa.DataType, form: Form) -> Build:
    convert = _CONVERSIONS.get(shape.kind) if not pa.types.is_string(type) else _as_text
    if form is Form.TYPED and shape.kind == "timestamp":
        return lambda values: timestamps(pa.array(values, pa.string()))
    if convert is None:
        return lambda values: pa.array(values, type)
    return _converted(type, convert)


def _converted(type: pa.DataType, convert: Callable[[Any], Any]) -> Build:
    """Values taken as they are, and one by one only where Arrow does not take one of them (1.0 as an integer)."""

    def build(values: Values) -> pa.Array:
        try:
            return pa.array(values, type)
        except MISFITS:
            return pa.array([None if value is None else convert(value) for value in values], type)

    return build


def _integer(value: Any) -> int:
    number = int(value)
    if number != value:
        raise ValueError(f"{value!r} is no integer")
    return number


def _timestamp(value: Any) -> Any:
    return parse_timestamp(value) if isinstance(value, str) else value


def _date(value: Any) -> Any:
    return date.fromisoformat(value) if isinstance(value, str) else value


def _time(value: Any) -> Any:
    return time.fromisoformat(value) if isinstance(value, str) else value


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


_CONVERSIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "int32": _integer,
    "int64": _integer,
    "uint64": lambda value: Decimal(_integer(value)),
    "float32": float,
    "float64": float,
    "timestamp": _timestamp,
    "date": _date,
    "time": _time,
    "decimal": Decimal,
}

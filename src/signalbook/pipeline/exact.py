"""Values that come as text or numbers, in columns of narrower types: what of them a column holds, and whether all.

A value that a column cannot hold exactly conforms all the same, and is kept as it was sent (``rescue.py``). Not counted
as lost are an offset of a time, since the instant is the same, and zeros behind the last digit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import cache
from typing import Any, Final, Self

import msgspec

from signalbook.formats import Anything, ListOf, MapOf, Scalar, Shape, Struct
from signalbook.formats.shape import Kind
from signalbook.values import JSON, format_timestamp, nonfinite_name, parse_timestamp

# What a column holds of a value, None where it cannot hold any of it, and whether that is all of it.
Held = tuple[Any, bool]
# RFC 3339, 5.6, as native/src/times.rs reads it.
_TIMESTAMP: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt](?:[01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(?:\.\d{1,6}(\d{0,6}))?"
    r"(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
_DATE: Final = re.compile(r"(\d{4}-\d\d-\d\d)(.*)", re.ASCII | re.DOTALL)
_ZONE: Final = re.compile(r"Z|[+-]\d\d:\d\d", re.ASCII)
# As JSON and XSD write them; ``Decimal`` takes other digits, spaces and underscores too.
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_LEAP: Final = "60"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NANOS: Final = 1000
_NONE: Final[Held] = None, False
# Digits that columns of decimals have at most.
_DIGITS: Final = 38
# Of a Protobuf ``Duration``, in seconds: up to 10,000 years, in nanoseconds.
DURATION: Final = (21, 9)


def held(shape: Scalar, value: JSON) -> Held:
    """What the column of ``shape``, whose values come as another kind, holds of one."""
    return _HELD[shape.kind](shape, value)


def _timestamp(shape: Scalar, value: JSON) -> Held:
    if shape.sent == "int64":
        return _instant(value) if isinstance(value, int) and not isinstance(value, bool) else _NONE
    match = _TIMESTAMP.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return _NONE
    try:
        found = parse_timestamp(value)
    except ValueError:
        return _NONE
    return found, match[1] != _LEAP and not (match[2] or "").strip("0")


def _instant(nanoseconds: int) -> Held:
    micros, rest = divmod(nanoseconds, _NANOS)
    try:
        return _EPOCH + timedelta(microseconds=micros), rest == 0
    except OverflowError:
        return _NONE


def _date(shape: Scalar, value: JSON) -> Held:
    match = _DATE.fullmatch(value) if isinstance(value, str) else None
    if match is None or not (match[2] == "" or (shape.zoned and _ZONE.fullmatch(match[2]))):
        return _NONE
    try:
        return date.fromisoformat(match[1]), match[2] == ""
    except ValueError:
        return _NONE


def _decimal(shape: Scalar, value: JSON) -> Held:
    if shape.sent == "string":
        return _digits(value, shape.precision, shape.scale) if isinstance(value, str) else _NONE
    # ``Decimal`` is what guards read numbers as.
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return _NONE
    text = value.text if isinstance(value, LongFloat) else str(value)
    return _digits(text, shape.precision, shape.scale)


def _duration(_: Scalar, value: JSON) -> Held:
    return _digits(value[:-1], *DURATION) if isinstance(value, str) and value.endswith("s") else _NONE


def _digits(text: str, precision: int, scale: int) -> Held:
    if not _NUMBER.fullmatch(text):
        return _NONE
    unit, exactly = _measure(precision, scale)
    try:
        return Decimal(text).quantize(unit, context=exactly), True
    except (InvalidOperation, Inexact):
        return _NONE


@cache
def _measure(precision: int, scale: int) -> tuple[Decimal, Context]:
    # ``InvalidOperation`` is raised for more digits than the column has, ``Inexact`` for more behind the point.
    return Decimal(1).scaleb(-scale), Context(prec=precision, traps=[InvalidOperation, Inexact])


_HELD: Final[dict[Kind, Callable[[Scalar, JSON], Held]]] = {
    "timestamp": _timestamp,
    "date": _date,
    "decimal": _decimal,
    "duration": _duration,
}


def sent(shape: Scalar, value: Any) -> JSON:
    """A value out of the column of ``shape`` as the kind it came as; one of an older table is of that kind already."""
    match value:
        case datetime():
            return format_timestamp(value) if shape.sent == "string" else _nanoseconds(value)
        case date():
            return value.isoformat()
        case Decimal():
            return _number(shape, value)
    return value


def _nanoseconds(value: datetime) -> int:
    return (value - _EPOCH) // timedelta(microseconds=1) * _NANOS


def _number(shape: Scalar, value: Decimal) -> JSON:
    if shape.kind == "duration":
        text = f"{value:.9f}"
        # Protobuf has three, six or nine digits.
        for _ in range(3):
            text = text.removesuffix("000")
        return f"{text.removesuffix('.')}s"
    return str(value) if shape.sent == "string" else number(value)


def number(value: Decimal) -> int | float:
    """A decimal as JSON has it."""
    return int(value) if value == value.to_integral_value() else float(value)


class LongFloat(float):
    """A number with more digits than a float has, with its text."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Self:
        """Of the text it was sent as."""
        made = super().__new__(cls, text)
        made.text = text
        return made


def parse(text: bytes | str) -> JSON:
    """The value of JSON that is known to be sound, with all digits: ``LongFloat`` where a float has not."""
    return _parser.decode(text)


def dump(value: JSON) -> bytes:
    """What ``parse`` reads, or any other JSON, with all digits; numbers that JSON does not have by their names."""
    text = msgspec.json.encode(value, enc_hook=_text)
    # That is what the encoder writes for them.
    return text if b"null" not in text else msgspec.json.encode(_named(value), enc_hook=_text)


def _named(value: Any) -> JSON:
    """A value with the names of numbers that JSON does not have."""
    if isinstance(value, dict):
        return {name: _named(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_named(each) for each in value]
    # A ``LongFloat`` beyond all floats has its own text.
    return nonfinite_name(value) if type(value) is float and not math.isfinite(value) else value


def _float(text: str) -> float:
    found = float(text)
    try:
        return found if Decimal(repr(found)) == Decimal(text) else LongFloat(text)
    except InvalidOperation:  # of an exponent of twenty digits
        return LongFloat(text)


def _text(value: Any) -> msgspec.Raw:
    if not isinstance(value, LongFloat):
        raise TypeError(f"JSON has no {type(value).__name__}")
    return msgspec.Raw(value.text.encode())


_parser: Final = msgspec.json.Decoder(float_hook=_float)


def has_decimals(shape: Shape) -> bool:
    """Whether there are columns of decimals that are sent as numbers, at any depth."""
    match shape:
        case Scalar():
            return shape.kind == "decimal" and shape.sent == "float64"
        case Struct():
            return any(has_decimals(field.shape) for field in shape.fields)
        case ListOf():
            return has_decimals(shape.item)
        case MapOf():
            return has_decimals(shape.value)
        case Anything():
            return False

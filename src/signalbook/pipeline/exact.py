"""Convert values sent as text or numbers to columns of narrower types, and report which values a column holds whole.

A value that a column cannot hold exactly conforms to its schema all the same, and is kept as it was sent
(``rescue.py``). The UTC offset of a timestamp is not kept, because the instant is the same without it. Trailing zeros
of a fraction are not kept either.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import cache
from typing import Any, Final

import msgspec

from signalbook.formats import Scalar
from signalbook.formats.shape import Kind
from signalbook.values import JSON, dump_json, format_timestamp, nonfinite_name, parse_timestamp

# The part of a value that a column holds (None if it can hold no part), and True if this part is the whole value.
Held = tuple[Any, bool]
# A timestamp of RFC 3339, 5.6. native/src/times.rs parses the same syntax.
_TIMESTAMP: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt](?:[01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(?:\.\d{1,6}(\d{0,6}))?"
    r"(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
_DATE: Final = re.compile(r"(\d{4}-\d\d-\d\d)(.*)", re.ASCII | re.DOTALL)
_ZONE: Final = re.compile(r"Z|[+-]\d\d:\d\d", re.ASCII)
# Numbers of JSON and XSD. ``Decimal`` alone would also accept other digits, spaces and underscores.
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_LEAP: Final = "60"
_UNIX_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NANOS: Final = 1000
_NONE: Final[Held] = None, False
# Precision and scale of a Protobuf ``Duration`` as a decimal of seconds: up to 10,000 years, in nanoseconds.
DURATION: Final = (21, 9)


def find_held_part(shape: Scalar, value: JSON) -> Held:
    """Return the part of ``value`` that the column of ``shape`` holds, and True if this part is the whole value.

    Only for shapes whose values are sent as another kind (``shape.sent``). The part is ``None`` if the column can hold
    no part of the value.
    """
    return _HELD[shape.kind](shape, value)


def _find_timestamp(shape: Scalar, value: JSON) -> Held:
    if shape.sent == "int64":
        return _find_instant(value) if isinstance(value, int) and not isinstance(value, bool) else _NONE
    match = _TIMESTAMP.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return _NONE
    try:
        timestamp = parse_timestamp(value)
    except ValueError:
        return _NONE
    return timestamp, match[1] != _LEAP and not (match[2] or "").strip("0")


def _find_instant(nanoseconds: int) -> Held:
    micros, remainder = divmod(nanoseconds, _NANOS)
    try:
        return _UNIX_EPOCH + timedelta(microseconds=micros), remainder == 0
    except OverflowError:
        return _NONE


def _find_date(shape: Scalar, value: JSON) -> Held:
    match = _DATE.fullmatch(value) if isinstance(value, str) else None
    if match is None or not (match[2] == "" or (shape.zoned and _ZONE.fullmatch(match[2]))):
        return _NONE
    try:
        return date.fromisoformat(match[1]), match[2] == ""
    except ValueError:
        return _NONE


def _find_decimal(shape: Scalar, value: JSON) -> Held:
    if shape.sent == "string":
        return _find_digits(value, shape.precision, shape.scale) if isinstance(value, str) else _NONE
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return _NONE
    return _find_digits(str(value), shape.precision, shape.scale)


def _find_float(_: Scalar, value: JSON) -> Held:
    if isinstance(value, float):
        return value, True
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return _NONE
    try:
        nearest = float(value)
    except OverflowError:
        return _NONE
    return (nearest, is_exact(nearest, value)) if math.isfinite(nearest) else _NONE


def _find_duration(_: Scalar, value: JSON) -> Held:
    return _find_digits(value[:-1], *DURATION) if isinstance(value, str) and value.endswith("s") else _NONE


def _find_digits(text: str, precision: int, scale: int) -> Held:
    if not _NUMBER.fullmatch(text):
        return _NONE
    unit, exactly = _measure(precision, scale)
    try:
        return Decimal(text).quantize(unit, context=exactly), True
    except (InvalidOperation, Inexact):
        return _NONE


@cache
def _measure(precision: int, scale: int) -> tuple[Decimal, Context]:
    # ``InvalidOperation`` is raised for more digits than the column has, ``Inexact`` for more digits of the fraction.
    return Decimal(1).scaleb(-scale), Context(prec=precision, traps=[InvalidOperation, Inexact])


_HELD: Final[dict[Kind, Callable[[Scalar, JSON], Held]]] = {
    "timestamp": _find_timestamp,
    "date": _find_date,
    "decimal": _find_decimal,
    "float64": _find_float,
    "duration": _find_duration,
}


def restore_sent(shape: Scalar, value: Any) -> JSON:
    """Return ``value``, taken from the column of ``shape``, as the kind of value that was sent: text or a number.

    Values from older tables, whose columns have that kind already, are returned unchanged.
    """
    match value:
        case datetime():
            return format_timestamp(value) if shape.sent == "string" else _count_nanoseconds(value)
        case date():
            return value.isoformat()
        case Decimal():
            return _restore_number(shape, value)
    return value


def _count_nanoseconds(value: datetime) -> int:
    return (value - _UNIX_EPOCH) // timedelta(microseconds=1) * _NANOS


def _restore_number(shape: Scalar, value: Decimal) -> JSON:
    if shape.kind == "duration":
        text = f"{value:.9f}"
        # Protobuf writes a fraction of three, six or nine digits.
        for _ in range(3):
            text = text.removesuffix("000")
        return f"{text.removesuffix('.')}s"
    return str(value) if shape.sent == "string" else read_number(value)


def read_number(value: Decimal) -> int | float | Decimal:
    """Return ``value`` as the number that ``parse_json`` returns for its text with ``exact=True``.

    This is an ``int`` for integers, a ``float`` if it has all digits of ``value``, else ``value`` itself.
    """
    if value == value.to_integral_value():
        return int(value)
    nearest = float(value)
    return nearest if is_exact(nearest, value) else value


def is_exact(nearest: float, value: int | Decimal) -> bool:
    """Return True if the text of ``nearest``, the float nearest to ``value``, has the same digits as ``value``."""
    return math.isfinite(nearest) and Decimal(repr(nearest)) == value


def to_integer(value: float | Decimal) -> int:
    """Return ``value`` as an integer. Raises ``ValueError`` if it has a fraction or is not finite.

    A float is converted from its text, because ``int(1e23)`` is 99999999999999991611392, which nobody sent.
    """
    if isinstance(value, int):
        return int(value)
    exact = value if isinstance(value, Decimal) else Decimal(repr(value))
    if not exact.is_finite() or exact != exact.to_integral_value():
        raise ValueError(f"{value!r} is no integer")
    return int(exact)


def dump(value: JSON) -> bytes:
    """Encode ``value`` as JSON with all digits of its numbers. Infinity and NaN, which JSON lacks, become strings."""
    text = dump_json(value)
    # The encoder writes infinity and NaN as null, so that text without null has neither.
    return text if b"null" not in text else dump_json(_replace_nonfinite(value))


def dump_decoded(value: JSON) -> bytes:
    """Encode ``value``, decoded from a format other than JSON, as JSON.

    Decimals become strings, because JSON readers may round numbers. Infinity and NaN become strings, too.
    """
    text = msgspec.json.encode(value)
    return text if b"null" not in text else msgspec.json.encode(_replace_nonfinite(value))


def _replace_nonfinite(value: Any) -> JSON:
    """Return ``value`` with infinity and NaN replaced by their names."""
    if isinstance(value, dict):
        return {name: _replace_nonfinite(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replace_nonfinite(item) for item in value]
    return nonfinite_name(value) if type(value) is float and not math.isfinite(value) else value

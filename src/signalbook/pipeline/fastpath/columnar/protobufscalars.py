"""Numbers, truth values and enums of Protobuf: as they are sent, and what they become in columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

from signalbook.pipeline.fastpath.columnar.cursors import Cursors, Mask, Numbers, signed

VARINT: Final = 0
WIDE: Final = 1
LENGTH: Final = 2
NARROW: Final = 5
_LONGEST: Final = 10
# Bytes of lists unpacked at once, which take dozens of times as much; the others are decoded one by one.
_MOST_PACKED: Final = 2**20
_MORE: Final = np.uint8(0x80)
_DECIMAL: Final = pa.decimal128(20, 0)
# From numbers as they are sent to a column, and which of them are for a closer look.
Convert = Callable[[Any], tuple[pa.Array, Mask]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A simple type. ``width`` is numpy's name for numbers of a fixed width, empty for groups of seven bits."""

    wire: int
    convert: Convert
    width: str = ""
    default: Any = 0

    def read(self, cursors: Cursors) -> pa.Array:
        """One value of each payload."""
        found, odd = self.convert(cursors.fixed(self.width) if self.width else cursors.varint())
        cursors.refuse(odd)
        return found


def packed(cursors: Cursors, kind: Scalar) -> tuple[pa.Array, Numbers]:
    """The items of lists that have all of theirs in one piece, list by list, and the numbers of their lists."""
    start, end = cursors.chunk(cursors.canonical().view(np.int64))
    lengths = end - start
    if kind.width:
        split = lengths % np.dtype(kind.width).itemsize != 0
    else:
        split = (lengths > 0) & (cursors.block[np.maximum(end - 1, 0)] >= _MORE)
    split |= np.cumsum(lengths) > _MOST_PACKED
    cursors.refuse(split)
    lengths = np.where(split, 0, lengths)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    content = cursors.block[np.repeat(start - (np.cumsum(lengths) - lengths), lengths) + np.arange(len(owners))]
    if kind.width:
        values, owners = content.view(kind.width), owners[:: np.dtype(kind.width).itemsize]
        odd = np.zeros(len(values), np.bool_)
    else:
        values, last, odd = _varints(content)
        owners = owners[last]
    found, strange = kind.convert(values)
    cursors.bad[owners[odd | strange]] = True
    return found, owners


def _varints(content: Any) -> tuple[Numbers, Numbers, Mask]:
    """Numbers in groups of seven bits one behind the other, where each ends, and which are too long."""
    last = np.flatnonzero(content < _MORE)
    first = np.concatenate([np.zeros(1, np.int64), last[:-1] + 1])[: len(last)]
    widths = last - first + 1
    if len(last) == len(content):
        return content.astype(np.uint64), last, np.zeros(len(last), np.bool_)
    groups = np.minimum(np.arange(len(content)) - np.repeat(first, widths), _LONGEST - 1)
    bits = (content & ~_MORE).astype(np.uint64) << (groups * 7).astype(np.uint64)
    odd = (widths > _LONGEST) | ((widths == _LONGEST) & (content[last] > 1))
    return np.add.reduceat(bits, first), last, odd


def scalar(field: FieldDescriptor) -> Scalar | None:
    """The simple type of a field, if it is of one."""
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return Scalar(wire=VARINT, convert=_enum(field.enum_type), default=names.get(0) or "0")
    return _SCALARS.get(field.type)


def _taken(kind: Any) -> Convert:
    """Numbers that are what they are."""
    return lambda values: (pa.array(values.astype(kind)), np.zeros(len(values), np.bool_))


def _long(values: Any) -> tuple[pa.Array, Mask]:
    return pa.array(values.view(np.int64)), np.zeros(len(values), np.bool_)


def _bounded(low: int, high: int, kind: Any) -> Convert:
    """Signed numbers that are shorter in memory than they may be on the wire, where they would be cut."""

    def convert(values: Any) -> tuple[pa.Array, Mask]:
        numbers = values.view(np.int64)
        return pa.array(numbers.astype(kind)), (numbers < low) | (numbers > high)

    return convert


def _zigzag(values: Any) -> tuple[pa.Array, Mask]:
    return pa.array(signed(values).astype(np.int32)), values >= 2**32


def _decimal(values: Any) -> tuple[pa.Array, Mask]:
    return pa.array(values).cast(_DECIMAL), np.zeros(len(values), np.bool_)


def _boolean(values: Any) -> tuple[pa.Array, Mask]:
    return pa.array(values == 1), values > 1


def _enum(descriptor: EnumDescriptor) -> Convert:
    """Names, of several the last; a number without one is for a closer look."""
    known = sorted({number: value.name for number, value in descriptor.values_by_number.items()}.items())
    numbers = np.array([number for number, _ in known], np.int64)
    names = pa.array([name for _, name in known], pa.string())

    def convert(values: Any) -> tuple[pa.Array, Mask]:
        places = np.minimum(np.searchsorted(numbers, values.view(np.int64)), len(numbers) - 1)
        return names.take(pa.array(places)), numbers[places] != values.view(np.int64)

    return convert


_INT: Final = _bounded(-(2**31), 2**31 - 1, np.int32)
_UNSIGNED: Final = _bounded(0, 2**32 - 1, np.int64)
_F: Final = FieldDescriptor
_SCALARS: Final[dict[int, Scalar]] = {
    _F.TYPE_BOOL: Scalar(wire=VARINT, convert=_boolean, default=False),
    _F.TYPE_INT32: Scalar(wire=VARINT, convert=_INT),
    _F.TYPE_INT64: Scalar(wire=VARINT, convert=_long),
    _F.TYPE_UINT32: Scalar(wire=VARINT, convert=_UNSIGNED),
    _F.TYPE_UINT64: Scalar(wire=VARINT, convert=_decimal),
    _F.TYPE_SINT32: Scalar(wire=VARINT, convert=_zigzag),
    _F.TYPE_SINT64: Scalar(wire=VARINT, convert=lambda values: _long(signed(values))),
    _F.TYPE_FIXED32: Scalar(wire=NARROW, convert=_taken(np.int64), width="<u4"),
    _F.TYPE_FIXED64: Scalar(wire=WIDE, convert=_decimal, width="<u8"),
    _F.TYPE_SFIXED32: Scalar(wire=NARROW, convert=_taken(np.int32), width="<i4"),
    _F.TYPE_SFIXED64: Scalar(wire=WIDE, convert=_taken(np.int64), width="<i8"),
    _F.TYPE_FLOAT: Scalar(wire=NARROW, convert=_taken(np.float32), width="<f4"),
    _F.TYPE_DOUBLE: Scalar(wire=WIDE, convert=_taken(np.float64), width="<f8"),
}

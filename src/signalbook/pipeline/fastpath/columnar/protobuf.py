"""Protobuf straight into columns.

Serializers write fields in the order of their numbers, so that each field is looked for once; whoever has something
else, be it unknown, out of order, or twice, is refused. Types with maps, groups, recursion or well-known types have no
decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from signalbook.formats import Struct
from signalbook.formats.protobuf.format import ProtobufSchema
from signalbook.pipeline import columns
from signalbook.pipeline.fastpath.columnar.cursors import Cursors, Mask, Numbers, spread
from signalbook.pipeline.fastpath.columnar.lists import MOST_ROUNDS, Items
from signalbook.pipeline.fastpath.columnar.protobufscalars import LENGTH, Scalar, packed, scalar
from signalbook.pipeline.fastpath.native import Inexpressible

Tags = npt.NDArray[np.uint64]
# Reads one value of each payload, behind its tag.
Read = Callable[[Cursors], pa.Array]


def decoder(schema: ProtobufSchema) -> Callable[[Cursors], list[pa.Array]] | None:
    """From payloads to the arrays of ``columns.payload(schema.shape())``, or ``None`` where there is no such thing."""
    shape = schema.shape()
    if not isinstance(shape, Struct) or not shape.fields:
        return None
    try:
        return _Message(schema.descriptor, [field.type for field in columns.payload(shape)]).read
    except Inexpressible:
        return None


class _Message:
    """One message type; ``kinds`` are the columns of its fields as they are declared."""

    def __init__(self, descriptor: Descriptor, kinds: Sequence[pa.DataType]) -> None:
        fields = [_field(field, kind) for field, kind in zip(descriptor.fields, kinds, strict=True)]
        self._declared = fields
        self._fields = sorted(fields, key=lambda field: field.number)
        numbers = [[field.number for field in each.fields] for each in descriptor.oneofs]
        self._oneofs = [members for members in numbers if len(members) > 1]

    def read(self, cursors: Cursors) -> list[pa.Array]:
        """The columns of messages that reach from where they are to their ends."""
        tags = _tags(cursors)
        present: dict[int, Mask] = {}
        found: dict[int, pa.Array] = {}
        for field in self._fields:
            found[field.number], present[field.number] = field.take(cursors, tags)
        cursors.refuse(tags != 0)
        for members in self._oneofs:
            cursors.refuse(np.sum([present[number] for number in members], axis=0) > 1)
        return [found[field.number] for field in self._declared]


def _tags(cursors: Cursors) -> Tags:
    """The tags that come next; 0 at the end."""
    going = cursors.at < cursors.end
    if going.all():
        return _next(cursors)
    tags = np.zeros(len(cursors), np.uint64)
    numbers = np.flatnonzero(going)
    if len(numbers):
        part = cursors.some(numbers)
        tags[numbers] = _next(part)
        cursors.join(part, numbers)
    return tags


def _next(cursors: Cursors) -> Tags:
    tags = cursors.canonical()
    cursors.refuse(tags == 0)
    return tags


class _Field:
    """A field of a message."""

    def __init__(self, field: FieldDescriptor, kind: pa.DataType) -> None:
        self.number = field.number
        self.kind = kind

    def take(self, cursors: Cursors, tags: Tags) -> tuple[pa.Array, Mask]:
        """Its column, and who has it; ``tags`` become those that come behind."""
        raise NotImplementedError


def _advance(cursors: Cursors, tags: Tags, which: Mask, read: Callable[[Cursors], Any]) -> Any:
    """Read on where ``which`` is true."""
    if which.all():
        found = read(cursors)
        tags[:] = _tags(cursors)
        return found
    numbers = np.flatnonzero(which)
    part = cursors.some(numbers)
    found = read(part)
    tags[numbers] = _tags(part)
    cursors.join(part, numbers)
    return found


class _Single(_Field):
    """A field that is there or not; without presence of its own it has a default."""

    def __init__(self, field: FieldDescriptor, kind: pa.DataType, read: Read, tag: int, default: Any) -> None:
        super().__init__(field, kind)
        self._read = read
        self._tag = tag
        self._required = field.is_required
        self._default = None if field.has_presence else pa.scalar(default, kind)

    def take(self, cursors: Cursors, tags: Tags) -> tuple[pa.Array, Mask]:
        """The values, and null or the default for whoever has none."""
        mine = tags == self._tag
        if self._required:
            cursors.refuse(~mine)
        if not mine.any():
            missing = pa.nulls(len(mine), self.kind) if self._default is None else pa.repeat(self._default, len(mine))
            return missing, mine
        found = spread(_advance(cursors, tags, mine, self._read), mine)
        return (found if self._default is None else pc.fill_null(found, self._default)), mine


class _Repeated(_Field):
    """A list: one tag for each item, or for numbers one for all of them."""

    def __init__(self, field: FieldDescriptor, kind: pa.ListType, read: Read, tag: int, number: Scalar | None) -> None:
        super().__init__(field, kind)
        self._read = read
        self._tag = tag
        self._scalar = number
        self._packed = field.number << 3 | LENGTH

    def take(self, cursors: Cursors, tags: Tags) -> tuple[pa.Array, Mask]:
        """The lists, empty for whoever has no items."""
        items = Items(self.kind)
        together = (tags == self._packed) & (self._scalar is not None)
        if together.any():
            self._together(cursors, tags, together, items)
        while (mine := (tags == self._tag) & ~together).any() and len(items) < MOST_ROUNDS:
            if not cursors.rounds.spend():
                break
            items.add(_advance(cursors, tags, mine, self._read), np.flatnonzero(mine))
        return items.lists(len(tags)), together

    def _together(self, cursors: Cursors, tags: Tags, which: Mask, found: Items) -> None:
        number = self._scalar
        assert number is not None
        items, owners = _advance(cursors, tags, which, lambda part: packed(part, number))
        found.add(items, np.flatnonzero(which)[owners])


def _field(field: FieldDescriptor, kind: pa.DataType) -> _Field:
    item = kind.value_type if field.is_repeated and pa.types.is_list(kind) else kind
    number = scalar(field)
    read: Read = _long(field, item) if number is None else number.read
    tag = field.number << 3 | (LENGTH if number is None else number.wire)
    if field.is_repeated:
        if not pa.types.is_list(kind):
            raise Inexpressible
        return _Repeated(field, kind, read, tag, number)
    if number is not None:
        return _Single(field, kind, read, tag, number.default)
    return _Single(field, kind, read, tag, b"" if field.type == FieldDescriptor.TYPE_BYTES else "")


def _long(field: FieldDescriptor, kind: pa.DataType) -> Read:
    """What has its length before it."""
    if field.type == FieldDescriptor.TYPE_STRING:
        return lambda cursors: cursors.text(_length(cursors))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return lambda cursors: cursors.binary(_length(cursors))
    if field.type != FieldDescriptor.TYPE_MESSAGE or field.message_type is None or not pa.types.is_struct(kind):
        raise Inexpressible
    fields = list(kind)
    message = _Message(field.message_type, [each.type for each in fields])

    def read(cursors: Cursors) -> pa.Array:
        start, end = cursors.chunk(_length(cursors))
        inner = cursors.within(start, end)
        arrays = message.read(inner)
        cursors.refuse(inner.bad)
        return pa.StructArray.from_arrays(arrays, fields=fields)

    return read


def _length(cursors: Cursors) -> Numbers:
    return cursors.canonical().view(np.int64)

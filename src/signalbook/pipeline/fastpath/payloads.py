"""Payloads of one slice into columns, by the fastest decoder that is exact for their schema.

A reader takes an array of payloads and gives the arrays of ``columns.payload(shape)`` for those
that conform, with the numbers of all others: it accepts what ``Schema.decode`` accepts, or less. It raises one of
``arrays.MISFITS`` where a value does not fit its column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from signalbook.formats import PayloadError, Schema, Typed
from signalbook.formats.avro.format import AvroSchema
from signalbook.formats.base import REFUSALS, is_json
from signalbook.formats.jsonschema.format import JsonSchema
from signalbook.formats.protobuf.format import ProtobufSchema
from signalbook.messages import CompiledDefinition
from signalbook.messages.payloads.wireprefix import stripped
from signalbook.pipeline.arrays import Form
from signalbook.pipeline.fastpath import json
from signalbook.pipeline.fastpath.columnar import avro, protobuf
from signalbook.pipeline.fastpath.columnar.cursors import Cursors
from signalbook.pipeline.fastpath.texts import is_text, too_deep
from signalbook.pipeline.landing.rows import Payloads, Target
from signalbook.values import MAX_DEPTH

Columns = tuple[list[pa.Array], list[int]]
Decode = Callable[[pa.BinaryArray], Columns]
# After a slice most of which had to be decoded one by one, so many more go the same way at once.
_CAUTION: Final = 8
_OBJECTS: Final = 1024
_BYTES: Final = 4096
# They are made once for a schema, which many tasks of a process share, and go with it.
_decoders: WeakKeyDictionary[AvroSchema | JsonSchema | ProtobufSchema, Decode | None] = WeakKeyDictionary()


class Reader(Protocol):
    """From payloads to columns; ``most`` of them at once go best."""

    most: int

    def read(self, payloads: pa.BinaryArray, /) -> Columns:
        """The columns of payloads that conform, and the numbers of the others."""
        ...


def reader(schema: Schema, content_type: str, target: Target) -> Reader:
    """The reader of payloads as bytes; an empty content type is that of the schema's format."""
    typed = schema.typed()
    if typed is not None and (not content_type or is_json(content_type)):
        return _quickest(schema, Text(ValueReader(typed, target)))
    each = DecodingReader(schema, content_type, target)
    is_binary = isinstance(schema, (AvroSchema, ProtobufSchema)) and schema.is_binary(content_type)
    return _quickest(schema, each) if is_binary else each


def json_reader(schema: Schema, target: Target) -> Reader | None:
    """The reader of payloads that are JSON, known to be UTF-8 and not too deep, if the schema's format has one."""
    typed = schema.typed()
    return None if typed is None else _quickest(schema, ValueReader(typed, target))


def _quickest(schema: Schema, each: Reader) -> Reader:
    """The decoder of columns for payloads in the encoding of the schema's format, if there is one, before ``each``."""
    if not isinstance(schema, (AvroSchema, JsonSchema, ProtobufSchema)):
        return each
    if schema not in _decoders:
        _decoders[schema] = _decoder(schema)
    decode = _decoders[schema]
    return each if decode is None else ColumnReader(decode, each)


def _decoder(schema: AvroSchema | JsonSchema | ProtobufSchema) -> Decode | None:
    if isinstance(schema, JsonSchema):
        return json.decoder(schema)
    decode = avro.decoder(schema) if isinstance(schema, AvroSchema) else protobuf.decoder(schema)
    return None if decode is None else _whole(decode)


def _whole(decode: Callable[[Cursors], list[pa.Array]]) -> Decode:
    """A decoder whose payloads have to end where it does."""

    def whole(payloads: pa.BinaryArray) -> Columns:
        cursors = Cursors.of(payloads)
        arrays = decode(cursors)
        cursors.refuse(cursors.at != cursors.end)
        if not cursors.bad.any():
            return arrays, []
        kept = pa.array(np.flatnonzero(~cursors.bad))
        return [array.take(kept) for array in arrays], np.flatnonzero(cursors.bad).tolist()

    return whole


class ValueReader:
    """JSON known to be UTF-8 and not too deep, by a typed decoder."""

    most = _OBJECTS

    def __init__(self, typed: Typed, target: Target) -> None:
        self._typed = typed
        self._build: Payloads = target.builder(Form.TYPED)

    def read(self, payloads: pa.BinaryArray) -> Columns:
        """An array of bytes."""
        quick, refused = self._typed.quick, list[int]()
        texts = payloads.to_pylist()
        try:
            values = [quick(raw) for raw in texts]
        except REFUSALS:
            values, refused = self._one_by_one(texts)
        return self._build(values), refused

    def _one_by_one(self, payloads: Sequence[bytes]) -> tuple[list[Any], list[int]]:
        values: list[Any] = []
        refused: list[int] = []
        for number, raw in enumerate(payloads):
            try:
                values.append(self._typed.quick(raw))
            except REFUSALS:
                try:
                    values.append(self._typed.decode(raw))
                except PayloadError:
                    refused.append(number)
        return values, refused


class Text:
    """Bytes that have to be UTF-8, and JSON that is not too deep, before ``values`` reads them."""

    most = _OBJECTS

    def __init__(self, values: ValueReader) -> None:
        self._values = values

    def read(self, payloads: pa.BinaryArray) -> Columns:
        """An array of bytes."""
        strange = _strange(payloads)
        if not strange:
            return self._values.read(payloads)
        rest = np.delete(np.arange(len(payloads)), list(strange))
        columns, refused = self._values.read(payloads.take(pa.array(rest)))
        return columns, sorted([*strange, *rest[refused].tolist()])


def _strange(payloads: pa.BinaryArray) -> set[int]:
    offsets = np.frombuffer(payloads.buffers()[1], np.int32, len(payloads) + 1, payloads.offset * 4)
    block = payloads.buffers()[2]
    found = set() if block is None else too_deep(block, offsets[:-1], offsets[1:], MAX_DEPTH)
    try:
        payloads.cast(pa.string())
    except pa.ArrowInvalid:
        found |= {number for number, raw in enumerate(payloads.to_pylist()) if not is_text(raw)}
    return found


class DecodingReader:
    """Payloads of any format and encoding, each decoded by itself."""

    most = _OBJECTS

    def __init__(self, schema: Schema, content_type: str, target: Target) -> None:
        self._schema = schema
        self._content_type = content_type
        self._target = target

    def read(self, payloads: pa.BinaryArray) -> Columns:
        """An array of bytes."""
        values: list[Any] = []
        refused: list[int] = []
        for number, raw in enumerate(payloads.to_pylist()):
            try:
                values.append(self._schema.decode(raw, self._content_type))
            except PayloadError:
                refused.append(number)
        return self._target.builder(Form.DECODED)(values), refused


class PrefixedReader:
    """Payloads behind the number of the definition's own schema, by ``bare``; those of other schemas are refused."""

    def __init__(self, definition: CompiledDefinition, bare: Reader) -> None:
        self.most = bare.most
        self._definition = definition
        self._bare = bare

    def read(self, payloads: pa.BinaryArray) -> Columns:
        """An array of bytes."""
        found = [self._stripped(raw) for raw in payloads.to_pylist()]
        own = np.array([bare is not None for bare in found], np.bool_)
        numbers = np.flatnonzero(own)
        if not len(numbers):
            return [], list(range(len(payloads)))
        columns, refused = self._bare.read(pa.array([bare for bare in found if bare is not None], pa.binary()))
        return columns, sorted([*np.flatnonzero(~own).tolist(), *numbers[refused].tolist()])

    def _stripped(self, raw: bytes) -> bytes | None:
        schema = self._definition.schema_use.schema
        assert schema is not None
        try:
            number, bare = stripped(raw, schema.format)
        except ValueError:
            return None
        return bare if self._definition.schema_of_number(number).schema is schema else None


class ColumnReader:
    """Payloads by ``decode``, which makes columns of many at once, and those it does not take by ``each``."""

    most = _BYTES

    def __init__(self, decode: Decode, each: Reader) -> None:
        self._decode = decode
        self._each = each
        self._caution = 0

    def read(self, payloads: pa.BinaryArray) -> Columns:
        """An array of bytes."""
        if self._caution:
            self._caution -= 1
            return self._each.read(payloads)
        arrays, others = self._decode(payloads)
        return self._mixed(payloads, arrays, others) if others else (arrays, [])

    def _mixed(self, payloads: pa.BinaryArray, arrays: list[pa.Array], others: list[int]) -> Columns:
        """The columns of those that were taken, with those of the others in their places."""
        taken = np.delete(np.arange(len(payloads)), others)
        self._caution = _CAUTION if len(others) > len(taken) else 0
        more, refused = self._each.read(payloads.take(pa.array(others)))
        order = pa.array(np.argsort(np.concatenate([taken, np.delete(others, refused)])))
        columns = [pa.concat_arrays([array, rest]).take(order) for array, rest in zip(arrays, more, strict=True)]
        return columns, [others[number] for number in refused]

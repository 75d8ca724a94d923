"""Payloads of one slice into columns, by the fastest decoder that is exact for their schema.

A reader takes payloads as its way (``ways.py``) has them, and gives the arrays of ``columns.payload(shape)`` for those
that conform, with the numbers of all others: it accepts what ``Schema.decode`` accepts, or less. It raises one of
``arrays.MISFITS`` where a value does not fit its column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from signalbook.formats import PayloadError, Schema, Typed
from signalbook.formats.base import REFUSALS, is_json
from signalbook.pipeline.arrays import Form
from signalbook.pipeline.envelopes import too_deep
from signalbook.pipeline.rows import Payloads, Target
from signalbook.values import MAX_DEPTH

Columns = tuple[list[pa.Array], list[int]]


class Reader(Protocol):
    """From payloads to columns."""

    def read(self, payloads: Any, /) -> Columns:
        """The columns of payloads that conform, and the numbers of the others."""
        ...


def reader(schema: Schema, content_type: str, target: Target) -> Reader:
    """The reader of payloads as bytes; an empty content type is that of the schema's format."""
    typed = schema.typed()
    if typed is not None and (not content_type or is_json(content_type)):
        return Text(ValueReader(typed, target))
    return DecodingReader(schema, content_type, target.builder(Form.DECODED))


class ValueReader:
    """JSON known to be UTF-8 and not too deep, by a typed decoder."""

    def __init__(self, typed: Typed, target: Target) -> None:
        self._typed = typed
        self._build: Payloads = target.builder(Form.TYPED)

    def read(self, payloads: Sequence[Any]) -> Columns:
        """Raw JSON, or bytes."""
        quick, refused = self._typed.quick, list[int]()
        try:
            values = [quick(raw) for raw in payloads]
        except REFUSALS:
            values, refused = self._one_by_one(payloads)
        return self._build(values), refused

    def _one_by_one(self, payloads: Sequence[Any]) -> tuple[list[Any], list[int]]:
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

    def __init__(self, values: ValueReader) -> None:
        self._values = values

    def read(self, payloads: pa.BinaryArray) -> Columns:
        """An array of bytes."""
        strange = _strange(payloads)
        if not strange:
            return self._values.read(payloads.to_pylist())
        rest = np.delete(np.arange(len(payloads)), list(strange))
        columns, refused = self._values.read(payloads.take(pa.array(rest)).to_pylist())
        return columns, sorted([*strange, *rest[refused].tolist()])


def _strange(payloads: pa.BinaryArray) -> set[int]:
    offsets = np.frombuffer(payloads.buffers()[1], np.int32, len(payloads) + 1, payloads.offset * 4)
    block = payloads.buffers()[2]
    found = set() if block is None else too_deep(block, offsets[:-1], offsets[1:], MAX_DEPTH)
    try:
        payloads.cast(pa.string())
    except pa.ArrowInvalid:
        found |= {number for number, raw in enumerate(payloads.to_pylist()) if not _is_text(raw)}
    return found


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


class DecodingReader:
    """Payloads of any format and encoding, each decoded by itself."""

    def __init__(self, schema: Schema, content_type: str, build: Payloads) -> None:
        self._schema = schema
        self._content_type = content_type
        self._build = build

    def read(self, payloads: pa.BinaryArray) -> Columns:
        """An array of bytes."""
        values: list[Any] = []
        refused: list[int] = []
        for number, raw in enumerate(payloads.to_pylist()):
            try:
                values.append(self._schema.decode(raw, self._content_type))
            except PayloadError:
                refused.append(number)
        return self._build(values), refused

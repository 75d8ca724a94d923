"""Payloads read into columns, and one by one: both have to come to the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from signalbook.formats import Schema
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import MISFITS
from signalbook.pipeline.fastpath.payloads import ColumnReader, DecodingReader, reader
from signalbook.pipeline.landing.rows import Mark, Target
from signalbook.values import now


def check(schema: Schema, payloads: list[bytes]) -> list[dict[str, Any]] | None:
    """Read both ways, amid others; the rows, or ``None`` where a value does not fit."""
    target = Target("/messagegroups/g/messages/m", "1", schema, Mark(fingerprint="f", batch="b", landed_at=now()))
    quick, slow = reader(schema, "", target), DecodingReader(schema, "", target)
    assert isinstance(quick, ColumnReader)
    array = pa.array([b"before", *payloads, b"behind"], pa.binary()).slice(1, len(payloads))
    try:
        expected, refused = slow.read(array)
    except MISFITS:
        return None
    found, others = quick.read(array)
    kinds = columns.payload(schema.shape())
    assert others == refused
    assert [each.type for each in found] == [field.type for field in kinds]
    table = pa.Table.from_arrays(found, schema=kinds)
    table.validate(full=True)
    rows: list[dict[str, Any]] = table.to_pylist()
    assert str(rows) == str(pa.Table.from_arrays(expected, schema=kinds).to_pylist())  # as text: nan is not itself
    return rows

"""Rows with the payload as text in one column, the same for all definitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from signalbook.messages import CompiledDefinition
from signalbook.pipeline import columns, exact
from signalbook.pipeline.fastpath.native import Decode, Decoded, PayloadSpans
from signalbook.pipeline.landing.rows import (
    OPAQUE,
    AcceptedRow,
    Bookkeeping,
    RowBuilder,
    build_payload_reader,
    has_json_payloads,
)
from signalbook.values import JSON

LANDED: Final = columns.decode_constants(columns.encode_constants(columns.build_landed(None)))
"""Columns of messages of any definition: those of a table, with the payload in ``data``."""
# What a serializer of Confluent puts before a payload: a zero byte and a number; text of JSON never begins so.
_MAGIC: Final = b"\0"
_PREFIX: Final = 5


class TextRowBuilder(RowBuilder):
    """Makes rows of ``LANDED``: payloads in JSON as they were sent, others as JSON by their columns."""

    def __init__(self, definition: CompiledDefinition, bookkeeping: Bookkeeping) -> None:
        super().__init__(definition, bookkeeping)
        self._layout = OPAQUE
        if self._schema is not None and has_json_payloads(self._schema):
            # For payloads that are text it is as if nobody knew more of them.
            self._schema = None

    def wrap_decoder(self, decode: Decode) -> Decode:
        """Reads payloads by ``decode``, which says whether they conform, into the columns for text."""

        def read(payloads: PayloadSpans) -> Decoded:
            arrays, refused = decode(payloads)
            if len(refused) == len(payloads):
                return [], refused
            if self._schema is not None:
                return self._texts(arrays), refused
            kept = payloads.take(np.delete(np.arange(len(payloads)), refused)).to_array()
            return [_bare(kept).cast(pa.string()), pa.nulls(len(kept), pa.binary())], refused

        return read

    def _build_payloads(self, rows: Sequence[AcceptedRow]) -> list[pa.Array]:
        found = super()._build_payloads(rows)
        if self._schema is None:
            return found
        absent = pa.array([row.payload is None and row.data in (None, UNSET) for row in rows])
        texts, binary = self._texts(found)
        return [pc.if_else(absent, None, texts), binary]

    def _texts(self, payloads: list[pa.Array]) -> list[pa.Array]:
        """The columns of payloads as those for text: JSON."""
        found = pa.RecordBatch.from_arrays(payloads, schema=self._members(len(payloads))).to_pylist()
        return [pa.array([exact.dump(self._whole(row)).decode() for row in found]), pa.nulls(len(found), pa.binary())]

    def _members(self, count: int) -> pa.Schema:
        """The columns of payloads, the last of them what the others do not hold."""
        return pa.schema([*columns.build_payload(self._shape), *columns.RESCUE][:count])

    @cached_property
    def _whole(self) -> Callable[[Mapping[str, Any]], JSON]:
        assert self._schema is not None
        return build_payload_reader(self._schema)


def _bare(payloads: pa.BinaryArray) -> pa.BinaryArray:
    """Payloads without the numbers of schemas before them."""
    if not pc.any(pc.starts_with(payloads, _MAGIC)).as_py():
        return payloads
    return pa.array([raw[_PREFIX:] if raw.startswith(_MAGIC) else raw for raw in payloads.to_pylist()], pa.binary())

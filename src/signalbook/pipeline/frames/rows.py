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
        """Return a decoder that checks payloads by ``decode``, and gives the columns for text."""

        def read(payloads: PayloadSpans) -> Decoded:
            arrays, refused = decode(payloads)
            if len(refused) == len(payloads):
                return [], refused
            if self._schema is not None:
                return self._build_texts(arrays), refused
            accepted = payloads.take(np.delete(np.arange(len(payloads)), refused)).to_array()
            return [_remove_prefixes(accepted).cast(pa.string()), pa.nulls(len(accepted), pa.binary())], refused

        return read

    def _build_payloads(self, rows: Sequence[AcceptedRow]) -> list[pa.Array]:
        payloads = super()._build_payloads(rows)
        if self._schema is None:
            return payloads
        absent = pa.array([row.payload is None and row.data in (None, UNSET) for row in rows])
        texts, binary = self._build_texts(payloads)
        return [pc.if_else(absent, None, texts), binary]

    def _build_texts(self, payloads: list[pa.Array]) -> list[pa.Array]:
        """Return the columns of payloads as columns for text: JSON."""
        decoded = pa.RecordBatch.from_arrays(payloads, schema=self._find_members(len(payloads))).to_pylist()
        return [
            pa.array([exact.dump(self._whole(row)).decode() for row in decoded]),
            pa.nulls(len(decoded), pa.binary()),
        ]

    def _find_members(self, count: int) -> pa.Schema:
        """Return the columns of payloads; the last one holds the rest."""
        return pa.schema([*columns.build_payload(self._shape), *columns.RESCUE][:count])

    @cached_property
    def _whole(self) -> Callable[[Mapping[str, Any]], JSON]:
        assert self._schema is not None
        return build_payload_reader(self._schema)


def _remove_prefixes(payloads: pa.BinaryArray) -> pa.BinaryArray:
    """Return payloads without the numbers of schemas before them."""
    if not pc.any(pc.starts_with(payloads, _MAGIC)).as_py():
        return payloads
    return pa.array([raw[_PREFIX:] if raw.startswith(_MAGIC) else raw for raw in payloads.to_pylist()], pa.binary())

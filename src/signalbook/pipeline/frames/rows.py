"""Build rows that have the same columns for all definitions, with the payload as text in one column."""

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
from signalbook.pipeline.native import Decode, Decoded, PayloadSpans
from signalbook.pipeline.processing.rows import AcceptedRow, Bookkeeping, RowBuilder
from signalbook.pipeline.tables.landed_payloads import build_payload_reader, has_json_payloads
from signalbook.pipeline.tables.layout import OPAQUE
from signalbook.values import JSON

LANDED: Final = columns.decode_constants(columns.encode_constants(columns.build_landed(None)))
"""The columns for messages of any definition: those of a table without a schema, with the payload in ``data``."""
# Confluent serializers put a zero byte and a schema's number before a payload. JSON text never begins with a zero byte.
_MAGIC: Final = b"\0"
_PREFIX: Final = 5


class TextRowBuilder(RowBuilder):
    """A builder of rows of ``LANDED``. JSON payloads stay as they were sent; other payloads are converted to JSON."""

    def __init__(self, definition: CompiledDefinition, bookkeeping: Bookkeeping) -> None:
        super().__init__(definition, bookkeeping)
        self._layout = OPAQUE
        if self._schema is not None and has_json_payloads(self._schema):
            # Payloads that are text land as they are, as if the definition had no schema.
            self._schema = None

    def wrap_decoder(self, decode: Decode) -> Decode:
        """Return a decoder that checks payloads with ``decode``, and returns them as columns of text and bytes."""

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
        """Return decoded ``payloads`` as a column of JSON text, and a column of bytes that is null."""
        decoded = pa.RecordBatch.from_arrays(payloads, schema=self._find_members(len(payloads))).to_pylist()
        return [
            pa.array([exact.dump(self._whole(row)).decode() for row in decoded]),
            pa.nulls(len(decoded), pa.binary()),
        ]

    def _find_members(self, count: int) -> pa.Schema:
        """Return the first ``count`` columns of payloads, of which ``columns.RESCUE`` is the last."""
        return pa.schema([*columns.build_payload(self._shape), *columns.RESCUE][:count])

    @cached_property
    def _whole(self) -> Callable[[Mapping[str, Any]], JSON]:
        assert self._schema is not None
        return build_payload_reader(self._schema)


def _remove_prefixes(payloads: pa.BinaryArray) -> pa.BinaryArray:
    """Return payloads without the prefix of Confluent serializers. Payloads without a prefix do not change."""
    if not pc.any(pc.starts_with(payloads, _MAGIC)).as_py():
        return payloads
    return pa.array([raw[_PREFIX:] if raw.startswith(_MAGIC) else raw for raw in payloads.to_pylist()], pa.binary())

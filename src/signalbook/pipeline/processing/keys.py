"""Decode keys of Kafka records to a typed column, by the schema that serializers registered for the keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from signalbook.formats import Anything, PayloadError, Shape, Struct
from signalbook.formats.base import is_elsewhere
from signalbook.messages import CompiledDefinition
from signalbook.messages.content import KEY_SCHEMA_HEADER, read_schema_id
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import MISFITS, ValueForm, make_builder
from signalbook.pipeline.native import Decoded, PayloadSpans, decode_or_refuse, refuse_all
from signalbook.pipeline.processing import decoding
from signalbook.values import JSON

_INPUTS: Final = ("_key", "_headers", "_raw_headers")


class KeyDecoder:
    """A decoder of the keys of one definition's records to the column ``columns.DECODED_KEY``.

    As for payloads, the policy ``wire_prefix`` says if keys name the version of the schema that wrote them. A key
    becomes null if it does not conform, or if it does not name a version although the policy expects one. The bytes of
    the key are in ``_key`` in any case.
    """

    def __init__(self, definition: CompiledDefinition, shape: Shape, table: pa.Schema) -> None:
        schema = definition.key_use.schema
        assert schema is not None
        self._schema = schema
        self._schema_of_number = definition.key_schema_of_number
        self._shape = shape
        self._type = columns.find_arrow_type(shape)
        self._build = make_builder(shape, self._type, ValueForm.of(schema))
        self._inputs = [table.get_field_index(name) for name in _INPUTS]
        decode = decoding.find_decoder(schema, typed=definition.policy.typed)
        self._prefixed = definition.policy.wire_prefix != "none"
        if decode is not None and self._prefixed:
            decode = decoding.build_prefixed_decoder(schema, self._schema_of_number, decode)
        self._decode = decode

    def decode(self, arrays: Sequence[pa.Array]) -> pa.Array:
        """Return the column for rows whose other columns begin with ``arrays``."""
        keys, headers, raw_headers = (arrays[place] for place in self._inputs)
        rows = np.flatnonzero(keys.is_valid().to_numpy(zero_copy_only=False))
        if not len(rows):
            return pa.nulls(len(keys), self._type)
        if self._prefixed:
            # A header holds the same bytes as a prefix, so it is put before the key and read as a prefix.
            prefixes = pc.fill_null(_read_stated_schemas(headers, raw_headers), b"")
            keys = pc.binary_join_element_wise(prefixes, keys, b"")
        spans = PayloadSpans.of(keys.drop_null())
        parts, refused = self._decode_columns(spans)
        refused_rows = np.array(refused, np.int64)
        parts.append(self._decode_values(spans.take(refused_rows).to_list()))
        order = np.concatenate([np.delete(np.arange(len(rows)), refused_rows), refused_rows])
        places = np.full(len(keys), -1)
        places[rows[order]] = np.arange(len(rows))
        return pa.concat_arrays(parts).take(pa.array(places, mask=places < 0))

    def _decode_columns(self, spans: PayloadSpans) -> Decoded:
        """Return the column of the keys that the native decoder accepts, and the numbers of the other keys.

        The column is in a list, which is empty if no key is accepted.
        """
        arrays, refused = decode_or_refuse(self._decode or refuse_all, spans)
        if len(refused) == len(spans):
            return [], refused
        if isinstance(self._shape, Struct) and self._shape.fields:
            fields = list(self._type)
            return [pa.StructArray.from_arrays(arrays[: len(fields)], fields=fields)], refused
        return arrays[:1], refused

    def _decode_values(self, keys: Sequence[bytes]) -> pa.Array:
        by_key = {key: self._decode_value(key) for key in set(keys)}
        values = [by_key[key] for key in keys]
        try:
            return self._build(values, True)
        except MISFITS:
            return self._build([value if self._is_fitting(value) else self._missing for value in values], True)

    def _decode_value(self, key: bytes) -> JSON:
        try:
            return self._schema.decode(key) if not self._prefixed else self._decode_prefixed(key)
        except (PayloadError, ValueError):
            return self._missing

    def _decode_prefixed(self, key: bytes) -> JSON:
        """Decode a key that begins with the id of a version of the schema.

        Raises ``ValueError`` for a key without such an id, and ``PayloadError`` if the content after the id does not
        conform.
        """
        written, content = read_schema_id(key, self._schema.format)
        schema = self._schema_of_number(written.id).schema
        if schema is None or is_elsewhere(schema, written.indices):
            raise ValueError("the key is of another schema")
        return schema.decode(content)

    @property
    def _missing(self) -> JSON:
        return UNSET if isinstance(self._shape, Anything) else None

    def _is_fitting(self, value: JSON) -> bool:
        try:
            self._build([value], True)
        except MISFITS:
            return False
        return True


def _read_stated_schemas(headers: pa.MapArray, raw_headers: pa.ListArray) -> pa.Array:
    """Return the header ``KEY_SCHEMA_HEADER`` of each record, or null."""
    texts = pc.map_lookup(headers, KEY_SCHEMA_HEADER, "first").cast(pa.binary())
    if raw_headers.null_count == len(raw_headers):
        return texts
    names, values = raw_headers.flatten().flatten()
    matches = np.flatnonzero(pc.equal(names, KEY_SCHEMA_HEADER).to_numpy(zero_copy_only=False))
    places = np.full(len(headers), -1)
    places[pc.list_parent_indices(raw_headers).to_numpy()[matches]] = matches
    return pc.coalesce(values.take(pa.array(places, mask=places < 0)), texts)

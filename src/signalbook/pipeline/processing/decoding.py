"""Find the decoders that read the payloads of a definition, or of a schema, into columns.

Plans for the native module state how payloads are read: those for JSON Schema (``json_plans.py``) state columns and
rules, those for Avro (``avro_plans.py``) and Protobuf (``protobuf_plans.py``) how values are encoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from signalbook.formats import Schema, Shape, as_sent
from signalbook.formats.avro.format import AvroSchema
from signalbook.formats.base import is_elsewhere, is_indexed, is_json
from signalbook.formats.jsonschema.format import JsonSchema
from signalbook.formats.protobuf.format import ProtobufSchema
from signalbook.messages import CompiledDefinition
from signalbook.messages.content import read_schema_id
from signalbook.messages.definitions.schemas import SchemaUse
from signalbook.pipeline import native, rescue
from signalbook.pipeline.arrays import Offsets, build_opaque_arrays
from signalbook.pipeline.native import Decode, Decoded, NoPlan, PayloadSpans
from signalbook.pipeline.processing.avro_plans import build_avro_decoder
from signalbook.pipeline.processing.batch import NO_DATA
from signalbook.pipeline.processing.json_plans import build_json_decoder
from signalbook.pipeline.processing.protobuf_plans import build_protobuf_decoder

_Planned = AvroSchema | JsonSchema | ProtobufSchema
# Decoders by schema, and then by whether columns are typed and whether payloads are JSON. None: there is no decoder.
# The tasks of a process share the decoders, which are removed together with the schema.
_decoders: Final[WeakKeyDictionary[_Planned, dict[tuple[bool, bool], Decode | None]]] = WeakKeyDictionary()


def find_decoder(schema: Schema, content_type: str = "", *, typed: bool = True) -> Decode | None:
    """Return the decoder of payloads of ``schema``, or None if the native module has no decoder.

    An empty ``content_type`` means the format's own encoding. The columns are those of the schema's shape if
    ``typed``, else those of ``as_sent``.
    """
    in_json = is_json(content_type)
    if isinstance(schema, JsonSchema):
        return _find_cached_decoder(schema, typed, True) if not content_type or in_json else None
    if isinstance(schema, ProtobufSchema) and in_json:
        return _find_cached_decoder(schema, typed, True)
    if isinstance(schema, (AvroSchema, ProtobufSchema)):
        return _find_cached_decoder(schema, typed, False) if schema.is_binary(content_type) else None
    return None


def _find_cached_decoder(schema: _Planned, typed: bool, in_json: bool) -> Decode | None:
    # A missing plan is cached, too, because trying to make it for each batch takes as long as making one.
    cached, key = _decoders.setdefault(schema, {}), (typed, in_json)
    if key not in cached:
        try:
            cached[key] = _build_decoder(schema, schema.shape() if typed else as_sent(schema.shape()), in_json)
        except NoPlan:
            cached[key] = None
    return cached[key]


def _build_decoder(schema: _Planned, shape: Shape, in_json: bool) -> Decode:
    if isinstance(schema, JsonSchema):
        return build_json_decoder(schema, shape)
    if isinstance(schema, AvroSchema):
        return build_avro_decoder(schema, shape)
    return build_protobuf_decoder(schema, shape, in_json=in_json)


def build_prefixed_decoder(
    schema: Schema, schema_of_number: Callable[[int | str], SchemaUse], decode: Decode
) -> Decode:
    """Return the decoder of payloads that begin with the id of ``schema``. Payloads with other ids are refused.

    ``schema_of_number`` returns the schema with an id. ``decode`` reads what follows the id.
    """

    def measure_prefix(raw: bytes) -> int:
        """Return the length of the prefix of a payload if it is the id of ``schema``, else 0."""
        try:
            written, remainder = read_schema_id(raw, schema.format)
        except ValueError:
            return 0
        if is_elsewhere(schema, written.indices):
            return 0
        return len(raw) - len(remainder) if schema_of_number(written.id).schema is schema else 0

    def measure_prefixes(payloads: PayloadSpans) -> Offsets:
        """Return the lengths of the prefixes of payloads, 0 for payloads without the id of ``schema``."""
        if is_elsewhere(schema, (0,)):
            return np.array([measure_prefix(raw) for raw in payloads.to_list()], np.int64)
        # A schema is almost always the first of its document. Then its indices are a single byte, which is zero.
        indices = 1 if is_indexed(schema) else 0
        heads, lengths = payloads.read_heads(_MAX_ID_BYTES + 1), np.zeros(len(payloads), np.int64)
        for kind, width in _ID_BYTES.items():
            has_id = (heads[:, 0] == kind) & (payloads.lengths >= width + indices)
            numbers = np.flatnonzero(has_id & (heads[:, width] == 0) if indices else has_id)
            ids, codes = _find_distinct_rows(heads[numbers, :width])
            is_ours = np.array([bool(measure_prefix(schema_id + b"\0" * indices)) for schema_id in ids], np.bool_)
            lengths[numbers[is_ours[codes]]] = width + indices
        return lengths

    def read(payloads: PayloadSpans) -> Decoded:
        lengths = measure_prefixes(payloads)
        ours = np.flatnonzero(lengths)
        if not len(ours):
            return [], list(range(len(payloads)))
        arrays, refused = decode(payloads.take(ours).skip(lengths[ours]))
        # Payloads without the id of ``schema`` are refused, and payloads that ``decode`` refuses. They are numbered as
        # in ``payloads``, not as among the payloads that were passed to ``decode``.
        refused_numbers = np.delete(np.arange(len(payloads)), ours[np.delete(np.arange(len(ours)), refused)])
        return arrays, refused_numbers.tolist()

    return read


# The length of an id by its first byte: a schema's number follows a zero, its GUID follows a one.
_ID_BYTES: Final = {0: 5, 1: 17}
_MAX_ID_BYTES: Final = max(_ID_BYTES.values())


def _find_distinct_rows(rows: npt.NDArray[np.uint8]) -> tuple[list[bytes], Offsets]:
    """Return the distinct rows of a matrix, and for each row its position among the distinct rows."""
    if (rows == rows[:1]).all():  # mostly all rows are equal, and this is faster than sorting
        return [row.tobytes() for row in rows[:1]], np.zeros(len(rows), np.int64)
    distinct, codes = np.unique(rows, axis=0, return_inverse=True)
    return [row.tobytes() for row in distinct], codes.reshape(-1)


def find_payload_decoder(definition: CompiledDefinition, sent: str | int | None) -> Decode | None:
    """Return the decoder of the payloads of a definition, or None if there is none.

    ``sent`` says how payloads are sent: it is a value of ``batch.SENT_AS``.
    """
    use = definition.schema_use
    if use.schema is None:
        return _build_schemaless_decoder(definition, sent)
    if sent is None:
        return find_decoder(use.schema, "application/json", typed=definition.policy.typed) if use.of_values else None
    return find_bytes_decoder(definition, sent) if isinstance(sent, str) else None


def _build_schemaless_decoder(definition: CompiledDefinition, sent: str | int | None) -> Decode | None:
    """Return the function that makes columns of payloads without a schema, or None if they must not land.

    ``sent`` is a value of ``batch.SENT_AS``.
    """
    if definition.schema_use.reason is not None or definition.policy.required_schema:
        return None

    def decode(payloads: PayloadSpans) -> Decoded:
        if sent == NO_DATA:
            return build_opaque_arrays([None] * len(payloads)), []
        sound = np.ones(len(payloads), np.bool_) if isinstance(sent, str) else are_json(payloads)
        return build_opaque_arrays(payloads.take(np.flatnonzero(sound)).to_list()), np.flatnonzero(~sound).tolist()

    return decode


def are_json(payloads: PayloadSpans) -> npt.NDArray[np.bool_]:
    """Return a mask: True for payloads that certainly are JSON."""
    _, refused = native.load_module().JsonDecoder(("raw", False, False), rescue.ALL).read(payloads.places)
    sound = np.ones(len(payloads), np.bool_)
    sound[refused] = False
    return sound


def find_bytes_decoder(definition: CompiledDefinition, content_type: str) -> Decode | None:
    """Return the decoder of payloads in bytes by the definition's own schema, or None if there is none."""
    schema = definition.schema_use.schema
    if schema is None:
        return None
    decode = find_decoder(schema, content_type or definition.payload_type, typed=definition.policy.typed)
    if decode is None or definition.policy.wire_prefix == "none":
        return decode
    return build_prefixed_decoder(schema, definition.schema_of_number, decode)

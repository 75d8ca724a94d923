"""Payloads into columns: which decoder of the native module reads them."""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from signalbook.formats import Schema
from signalbook.formats.avro.format import AvroSchema
from signalbook.formats.base import is_json
from signalbook.formats.jsonschema.format import JsonSchema
from signalbook.formats.protobuf.format import ProtobufSchema
from signalbook.messages import CompiledDefinition
from signalbook.messages.payloads.wireprefix import stripped
from signalbook.pipeline.fastpath import avro, json, protobuf
from signalbook.pipeline.fastpath.native import Decode, Decoded, NoPlan

_Planned = AvroSchema | JsonSchema | ProtobufSchema
# They are made once for a schema, which many tasks of a process share, and go with it.
_decoders: Final[WeakKeyDictionary[_Planned, Decode | None]] = WeakKeyDictionary()


def decoder(schema: Schema, content_type: str = "") -> Decode | None:
    """What decodes payloads in an encoding, if the native module does; an empty one is that of the schema's format."""
    if isinstance(schema, JsonSchema):
        return _made(schema) if not content_type or is_json(content_type) else None
    if isinstance(schema, (AvroSchema, ProtobufSchema)):
        return _made(schema) if schema.is_binary(content_type) else None
    return None


def _made(schema: _Planned) -> Decode | None:
    if schema not in _decoders:
        try:
            _decoders[schema] = _plan(schema)
        except NoPlan:
            _decoders[schema] = None
    return _decoders[schema]


def _plan(schema: _Planned) -> Decode:
    if isinstance(schema, JsonSchema):
        return json.decoder(schema)
    return avro.decoder(schema) if isinstance(schema, AvroSchema) else protobuf.decoder(schema)


def prefixed(definition: CompiledDefinition, decode: Decode) -> Decode:
    """What decodes payloads behind the number of the definition's own schema; those of other schemas are refused."""
    schema = definition.schema_use.schema
    assert schema is not None

    def bare(raw: bytes) -> bytes | None:
        try:
            number, found = stripped(raw, schema.format)
        except ValueError:
            return None
        return found if definition.schema_of_number(number).schema is schema else None

    def read(payloads: pa.BinaryArray) -> Decoded:
        found = pa.array([bare(raw) for raw in payloads.to_pylist()], pa.binary())
        own = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
        if not len(own):
            return [], list(range(len(payloads)))
        arrays, refused = decode(found.drop_null())
        others = np.delete(np.arange(len(payloads)), own[np.delete(np.arange(len(own)), refused)])
        return arrays, others.tolist()

    return read

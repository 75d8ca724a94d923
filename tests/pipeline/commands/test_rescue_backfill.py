"""What a row gains of the definition as it is now: what was kept beside its columns, and nothing else."""

import json
from typing import Any

import pyarrow as pa
import pytest

from signalbook.formats import find
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import ValueForm, make_payload_builder
from signalbook.pipeline.commands.rescue_backfill import RescueBackfill
from signalbook.pipeline.rescue import build_rescue_array
from signalbook.values import JSON

AT = "2026-01-02T03:04:05.123456789Z"
PROTO = """syntax = "proto3";
import "google/protobuf/timestamp.proto"; import "google/protobuf/struct.proto";
message P {
  google.protobuf.Timestamp at = 1; google.protobuf.Struct free = 2; google.protobuf.Value any = 3; P child = 4;
  repeated Part parts = 5; map<string, Part> by = 6;
}
message Part { google.protobuf.Timestamp at = 1; google.protobuf.ListValue free = 2; P whole = 3; }"""
PARTS = [{}, {"at": AT}, {"free": []}]
NANOS = {"type": "long", "logicalType": "timestamp-nanos"}
AVRO = {
    "type": "record", "name": "R", "fields": [
        {"name": "at", "type": NANOS}, {"name": "late", "type": ["null", "long", "string"], "default": None},
    ],
}  # fmt: skip
LATE = {"type": ["string", "integer", "null"]}
JSON_SCHEMA = {
    "type": "object", "required": ["late"],
    "properties": {"at": {"type": "string", "format": "date-time"}, "late": LATE},
}  # fmt: skip


@pytest.mark.parametrize(
    ("format", "document", "value"),
    [
        ("Protobuf/3", PROTO, {"at": AT}),
        ("Protobuf/3", PROTO, {"at": AT, "any": None}),
        ("Protobuf/3", PROTO, {"parts": PARTS, "by": {"a": {}, "b": {"at": AT}}}),
        # as rows are that landed before the member was declared
        ("Avro/1.11", AVRO, {"at": 1767323045123456789}),
        ("JsonSchema/draft-07", JSON_SCHEMA, {"at": AT}),
    ],
)
def test_absent_members_stay_null(format: str, document: Any, value: dict[str, JSON]) -> None:
    """Also where their columns are JSON text, which would say ``null``."""
    schema_format = find(format)
    assert schema_format is not None
    text = document if isinstance(document, str) else json.dumps(document)
    schema = schema_format.parse(text.encode(), format, link="P" if document is PROTO else "")
    shape = schema.shape()
    if document is PROTO:
        value = schema.decode(schema.encode(value))
    arrays = [*make_payload_builder(shape, ValueForm.DECODED)([value]), build_rescue_array(shape, [value])]
    rows = pa.Table.from_arrays(arrays, schema=pa.schema([*columns.build_payload(shape), *columns.RESCUE]))
    filled, gained, unfit = RescueBackfill(schema, shape).fill(rows, rows.schema)
    assert (filled.to_pylist(), gained, unfit) == (rows.to_pylist(), 0, 0)
    assert rows["_rescue"].null_count == 0

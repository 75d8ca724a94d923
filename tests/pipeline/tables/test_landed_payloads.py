"""What columns know of a payload is what the payload was, but for what ``tables/landed_payloads.py`` says is lost."""

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from signalbook.formats import as_sent, find
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import ValueForm, build_opaque_arrays, make_payload_builder
from signalbook.pipeline.rescue import build_rescue_array
from signalbook.pipeline.tables.landed_payloads import build_payload_reader, read_attributes, read_opaque
from signalbook.values import JSON, dump_json, parse_timestamp

PRICE = {"type": "number", "multipleOf": 0.01}
OBJECT = {"type": "object"}
SCHEMA = {
    "type": "object",
    "required": ["id", "gap"],
    "properties": {
        "id": {"type": "string"},
        "ID": {"type": "integer"},
        "gap": {"type": ["string", "null"]},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "any": {},
        "size": {**OBJECT, "required": ["l"], "properties": {"l": {"type": "integer"}, "_w": {"type": "number"}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "boolean"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "none": {"type": "object"},
    },
}


def schema_of(document: Any, format: str = "JsonSchema/draft-07") -> Any:
    schema_format = find(format)
    assert schema_format is not None
    return schema_format.parse((document if isinstance(document, str) else json.dumps(document)).encode(), format)


BARE = {"id": "a", "gap": None}


def row_of(schema: Any, shape: Any, value: JSON) -> dict[str, Any]:
    """Return the row of a payload in columns of a shape."""
    arrays = make_payload_builder(shape, ValueForm.DECODED)([value])
    return {
        name: array[0].as_py() for name, array in zip(columns.build_payload(schema.shape()).names, arrays, strict=True)
    }


@pytest.mark.parametrize(
    "value",
    [
        BARE,
        {"id": "", "gap": "x", "ID": 3, "at": "2026-01-02T03:04:05Z", "day": "2026-01-02", "any": [None, {"b": 1.5}]},
        {**BARE, "size": {"l": 1, "_w": 0.5}, "list": [{"a": True}, {}], "any": None},
        {**BARE, "size": {"l": 1}, "list": [], "map": {"x": 1}},
        {
            "id": "a",
            "gap": None,
            "x": 1.5,
            "size": {"l": 1, "h": None},
            "list": [{}, {"a": True, "b": []}, {}],
            "y": {},
        },
    ],
)
def test_payload_is_restored(value: JSON) -> None:
    schema = schema_of(SCHEMA)
    row = row_of(schema, schema.shape(), schema.decode(json.dumps(value).encode()))
    payload = build_payload_reader(schema)({**row, "_rescue": build_rescue_array(schema.shape(), [value])[0].as_py()})
    assert payload == value
    assert schema.validate(payload) == []


def test_non_object_payload_is_kept() -> None:
    schema = schema_of({"type": "array", "items": {"type": "integer"}})
    assert build_payload_reader(schema)({"data": [1, 2]}) == [1, 2]


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("size", 1.5, 1.5),
        ("size", "big", "big"),
        ("list", "a, b", "a, b"),
        ("list", {"a": True, "at": date(2026, 1, 2)}, {"a": True, "at": "2026-01-02"}),
        ("map", {"x": 1}, {"x": 1}),
        ("map", [1, 2], [1, 2]),
        ("map", 7, 7),
    ],
)
def test_columns_of_an_older_table_have_other_types(column: str, value: Any, expected: JSON) -> None:
    """The row is returned unchanged, and its schema decides."""
    row = {"id": "a", column: value}
    assert build_payload_reader(schema_of(SCHEMA))(row) == {"id": "a", "gap": None, column: expected}


@pytest.mark.parametrize("text", ["mine", "", "7", '"x"', "[1]", "null", "[" * 100_000, {"a": 1}])
def test_a_member_of_an_older_table_is_no_rescue(text: Any) -> None:
    assert build_payload_reader(schema_of(SCHEMA))({"id": "a", "_rescue": text}) == {"id": "a", "gap": None}


def test_large_integers_come_back_as_such() -> None:
    schema = schema_of({"type": "object", "properties": {"n": {"type": "integer", "maximum": 1e30}, "p": PRICE}})
    row = {"n": Decimal(2**70), "p": Decimal("12345678901234567890.00")}
    assert dump_json(build_payload_reader(schema)(row)) == b'{"n":1180591620717411303424,"p":12345678901234567890}'


@pytest.mark.parametrize("sent", [b'{"a": 1.0}', b"\xff", b"", None])
def test_payloads_without_schema_are_as_they_were_sent(sent: bytes | None) -> None:
    arrays = build_opaque_arrays([sent])
    assert read_opaque(dict(zip(columns.OPAQUE.names, (array[0].as_py() for array in arrays), strict=True))) == sent


def test_attributes_of_an_event() -> None:
    row = {"ce_id": "1", "ce_time": parse_timestamp("2026-01-02T03:04:05Z"), "ce_extensions": [("x", "1")], "id": 2}
    expected = {"specversion": "1.0", "id": "1", "time": "2026-01-02T03:04:05Z", "x": "1"}
    assert read_attributes({**row, "ce_subject": None}) == expected


AT = "2026-01-02T03:04:05.123456789Z"
MICROS = datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)
PROTO = """syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
message R { google.protobuf.Timestamp at = 1; google.protobuf.Duration took = 2; }"""
NANOS = {"type": "long", "logicalType": "timestamp-nanos"}
AVRO = {"type": "record", "name": "R", "fields": [{"name": "at", "type": NANOS}]}
XSD = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="r"><xs:complexType><xs:sequence>
<xs:element name="at" type="xs:dateTime"/><xs:element name="day" type="xs:date"/>
</xs:sequence></xs:complexType></xs:element></xs:schema>"""
STRUCTURE = {
    "$schema": "https://json-structure.org/meta/core/v0/#", "$id": "https://example.com/doc", "name": "R",
    "type": "object", "additionalProperties": False,
    "properties": {
        "at": {"type": "datetime"}, "day": {"type": "date"}, "sum": {"type": "decimal", "precision": 9, "scale": 2},
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("format", "document", "value", "row", "expected_rest"),
    [
        (
            *("Protobuf/3", PROTO, {"at": AT, "took": "1.500s"}),
            *({"at": MICROS, "took": Decimal("1.500000000")}, {"at": AT}),
        ),
        ("Avro/1.11", AVRO, {"at": 1767323045123456789}, {"at": MICROS}, {"at": 1767323045123456789}),
        (
            *("XSD/1.1", XSD, {"at": AT, "day": "2026-01-02Z"}),
            *({"at": MICROS, "day": date(2026, 1, 2)}, {"at": AT, "day": "2026-01-02Z"}),
        ),
        (
            *("JsonStructure/draft-04", STRUCTURE, {"at": AT, "day": "2026-01-02", "sum": "1.50"}),
            *({"at": MICROS, "day": date(2026, 1, 2), "sum": Decimal("1.50")}, {"at": AT}),
        ),
    ],
)
def test_times_of_every_format_have_columns_of_their_own(
    format: str, document: Any, value: dict[str, JSON], row: dict[str, Any], expected_rest: JSON
) -> None:
    schema = schema_of(document, format)
    assert schema.decode(schema.encode(value)) == value
    landed = row_of(schema, schema.shape(), value)
    rescued = build_rescue_array(schema.shape(), [value])[0].as_py()
    assert (landed, json.loads(rescued)) == (row, expected_rest)
    assert build_payload_reader(schema)({**landed, "_rescue": rescued}) == value
    assert build_payload_reader(schema)(row_of(schema, as_sent(schema.shape()), value)) == value


REALS = [math.nan, math.inf, -math.inf]
TREE = {
    "type": "record", "name": "T", "fields": [
        {"name": "f", "type": "double"}, {"name": "any", "type": ["null", "float", "long"]},
        {"name": "text", "type": ["null", "double", "string"]}, {"name": "t", "type": ["null", "T"]},
    ],
}  # fmt: skip
NODES = """syntax = "proto3"; message T { double f = 1; T t = 2; repeated float more = 3; string text = 4; }"""

ROOTS = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="r"><xs:complexType><xs:sequence>
<xs:element name="f" type="xs:double"/><xs:element name="text" type="xs:string"/>
</xs:sequence></xs:complexType></xs:element><xs:element name="q" type="xs:string"/></xs:schema>"""


@pytest.mark.parametrize("real", REALS)
def test_numbers_that_json_does_not_have_keep_their_names(real: float) -> None:
    """Columns of JSON text contain the name as text, and members with a number type are restored as numbers."""
    name = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(real)]
    inner = {"f": real, "any": None, "text": name, "t": None}
    row, restored = returned("Avro/1.11", TREE, {"f": real, "any": real, "text": real, "t": inner})
    assert (str(row["f"]), row["any"], row["text"]) == (str(real), f'"{name}"', f'"{name}"')
    assert json.loads(row["t"]) == {**inner, "f": name}
    # a union with text does not say which it was
    assert str(restored) == str({"f": real, "any": real, "text": name, "t": inner})

    nested = {"f": real, "more": [real, 1.0], "text": name}
    row, restored = returned("Protobuf/3", NODES, {"f": real, "more": [real], "text": name, "t": nested})
    assert json.loads(row["t"]) == {"f": name, "more": [name, 1.0], "text": name}
    assert (str(row["f"]), str(row["more"]), str(restored["f"])) == (str(real), str([real]), str(real))

    row, restored = returned("XSD/1.1", ROOTS, {"r": {"f": real, "text": name}})
    assert (json.loads(row["data"]), restored) == ({"r": {"f": name, "text": name}},) * 2


def returned(format: str, document: Any, value: JSON) -> tuple[dict[str, Any], JSON]:
    """Return the row of a payload, and the payload that it comes back as, which conforms."""
    schema = schema_of(document, format)
    row = row_of(schema, schema.shape(), schema.decode(schema.encode(value)))
    restored = build_payload_reader(schema)(row)
    assert schema.validate(restored) == []
    return row, restored

"""Negative indices of enums and unions are decode errors, wherever they are in a datum."""

from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest

from signalbook.formats import PayloadError
from signalbook.formats.avro import FORMAT
from signalbook.formats.avro.indices import has_indices
from signalbook.values import JSON, dump_json

ENUM: Any = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}


FIELDS = [f"f{number}" for number in range(9)]


def record(*fields: Any) -> Any:
    parts = [{"name": name, "type": kind} for name, kind in zip(FIELDS, fields, strict=False)]
    return {"type": "record", "name": "R", "fields": parts}


SCALARS = (
    {"type": "fixed", "name": "F", "size": 3},
    "double",
    "float",
    "boolean",
    "null",
    "int",
    "long",
    "string",
    ENUM,
)
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4}
LISTS = {"type": "array", "items": ENUM}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (ENUM, "C"),
        (["null", ENUM], "C"),
        (record(*SCALARS), dict(zip(FIELDS, (b"abc", 1.5, 1.5, True, None, -7, 2**40, "text", "C"), strict=True))),
        (record(LISTS, {"type": "map", "values": "E"}), {"f0": [], "f1": {"a": "A", "b": "C"}}),
        (record(DECIMAL, LISTS), {"f0": Decimal(12), "f1": ["A", "C"]}),
        (record(ENUM, ["null", "E"]), {"f0": "C", "f1": None}),
    ],
)
def test_indices_are_not_negative(schema: Any, value: JSON) -> None:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    datum = stream.getvalue()
    compiled = FORMAT.parse(dump_json(schema), "Avro/1.11.0")
    assert compiled.decode(datum) == value
    place = datum.rindex(4)  # the index of C
    with pytest.raises(PayloadError) as caught:
        compiled.decode(datum[:place] + b"\x03" + datum[place + 1 :])
    assert caught.value.reason == "decode_error"
    assert "an enum is -2" in caught.value.findings[0].message


def test_unions_have_no_negative_index() -> None:
    compiled = FORMAT.parse(dump_json(["null", "int"]), "Avro/1.11.0")
    assert compiled.decode(b"\x02\x0e") == 7
    with pytest.raises(PayloadError) as caught:
        compiled.decode(b"\x01\x0e")
    assert "a union is -1" in caught.value.findings[0].message


@pytest.mark.parametrize(
    ("schema", "expected"),
    [("int", False), (ENUM, True), (record("int"), False), (record({"type": "map", "values": ["null"]}), True)],
)
def test_only_some_schemas_have_indices(schema: Any, expected: bool) -> None:
    compiled = FORMAT.parse(dump_json(schema), "Avro/1.11.0")
    assert has_indices(compiled.type, compiled.names.types) == expected

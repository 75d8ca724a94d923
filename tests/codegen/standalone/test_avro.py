"""Avro schemas for libraries: what is left of them, and unions that libraries read differently."""

from typing import Any

import pytest
from tests.codegen.standalone.cases import avro

from signalbook.codegen.base import Inexpressible
from signalbook.codegen.standalone.avro import AvroSchemas

RECORD = {"type": "record", "name": "R", "fields": [{"name": "string", "type": "string"}]}
WIDER = {**RECORD, "fields": [{"name": "string", "type": "string"}, {"name": "b", "type": "int", "default": 1}]}


def test_schemas_are_self_contained_and_without_annotations() -> None:
    schemas = AvroSchemas()
    schema = {"type": "record", "name": "A", "namespace": "n", "doc": "x", "aliases": ["B"], "fields": [
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}, "doc": "x", "order": "ignore"},
        {"name": "g", "type": ["null", "F", "bytes"], "default": None},
        {"name": "h", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
        {"name": "i", "type": {"type": "string", "logicalType": "uuid"}},
    ]}  # fmt: skip
    assert schemas.of(avro(schema)) == "0"
    assert schemas.of(avro(schema)) == "0"
    assert schemas.document["0"] == {"type": "record", "name": "n.A", "fields": [
        {"name": "f", "type": {"type": "fixed", "name": "n.F", "size": 2, "logicalType": "base64"}},
        {"name": "g", "type": ["null", "n.F", {"type": "bytes", "logicalType": "base64"}], "default": None},
        {"name": "h", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
        {"name": "i", "type": "string"},
    ]}  # fmt: skip
    assert schemas.of(avro("long")) == "1"


@pytest.mark.parametrize(
    "union", [["string", {"type": "map", "values": "string"}], ["null", RECORD, "string"], [WIDER, "string"]]
)
def test_ambiguous_unions_are_reported(union: list[Any]) -> None:
    with pytest.raises(Inexpressible, match="union"):
        AvroSchemas().of(avro(union))


@pytest.mark.parametrize(
    "union",
    [
        ["null", {"type": "map", "values": "string"}],
        ["null", RECORD],
        [{**RECORD, "fields": [{"name": "string", "type": "int"}, {"name": "b", "type": "int"}]}, "string"],
    ],
)
def test_other_unions_are_kept(union: list[Any]) -> None:
    assert AvroSchemas().of(avro(union)) == "0"

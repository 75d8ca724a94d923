"""Avro's JSON encoding, read strictly."""

import math

import pytest

from signalbook.formats import PayloadError
from signalbook.formats.avro import FORMAT
from signalbook.formats.avro.json_encoding import with_numbers
from signalbook.values import JSON, dump_json

DOCUMENT = {
    "type": "record",
    "name": "n.R",
    "fields": [
        {"name": "text", "type": ["null", "string", {"type": "array", "items": "int"}]},
        {"name": "n", "type": "int", "default": 7},
        {"name": "big", "type": "long", "default": 0},
        {"name": "real", "type": "double", "default": 0.5},
        {"name": "raw", "type": {"type": "fixed", "name": "F", "size": 2}, "default": "\x00\xff"},
        {"name": "kind", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}, "default": "A"},
        {"name": "map", "type": {"type": "map", "values": ["null", "boolean"]}, "default": {"d": None}},
        {"name": "self", "type": ["null", "R"], "default": None},
    ],
}
DEFAULTS = {"n": 7, "big": 0, "real": 0.5, "raw": b"\x00\xff", "kind": "A", "map": {"d": None}, "self": None}


def decode(value: JSON) -> JSON:
    return FORMAT.parse(dump_json(DOCUMENT), "Avro").decode(dump_json(value), "application/json")


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ({"text": None}, {"text": None}),
        ({"text": {"string": "x"}}, {"text": "x"}),
        ({"text": {"array": [1, 2]}}, {"text": [1, 2]}),
        ({"text": None, "real": 1}, {"text": None, "real": 1.0}),
        ({"text": None, "map": {"a": {"boolean": True}, "b": None}}, {"text": None, "map": {"a": True, "b": None}}),
        ({"text": None, "self": {"n.R": {"text": None}}}, {"text": None, "self": {**DEFAULTS, "text": None}}),
    ],
)
def test_decodes_by_the_specification(sent: JSON, meant: JSON) -> None:
    """Values are decoded by the rules of the JSON encoding (K-40)."""
    assert decode(sent) == {**DEFAULTS, **meant}


@pytest.mark.parametrize(
    ("sent", "path", "rule"),
    [
        ([], "", "type"),
        ({}, "/text", "required"),
        ({"text": "x"}, "/text", "union"),
        ({"text": {"int": 3}}, "/text", "union"),
        ({"text": {"string": 3}}, "/text/string", "type"),
        ({"text": {"array": [1, "x"]}}, "/text/array/1", "type"),
        ({"text": None, "surplus": 1}, "/surplus", "unknown"),
        ({"text": None, "n": 1.5}, "/n", "type"),
        ({"text": None, "n": True}, "/n", "type"),
        ({"text": None, "n": 2**31}, "/n", "type"),
        ({"text": None, "big": 2**63}, "/big", "type"),
        ({"text": None, "real": "1"}, "/real", "type"),
        ({"text": None, "raw": "abc"}, "/raw", "type"),
        ({"text": None, "raw": "€x"}, "/raw", "type"),
        ({"text": None, "kind": "C"}, "/kind", "enum"),
        ({"text": None, "map": []}, "/map", "type"),
    ],
)
def test_faults_have_paths(sent: JSON, path: str, rule: str) -> None:
    """Errors have the path of the value (K-41)."""
    with pytest.raises(PayloadError) as caught:
        decode(sent)
    assert caught.value.reason == "schema_violation"
    assert [(finding.path, finding.rule) for finding in caught.value.findings] == [(path, rule)]


def test_all_faults_are_reported() -> None:
    with pytest.raises(PayloadError) as caught:
        decode({"text": 1, "n": "x", "kind": None})
    assert {finding.path for finding in caught.value.findings} == {"/text", "/n", "/kind"}


@pytest.mark.parametrize(
    ("kind", "logical", "value"),
    [
        ("long", "timestamp-millis", 2**62),
        ("int", "date", 2**31 - 1),
        ("int", "time-millis", -1),
        ("long", "time-micros", 86_400_000_000),
    ],
)
def test_logical_values_out_of_range(kind: str, logical: str, value: int) -> None:
    schema = FORMAT.parse(dump_json({"type": kind, "logicalType": logical}), "Avro")
    with pytest.raises(PayloadError) as caught:
        schema.decode(dump_json(value), "application/json")
    assert [finding.rule for finding in caught.value.findings] == ["range"]


F, T = {"name": "f", "type": "double"}, {"name": "t", "type": ["null", "T"]}
G, S = {"name": "g", "type": "float"}, {"name": "s", "type": "string"}
TYPES: dict[str, JSON] = {
    "T": {"type": "record", "name": "T", "fields": [F, T]},
    "L": {"type": "record", "name": "L", "fields": [G, S]},
}


@pytest.mark.parametrize(
    ("node", "stored", "meant"),
    [
        ("double", "NaN", math.nan),
        ("double", 1.5, 1.5),
        ("double", "nan", "nan"),
        ("string", "NaN", "NaN"),
        (["null", "double", "long"], "-Infinity", -math.inf),
        (["null", "double", "long"], None, None),
        (["null", "double", "string"], "NaN", "NaN"),
        (["null", "long"], "NaN", "NaN"),
        (["long", "string", "T"], {"f": "Infinity", "t": None}, {"f": math.inf, "t": None}),
        (["null", "T", "L"], {"g": "Infinity", "s": "NaN"}, {"g": math.inf, "s": "NaN"}),
        (["null", "T", "long"], {"f": 1.0, "x": "NaN"}, {"f": 1.0, "x": "NaN"}),
        ("T", {"f": 1.0, "t": {"f": "NaN", "t": None}}, {"f": 1.0, "t": {"f": math.nan, "t": None}}),
        ({"type": "map", "values": ["null", "float"]}, {"a": "NaN", "b": None}, {"a": math.nan, "b": None}),
        (["long", {"type": "array", "items": "float"}], ["NaN", 1.0], [math.nan, 1.0]),
    ],
)
def test_names_of_numbers_are_numbers_where_no_text_is_allowed(node: JSON, stored: JSON, meant: JSON) -> None:
    converted = with_numbers(stored, node, TYPES)
    assert repr(converted) == repr(meant)  # nan is not itself

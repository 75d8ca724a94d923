from typing import Any

import pytest

from signalbook.formats.avro import FORMAT
from signalbook.formats.avro.json_encoding import list_surplus, list_violations
from signalbook.values import JSON, JSONObject, dump_json

INNER = {"type": "record", "name": "n.m.In", "fields": [{"name": "b", "type": "int"}]}
FIELDS = [
    {"name": "a", "type": ["null", INNER]},
    {"name": "many", "type": {"type": "array", "items": "n.m.In"}, "default": []},
    {"name": "either", "type": ["int", "string"], "default": 1},
    {"name": "map", "type": {"type": "map", "values": "boolean"}, "default": {}},
]
DOCUMENT = {"type": "record", "name": "n.R", "fields": FIELDS}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": None}, []),
        ({"a": {"b": 1}, "many": [{"b": 2}], "either": "x", "map": {"k": True}}, []),
        ({}, []),  # absent stands for null
        (3, [("", "type")]),
        ({"a": {"b": "x"}}, [("/a/b", "type")]),
        ({"a": {}}, [("/a/b", "type")]),
        ({"a": None, "many": [{"b": 2}, {"b": None}, 3]}, [("/many/1/b", "type"), ("/many/2", "type")]),
        ({"a": None, "either": 1.5}, [("/either", "union")]),
        ({"a": None, "map": {"k": 0}}, [("/map/k", "type")]),
        ({"a": {"b": 2**31}}, [("/a/b", "type")]),
    ],
)
def test_violations_have_paths(value: JSON, expected: list[tuple[str, str]]) -> None:
    """Findings have the path of the value (K-41)."""
    findings = FORMAT.parse(dump_json(DOCUMENT), "Avro").validate(value)
    assert [(finding.path, finding.rule) for finding in findings] == expected


def test_depth_is_limited() -> None:
    fields = [{"name": "next", "type": ["null", "N"]}]
    schema = FORMAT.parse(dump_json({"type": "record", "name": "N", "fields": fields}), "Avro")
    value: JSON = {"next": None}
    for _ in range(200):
        value = {"next": value}
    assert [finding.rule for finding in schema.validate(value)] == ["depth"]


A: JSONObject = {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]}
AB: JSONObject = {"type": "record", "name": "AB", "fields": [*A["fields"], {"name": "y", "type": "int", "default": 0}]}


@pytest.mark.parametrize(
    ("value", "node", "paths"),
    [
        ({"x": 1}, A, []),
        ({"x": 1, "y": 2}, A, ["/y"]),
        ([{"x": 1, "y": 2}], {"type": "array", "items": A}, ["/0/y"]),
        ({"k": {"x": 1, "y": 2}}, {"type": "map", "values": A}, ["/k/y"]),
        ({"x": 1, "y": 2}, ["null", A, AB], []),
        ({"x": 1, "z": 2}, ["null", A, AB], ["/z"]),
        (None, ["null", A], []),
    ],
)
def test_members_that_a_record_does_not_have(value: JSON, node: Any, paths: list[str]) -> None:
    """A reader ignores them, but a writer must not lose them (K-40, K-52)."""
    assert list(list_violations(value, node, {})) == []
    assert [finding.path for finding in list_surplus(value, node, {})] == paths

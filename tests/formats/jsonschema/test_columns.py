from typing import Any

import pytest
import yaml

from signalbook.formats import Anything, Field, ListOf, MapOf, Scalar, Shape, Struct
from signalbook.formats.shape import MAX_LEAVES, count_leaves

TEXT = Scalar(kind="string")
RECURSIVE = {"type": "object", "properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "shape"),
    [
        ({"type": "string"}, TEXT),
        ({"type": ["string", "null"]}, Scalar(kind="string", nullable=True)),
        ({"type": "string", "format": "date-time"}, Scalar(kind="timestamp", sent="string")),
        ({"type": "string", "format": "date"}, Scalar(kind="date", sent="string")),
        ({"type": "string", "format": "time"}, TEXT),
        ({"format": "date", "enum": ["2026-01-02"]}, TEXT),
        ({"allOf": [{"type": "string"}, {"format": "date"}]}, Scalar(kind="date", sent="string")),
        ({"type": "number", "multipleOf": 0.01}, Scalar(kind="decimal", sent="float64", precision=38, scale=2)),
        ({"type": "number", "multipleOf": 1e-20}, Scalar(kind="float64", sent="float64")),
        ({"type": "number", "multipleOf": 2}, Scalar(kind="float64", sent="float64")),
        ({"enum": ["a", "b"]}, TEXT),
        ({"enum": ["a", None]}, Scalar(kind="string", nullable=True)),
        ({"enum": ["a", 1]}, Anything()),
        ({"const": 1}, Scalar(kind="int64")),
        ({"type": "null"}, Scalar(kind="string", nullable=True)),
        ({"type": "boolean"}, Scalar(kind="bool")),
        ({"type": "number"}, Scalar(kind="float64", sent="float64")),
        ({"type": "integer"}, Scalar(kind="int64")),
        ({"type": "integer", "minimum": 0, "maximum": 2**64 - 1}, Scalar(kind="uint64")),
        ({"type": "integer", "maximum": 10**30}, Scalar(kind="decimal", precision=38)),
        ({}, Anything(nullable=True)),
        ({"type": ["string", "integer"]}, Anything()),
        ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, Scalar(kind="int64", nullable=True)),
        ({"anyOf": [{"type": "object"}, {"type": "array"}]}, Anything()),
        ({"type": "array", "items": {"type": "string"}}, ListOf(item=TEXT)),
        ({"type": "array"}, ListOf(item=Anything(nullable=True))),
        ({"type": "object"}, Anything()),
        ({"type": "object", "additionalProperties": {"type": "string"}}, MapOf(value=TEXT)),
        ({"type": "object", "patternProperties": {"^x": {"type": "string"}}}, Anything()),
        ({"type": "object", "oneOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}, Anything()),
    ],
)
def test_shapes(parse: Any, schema: Any, shape: Shape) -> None:
    assert parse(schema).shape() == shape


def test_members_become_fields(parse: Any) -> None:
    members = yaml.safe_load("""
    {id: {type: string, description: Who}, class: {type: string}, "no": false, x-y: {$ref: "#/d"}}
    """)
    void = {"type": "null", "title": "Void"}
    schema = {"type": "object", "properties": members, "required": ["id", "more"], "d": void}
    assert parse({"type": "object", **schema}).shape() == Struct(
        fields=(
            Field(name="id", attribute="id", shape=TEXT, required=True, description="Who"),
            Field(name="class", attribute="field_1", shape=TEXT),
            Field(name="x-y", attribute="field_2", shape=Scalar(kind="string", nullable=True), description="Void"),
            Field(name="more", attribute="more", shape=Anything(nullable=True), required=True),
        ),
        open=True,
    )


def test_all_of_refines_columns(parse: Any) -> None:
    base = {"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": {}}, "additionalProperties": False}
    schema = {"allOf": [base, {"properties": {"a": {"type": "string"}, "c": {}}, "required": ["a"]}]}
    shape = parse(schema).shape()
    expected = [("a", TEXT, True), ("b", Anything(nullable=True), False)]
    assert [(f.name, f.shape, f.required) for f in shape.fields] == expected


def test_recursion_ends_in_text(parse: Any) -> None:
    assert [field.shape for field in parse(RECURSIVE).shape().fields] == [Anything(nullable=True), Scalar(kind="int64")]


def test_columns_do_not_depend_on_the_reading_order(parse: Any) -> None:
    """Two workers that meet a document's parts in another order make the same columns."""
    other = {"type": "object", "properties": {"a": {"$ref": "#/definitions/a"}}}
    both = {"definitions": {"a": {"type": "object", "properties": {"b": {"$ref": "#/definitions/b"}}}, "b": other}}
    first = [parse(both, link=f"#/definitions/{name}").shape() for name in "ab"]
    both["title"] = "read anew"  # type: ignore[assignment]
    assert first == [parse(both, link=f"#/definitions/{name}").shape() for name in "ba"][::-1]


def test_definitions_that_multiply_do_not_make_a_billion_columns(parse: Any) -> None:
    refs = [{"$ref": f"#/definitions/l{i}"} for i in range(41)]
    levels = {f"l{i}": {"type": "object", "properties": dict.fromkeys("xyz", refs[i + 1])} for i in range(40)}
    shape = parse({"definitions": {**levels, "l40": {"type": "string"}}, "$ref": "#/definitions/l0"}).shape()
    assert 3 <= count_leaves(shape) <= MAX_LEAVES

"""Types of JSON Schemas."""

from typing import Any

import pytest

from signalbook.codegen.datatypes import (
    ANY,
    NULL,
    ClosedSet,
    DataType,
    ListType,
    MapType,
    PlainType,
    RecordRef,
    RecordTable,
    UnionType,
)
from signalbook.codegen.jsontypes import JsonTypes
from signalbook.formats import find
from signalbook.formats.jsonschema.format import JsonSchema
from signalbook.values import JSON, dump_json

FORMAT = "JsonSchema/draft/2020-12"
TEXT = PlainType("text")


def types(schema: JSON, format: str = FORMAT) -> tuple[DataType, RecordTable]:
    json_schema: Any = find(format)
    parsed = json_schema.parse(dump_json(schema), format)
    assert isinstance(parsed, JsonSchema)
    table = RecordTable()
    return JsonTypes(parsed, table).at(parsed.uri, "Root"), table


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (True, ANY),
        ({}, ANY),
        ({"type": "string", "pattern": "a"}, TEXT),
        ({"type": ["string", "null"]}, UnionType((TEXT, NULL))),
        ({"enum": ["b", "a"]}, ClosedSet(("a", "b"))),
        ({"enum": ["a", 1, None]}, UnionType((ClosedSet(("a",)), ClosedSet((1,)), NULL))),
        ({"enum": [1, True]}, UnionType((ClosedSet((True,)), ClosedSet((1,))))),
        ({"enum": [f"v{number}" for number in range(300)]}, TEXT),
        ({"const": True}, ClosedSet((True,))),
        ({"type": "integer", "minimum": 1}, PlainType("integer")),
        ({"type": "array", "items": {"type": "number"}}, ListType(PlainType("number"))),
        ({"type": "array", "prefixItems": [{"type": "number"}]}, ListType(ANY)),
        ({"type": "object"}, MapType(ANY)),
        ({"type": "object", "additionalProperties": {"type": "string"}}, MapType(TEXT)),
        ({"type": "object", "patternProperties": {"^x": {"type": "string"}}}, MapType(ANY)),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, TEXT),
        ({"not": {"type": "string"}}, ANY),
    ],
)
def test_types(schema: JSON, expected: DataType) -> None:
    assert types(schema)[0] == expected


def test_record_has_its_members() -> None:
    root, table = types(
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "description": "A"}, "b": True},
         "additionalProperties": {"type": "integer"}}
    )  # fmt: skip
    assert isinstance(root, RecordRef)
    record = table.records[root.key]
    assert [(member.name, member.type, member.required, member.description) for member in record.members] == [
        ("a", TEXT, True, "A"), ("b", ANY, False, ""),
    ]  # fmt: skip
    assert record.extra == PlainType("integer")


def test_shared_definitions_become_one_record() -> None:
    schema = {"type": "object", "properties": {"from": {"$ref": "#/$defs/place"}, "to": {"$ref": "#/$defs/place"}},
              "$defs": {"place": {"type": "object", "properties": {"x": {"type": "integer"}}}}}  # fmt: skip
    _, table = types(schema)
    assert [record.hint for record in table.records.values()] == ["Root", "place"]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "required": ["v"], "properties": {
            "v": {"type": "string"}, "next": {"$ref": "#/$defs/node"}, "all": {
                "type": "array", "items": {"$ref": "#/$defs/node"}}}}}},
        {"type": "object", "properties": {"next": {"$ref": "#"}}},
        {"$ref": "#/$defs/a", "$defs": {  # two that use each other
            "a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}}},
            "b": {"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]}}}}},
    ],
)  # fmt: skip
def test_recursion_leads_back_to_the_same_record(schema: JSON) -> None:
    _, table = types(schema)
    assert len(table.records) == len(schema.get("$defs", {"": 0}))
    targets = {target for record in table.records.values() for member in record.members for target in refs(member.type)}
    assert targets <= table.records.keys()
    assert next(iter(table.records)) in targets


def refs(kind: DataType) -> list[str]:
    match kind:
        case RecordRef():
            return [kind.key]
        case ListType():
            return refs(kind.item)
        case UnionType():
            return [key for member in kind.members for key in refs(member)]
    return []


def test_alternatives_are_a_union() -> None:
    root, table = types({"oneOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                                   {"type": "object", "properties": {"b": {"type": "string"}}}]})  # fmt: skip
    assert isinstance(root, UnionType)
    assert len(root.members) == len(table.records) == 2


def test_five_thousand_members() -> None:
    names = [f"m{number}" for number in range(5000)]
    root, table = types({"type": "object", "properties": {name: {"type": "string"} for name in names}})
    assert isinstance(root, RecordRef)
    assert [member.name for member in table.records[root.key].members] == names

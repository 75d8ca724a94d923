"""Types of JSON Structure."""

import json
from typing import Any

from signalbook.codegen.datatypes import (
    ANY,
    NULL,
    ClosedSet,
    ListType,
    MapType,
    PlainType,
    RecordRef,
    RecordTable,
    UnionType,
)
from signalbook.codegen.structuretypes import StructureTypes
from signalbook.formats import find

DOCUMENT: dict[str, Any] = {
    "$schema": "https://json-structure.org/meta/core/v0/#",
    "$id": "https://x.example/orders",
    "$root": "#/definitions/Order",
    "definitions": {
        "Base": {"abstract": True, "type": "object", "name": "Base", "properties": {"id": {"type": "uuid"}},
                 "required": ["id"]},
        "Order": {
            "type": "object", "name": "Order", "$extends": "#/definitions/Base", "description": "Bought.",
            "properties": {
                "total": {"type": "decimal"}, "count": {"type": "int32"}, "big": {"type": "int64"},
                "state": {"type": "string", "enum": ["new", "old"]},
                "next": {"type": ["null", {"$ref": "#/definitions/Order"}]},
                "tags": {"type": "set", "items": {"type": "string"}},
                "by": {"type": "map", "values": {"type": "double"}},
                "at": {"type": "tuple", "name": "At", "properties": {"x": {"type": "int8"}, "y": {"type": "string"}},
                       "tuple": ["x", "y"]},
                "any": {"type": "any"},
                "pay": {"type": {"$ref": "#/definitions/Pay"}},
                "shape": {"type": {"$ref": "#/definitions/Shape"}},
            },
            "required": ["total"], "additionalProperties": {"type": "boolean"},
        },
        "Pay": {"type": "choice", "name": "Pay", "choices": {"card": {"type": "string"}, "cash": {"type": "null"}}},
        "Shape": {
            "type": "choice", "name": "Shape", "$extends": "#/definitions/Base", "selector": "kind",
            "choices": {"disc": {"type": {"$ref": "#/definitions/Disc"}}},
        },
        "Disc": {"type": "object", "name": "Disc", "$extends": "#/definitions/Base",
                 "properties": {"r": {"type": "float"}}},
    },
}  # fmt: skip
FORMAT = "JsonStructure/draft-04"


def test_types() -> None:
    structure: Any = find(FORMAT)
    table = RecordTable()
    schema = structure.parse(json.dumps(DOCUMENT).encode(), FORMAT)
    root = StructureTypes(schema.structure, table).root(schema, "x")
    assert root == RecordRef("/definitions/Order")
    order = table.records["/definitions/Order"]
    assert (order.hint, order.description, order.extra) == ("Order", "Bought.", PlainType("boolean"))
    members: dict[str, Any] = {member.name: member.type for member in order.members}
    assert [member.name for member in order.members if member.required] == ["id", "total"]
    for name, kind in {
        "id": PlainType("text"), "total": PlainType("text"), "count": PlainType("integer"), "big": PlainType("text"),
        "state": ClosedSet(("new", "old")), "next": UnionType((root, NULL)), "tags": ListType(PlainType("text")),
        "by": MapType(PlainType("number")), "any": ANY,
        "at": ListType(UnionType((PlainType("integer"), PlainType("text")))),
    }.items():  # fmt: skip
        assert members[name] == kind, name
    choices = [[member.name for member in table.records[variant.key].members] for variant in members["pay"].members]
    assert choices == [["card"], ["cash"]]
    disc = {member.name: member.type for member in table.records[members["shape"].key].members}
    assert disc == {"kind": ClosedSet(("disc",)), "id": PlainType("text"), "r": PlainType("number")}

"""Types of Protobuf messages, and values of them in generated packages."""

from pathlib import Path
from typing import Any

import pytest
from tests.codegen.packages import generated, imported

from signalbook.codegen.datatypes import (
    NULL,
    ClosedSet,
    ListType,
    MapType,
    PlainType,
    RecordRef,
    RecordTable,
    UnionType,
)
from signalbook.codegen.prototypes import ProtobufTypes
from signalbook.codegen.runtime import to_data
from signalbook.formats import find
from signalbook.messages import bind

SOURCE = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Node {
  string class = 1;
  optional int32 count = 2;
  repeated Node nodes = 3;
  map<string, Leaf> leaves = 4;
  Kind kind = 5;
  oneof choice { string text = 6; Leaf leaf = 7; }
  google.protobuf.Timestamp at = 8;
  google.protobuf.StringValue note = 9;
  bytes raw = 10;
  message Leaf { double d = 1; }
}
enum Kind { NONE = 0; SOME = 1; }
"""
FORMAT = "Protobuf/3"


def test_types() -> None:
    protobuf: Any = find(FORMAT)
    schema = protobuf.parse(SOURCE.encode(), FORMAT, link="#Node")
    table = RecordTable()
    root = ProtobufTypes(table).message(schema.descriptor)
    assert root == RecordRef("Node")
    members = {member.name: member.type for member in table.records["Node"].members}
    assert members["nodes"] == ListType(root)
    assert members["leaves"] == MapType(RecordRef("Node.Leaf"))
    assert members["count"] == UnionType((PlainType("integer"), NULL))
    assert members["kind"] == UnionType((ClosedSet(("NONE", "SOME")), PlainType("integer")))
    assert (members["at"], members["note"]) == (PlainType("text"), PlainType("text"))


@pytest.mark.parametrize("style", ["dataclass", "msgspec", "pydantic"])
def test_values_come_back(style: str, tmp_path: Path) -> None:
    message = {"protocol": "KAFKA", "protocoloptions": {"topic": "t"}, "dataschemaformat": FORMAT,
               "dataschemauri": "/schemagroups/g/schemas/s:Node"}  # fmt: skip
    schemas = {"g": {"schemas": {"s": {"versions": {"1": {"format": FORMAT, "schema": SOURCE}}}}}}
    generated(tmp_path, {"messagegroups": {"g": {"messages": {"m": message}}}, "schemagroups": schemas}, style=style)
    with imported(tmp_path) as modules:
        module = modules["/messagegroups/g/messages/m"]
        types = module._types
        leaf = types.Leaf(d=1.5)
        members = {"kind": "SOME", "at": "2030-01-31T12:00:00Z", "note": "n", "raw": b"\x00"}
        node = types.Node(class_="x", nodes=[types.Node(count=2)], leaves={"a": leaf}, leaf=leaf, **members)
        read = module.parse(bind(module.build(node)))
        # What was not set has the value that Protobuf gives it; what was, its own; built again it is the same.
        expected = to_data(node)
        expected = {name: member for name, member in expected.items() if name != "nodes"}
        assert {name: read.data[name] for name in expected} == expected
        assert read.payload.nodes[0].count == 2
        assert module.parse(bind(module.build(read.payload))).payload == read.payload

import json
from typing import Any

import pytest
import yaml

from signalbook.formats import Schema, find
from signalbook.formats.tree import MOST_NODES, Described, SchemaNode, sample

ORDER = yaml.safe_load("""
title: An order
type: object
required: [id, lines]
additionalProperties: false
properties:
  id: {type: string, description: Number of the order, minLength: 5, maxLength: 9}
  total: {type: number, exclusiveMinimum: 0, multipleOf: 0.5}
  state: {enum: [new, paid]}
  note: {type: [string, "null"]}
  at: {type: string, format: date-time}
  lines: {type: array, minItems: 1, items: {$ref: "#/definitions/line"}}
  by: {oneOf: [{type: string}, {$ref: "#/definitions/line"}]}
  more: {type: object, additionalProperties: {type: integer, minimum: 3}}
definitions: {line: {allOf: [{type: object, properties: {sku: {type: string}}, required: [sku]}]}}
""")
AVRO = yaml.safe_load("""
type: record
name: shop.Order
doc: An order
fields:
  - {name: id, type: string, doc: Number of the order}
  - {name: at, type: {type: long, logicalType: timestamp-millis}}
  - {name: price, type: {type: bytes, logicalType: decimal, precision: 9, scale: 2}}
  - {name: state, type: {type: enum, name: State, symbols: [NEW, PAID]}}
  - {name: note, type: ["null", string], default: null}
  - {name: hash, type: {type: fixed, name: Hash, size: 4}}
  - {name: lines, type: {type: array, items: {type: map, values: int}}}
  - {name: by, type: [string, long]}
  - {name: after, type: ["null", shop.Order]}
""")
STRUCTURE = yaml.safe_load("""
$schema: "https://json-structure.org/meta/core/v0/#"
$id: https://example.com/order
name: Order
type: object
description: An order
required: [id]
properties:
  id: {type: uuid, description: Number of the order}
  amount: {type: int64}
  small: {type: int8}
  at: {type: datetime}
  note: {type: [string, "null"]}
  lines: {type: array, items: {type: {$ref: "#/definitions/Line"}}}
  tags: {type: set, items: {type: string}}
  point: {type: tuple, name: Point, properties: {x: {type: double}}, tuple: [x]}
definitions: {Line: {name: Line, type: object, properties: {sku: {type: string}}}}
""")
PROTO = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
// An order
message Order {
  // Number of the order
  string id = 1;
  enum State { NEW = 0; PAID = 1; }
  State state = 2;
  repeated Line lines = 3;
  map<string, int32> more = 4;
  google.protobuf.Timestamp at = 5;
  oneof by { string name = 6; int64 number = 7; }
  Order after = 8;
  message Line { bytes sku = 1; double count = 2; }
}
"""
XSD = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
<xs:element name="order"><xs:annotation><xs:documentation>An order</xs:documentation></xs:annotation><xs:complexType>
<xs:sequence>
  <xs:element name="id"><xs:annotation><xs:documentation>Number of the order</xs:documentation></xs:annotation>
    <xs:simpleType><xs:restriction base="xs:string"><xs:minLength value="5"/></xs:restriction></xs:simpleType>
  </xs:element>
  <xs:element name="at" type="xs:dateTime" minOccurs="0"/>
  <xs:element name="price" type="xs:decimal"/>
  <xs:element name="line" maxOccurs="unbounded"><xs:complexType><xs:simpleContent><xs:extension base="xs:int">
    <xs:attribute name="sku" type="xs:token" use="required"/></xs:extension></xs:simpleContent></xs:complexType>
  </xs:element>
</xs:sequence>
<xs:attribute name="state"><xs:simpleType><xs:restriction base="xs:string"><xs:enumeration value="new"/>
  <xs:enumeration value="paid"/></xs:restriction></xs:simpleType></xs:attribute>
</xs:complexType></xs:element></xs:schema>"""
DOCUMENTS = {
    "JsonSchema/draft-07": json.dumps(ORDER),
    "Avro/1.11": json.dumps(AVRO),
    "JsonStructure/draft-04": json.dumps(STRUCTURE),
    "Protobuf/3": PROTO,
    "XSD/1.0": XSD,
}
MANY = [f"p{number}" for number in range(2 * MOST_NODES)]
LARGE_IN_JSON: dict[str, Any] = {"properties": {name: {} for name in MANY}}
LARGE_IN_AVRO = {"type": "record", "name": "L", "fields": [{"name": name, "type": "int"} for name in MANY]}
LAST_IN_JSON = {"properties": {"a": {"type": "string"}}, "required": ["a"]}
LAST_IN_AVRO = {"type": "record", "name": "S", "fields": [{"name": "a", "type": "string"}]}
FIELDS = [{"name": "large", "type": LARGE_IN_AVRO}, {"name": "last", "type": LAST_IN_AVRO}]


def parsed(format: str, document: str | None = None) -> Schema:
    schema_format = find(format)
    assert schema_format is not None, format
    return schema_format.parse((document or DOCUMENTS[format]).encode(), format)


def tree(format: str, document: str | None = None) -> SchemaNode:
    schema = parsed(format, document)
    assert isinstance(schema, Described)
    return schema.tree()


def member(node: SchemaNode, name: str) -> SchemaNode:
    return next(child for child in node.members if child.name == name)


@pytest.mark.parametrize("format", DOCUMENTS)
def test_tree_has_members_and_descriptions(format: str) -> None:
    root = tree(format)
    assert root.kind == "object"
    assert format.startswith("Protobuf") or root.description == "An order"
    assert member(root, "id").description == "Number of the order"
    assert member(root, "id").kind == "string"


@pytest.mark.parametrize("format", DOCUMENTS)
def test_samples_conform(format: str) -> None:
    """The samples conform where the tree contains all constraints of the schema."""
    schema = parsed(format)
    value = sample(tree(format))
    assert schema.validate(value) == []
    assert schema.decode(schema.encode(value))


def test_tree_shows_required_members_and_constraints() -> None:
    root = tree("JsonSchema/draft-07")
    assert [child.name for child in root.members if child.required] == ["id", "lines"]
    assert dict(member(root, "id").constraints) == {"minLength": "5", "maxLength": "9"}
    assert ("no other members", "true") in root.constraints
    assert member(root, "note").nullable
    assert member(root, "note").type == "string", "that it may be null is said once"
    assert member(root, "by").type == "one of"
    assert member(member(root, "lines").members[0], "sku").required, "through $ref and allOf"
    proto = member(tree("Protobuf/3"), "name")
    assert ("only one of", "name, number") in proto.constraints
    xsd = tree("XSD/1.0")
    assert ("one of", "new, paid") in member(xsd, "@state").constraints
    assert member(xsd, "line").kind == "array"


@pytest.mark.parametrize(
    ("format", "document"),
    [
        ("JsonSchema/draft-07", {"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}}),
        ("JsonSchema/draft-07", {"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}}}),
        ("JsonSchema/draft-07", LARGE_IN_JSON),
        ("Avro/1.11", AVRO),
    ],
    ids=["twice itself", "a circle", "wide", "itself"],
)
def test_a_tree_is_bounded(format: str, document: Any) -> None:
    def count(node: SchemaNode) -> int:
        return 1 + sum(map(count, node.members))

    root = tree(format, json.dumps(document))
    assert count(root) <= MOST_NODES + 1

    def cut(node: SchemaNode) -> bool:
        return node.cut or any(map(cut, node.members))

    assert cut(root)


@pytest.mark.parametrize(
    ("format", "document"),
    [
        ("JsonSchema/draft-07", {"required": ["last"], "properties": {"large": LARGE_IN_JSON, "last": LAST_IN_JSON}}),
        ("Avro/1.11", {"type": "record", "name": "R", "fields": FIELDS}),
    ],
    ids=["JSON Schema", "Avro"],
)
def test_a_large_member_hides_no_other_member(format: str, document: Any) -> None:
    root = tree(format, json.dumps(document))
    assert [child.name for child in root.members] == ["large", "last"]
    assert member(root, "large").cut
    assert not root.cut
    assert member(member(root, "last"), "a").type == "string"

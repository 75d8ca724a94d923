import json

import pytest
import yaml

from signalbook.formats.members import MAX_MEMBERS, LinkedMembers, Member, Walk, list_members
from signalbook.values import JSONObject

AVRO = yaml.safe_load(r"""
type: record
name: Order
fields:
  - {name: customer_id, type: string, doc: "who\n pays"}
  - name: lines
    type: {type: array, items: ["null", {type: record, name: Line, fields: [{name: sku, type: string}]}]}
""")
JSON_SCHEMA = yaml.safe_load("""
properties: {customer: {description: who, properties: {id: {}}}, lines: {items: {$ref: "#/$defs/L"}}}
allOf: [{properties: {more: true}}]
$defs: {L: {properties: {sku: {type: string}}}}
""")
STRUCTURE = {
    "type": "object",
    "properties": {"id": {"type": "string", "description": "its id"}},
    "definitions": {"Space": {"Line": {"type": "object", "properties": {"sku": {"type": "string"}}}}},
}
PROTO = """syntax = "proto3";
import "other.proto"; // no field = 1;
/* message No { string no = 1; } */
message Order {
  // Who pays.
  string customer_id = 1; repeated Line lines = 2; // what
  oneof way { string by_post = 3 [deprecated = true]; }
  map<string, Line> more = 4;
  message Line { optional string sku = 1; reserved 2; }
  enum Kind { NONE = 0; }
  option (x) = "string y = 1;";
  int32 last = 0x7;
}
service S { rpc Get (Order) returns (Order) { option deprecated = true; } }
"""
XSD = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="order"><xs:complexType><xs:sequence>
<xs:element name="sku"><xs:annotation><xs:documentation>what it is</xs:documentation></xs:annotation></xs:element>
</xs:sequence><xs:attribute name="id"/></xs:complexType></xs:element>
<xs:complexType name="Line"><xs:sequence><xs:element name="count"/></xs:sequence></xs:complexType></xs:schema>"""


OF_ORDER = {"customer_id": "Who pays.", "lines": "what", "by_post": "", "more": "", "Line.sku": "", "last": ""}


@pytest.mark.parametrize(
    ("format", "document", "expected"),
    [
        ("Avro/1.11.0", json.dumps(AVRO), {"customer_id": "who pays", "lines": "", "lines.sku": ""}),
        (
            "JsonSchema/draft-07",
            json.dumps(JSON_SCHEMA),
            {"customer": "who", "customer.id": "", "lines": "", "L.sku": "", "more": ""},
        ),
        ("JsonStructure/1.0", json.dumps(STRUCTURE), {"id": "its id", "Line.sku": ""}),
        ("Protobuf/3", PROTO, {f"Order.{name}": description for name, description in OF_ORDER.items()}),
        ("XSD/1.0", XSD, {"order": "", "order.sku": "what it is", "order.id": "", "Line.count": ""}),
    ],
)
def test_members_have_paths_and_descriptions(format: str, document: str, expected: dict[str, str]) -> None:
    found_members = list_members(document.encode(), format)
    assert {member.path: member.description for member in found_members} == expected


def test_a_member_has_a_name() -> None:
    assert Member("order.lines.sku").name == "sku"


DEEP = b'{"properties":{"a":' * 5000 + b"{}" + b"}}" * 5000


@pytest.mark.parametrize("format", ["Avro/1.11.0", "JsonSchema/draft-07", "JsonStructure/1.0", "Protobuf/3", "XSD/1.0"])
@pytest.mark.parametrize(
    "document",
    [b"", b"\x00", b"{", b"[]", b"null", b"1", b"<a", b'"x"', b"{" * 100_000, DEEP, b"\xff\xfe", b'{"fields":[1,{}]}'],
)
def test_unreadable_document_has_no_members(format: str, document: bytes) -> None:
    assert list_members(document, format) == ()


def test_number_of_members_is_bounded() -> None:
    document: JSONObject = {"properties": {f"f{number}": {} for number in range(MAX_MEMBERS + 1)}}
    assert len(list_members(json.dumps(document).encode(), "JsonSchema/draft-07")) == MAX_MEMBERS


@pytest.mark.parametrize("format", ["Nothing/1", "", "/", "Thrift"])
def test_unknown_formats_have_no_members(format: str) -> None:
    assert list_members(b'{"properties":{"a":{}}}', format) == ()


def test_total_size_of_descriptions_is_bounded() -> None:
    schema = {"properties": {f"a{number}": {"description": "x" * 1_000} for number in range(500)}}
    found_members = list_members(json.dumps(schema).encode(), "JsonSchema/draft-07")
    assert 98 < len(found_members) < 100


def test_a_part_has_no_members_of_what_an_earlier_one_refers_to() -> None:
    many = {f"m{number}": {"$ref": "#/definitions/other"} for number in range(MAX_MEMBERS + 1)}
    small: JSONObject = {"properties": {"s": {}}}
    definitions = {"big": {"properties": many}, "small": small, "other": {"properties": {"x": {}}}}
    linked = LinkedMembers(json.dumps({"definitions": definitions}).encode(), "JsonSchema/draft-07")
    walk = Walk(100_000)
    assert len(linked.list_members("/definitions/big", walk) or ()) == MAX_MEMBERS
    assert linked.list_members("/definitions/small", walk) == (Member("s"),)


def test_a_part_that_no_array_has_has_no_members() -> None:
    document = json.dumps({"$dynamicRef": f"#/oneOf/{'9' * 5000}", "oneOf": [{}]})
    linked = LinkedMembers(document.encode(), "JsonSchema/draft-07")
    assert linked.list_members("", Walk(100)) is None

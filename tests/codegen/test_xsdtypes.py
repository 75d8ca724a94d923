"""Types of XML elements."""

from typing import Any

from signalbook.codegen.datatypes import NULL, ClosedSet, ListType, PlainType, RecordTable, UnionType
from signalbook.codegen.xsdtypes import XsdTypes
from signalbook.formats import find

SOURCE = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
<xs:element name="order" type="Order"/>
<xs:element name="note" type="xs:string"/>
<xs:complexType name="Order"><xs:sequence>
  <xs:element name="item" type="Item" maxOccurs="9"/>
  <xs:element name="gift" type="Item" minOccurs="0" nillable="true"/>
  <xs:element name="sizes"><xs:simpleType><xs:list itemType="xs:int"/></xs:simpleType></xs:element>
  <xs:element name="free" type="Mixed"/>
  <xs:element name="price"><xs:complexType><xs:simpleContent><xs:extension base="Price">
    <xs:attribute name="currency" type="xs:string" default="EUR"/></xs:extension></xs:simpleContent></xs:complexType>
  </xs:element></xs:sequence></xs:complexType>
<xs:complexType name="Item"><xs:sequence><xs:element name="sub" type="Item" minOccurs="0"/></xs:sequence>
  <xs:attribute name="kind" use="required"><xs:simpleType><xs:restriction base="xs:token">
    <xs:enumeration value="a"/><xs:enumeration value="b c"/></xs:restriction></xs:simpleType></xs:attribute>
</xs:complexType>
<xs:complexType name="Mixed" mixed="true"><xs:sequence><xs:element name="b" type="xs:string"/></xs:sequence>
</xs:complexType>
<xs:simpleType name="Price"><xs:restriction base="xs:decimal"><xs:totalDigits value="9"/><xs:fractionDigits value="2"/>
</xs:restriction></xs:simpleType></xs:schema>"""


def types(link: str) -> tuple[Any, RecordTable]:
    xsd: Any = find("XSD/1.1")
    table = RecordTable()
    return XsdTypes(table).root(xsd.parse(SOURCE.encode(), "XSD/1.1", link=link)), table


def test_elements() -> None:
    root, table = types("order")
    order = table.records[root.key]
    members: dict[str, Any] = {member.name: (member.type, member.required) for member in order.members}
    item = members["item"][0].item
    assert members == {
        "item": (ListType(item), True),
        "gift": (UnionType((item, NULL)), False),
        "sizes": (ListType(PlainType("integer")), True),
        "free": (PlainType("text"), True),  # mixed content stays XML
        "price": (members["price"][0], True),
    }
    assert order.hint == "Order"
    within = {member.name: (member.type, member.required) for member in table.records[item.key].members}
    # A type inside of itself stays XML, too.
    assert within == {"@kind": (ClosedSet(("a", "b c")), True), "sub": (PlainType("text"), False)}
    price = {member.name: (member.type, member.required) for member in table.records[members["price"][0].key].members}
    assert price == {"@currency": (PlainType("text"), False), "$": (PlainType("decimal"), True)}


def test_several_roots() -> None:
    root, table = types("")
    assert [[member.name for member in table.records[variant.key].members] for variant in root.members] == [
        ["order"],
        ["note"],
    ]

from decimal import Decimal
from xml.etree.ElementTree import tostring

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signalbook.formats import Anything, ListOf, PayloadError, Scalar, Struct
from signalbook.formats.xsd import FORMAT
from signalbook.formats.xsd.schema import XsdSchema
from signalbook.values import JSON

XS = "http://www.w3.org/2001/XMLSchema"
XSI = "http://www.w3.org/2001/XMLSchema-instance"
TEXT = Scalar(kind="string")


def parse(body: str, link: str = "r") -> XsdSchema:
    return FORMAT.parse(f'<xs:schema xmlns:xs="{XS}">{body}</xs:schema>'.encode(), "XSD/1.1", link=link)


def content(inside: str, more: str = "") -> XsdSchema:
    return parse(f'<xs:element name="r"><xs:complexType>{inside}</xs:complexType></xs:element>{more}')


def simple(base: str, facets: str = "") -> XsdSchema:
    kind = f'<xs:simpleType><xs:restriction base="xs:{base}">{facets}</xs:restriction></xs:simpleType>'
    return parse(f'<xs:element name="r">{kind}</xs:element>')


@pytest.mark.parametrize(
    ("base", "sent", "meant", "kind"),
    [
        ("boolean", " 1 ", True, "bool"),
        ("boolean", "false", False, "bool"),
        ("byte", "-5", -5, "int32"),
        ("unsignedShort", "65535", 65535, "int32"),
        ("int", "+7", 7, "int32"),
        ("unsignedInt", "4294967295", 2**32 - 1, "int64"),
        ("long", "-9223372036854775808", -(2**63), "int64"),
        ("integer", "12", 12, "int64"),
        ("positiveInteger", "12", 12, "int64"),
        ("unsignedLong", "18446744073709551615", 2**64 - 1, "uint64"),
        ("float", "INF", float("inf"), "float32"),
        ("double", "-1e3", -1000.0, "float64"),
        ("decimal", "1.50", "1.50", "string"),
        ("base64Binary", " AA E= ", b"\x00\x01", "bytes"),
        ("hexBinary", "00fF", b"\x00\xff", "bytes"),
        ("token", "  a  b ", "a b", "string"),
        ("string", " a ", " a ", "string"),
        ("anyURI", "http://x", "http://x", "string"),
        ("date", "2020-01-01+02:00", "2020-01-01+02:00", "date"),
        ("dateTime", "12020-01-01T00:00:00.000000001", "12020-01-01T00:00:00.000000001", "timestamp"),
        ("duration", "P1M", "P1M", "string"),
    ],
)
def test_simple_values(base: str, sent: str, meant: JSON, kind: str) -> None:
    """Values of dates and unbounded decimals stay text, which has all that they say."""
    schema = simple(base)
    assert schema.decode(f"<r>{sent}</r>".encode()) == meant
    assert isinstance(schema.shape(), Scalar)
    assert getattr(schema.shape(), "kind", "") == kind
    assert schema.validate(meant) == []


def test_decimals_of_bounded_digits_are_decimals() -> None:
    schema = simple("decimal", '<xs:totalDigits value="5"/><xs:fractionDigits value="2"/>')
    assert schema.shape() == Scalar(kind="decimal", precision=5, scale=2)
    assert schema.decode(b"<r>1.50</r>") == Decimal("1.50")
    assert schema.validate(Decimal("1.50")) == []


def test_dates_have_zones() -> None:
    assert simple("date").shape() == Scalar(kind="date", sent="string", zoned=True)


def test_lists_and_unions() -> None:
    listed = parse('<xs:element name="r"><xs:simpleType><xs:list itemType="xs:int"/></xs:simpleType></xs:element>')
    assert listed.shape() == ListOf(item=Scalar(kind="int32"))
    assert listed.decode(b"<r> 1 2 </r>") == [1, 2]
    union = '<xs:simpleType><xs:union memberTypes="xs:int xs:date"/></xs:simpleType>'
    assert parse(f'<xs:element name="r">{union}</xs:element>').decode(b"<r>12</r>") == "12"


A = '<xs:element name="a" type="xs:int"/>'
C = '<xs:element name="c"/>'
B = '<xs:element name="b" type="xs:int" minOccurs="0"/>'


@pytest.mark.parametrize(
    ("inside", "payload", "value"),
    [
        (f"<xs:sequence>{A}{B}</xs:sequence>", "<a>1</a>", {"a": 1}),
        (f"<xs:all>{A}{B}</xs:all>", "<b>2</b><a>1</a>", {"a": 1, "b": 2}),
        (f"<xs:choice>{A}{B}</xs:choice>", "<b>2</b>", {"b": 2}),
        (f"<xs:sequence><xs:choice>{A}{B}</xs:choice></xs:sequence>", "<a>1</a>", {"a": 1}),
        (f'<xs:sequence maxOccurs="9">{A}</xs:sequence>', "<a>1</a><a>2</a>", {"a": [1, 2]}),
        (f'<xs:sequence>{A}<xs:element name="b" minOccurs="0" maxOccurs="0"/></xs:sequence>', "<a>1</a>", {"a": 1}),
        ('<xs:sequence><xs:element name="a" type="xs:int" default="7"/></xs:sequence>', "<a/>", {"a": 7}),
        ('<xs:sequence><xs:element name="a" type="xs:int" fixed="7"/></xs:sequence>', "<a>7</a>", {"a": 7}),
    ],
)
def test_children_become_members(inside: str, payload: str, value: JSON) -> None:
    schema = content(inside)
    assert isinstance(schema.shape(), Struct)
    assert schema.decode(f"<r>{payload}</r>".encode()) == value
    assert schema.validate(value) == []


@pytest.mark.parametrize(
    ("inside", "required"),
    [
        (f"<xs:sequence>{A}{B}</xs:sequence>", ["a"]),
        (f"<xs:choice>{A}{B}</xs:choice>", []),
        (f'<xs:sequence minOccurs="0">{A}</xs:sequence>', []),
        (f'<xs:sequence>{A}<xs:sequence minOccurs="0">{C}</xs:sequence></xs:sequence>', ["a"]),
        ('<xs:attribute name="x" use="required"/><xs:attribute name="y"/>', ["@x"]),
        ('<xs:attribute name="x" default="1"/><xs:attribute name="y" use="prohibited"/>', ["@x"]),
    ],
)
def test_required_members_are_always_present(inside: str, required: list[str]) -> None:
    shape = content(inside).shape()
    assert isinstance(shape, Struct)
    assert [field.name for field in shape.fields if field.required] == required


def kind(inside: str, attributes: str = "") -> str:
    return f'<xs:complexType name="t" {attributes}>{inside}</xs:complexType>'


OPAQUE = {
    "mixed content": kind('<xs:sequence><xs:element name="a"/></xs:sequence>', 'mixed="true"'),
    "a wildcard": kind('<xs:sequence><xs:any processContents="skip"/></xs:sequence>'),
    "any attribute": kind('<xs:anyAttribute processContents="skip"/>'),
    "a repeated choice": kind(f'<xs:choice maxOccurs="9">{A}{C}</xs:choice>'),
    "one name twice": kind(f"<xs:sequence>{A}{C}{A}</xs:sequence>"),
    "substitutes": '<xs:element name="h"/><xs:element name="s" substitutionGroup="h"/>'
    + kind('<xs:sequence><xs:element ref="h"/></xs:sequence>'),
    "nothing": kind(""),
    "open content": kind("<xs:openContent><xs:any/></xs:openContent><xs:sequence/>"),
}


@pytest.mark.parametrize("declared", OPAQUE.values(), ids=OPAQUE)
def test_content_without_columns_stays_xml(declared: str) -> None:
    """The order, text between elements and undeclared content are preserved."""
    schema = content('<xs:sequence><xs:element name="x" type="t"/></xs:sequence>', declared)
    shape = schema.shape()
    assert isinstance(shape, Struct)
    assert [field.shape for field in shape.fields] == [TEXT]


def test_xml_text_is_the_element() -> None:
    schema = content('<xs:sequence><xs:element name="x" type="t"/></xs:sequence>', OPAQUE["mixed content"])
    value = schema.decode(b"<r>\n<x>one <a>two</a> three</x>\n</r>")
    assert value == {"x": "<x>one <a>two</a> three</x>"}
    assert schema.validate(value) == []
    assert [finding.rule for finding in schema.validate({"x": "<x>"})] == ["xml"]
    assert [finding.rule for finding in schema.validate({"x": "<y/>"})] == ["type"]
    assert [finding.rule for finding in schema.validate({"x": 3})] == ["type"]


def test_recursive_types_are_kept_as_xml() -> None:
    inside = '<xs:element name="v" type="xs:int"/><xs:element name="t" type="t" minOccurs="0"/>'
    schema = parse(f'<xs:element name="r" type="t"/>{kind(f"<xs:sequence>{inside}</xs:sequence>")}')
    value = schema.decode(b"<r><v>1</v><t><v>2</v></t></r>")
    assert value == {"v": 1, "t": "<t><v>2</v></t>"}
    assert schema.validate(value) == []


def test_exponential_types_have_few_columns() -> None:
    types = "".join(
        f'<xs:complexType name="t{n}"><xs:sequence><xs:element name="x" type="t{n - 1}"/>'
        f'<xs:element name="y" type="t{n - 1}"/></xs:sequence></xs:complexType>'
        for n in range(1, 25)
    )
    first = '<xs:complexType name="t0"><xs:attribute name="a"/></xs:complexType>'
    schema = parse(f'<xs:element name="r" type="t24"/>{first}{types}')
    assert isinstance(schema.shape(), Struct | Anything)


def test_a_type_in_place_of_the_declared_one_has_no_columns() -> None:
    """The payload is valid, but what it holds is of another shape."""
    base = '<xs:complexType name="t"><xs:sequence/><xs:attribute name="a"/></xs:complexType>'
    more = '<xs:complexContent><xs:extension base="t"><xs:attribute name="b"/></xs:extension></xs:complexContent>'
    schema = parse(f'<xs:element name="r" type="t"/>{base}<xs:complexType name="u">{more}</xs:complexType>')
    assert schema.decode(f'<r a="1" i:type="t" xmlns:i="{XSI}"/>'.encode()) == {"@a": "1"}
    with pytest.raises(PayloadError) as caught:
        schema.decode(f'<r i:type="u" b="1" xmlns:i="{XSI}"/>'.encode())
    assert caught.value.reason == "unsupported_format"


MANY = content(
    '<xs:sequence><xs:element name="s" type="xs:string" minOccurs="0" maxOccurs="unbounded"/>'
    '<xs:element name="n" type="xs:int" minOccurs="0" nillable="true"/></xs:sequence>'
    '<xs:attribute name="f" type="xs:double"/><xs:attribute name="b" type="xs:hexBinary"/>'
)
CHARACTERS = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")


@given(
    st.fixed_dictionaries(
        {"s": st.lists(st.text(CHARACTERS, max_size=5), max_size=3)},
        optional={
            "n": st.none() | st.integers(-(2**31), 2**31 - 1),
            "@f": st.floats(allow_nan=False),
            "@b": st.binary(max_size=4),
        },
    )
)  # fmt: skip
@settings(deadline=None)
def test_values_survive_the_way_through_xml(value: JSON) -> None:
    assert MANY.validate(value) == []
    root = MANY.plans["r"].write(value, ())
    assert MANY.decode(tostring(root, encoding="utf-8")) == value

from xml.etree.ElementTree import Element

import pytest

from signalbook.formats.xsd.limits import MAX_DEPTH, Weight, XMLError, read, weigh

LAUGHS = b'<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><l>&b;</l>'


def test_elements_have_names_attributes_lines_and_prefixes() -> None:
    document = read(b'<a xmlns="urn:d" xmlns:p="urn:p">\n<p:b p:c="1" d="2"/>\n</a>')
    assert document.root.tag == "{urn:d}a"
    assert [(child.tag, child.attrib) for child in document.root] == [("{urn:p}b", {"{urn:p}c": "1", "d": "2"})]
    assert document.lines == (1, 2)
    assert document.prefixes == {"": "urn:d", "p": "urn:p"}


@pytest.mark.parametrize(
    "data",
    [
        '<?xml version="1.0" encoding="UTF-16"?><a>é</a>'.encode("utf-16"),
        '<?xml version="1.0" encoding="ISO-8859-1"?><a>é</a>'.encode("latin-1"),
        '\ufeff<a>é</a>'.encode(),
        "<!-- c --><?p i?><a><![CDATA[é]]></a>".encode(),
    ],
)  # fmt: skip
def test_encodings(data: bytes) -> None:
    assert read(data).root.text == "é"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not XML"),
        (b"<a>", "not XML"),
        (b"<a/><b/>", "not XML"),
        (b"<a b='1' b='2'/>", "not XML"),
        (b"<p:a/>", "not XML"),
        (b"<a>&b;</a>", "not XML"),
        (b"<a>\xff</a>", "not XML"),
        (b"<a>\x00</a>", "not XML"),
        (b'<?xml version="1.0" encoding="none-such"?><a/>', "not XML"),
        (LAUGHS, "document types"),
        (b"<!DOCTYPE a><a/>", "document types"),
        (b"<a xmlns='{x}y'/>", "not XML"),
        (b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "line 1: document types"),
        (b'<!DOCTYPE a [<!ENTITY % p SYSTEM "http://127.0.0.1:9/">%p;]><a/>', "document types"),
        (b"<a>" * (MAX_DEPTH + 1) + b"</a>" * (MAX_DEPTH + 1), "deeper"),
        (b"<a>" + b"<b/>" * 100_000 + b"</a>", "more than 100000 elements"),
        (b"<a>" + b" " * 17_000_000 + b"</a>", "more than 16777216 bytes"),
    ],
    ids=range(17),
)
def test_unsafe_xml_is_rejected(data: bytes, message: str) -> None:
    with pytest.raises(XMLError, match=message):
        read(data)


def root(body: str) -> Element:
    return read(f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">{body}</xs:schema>'.encode()).root


def elements(count: int) -> str:
    return "".join(f'<xs:element name="e{number}"/>' for number in range(count))


def model(inside: str) -> str:
    return f'<xs:complexType name="t"><xs:sequence>{inside}</xs:sequence></xs:complexType>'


def doubling(kind: str, first: str, template: str, depth: int = 40) -> str:
    """Declarations, each of which uses the one before twice."""
    return first + "".join(template.format(f"{kind}{number}", f"{kind}{number - 1}") for number in range(1, depth))


GROUPS = doubling(
    "g",
    f'<xs:group name="g0"><xs:all>{elements(2)}</xs:all></xs:group>',
    '<xs:group name="{0}"><xs:sequence><xs:group ref="{1}"/><xs:group ref="{1}"/></xs:sequence></xs:group>',
)
UNIONS = doubling(
    "u",
    '<xs:simpleType name="u0"><xs:restriction base="xs:int"/></xs:simpleType>',
    '<xs:simpleType name="{0}"><xs:union memberTypes="{1} {1}"/></xs:simpleType>',
)
EXTENDED = (
    '<xs:complexType name="t{}"><xs:complexContent><xs:extension base="t{}">{}</xs:extension></xs:complexContent>'
)
CHAIN = "".join(
    EXTENDED.format(number, number - 1, f"<xs:sequence>{elements(10)}</xs:sequence>") + "</xs:complexType>"
    for number in range(60)
)


@pytest.mark.parametrize(
    ("body", "longest", "heavy"),
    [
        ("", 0, False),
        (model(elements(10)), 10, False),
        (model(f'<xs:element name="a">{model(elements(3)).replace(" name=", " id=", 1)}</xs:element>'), 3, False),
        (f"<xs:element name='a'>{model(elements(3)).replace(' name=', ' id=', 1)}</xs:element>", 3, False),
        (model(elements(1100)), 1100, True),
        (CHAIN, 600, True),
        (f"<xs:redefine>{model(elements(1100))}</xs:redefine>", 1100, True),
    ],
    ids=range(7),
)
def test_models_are_as_long_as_their_particles(body: str, longest: int, heavy: bool) -> None:
    weight = weigh([root(body)])
    assert (weight.longest, weight.is_heavy) == (longest, heavy)


@pytest.mark.parametrize("body", [GROUPS, UNIONS], ids=["groups", "unions"])
def test_multiplying_definitions_are_heavy(body: str) -> None:
    assert weigh([root(body)]).is_heavy


def test_recursive_group_has_a_finite_weight() -> None:
    circle = '<xs:group name="g"><xs:sequence><xs:group ref="g"/><xs:element name="a"/></xs:sequence></xs:group>'
    assert not weigh([root(circle)]).is_heavy


def test_endless_chains_are_heavy() -> None:
    group_template = '<xs:group name="g{}"><xs:sequence><xs:group ref="g{}"/></xs:sequence></xs:group>'
    assert weigh([root("".join(group_template.format(number, number + 1) for number in range(5000)))]).is_heavy


def test_long_models_have_short_payloads() -> None:
    values = "".join(f'<xs:enumeration value="{number}"/>' for number in range(25_000))
    restriction = f'<xs:restriction base="xs:string">{values}</xs:restriction>'
    weight = weigh([root(f'<xs:simpleType name="s">{restriction}</xs:simpleType>')])
    assert round(weight.longest) == 101
    assert not weight.is_heavy
    assert weight.most_elements < 10_000
    assert Weight(work=0, longest=0).most_elements == 1_000_000

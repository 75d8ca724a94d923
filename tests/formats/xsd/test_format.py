import subprocess
import sys
from collections.abc import Mapping
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signalbook.formats import Anything, Field, ListOf, PayloadError, Scalar, SchemaError, Struct
from signalbook.formats.xsd import FORMAT
from signalbook.formats.xsd.documents import _Schema10, _Schema11
from signalbook.formats.xsd.schema import XsdSchema
from signalbook.values import JSON

XS = "http://www.w3.org/2001/XMLSchema"
XSI = "http://www.w3.org/2001/XMLSchema-instance"


def schema(body: str, attributes: str = "") -> bytes:
    return f'<xs:schema xmlns:xs="{XS}" {attributes}>{body}</xs:schema>'.encode()


def parse(body: str, link: str = "", documents: Mapping[str, bytes] | None = None, attributes: str = "") -> XsdSchema:
    return FORMAT.parse(schema(body, attributes), "XSD/1.1", link=link, resolve=(documents or {}).get)


def order(content: str, attributes: str = "") -> str:
    return f'<xs:element name="order"><xs:complexType>{content}{attributes}</xs:complexType></xs:element>'


def sequence(*elements: str) -> str:
    return f"<xs:sequence>{''.join(f'<xs:element {element}/>' for element in elements)}</xs:sequence>"


def restricted(base: str, facets: str) -> str:
    return f'<xs:simpleType><xs:restriction base="{base}">{facets}</xs:restriction></xs:simpleType>'


ORDER = order(
    f"""<xs:sequence>
      <xs:element name="id" type="xs:int"/>
      <xs:element name="paid" type="xs:boolean" minOccurs="0"/>
      <xs:element name="total">
        {restricted("xs:decimal", '<xs:totalDigits value="6"/><xs:fractionDigits value="2"/>')}
      </xs:element>
      <xs:element name="note" type="xs:token" nillable="true"/>
      <xs:element name="item" minOccurs="0" maxOccurs="unbounded">
        <xs:complexType><xs:simpleContent><xs:extension base="xs:string">
          <xs:attribute name="count" type="xs:integer" default="1"/>
        </xs:extension></xs:simpleContent></xs:complexType>
      </xs:element>
    </xs:sequence>""",
    '<xs:attribute name="raw" type="xs:base64Binary" use="required"/>'
    '<xs:attribute name="tags"><xs:simpleType><xs:list itemType="xs:int"/></xs:simpleType></xs:attribute>',
)
SENT = (
    f'<order raw="AAE=" tags=" 1 2 " xmlns:i="{XSI}"><id> 7 </id><total>12.50</total><note i:nil="true"/>'
    f'<item>a</item><item count="2">b</item></order>'
).encode()
MEANT = {
    "@raw": b"\x00\x01", "@tags": [1, 2], "id": 7, "total": Decimal("12.50"), "note": None,
    "item": [{"@count": 1, "$": "a"}, {"@count": 2, "$": "b"}],
}  # fmt: skip


def test_payloads_become_values() -> None:
    """Attributes become @name, children become names, and repeatable children become lists (K-40)."""
    assert parse(ORDER).decode(SENT, "application/xml") == MEANT
    assert parse(ORDER).validate(MEANT) == []


def test_columns_hold_what_payloads_have() -> None:
    def field(name: str, shape: Scalar | ListOf, required: bool = True) -> Field:
        return Field(name=name, attribute=name, shape=shape, required=required)

    item = Struct(fields=(field("@count", Scalar(kind="int64")), field("$", Scalar(kind="string"))))
    assert parse(ORDER).shape() == Struct(
        fields=(
            field("@raw", Scalar(kind="bytes")),
            field("@tags", ListOf(item=Scalar(kind="int32")), required=False),
            field("id", Scalar(kind="int32")),
            field("paid", Scalar(kind="bool"), required=False),
            field("total", Scalar(kind="decimal", precision=6, scale=2)),
            field("note", Scalar(kind="string", nullable=True)),
            Field(name="item", attribute="item", shape=ListOf(item=item), required=True),
        )
    )


BAD_PATTERN = restricted("xs:string", '<xs:pattern value="(a"/>')
BAD_FACET = restricted("xs:int", '<xs:length value="1"/>')


@pytest.mark.parametrize(
    ("document", "path", "rule"),
    [
        (b"", "", "empty"),  # G-23
        (b" \n", "", "empty"),
        (b"{}", "", "xml"),
        (b"<a>", "", "xml"),
        (b"<a/>", "", "schema"),
        (b"\xff\xfe<", "", "xml"),
        (b'<?xml version="1.0" encoding="nonsense"?><a/>', "", "xml"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "", "xml"),
        (b'<!DOCTYPE a SYSTEM "http://127.0.0.1/a.dtd"><a/>', "", "xml"),
        (b"<a>" * 70, "", "xml"),
        (schema('<xs:element name="a" type="xs:nothing"/>'), "line 1", "schema"),
        (schema('\n<xs:element name="a" type="T"/>'), "line 2", "schema"),
        (schema('\n\n<xs:element name="1"/>'), "line 3", "schema"),
        (schema("\n<xs:unheard/>"), "line 1", "schema"),
        (schema("", 'targetNamespace="{x}y"'), "", "schema"),
        (schema('<xs:element name="a"/><xs:element name="a"/>'), "line 1", "schema"),
        (schema(order('<xs:choice><xs:any/><xs:element name="a"/></xs:choice>')), "line 1", "schema"),
        (schema(f'\n<xs:element name="a">{BAD_PATTERN}</xs:element>'), "line 2", "schema"),
        (schema(f'<xs:element name="a">{BAD_FACET}</xs:element>'), "line 1", "schema"),
    ],
)  # fmt: skip
def test_broken_documents_are_distinguished(document: bytes, path: str, rule: str) -> None:
    """Each finding has the line (G-19)."""
    assert (path, rule) in [(finding.path, finding.rule) for finding in FORMAT.check(document, "XSD/1.0")]
    with pytest.raises(SchemaError):
        FORMAT.parse(document, "XSD/1.0")


@pytest.mark.parametrize(
    "body",
    [
        "",
        ORDER,
        '<xs:element name="a"/>',
        '<xs:complexType name="t"><xs:all><xs:element name="a" minOccurs="0"/></xs:all></xs:complexType>',
        '<xs:import namespace="http://www.w3.org/XML/1998/namespace" schemaLocation="http://www.w3.org/2001/xml.xsd"/>'
        '<xs:element name="a"><xs:complexType><xs:attribute ref="xml:lang"/></xs:complexType></xs:element>',
    ],
)
def test_sound_documents_have_no_findings(body: str) -> None:
    assert FORMAT.check(schema(body), "XSD/1.0") == FORMAT.check(schema(body), "XSD") == []


def test_versions_differ() -> None:
    """Additions of 1.1 are invalid in XML Schema 1.0 (G-12)."""
    asserted = schema(order('<xs:attribute name="a" type="xs:int"/><xs:assert test="@a > 0"/>'))
    assert FORMAT.check(asserted, "XSD/1.1") == []
    assert [finding.rule for finding in FORMAT.check(asserted, "XSD/1.0")] == ["schema"]


@pytest.mark.parametrize(
    ("format", "canonical"),
    [("XSD/1.0", "XSD/1.0"), ("xmlschema/1.1", "XSD/1.1"), ("XMLSchema", "XSD"), ("XSD/2.0", None), ("XSD/", None)],
)
def test_formats_have_canonical_names(format: str, canonical: str | None) -> None:
    """Names of formats are canonical (G-13)."""
    assert FORMAT.canonical(format) == canonical


TWO = '<xs:element name="a" type="xs:int"/><xs:element name="b" type="xs:string"/>'
DEEP = order(
    '<xs:sequence><xs:element name="line"><xs:complexType><xs:attribute name="n" type="xs:int"/></xs:complexType>'
    "</xs:element></xs:sequence>"
)
TYPE = '<xs:complexType name="T"><xs:attribute name="n" type="xs:int"/></xs:complexType>'


@pytest.mark.parametrize(
    ("body", "link", "payload", "value"),
    [
        (TWO, "#b", b"<b>x</b>", "x"),
        (TWO, "a", b"<a>1</a>", 1),
        (TWO, "#/xs:schema/xs:element[@name='b']", b"<b>x</b>", "x"),
        (TWO, "/xs:schema/xs:element[2]", b"<b>x</b>", "x"),
        (TWO, "//xs:element[@name='a']", b"<a>1</a>", 1),
        (TWO, "#xpath(/*/xs:element[@name='a'])", b"<a>1</a>", 1),
        (TWO, "//xs:element%5B@name='a'%5D", b"<a>1</a>", 1),
        (DEEP, "//xs:element[@name='line']", b'<line n="1"/>', {"@n": 1}),
        (TYPE, "#T", b'<whatever n="1"/>', {"@n": 1}),
        (TYPE, "/xs:schema/xs:complexType[@name='T']", b'<whatever n="1"/>', {"@n": 1}),
        (DEEP, "//xs:complexType[xs:attribute]", b'<x n="1"/>', {"@n": 1}),
    ],
)
def test_deep_links_name_an_element_or_a_type(body: str, link: str, payload: bytes, value: JSON) -> None:
    """G.2: by XPath, or by name."""
    schema_ = parse(body, link)
    assert schema_.decode(payload) == value
    assert schema_.validate(value) == []
    assert schema_.fingerprint != parse(body + '<xs:attributeGroup name="U"/>', link).fingerprint


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("#c", "nothing"),
        ("//xs:element", "several"),
        ("//xs:attribute", "nothing"),
        ("//xs:element[", "no XPath"),
        ("//nope:element", "no XPath"),
        ("//*//*//*", "too much"),
        ("/xs:schema", "nothing"),
        ("document('/etc/passwd')", "no XPath"),
    ],
)
def test_invalid_link_error_lists_the_alternatives(link: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        parse(TWO, link)


def test_without_a_link_any_top_level_element_is_taken() -> None:
    """The element is selected by the root of the payload, with a warning (G-17)."""
    schema_ = parse(TWO)
    assert [schema_.decode(b"<a>1</a>"), schema_.decode(b"<b>1</b>")] == [{"a": 1}, {"b": "1"}]
    assert schema_.shape() == Anything()
    assert [warning.rule for warning in schema_.warnings] == ["link"]
    assert [len(schema_.validate(value)) for value in ({"a": 1}, {"a": "x"}, {"c": 1}, 3)] == [0, 1, 1, 1]
    with pytest.raises(SchemaError, match="no element at its top level"):
        parse(TYPE)


@pytest.mark.parametrize(
    ("payload", "reason", "rule", "path"),
    [
        (b"", "decode_error", "xml", ""),
        (b"<order", "decode_error", "xml", ""),
        (b'<!DOCTYPE order [<!ENTITY a "b">]><order/>', "decode_error", "xml", ""),
        (b"<other/>", "schema_violation", "root", "/other"),
        (SENT.replace(b"7", b"seven"), "schema_violation", "xsd", "/order/id"),
        (SENT.replace(b"12.50", b"12.505"), "schema_violation", "xsd", "/order/total"),
        (SENT.replace(b'raw="AAE="', b""), "schema_violation", "xsd", "/order"),
        (SENT.replace(b"<id> 7 </id>", b""), "schema_violation", "xsd", "/order"),
        (SENT.replace(b'count="2"', b'count="x"'), "schema_violation", "xsd", "/order/item[2]"),
        (SENT.replace(b"<id>", b"<extra/><id>"), "schema_violation", "xsd", "/order"),
    ],
)
def test_payload_error_contains_path_and_rule(payload: bytes, reason: str, rule: str, path: str) -> None:
    """The error has the reason, the rule and the path (K-44)."""
    with pytest.raises(PayloadError) as caught:
        parse(ORDER).decode(payload)
    assert caught.value.reason == reason
    assert (path, rule) in [(finding.path, finding.rule) for finding in caught.value.findings]


@pytest.mark.parametrize("content_type", ["", "application/xml", "text/xml; charset=utf-8", "application/order+xml"])
def test_xml_by_any_name(content_type: str) -> None:
    """XML payloads are accepted with every XML media type (K-40)."""
    assert parse(TWO, "a").decode(b"<a>1</a>", content_type) == 1


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/octet-stream"])
def test_other_encodings_are_unsupported(content_type: str) -> None:
    with pytest.raises(PayloadError) as caught:
        parse(TWO, "a").decode(b"<a>1</a>", content_type)
    assert caught.value.reason == "unsupported_format"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"id": "7"}, "/id"),
        ({"id": True}, "/id"),
        ({"item": {}}, "/item"),
        ({"item": [{"$": 3}]}, "/item/0/$"),
        ({"item": ["x"]}, "/item/0"),
        ({"@tags": 3}, "/@tags"),
        ({"other": 1}, "/other"),
    ],
)
def test_values_are_validated_as_well(change: dict[str, JSON], path: str) -> None:
    assert [finding.path for finding in parse(ORDER).validate({**MEANT, **change})] == [path]


def test_values_are_held_to_the_schema() -> None:
    assert [finding.rule for finding in parse(ORDER).validate({**MEANT, "id": 2**40})] == ["xsd"]
    assert [finding.rule for finding in parse(ORDER).validate([])] == ["type"]


def test_namespaces_are_left_out_of_names() -> None:
    body = order(sequence('name="id" type="xs:int"'))
    schema_ = parse(body, attributes='targetNamespace="urn:o" elementFormDefault="qualified"')
    assert schema_.decode(b'<o:order xmlns:o="urn:o"><o:id>1</o:id></o:order>') == {"id": 1}
    with pytest.raises(PayloadError, match="the root is order"):
        schema_.decode(b"<order><id>1</id></order>")


REFERRING = '<xs:include schemaLocation="parts/b.xsd"/><xs:element name="a" type="B"/>'
NUMBER = '<xs:simpleType name="{}"><xs:restriction base="xs:int"/></xs:simpleType>'
WITH_C = '<xs:complexType name="B"><xs:attribute name="c" type="C"/></xs:complexType>'
PARTS = {
    "parts/b.xsd": schema(f'<xs:include schemaLocation="c.xsd"/>{WITH_C}'),
    "parts/c.xsd": schema(f'<xs:include schemaLocation="b.xsd"/>{NUMBER.format("C")}'),
}


def test_documents_are_gathered_through_the_resolver() -> None:
    """Relative to the document that refers, each one once."""
    assert parse(REFERRING, documents=PARTS).decode(b'<a c="1"/>') == {"@c": 1}
    assert [finding.severity for finding in FORMAT.check(schema(REFERRING), "XSD/1.1")] == ["warning"]
    with pytest.raises(SchemaError, match=r"parts/b\.xsd"):
        parse(REFERRING)


def test_documents_that_refer_to_others_are_checked_in_part() -> None:
    """Only errors that do not depend on the other documents are found (G-19)."""
    findings = FORMAT.check(schema(f"{REFERRING}\n<xs:unheard/>"), "XSD/1.0")
    expected = {("line 1", "schema", "error"), ("", "import", "warning")}
    assert {(finding.path, finding.rule, finding.severity) for finding in findings} == expected


@pytest.mark.parametrize("format", ["XSD/1.0", "XSD/1.1"])
def test_the_first_document_of_a_process_is_checked(format: str) -> None:
    """The library builds its schema of schemas only when a whole document is built, or when it is told to."""
    for version in (_Schema10, _Schema11):
        assert version.meta_schema is not None
        version.meta_schema.maps.clear()
    referring = schema('<xs:include schemaLocation="other.xsd"/><xs:element nam="a"/>')
    assert ("line 1", "schema") in [(finding.path, finding.rule) for finding in FORMAT.check(referring, format)]


def test_mutual_includes_are_resolved() -> None:
    body = REFERRING.replace("parts/", "")
    documents = {"a.xsd": schema(body), "b.xsd": schema(f'<xs:include schemaLocation="a.xsd"/>{NUMBER.format("B")}')}
    assert parse(body, documents=documents).decode(b"<a>1</a>") == 1


def test_imports_are_found_by_place_or_by_namespace() -> None:
    body = '<xs:import namespace="urn:b" {}/><xs:element name="a" type="b:B"/>'
    other = schema(NUMBER.format("B"), 'targetNamespace="urn:b"')
    assert FORMAT.identities(other) == ("{urn:b}",)
    for where, place in (
        ("", "{urn:b}"),
        ("", "urn:b"),
        ('schemaLocation="http://elsewhere/b.xsd"', "http://elsewhere/b.xsd"),
    ):
        schema_ = parse(body.format(where), documents={place: other}, attributes='xmlns:b="urn:b"')
        assert schema_.decode(b"<a>1</a>") == 1


def test_errors_in_other_documents_have_their_names() -> None:
    documents = {"parts/b.xsd": schema('\n<xs:complexType name="B"><xs:attribute name="c" type="D"/></xs:complexType>')}
    with pytest.raises(SchemaError) as caught:
        parse(REFERRING, documents=documents)
    assert [finding.path for finding in caught.value.findings] == ["parts/b.xsd line 2"]


@pytest.mark.parametrize(
    "location", ["/etc/passwd", "file:///etc/passwd", "http://127.0.0.1:9/x.xsd", "../../x", "http://["]
)
@pytest.mark.parametrize("kind", ["include", "redefine", "override", 'import namespace="urn:x"'])
def test_schemas_fetch_nothing(location: str, kind: str) -> None:
    requested: list[str] = []

    def resolve(place: str) -> None:
        requested.append(place)

    with pytest.raises(SchemaError, match="to include or import"):
        FORMAT.parse(schema(f'<xs:{kind} schemaLocation="{location}"/>'), "XSD/1.1", resolve=resolve)
    assert len(requested) == 1
    with pytest.raises(SchemaError):
        FORMAT.parse(schema(f'<xs:{kind} schemaLocation="{location}"/>'), "XSD/1.1")


def test_payloads_fetch_nothing() -> None:
    """The schema location of a payload is ignored."""
    places = 'i:noNamespaceSchemaLocation="http://127.0.0.1:9/x.xsd" i:schemaLocation="urn:x /etc/x"'
    hint = f'<a xmlns:i="{XSI}" {places}>1</a>'
    assert parse(TWO, "a").decode(hint.encode()) == 1


@pytest.mark.parametrize("pattern", ["(a+)+", "(a|a)*", "(a|aa)+", "(.*.*)*x"])
def test_patterns_take_linear_time(pattern: str) -> None:
    """Python's engine would not come back from these."""
    kind = restricted("xs:string", f'<xs:pattern value="{pattern}"/>')
    schema_ = parse(f'<xs:element name="a">{kind}</xs:element>')
    with pytest.raises(PayloadError):
        schema_.decode(b"<a>" + b"a" * 5000 + b"!</a>")


def test_groups_that_multiply_are_refused() -> None:
    twice = '<xs:group name="g{0}"><xs:sequence><xs:group ref="g{1}"/><xs:group ref="g{1}"/></xs:sequence></xs:group>'
    groups = "".join(twice.format(number, number - 1) for number in range(1, 40))
    first = '<xs:group name="g0"><xs:sequence><xs:element name="a" minOccurs="0"/></xs:sequence></xs:group>'
    assert [finding.rule for finding in FORMAT.check(schema(first + groups), "XSD/1.1")] == ["weight"]


def test_expressions_without_bounds_are_not_run() -> None:
    body = order('<xs:attribute name="a" type="xs:int"/><xs:assert test="@a = 1 to 1000000000"/>')
    assert [finding.severity for finding in FORMAT.check(schema(body), "XSD/1.1")] == ["warning"]
    with pytest.raises(SchemaError, match="nobody knows how long"):
        parse(body)


def test_assertions_hold() -> None:
    schema_ = parse(
        order(sequence('name="a" type="xs:int" maxOccurs="unbounded"'), '<xs:assert test="sum(a) &lt; 10"/>')
    )
    assert schema_.decode(b"<order><a>1</a><a>2</a></order>") == {"a": [1, 2]}
    with pytest.raises(PayloadError, match="assert"):
        schema_.decode(b"<order><a>11</a></order>")
    with pytest.raises(PayloadError, match="more than 2000 elements"):
        schema_.decode(b"<order>" + b"<a>0</a>" * 2000 + b"</order>")


def test_identity_is_checked() -> None:
    key = '<xs:key name="k"><xs:selector xpath="a"/><xs:field xpath="."/></xs:key>'
    body = order(sequence('name="a" type="xs:int" maxOccurs="9"'))
    schema_ = parse(body[: -len("</xs:element>")] + key + "</xs:element>")
    assert schema_.decode(b"<order><a>1</a><a>2</a></order>") == {"a": [1, 2]}
    with pytest.raises(PayloadError, match="duplicated"):
        schema_.decode(b"<order><a>1</a><a>1</a></order>")


def unique(xpath: str) -> str:
    paths = f'<xs:selector xpath="{xpath}"/><xs:field xpath="."/>'
    inside = '<xs:sequence><xs:element name="b" maxOccurs="9"/></xs:sequence>'
    kind = f"<xs:complexType>{inside}</xs:complexType>"
    return f'<xs:element name="a">{kind}<xs:unique name="u">{paths}</xs:unique></xs:element>'


@pytest.mark.parametrize("xpath", ["q:b", "b[1]", "//b", "/".join(["a:a:a:a:a:a"] * 20) + "!"])
def test_invalid_identity_paths_are_rejected(xpath: str) -> None:
    """Invalid paths are rejected, and no path causes backtracking, as the last one would in the library."""
    assert [finding.path for finding in FORMAT.check(schema(unique(xpath)), "XSD/1.1")] == ["line 1"]


@pytest.mark.parametrize(
    "kind", ["integer", "decimal", "double", "dateTime", "duration", "base64Binary", "anyURI", "QName"]
)
@pytest.mark.parametrize(
    "text", ["9" * 10_000, "-" * 10_000, "a:" * 5_000, f"{'9' * 5000}-01-01T00:00:00", f"P{'9' * 5000}Y"]
)
def test_long_values_end(kind: str, text: str) -> None:
    schema_ = parse(f'<xs:element name="a" type="xs:{kind}"/>')
    try:
        is_expected = schema_.decode(f"<a>{text}</a>".encode()) is not None
    except PayloadError as error:
        is_expected = error.reason in ("schema_violation", "decode_error")
    assert is_expected


def test_a_registry_without_xml_schema_does_not_load_the_library() -> None:
    script = """
import sys
from signalbook.formats import find, list_supported
list_supported(), find("XSD/1.1")
assert "xmlschema" not in sys.modules
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@given(st.binary(max_size=60) | st.text("<>/ab= &'\"!?[]", max_size=40).map(str.encode))
@settings(deadline=None)
def test_any_bytes_are_a_value_or_a_payload_error(payload: bytes) -> None:
    try:
        is_expected = parse(TWO, "b").decode(payload) is not None
    except PayloadError as error:
        is_expected = bool(error.findings)
    assert is_expected


@given(st.text("<>/xs:schemaelnt= '\"", max_size=60))
@settings(deadline=None)
def test_any_text_is_a_schema_or_has_findings(text: str) -> None:
    assert FORMAT.check(text.encode(), "XSD/1.1")


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (ORDER, MEANT),
        ('<xs:element name="a" type="xs:int"/><xs:element name="b" type="xs:string"/>', {"b": "x & <y>"}),
        ('<xs:element name="a" type="xs:string"/>', "text"),
    ],
)
def test_values_become_payloads_again(body: str, value: JSON) -> None:
    """Encoded values are decoded to the same values (K-52)."""
    schema_ = parse(body)
    assert schema_.decode(schema_.encode(value, "text/xml"), "text/xml") == value


def test_xml_text_is_sent_unchanged() -> None:
    """The XML text is validated and kept (K-52)."""
    assert parse(ORDER).encode(SENT.decode()) == SENT


@pytest.mark.parametrize(
    ("value", "content_type", "reason"),
    [
        ("<order/>", "", "schema_violation"),
        ("<order>", "", "decode_error"),
        ("\ud800<order>", "", "schema_violation"),
        ("<\ud800>", "", "decode_error"),
        ({**MEANT, "id": 2**40}, "", "schema_violation"),
        ({**MEANT, "other": 1}, "", "schema_violation"),
        (MEANT, "application/json", "unsupported_format"),
    ],
)
def test_invalid_value_is_not_encoded(value: JSON, content_type: str, reason: str) -> None:
    """The error has the reason (K-52)."""
    with pytest.raises(PayloadError) as caught:
        parse(ORDER).encode(value, content_type)
    assert caught.value.reason == reason

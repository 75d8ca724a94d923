from itertools import product

import pytest

from signalbook.formats.compatibility import SchemaText, find_comparison, list_differences
from signalbook.formats.xsd import FORMAT
from signalbook.values import JSON
from signalbook.work import Work

XS = "http://www.w3.org/2001/XMLSchema"


def text(body: str, attributes: str = "", version: str = "1.1") -> SchemaText:
    document = f'<xs:schema xmlns:xs="{XS}" {attributes}>{body}</xs:schema>'
    return SchemaText(document=document.encode(), format=f"XSD/{version}")


def why(old: SchemaText, new: SchemaText, direction: str = "backward") -> list[tuple[str, str]]:
    return [(difference.path, difference.rule) for _, difference in list_differences(direction, new, old)]


def of(content: str, attributes: str = "", mixed: bool = False) -> str:
    """A root element ``r`` with some content."""
    mixed_attribute = ' mixed="true"' if mixed else ""
    return f'<xs:element name="r"><xs:complexType{mixed_attribute}>{content}{attributes}</xs:complexType></xs:element>'


def element(name: str, xsd: str = "xs:int", occurs: str = "", more: str = "") -> str:
    """``occurs`` is ``?``, ``*``, ``+``, ``2,5`` or ``2,``."""
    least, most = {"": ("1", "1"), "?": ("0", "1"), "*": ("0", ""), "+": ("1", "")}.get(occurs) or occurs.split(",")
    return f'<xs:element name="{name}" type="{xsd}" minOccurs="{least}" maxOccurs="{most or "unbounded"}" {more}/>'


def group(kind: str, *parts: str, occurs: str = "") -> str:
    least, most = {"": ("1", "1"), "?": ("0", "1"), "*": ("0", ""), "+": ("1", "")}.get(occurs) or occurs.split(",")
    return f'<xs:{kind} minOccurs="{least}" maxOccurs="{most or "unbounded"}">{"".join(parts)}</xs:{kind}>'


def seq(*parts: str, occurs: str = "") -> str:
    return group("sequence", *parts, occurs=occurs)


def choice(*parts: str, occurs: str = "") -> str:
    return group("choice", *parts, occurs=occurs)


def every(*parts: str, occurs: str = "") -> str:
    return group("all", *parts, occurs=occurs)


def attribute(name: str, xsd: str = "xs:int", more: str = "") -> str:
    return f'<xs:attribute name="{name}" type="{xsd}" {more}/>'


def wild(namespace: str = "##any", process: str = "lax", occurs: str = "*") -> str:
    least, most = {"": ("1", "1"), "?": ("0", "1"), "*": ("0", "unbounded")}[occurs]
    return f'<xs:any namespace="{namespace}" processContents="{process}" minOccurs="{least}" maxOccurs="{most}"/>'


A, B, C = element("a"), element("b"), element("c")
Pairs = list[tuple[str, str, str | None, str | None]]

# old, new, what backward breaks, what forward breaks
CONTENTS: Pairs = [
    (seq(A), seq(A), None, None),
    (seq(A), seq(A, element("b", occurs="?")), None, "element_removed"),
    (seq(A), seq(A, B), "element_required", "element_removed"),
    (seq(A, C), seq(A, B, C), "element_required", "element_removed"),
    (seq(A, B), seq(A), "element_removed", "element_required"),
    (seq(A, B), seq(B, A), "element_unexpected", "element_unexpected"),
    (seq(A), seq(element("a", occurs="?")), None, "min_occurs_increased"),
    (seq(A), seq(element("a", occurs="*")), None, "min_occurs_increased"),
    (seq(element("a", occurs="2,3")), seq(element("a", occurs="1,5")), None, "min_occurs_increased"),
    (seq(element("a", occurs="2,5")), seq(element("a", occurs="1,3")), "max_occurs_decreased", "min_occurs_increased"),
    (seq(element("a", occurs="5,1000000")), seq(element("a", occurs="3,2000000")), None, "min_occurs_increased"),
    (seq(element("a", occurs="0,1000000")), seq(element("a", occurs="0,999999")), "max_occurs_decreased", None),
    (seq(element("a", occurs="0,1000000"), B), seq(element("a", occurs="*"), B), None, "max_occurs_decreased"),
    (seq(A, B, occurs="*"), choice(A, B, occurs="*"), None, "element_unexpected"),
    (choice(A, B), choice(A, B, C), None, "element_removed"),
    (choice(A, B), seq(element("a", occurs="?"), element("b", occurs="?")), None, "min_occurs_increased"),
    (seq(element("a", occurs="?"), B), choice(A, B), "element_unexpected", "min_occurs_increased"),
    (seq(A, A, A), seq(element("a", occurs="3,3")), None, None),
    (seq(seq(A, A), A), seq(element("a", occurs="2,4")), None, "min_occurs_increased"),
    (seq(A, seq(B, C, occurs="?")), seq(A, choice(seq(B, C), occurs="?")), None, None),
    (seq(choice(A, B), occurs="1,3"), seq(choice(B, A), occurs="+"), None, "max_occurs_decreased"),
    (every(A, B), every(B, A), None, None),
    (every(A, B), every(A, B, element("c", occurs="?")), None, "element_removed"),
    (every(A), every(A, B), "min_occurs_increased|element_required", "element_removed"),
    (seq(A, B), every(A, B), None, "element_unexpected"),
    (seq(A, B, occurs="?"), every(A, B), "min_occurs_increased", "element_unexpected"),
    (every(A, B, occurs="?"), every(A, element("b", occurs="?"), occurs="?"), None, "min_occurs_increased"),
    (every(A, B), choice(A, B, occurs="*"), None, "min_occurs_increased"),
    (every(A, element("b", occurs="?")), seq(element("b", occurs="?"), A), "element_unexpected", None),
    (seq(A, wild()), seq(A, wild(occurs="*")), None, None),
    (seq(A, wild("##other")), seq(A, wild("##any", "skip")), None, "wildcard_narrowed"),
    (seq(A, wild("##any", "lax")), seq(A, wild("##any", "strict")), "wildcard_narrowed", None),
    (seq(A, wild("urn:x", "strict")), seq(A), None, None),  # no element of the namespace is declared
    (seq(wild("urn:x", "strict"), B), seq(B, wild("urn:x", "strict")), None, None),
    (seq(A, wild("urn:x urn:y")), seq(A, wild("urn:y")), "wildcard_narrowed", None),
    (seq(A, wild("##local", "skip")), seq(A, element("b", occurs="?"), wild("##other", "skip")), "element_added_to_open_content_model|wildcard_narrowed", "wildcard_narrowed"),  # noqa: E501
    (seq(A, B), seq(A, wild("##any", "skip")), None, "element_required"),
    (seq(A, wild("##other", "lax", "?")), seq(A, element("b", occurs="?"), wild("##other", "lax", "?")), None, "element_removed"),  # noqa: E501
]  # fmt: skip


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize(("old", "new", "backward", "forward"), CONTENTS)
def test_content_models(version: str, old: str, new: str, backward: str | None, forward: str | None) -> None:
    before, after = (text(of(content_model), version=version) for content_model in (old, new))
    check(before, after, backward, forward)


def test_reasons_name_the_required_element() -> None:
    """The last of the possible next elements is named, because the others are optional."""
    before, after = (text(of(content_model)) for content_model in (choice(A, B), seq(element("a", occurs="?"), B)))
    assert ("r/b", "min_occurs_increased") in why(before, after, "backward")


def check(before: SchemaText, after: SchemaText, backward: str | None, forward: str | None) -> None:
    for broken, direction in ((backward, "backward"), (forward, "forward")):
        differences = why(before, after, direction)
        assert (
            (differences[0][1] in broken.split("|") if broken else not differences) if differences else broken is None
        ), differences
    spaced = [
        SchemaText(document=schema_text.document + b" ", format=schema_text.format) for schema_text in (before, after)
    ]
    assert why(before, spaced[0], "full") == why(after, spaced[1], "full") == []


def simple(base: str, *facets: tuple[str, object]) -> str:
    facet_elements = "".join(f'<xs:{name} value="{value}"/>' for name, value in facets)
    return f'<xs:simpleType name="T"><xs:restriction base="{base}">{facet_elements}</xs:restriction></xs:simpleType>'


def of_list(item: str) -> str:
    return f'<xs:simpleType name="T"><xs:list itemType="{item}"/></xs:simpleType>'


def of_union(*members: str) -> str:
    return f'<xs:simpleType name="T"><xs:union memberTypes="{" ".join(members)}"/></xs:simpleType>'


SIMPLE: Pairs = [
    (simple("xs:int"), simple("xs:int"), None, None),
    (simple("xs:int"), simple("xs:long"), None, "maximum_decreased|minimum_increased"),
    (simple("xs:byte"), simple("xs:integer"), None, "minimum_added"),
    (simple("xs:unsignedShort"), simple("xs:int"), None, "minimum_increased"),
    (simple("xs:int"), simple("xs:unsignedInt"), "minimum_increased", "maximum_decreased"),
    (simple("xs:integer"), simple("xs:decimal"), None, "type_narrowed"),
    (simple("xs:int"), simple("xs:double"), None, "type_changed"),
    (simple("xs:long"), simple("xs:double"), "type_narrowed", "type_changed"),
    (simple("xs:float"), simple("xs:double"), None, "type_narrowed"),
    (simple("xs:int"), simple("xs:string"), None, "type_changed"),
    (simple("xs:date"), simple("xs:string"), None, "type_changed"),
    (simple("xs:date"), simple("xs:dateTime"), "type_changed", "type_changed"),
    (simple("xs:token"), simple("xs:string"), None, "whitespace_changed"),
    (simple("xs:NCName"), simple("xs:Name"), None, "type_narrowed"),
    (simple("xs:Name"), simple("xs:NMTOKEN"), None, "type_narrowed"),
    (simple("xs:NCName"), simple("xs:ID"), "undecided|type_narrowed", "undecided"),
    (simple("xs:string", ("maxLength", 5)), simple("xs:string", ("maxLength", 6)), None, "max_length_decreased"),
    (simple("xs:string"), simple("xs:string", ("maxLength", 6)), "max_length_added", None),
    (simple("xs:string", ("length", 3)), simple("xs:string", ("minLength", 2)), None, "min_length_increased"),
    (simple("xs:language"), simple("xs:NCName", ("minLength", 1)), None, "type_narrowed"),
    (simple("xs:language"), simple("xs:token", ("minLength", 2)), "min_length_increased", "type_narrowed"),
    (simple("xs:int"), simple("xs:string", ("minLength", 1)), None, "type_changed"),
    (simple("xs:int"), simple("xs:string", ("minLength", 2)), "type_changed", "type_changed"),
    (of_list("xs:int"), simple("xs:string", ("minLength", 1)), "type_changed", "type_changed"),
    (simple("xs:string", ("pattern", "a+")), simple("xs:string"), None, "pattern_added"),
    (simple("xs:string", ("pattern", "a+")), simple("xs:string", ("pattern", "b"), ("pattern", "a+")), None, "pattern_changed"),  # noqa: E501
    (simple("xs:string"), simple("xs:string", ("pattern", ".*")), "pattern_added", None),
    (simple("xs:token"), simple("xs:token", ("pattern", ".*")), None, None),
    (simple("xs:int"), simple("xs:token", ("pattern", ".*")), None, "type_changed"),
    (simple("xs:int"), simple("xs:string", ("pattern", ".*")), "type_changed|undecided", "type_changed"),
    (of_union("xs:token", "xs:boolean"), simple("xs:normalizedString", ("pattern", ".*")), "whitespace_changed", "whitespace_changed"),  # noqa: E501
    (simple("xs:string", ("pattern", "a+")), simple("xs:string", ("pattern", "a*")), "undecided", "pattern_changed"),
    (simple("xs:decimal", ("pattern", "\\d{1,2}")), simple("xs:decimal", ("pattern", "\\d{1,2}"), ("totalDigits", 6)), "undecided", None),  # noqa: E501
    (simple("xs:boolean", ("pattern", "\\d")), simple("xs:float"), "undecided", "type_changed"),
    (simple("xs:string", ("enumeration", "a")), simple("xs:string", ("enumeration", "b"), ("enumeration", "a")), None, "enumeration_narrowed"),  # noqa: E501
    (simple("xs:string", ("enumeration", "ab")), simple("xs:string", ("pattern", "[a-z]+")), None, "enumeration_added|pattern_added"),  # noqa: E501
    (simple("xs:string", ("enumeration", "12")), simple("xs:int"), None, "type_changed|enumeration_added"),
    (simple("xs:int", ("enumeration", "1")), simple("xs:int", ("enumeration", "01")), None, None),
    (simple("xs:int", ("maxInclusive", 9)), simple("xs:int", ("maxExclusive", 10)), None, None),
    (simple("xs:int", ("minInclusive", 1)), simple("xs:int", ("minExclusive", 1)), "minimum_increased", None),
    (simple("xs:decimal", ("maxInclusive", "1.5")), simple("xs:decimal", ("maxExclusive", "1.5")), "maximum_decreased", None),  # noqa: E501
    (simple("xs:decimal", ("totalDigits", 4), ("fractionDigits", 2)), simple("xs:decimal", ("totalDigits", 6)), None, "total_digits_decreased"),  # noqa: E501
    (simple("xs:integer", ("totalDigits", 4)), simple("xs:short"), None, "total_digits_decreased"),
    (simple("xs:integer", ("totalDigits", 5)), simple("xs:short"), "minimum_increased|minimum_added", None),
    (simple("xs:date", ("minInclusive", "2020-01-01")), simple("xs:date", ("minInclusive", "2019-01-01")), None, "minimum_increased"),  # noqa: E501
    (of_list("xs:int"), of_list("xs:long"), None, "minimum_increased"),
    (simple("xs:int"), of_list("xs:int"), None, "type_changed"),
    (simple("xs:string"), of_list("xs:string"), "whitespace_changed", None),
    (simple("xs:string", ("pattern", "[a-z]+")), of_list("xs:string"), "undecided", "type_changed"),
    (simple("xs:string"), of_list("xs:int"), "type_changed", None),
    (of_list("xs:int"), simple("xs:string"), None, "type_changed"),
    (of_union("xs:int", "xs:date"), of_union("xs:date", "xs:long", "xs:time"), None, "type_changed|minimum_increased"),
    (of_union("xs:int", "xs:date"), simple("xs:string"), None, "type_changed"),
    (simple("xs:int"), of_union("xs:int", "xs:token"), None, "type_changed"),
    (simple("xs:hexBinary"), simple("xs:base64Binary"), "type_changed", "type_changed"),
    (simple("xs:QName"), simple("xs:NCName"), "type_changed", "type_changed"),
    # All texts are accepted, or no text was found that is not: nothing else may be said.
    (simple("xs:boolean"), of_union("xs:decimal", "xs:language"), "undecided", "type_changed"),
    (simple("xs:language"), simple("xs:NCName"), None, "type_narrowed"),
    (simple("xs:anyURI", ("enumeration", "ab")), simple("xs:NMTOKEN"), None, "enumeration_added"),
    (simple("xs:double", ("enumeration", "1e3")), of_union("xs:language", "xs:NMTOKEN"), "type_changed", "type_changed"),  # noqa: E501
    (simple("xs:double"), simple("xs:float", ("minInclusive", "2")), "minimum_added", None),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "backward", "forward"), SIMPLE)
def test_simple_types(old: str, new: str, backward: str | None, forward: str | None) -> None:
    before, after = (text(of(seq(element("v", "T")), attribute("v", "T")) + type_text) for type_text in (old, new))
    check(before, after, backward, forward)


ATTRIBUTES: Pairs = [
    ("", attribute("a"), None, "attribute_removed"),
    ("", attribute("a", more='use="required"'), "attribute_required", "attribute_removed"),
    (attribute("a"), attribute("a", more='use="required"'), "attribute_required", None),
    (attribute("a"), attribute("a", more='use="prohibited"'), "attribute_removed", None),
    (attribute("a"), attribute("a", more='default="1"'), None, "default_changed"),
    (attribute("a", more='default="1"'), attribute("a", more='default="2"'), "default_changed", "default_changed"),
    (attribute("a"), attribute("a", more='fixed="1"'), "fixed_added", "default_changed"),
    (attribute("a", more='fixed="1"'), attribute("a", more='fixed="2"'), "fixed_changed", "fixed_changed"),
    (attribute("a", "xs:decimal", 'fixed="1"'), attribute("a", "xs:boolean", 'fixed="1"'), "undecided", "undecided"),
    (attribute("a", "xs:int", 'fixed="-1"'), attribute("a", "xs:unsignedInt"), "value_refused", "maximum_decreased"),
    (attribute("a"), "<xs:anyAttribute/>", "attribute_removed", "any_attribute_removed"),
    (attribute("a"), '<xs:anyAttribute processContents="lax"/>', None, "attribute_added_to_open_content_model"),
    ('<xs:anyAttribute namespace="urn:x" processContents="skip"/>', '<xs:anyAttribute namespace="##other" processContents="skip"/>', None, "any_attribute_narrowed"),  # noqa: E501
    ('<xs:anyAttribute processContents="lax"/>', '<xs:anyAttribute processContents="strict"/>', "any_attribute_narrowed", None),  # noqa: E501
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "backward", "forward"), ATTRIBUTES)
def test_attributes(old: str, new: str, backward: str | None, forward: str | None) -> None:
    check(text(of("", old)), text(of("", new)), backward, forward)


WHOLE: Pairs = [
    ('<xs:element name="a"/>', '<xs:element name="a"/><xs:element name="b"/>', "element_added_to_open_content_model", "element_removed"),  # noqa: E501
    (element("a").replace('minOccurs="1" maxOccurs="1"', 'nillable="true"'), element("a").replace('minOccurs="1" maxOccurs="1"', ""), "nillable_removed", None),  # noqa: E501
    (of(seq(A)), of(seq(A), mixed=True), None, "mixed_removed"),
    ('<xs:element name="r" type="xs:int"/>', of("", "<xs:attribute name='x'/>"), "content_changed", "content_changed|attribute_removed"),  # noqa: E501
    ('<xs:element name="r" type="xs:int"/>', '<xs:element name="r"><xs:complexType><xs:simpleContent><xs:extension base="xs:long"><xs:attribute name="x"/></xs:extension></xs:simpleContent></xs:complexType></xs:element>', None, "attribute_removed"),  # noqa: E501
    ('<xs:element name="r" type="xs:int"/>', '<xs:element name="r"/>', None, "content_changed|mixed_removed|any_attribute_removed"),  # noqa: E501
    ('<xs:element name="r" type="xs:int" default="1"/>', '<xs:element name="r" type="xs:int"/>', "default_changed", None),  # noqa: E501
    ('<xs:complexType name="T"/>', '<xs:complexType name="T"/><xs:complexType name="U"/>', None, "type_removed"),
    (of(seq(A), '<xs:assert test="a = 1"/>'), of(seq(A)), None, "undecided"),
    (of(seq(A), '<xs:assert test="a  = 1"/>'), of(seq(element("a", occurs="?")), '<xs:assert test="a = 1"/>'), None, "min_occurs_increased"),  # noqa: E501
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "backward", "forward"), WHOLE)
def test_elements_and_types(old: str, new: str, backward: str | None, forward: str | None) -> None:
    check(text(old), text(new), backward, forward)


def test_paths_lead_from_a_declaration_at_the_top() -> None:
    item = '<xs:complexType name="Item"><xs:attribute name="n" type="xs:{}"/></xs:complexType>'
    order = (
        '<xs:element name="order"><xs:complexType><xs:sequence><xs:element name="line"><xs:complexType><xs:sequence>'
    )
    order += (
        '<xs:element name="item" type="Item"/><xs:element name="price" type="xs:{}"/></xs:sequence></xs:complexType>'
    )
    order += "</xs:element></xs:sequence></xs:complexType></xs:element>"
    old, new = (text(order.format(kind) + item.format(kind)) for kind in ("int", "short"))
    assert sorted(why(old, new)) == [
        ("Item/@n", "maximum_decreased"), ("Item/@n", "minimum_increased"),
        ("order/line/price", "maximum_decreased"), ("order/line/price", "minimum_increased"),
    ]  # fmt: skip


def test_a_built_in_type_has_the_path_of_its_element() -> None:
    new = text('<xs:element name="r" type="xs:string"/>')
    assert why(text(of(seq(A))), new) == [("r", "content_changed")]
    assert why(text('<xs:element name="r"/>'), new) == [("r", "any_attribute_removed"), ("r", "content_changed")]


@pytest.mark.parametrize(
    ("written", "version", "expected"),
    [
        ("token", "1.0", "type_changed"),
        ("token", "1.1", None),
        ("int", "1.1", None),
        ("string", "1.1", "whitespace_changed"),
        ("ID", "1.1", "undecided"),
    ],
)
def test_any_text_is_an_any_uri_in_xsd_1_1(written: str, version: str, expected: str | None) -> None:
    old, new = (text(f'<xs:element name="r" type="xs:{kind}"/>', "", version) for kind in (written, "anyURI"))
    assert why(old, new) == ([("r", expected)] if expected else [])


def test_namespaces_and_qualification_matter() -> None:
    body = of(seq(A))
    expected = [("", "namespace_changed")]
    assert why(text(body, 'targetNamespace="urn:a"'), text(body, 'targetNamespace="urn:b"')) == expected
    qualified = text(body, 'targetNamespace="urn:a" elementFormDefault="qualified"')
    differences = why(text(body, 'targetNamespace="urn:a"'), qualified)
    assert differences == [("r/a", "element_removed")]


def test_substitutes() -> None:
    """Elements that can substitute an element belong to the content model."""
    head = (
        '<xs:element name="h" type="xs:int" abstract="{}"/><xs:element name="s" type="xs:int" substitutionGroup="h"/>'
    )
    holder = of('<xs:sequence><xs:element ref="h"/></xs:sequence>')
    more = '<xs:element name="t" type="xs:int" substitutionGroup="h"/>'
    plain, abstract = (text(head.format(flag) + holder) for flag in ("false", "true"))
    assert why(plain, text(head.format("false") + more + holder)) == []
    expected = [("t", "element_removed"), ("r/t", "element_removed")]
    assert why(text(head.format("false") + more + holder), plain) == expected
    assert why(abstract, plain) == []
    assert ("r/h", "element_removed") in why(plain, abstract)


def test_types_available_to_xsi_type_are_compared() -> None:
    base = '<xs:complexType name="B"><xs:sequence><xs:element name="a" type="xs:int"/></xs:sequence></xs:complexType>'
    more = '<xs:complexType name="D"><xs:complexContent><xs:extension base="B"><xs:attribute name="{}"/></xs:extension></xs:complexContent></xs:complexType>'  # noqa: E501
    root = '<xs:element name="r" type="B"/>'
    assert why(text(root + base), text(root + base + more.format("x"))) == []
    assert why(text(root + base + more.format("x")), text(root + base)) == [("r", "derived_type_removed")]
    expected = [("D/@x", "attribute_removed")]
    assert why(text(root + base + more.format("x")), text(root + base + more.format("y"))) == expected
    same = base + more.replace('<xs:attribute name="{}"/>', "")
    assert why(text(root + same), text(root.replace("B", "D") + same)) == []


@pytest.mark.parametrize(
    "root", ['<xs:element name="r" type="xs:anyType"/>', of(seq('<xs:any processContents="lax"/>'))]
)
def test_types_available_to_xsi_type_in_any_content_are_compared(root: str) -> None:
    """A document may name a type that no element has."""
    kind = '<xs:complexType name="T"><xs:sequence><xs:element name="a" type="xs:{}"/></xs:sequence></xs:complexType>'
    assert why(text(root + kind.format("byte")), text(root + kind.format("int"))) == []
    assert {rule for _, rule in why(text(root + kind.format("int")), text(root + kind.format("byte")))} == {
        "minimum_increased", "maximum_decreased",
    }  # fmt: skip
    assert why(text(root + kind.format("int")), text(root)) == [("T", "derived_type_removed")]
    abstract = kind.replace("name=", 'abstract="true" name=', 1)
    assert why(text(root + abstract.format("int")), text(root)) == []


@pytest.mark.parametrize("process", ["skip", "lax", "strict"])
def test_fixed_values_of_attributes_that_wildcards_allow(process: str) -> None:
    """A declared attribute has its fixed value wherever a wildcard of the reader allows it."""
    root = of("", f'<xs:anyAttribute processContents="{process}"/>')
    described = of("", attribute("a", "xs:string", 'fixed="1"') + f'<xs:anyAttribute processContents="{process}"/>')
    free, fixed = attribute("a", "xs:string"), attribute("a", "xs:string", 'fixed="1"')
    rules = {"skip": [], "lax": [("@a", "fixed_added")], "strict": [("@a", "fixed_added")]}
    assert why(text(root + free), text(root + fixed)) == rules[process]
    assert why(text(root + fixed), text(root + free)) == []
    opened = [("@a", "attribute_added_to_open_content_model")]
    assert why(text(root), text(root + fixed)) == (opened if process == "lax" else [])
    expected = [("r/@a", "attribute_added_to_open_content_model" if process == "skip" else "fixed_added")]
    assert why(text(root + free), text(described + free)) == expected


@pytest.mark.parametrize("process", ["lax", "skip"])
def test_declarations_within_an_element_of_any_type_that_a_wildcard_allows(process: str) -> None:
    any_element = element("d", "xs:anyType", more='nillable="true"')
    old = text(of(choice(wild(process=process, occurs=""))))
    new = text(of(choice(any_element, wild(process="skip", occurs=""))) + '<xs:element name="z" type="xs:int"/>')
    assert ("z", "element_added_to_open_content_model") in why(old, new)


def test_fixed_values_of_elements_in_any_content() -> None:
    root = of(seq(wild(process="lax")))
    anything = '<xs:element name="b" type="xs:anyType" nillable="true"{}/>'
    assert why(text(root), text(root + anything.format(""))) == []
    expected = [("b", "element_added_to_open_content_model")]
    assert why(text(root), text(root + anything.format(' fixed="1"'))) == expected


def test_identity_constraints() -> None:
    def keyed(constraint: str, prefix: str = "t") -> SchemaText:
        body = of(seq(element("a", occurs="*"))).replace("</xs:element>", f"{constraint}</xs:element>")
        return text(body, f'targetNamespace="urn:t" elementFormDefault="qualified" xmlns:{prefix}="urn:t"')

    def unique(prefix: str) -> str:
        return f'<xs:unique name="u"><xs:selector xpath="{prefix}:a"/><xs:field xpath="."/></xs:unique>'

    assert why(keyed(unique("t")), keyed("")) == []
    assert why(keyed(""), keyed(unique("t"))) == [("r", "identity_constraint_added")]
    assert why(keyed(unique("t")), keyed(unique("p"), "p")) == []


def test_recursive_types_are_compared() -> None:
    def tree(leaf: str) -> SchemaText:
        node = seq(element("leaf", leaf), element("node", "Node", "*"))
        return text(f'<xs:element name="tree" type="Node"/><xs:complexType name="Node">{node}</xs:complexType>')

    assert why(tree("xs:short"), tree("xs:int")) == []
    assert ("Node/leaf", "maximum_decreased") in why(tree("xs:int"), tree("xs:short"))


def test_groups_and_other_documents() -> None:
    """References are resolved before schemas are compared."""
    documents = {
        "a.xsd": text('<xs:group name="g"><xs:sequence><xs:element name="a" type="xs:int"/></xs:sequence></xs:group>')
    }
    include = '<xs:include schemaLocation="a.xsd"/>' + of('<xs:group ref="g"/>')
    document = text(include).document
    referring = SchemaText(document=document, format="XSD/1.1", resolve=lambda place: documents[place].document)
    assert why(text(of(seq(A))), referring, "full") == []
    assert why(text(of(seq(B))), referring) == [("r/b", "element_removed")]


def test_versions_of_the_language_are_one_format() -> None:
    assert why(text(of(seq(A)), version="1.0"), text(of(seq(A)), version="1.1"), "full") == []
    assert find_comparison("XSD/1.0") is find_comparison("xsd") is not None


def test_open_content() -> None:
    """XSD 1.1."""

    def opened(mode: str, namespace: str, *more: str) -> SchemaText:
        inner = (
            f'<xs:openContent mode="{mode}"><xs:any namespace="{namespace}" processContents="skip"/></xs:openContent>'
        )
        return text(of(inner + seq(A, *more)))

    assert why(text(of(seq(A))), opened("interleave", "##any")) == []
    assert why(opened("interleave", "urn:x"), opened("interleave", "##other")) == []
    assert why(opened("interleave", "##any"), text(of(seq(A)))) == [("r", "open_content_removed")]
    expected = [("r", "undecided")]
    assert why(opened("interleave", "##any"), opened("interleave", "##any", element("b", occurs="?"))) == expected


ORDER = """
<xs:element name="order" type="Order"/>
<xs:complexType name="Order"><xs:sequence>
  <xs:element name="id" type="xs:int"/>
  <xs:element name="note" type="xs:string" minOccurs="0"/>
  <xs:element name="line" maxOccurs="unbounded"><xs:complexType>
    <xs:sequence><xs:element name="sku" type="Sku"/><xs:element name="price" type="Price"/></xs:sequence>
    <xs:attribute name="count" type="xs:short" use="required"/><xs:attribute name="unit" type="Unit" default="kg"/>
  </xs:complexType></xs:element>
  <xs:choice><xs:element name="card" type="xs:token"/><xs:element name="cash" type="xs:boolean"/></xs:choice>
</xs:sequence></xs:complexType>
<xs:simpleType name="Sku"><xs:restriction base="xs:token"><xs:pattern value="[A-Z]{3}"/>
</xs:restriction></xs:simpleType>
<xs:simpleType name="Price"><xs:restriction base="xs:decimal"><xs:fractionDigits value="2"/>
</xs:restriction></xs:simpleType>
<xs:simpleType name="Unit"><xs:restriction base="xs:token"><xs:enumeration value="kg"/><xs:enumeration value="m"/>
</xs:restriction></xs:simpleType>
"""
EDITS: list[tuple[str, str, str | None, str | None]] = [
    # what is replaced, by what, what backward breaks, what forward breaks
    ('name="id" type="xs:int"', 'name="id" type="xs:long"', None, "minimum_increased"),
    ('name="id" type="xs:int"', 'name="id" type="xs:string"', None, "type_changed"),
    ('name="id" type="xs:int"', 'name="id" type="xs:int" nillable="true"', None, "nillable_removed"),
    ('name="id" type="xs:int"', 'name="key" type="xs:int"', "element_removed", "element_removed"),
    ('type="xs:string" minOccurs="0"', 'type="xs:string"', "element_unexpected", None),
    ('type="xs:string" minOccurs="0"', 'type="xs:string" minOccurs="0" maxOccurs="2"', None, "max_occurs_decreased"),
    ('name="line" maxOccurs="unbounded"', 'name="line" maxOccurs="99"', "max_occurs_decreased", None),
    ("<xs:choice>", '<xs:choice minOccurs="0">', None, "min_occurs_increased"),
    ("<xs:choice>", '<xs:choice><xs:element name="app" type="xs:token"/>', None, "element_removed"),
    ("</xs:choice>", '</xs:choice><xs:element name="tip" type="xs:int" minOccurs="0"/>', None, "element_removed"),
    ("</xs:choice>", '</xs:choice><xs:element name="tip" type="xs:int"/>', "element_required", "element_removed"),
    ('type="xs:short" use="required"', 'type="xs:short"', None, "attribute_required"),
    ('type="xs:short" use="required"', 'type="xs:byte" use="required"', "minimum_increased", None),
    ('default="kg"', 'default="m"', "default_changed", "default_changed"),
    ('default="kg"', "", "default_changed", None),
    ('<xs:enumeration value="m"/>', '<xs:enumeration value="m"/><xs:enumeration value="l"/>', None, "enumeration_narrowed"),  # noqa: E501
    ('<xs:enumeration value="m"/>', "", "enumeration_narrowed", None),
    ('<xs:pattern value="[A-Z]{3}"/>', "", None, "pattern_added"),
    ('<xs:fractionDigits value="2"/>', '<xs:fractionDigits value="3"/>', None, "fraction_digits_decreased"),
    ('name="Order"><xs:sequence>', 'name="Order" mixed="true"><xs:sequence>', None, "mixed_removed"),
    ("</xs:simpleType>", "</xs:simpleType><!-- more -->", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "backward", "forward"), EDITS)
def test_single_edits(before: str, after: str, backward: str | None, forward: str | None) -> None:
    assert before in ORDER
    check(text(ORDER), text(ORDER.replace(before, after, 1)), backward, forward)


@pytest.mark.parametrize(
    ("after", "before", "rule", "old", "new"),
    [
        ('name="id" type="xs:int"', 'name="id" type="xs:int" nillable="true"', "nillable_removed", True, False),
        ('name="id" type="xs:int"', 'name="id" type="xs:string"', "type_changed", "string", "int"),
        ('name="id" type="xs:int"', 'name="id" type="xs:unsignedInt"', "maximum_decreased", "4294967295", "2147483647"),
        ('name="id" type="xs:int"', 'name="key" type="xs:int"', "element_removed", "key", None),
        ("<xs:choice>", '<xs:choice minOccurs="0">', "min_occurs_increased", None, "line or card or cash"),
        ('type="xs:short" use="required"', 'type="xs:short"', "attribute_required", None, "short"),
        ('default="kg"', 'default="m"', "default_changed", "m", "kg"),
        ('<xs:pattern value="[A-Z]{3}"/>', "", "pattern_added", "any text", "[A-Z]{3}"),
        ('name="Order"><xs:sequence>', 'name="Order" mixed="true"><xs:sequence>', "mixed_removed", "mixed", None),
    ],
)
def test_differences_contain_the_values(after: str, before: str, rule: str, old: JSON, new: JSON) -> None:
    """The schema was changed from ``before`` to ``after``."""
    differences = FORMAT.differences(text(ORDER), text(ORDER.replace(after, before, 1)))
    assert (rule, old, new) in [(difference.rule, difference.old, difference.new) for difference in differences]


@pytest.mark.merge
def test_hostile_schemas_end_soon() -> None:
    """Ranges in ranges, many all-groups' orders, and many types in each other."""
    nested = A
    for at in range(6):
        nested = seq(nested, element(f"b{at}"), occurs="0,100")
    many = [element(f"e{at}") for at in range(30)]
    types = "".join(
        f'<xs:complexType name="T{at}">{seq(*(element(f"e{to}", f"T{to}", "?") for to in range(40)))}</xs:complexType>'
        for at in range(40)
    )
    pairs = [
        (text(of(nested)), text(of(nested.replace("100", "99")))),
        (text(of(every(*many))), text(of(seq(*reversed(many))))),
        (text(of(every(*many))), text(of(choice(*many, occurs="*")))),
        (text(f'<xs:element name="r" type="T0"/>{types}'), text(f'<xs:element name="r" type="T1"/>{types}')),
    ]
    with Work(steps=1_000_000, seconds=0).in_turn():
        for (old, new), direction in product(pairs, ("backward", "forward")):
            why(old, new, direction)

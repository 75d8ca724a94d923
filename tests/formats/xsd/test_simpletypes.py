"""Simple types against each other: no text says that a type is not within another that it was said to be within."""

from functools import cache
from typing import Any

import pytest

from signalbook.formats.xsd import documents, simpletypes

XS = "http://www.w3.org/2001/XMLSchema"
BUILTIN = [
    "string", "normalizedString", "token", "language", "Name", "NCName", "NMTOKEN", "NMTOKENS", "anyURI",
    "QName", "boolean", "decimal", "integer", "nonPositiveInteger", "negativeInteger", "nonNegativeInteger",
    "positiveInteger", "long", "int", "short", "byte", "unsignedLong", "unsignedInt", "unsignedShort",
    "unsignedByte", "float", "double", "duration", "dayTimeDuration", "yearMonthDuration", "dateTime",
    "dateTimeStamp", "date", "time", "gYear", "gYearMonth", "gMonthDay", "gDay", "gMonth", "hexBinary",
    "base64Binary", "anySimpleType",
]  # fmt: skip
FACETS = {
    "string": ["maxLength 3", "minLength 1", "length 2", "pattern [a-z]+", "pattern \\d{2}", "enumeration ab",
        "enumeration 12"],
    "token": ["maxLength 3", "minLength 1", "minLength 5", "pattern [a-z ]+", "enumeration a b", "enumeration ab"],
    "decimal": ["totalDigits 2", "fractionDigits 1", "minInclusive 0", "maxExclusive 10", "enumeration 1.0",
        "pattern \\d+"],
    "integer": ["totalDigits 2", "minExclusive -10", "maxInclusive 99", "enumeration 12", "pattern \\d\\d"],
    "double": ["minInclusive 0", "maxInclusive 100", "enumeration 1"],
    "date": ["minInclusive 2020-01-01", "explicitTimezone prohibited", "explicitTimezone required"],
    "NMTOKENS": ["maxLength 2", "minLength 2", "enumeration ab cd"],
    "base64Binary": ["maxLength 2"],
    "QName": ["minLength 5", "length 5", "maxLength 2"],
}  # fmt: skip
TEXTS = [
    "", " ", "a", "ab", "abc", "abcd", " ab ", "a b", "a  b", "ab cd", "ab\tcd", "1", "01", "12", " 12 ", "99",
    "100", "1.0", "1.",
    "1.50", "12.5", "0.25", "-1", "-0", "0", "-10", "+7", "127", "-129", "255", "256", "40000", "2147483648",
    "4294967296",
    "9223372036854775808", "18446744073709551616", "1e3", "INF", "-INF", "NaN", "true", "false", "2020-01-01",
    "2020-01-01Z",
    "2019-12-31", "2020-01-01T00:00:00", "2020-01-01T00:00:00Z", "12:00:00", "2020", "2020-05", "--05-06",
    "---07", "--08", "P1D",
    "P1Y", "P1Y2D", "PT1.5S", "YWI=", "YWJj", "0aff", "a:b", "x-y", "http://example.com/a b", "é",
]  # fmt: skip


@cache
def types() -> dict[str, Any]:
    """Types by what they are: built-in ones, and some with one facet or two, lists and unions."""
    parts: list[tuple[str, str]] = [
        (f"{base} {facet}", f'<xs:restriction base="xs:{base}">{_facet(facet)}</xs:restriction>')
        for base, facets in FACETS.items() for facet in facets
    ]  # fmt: skip
    parts += [(f"list {base}", f'<xs:list itemType="xs:{base}"/>') for base in ("int", "integer", "token", "NCName")]
    for members in ("int boolean", "string int", "date dateTime", "integer NMTOKENS", "short NCName boolean"):
        member_types = " ".join(f"xs:{type_name}" for type_name in members.split())
        parts.append((f"union {members}", f'<xs:union memberTypes="{member_types}"/>'))
    body = "".join(f'<xs:simpleType name="T{at}">{inner}</xs:simpleType>' for at, (_, inner) in enumerate(parts))
    text = f'<xs:schema xmlns:xs="{XS}">{body}</xs:schema>'
    schema = documents.build("1.1", documents.gather(text.encode(), None)).schema
    types_by_name = {name: schema.maps.types[f"{{{XS}}}{name}"] for name in BUILTIN}
    return types_by_name | {name: schema.types[f"T{at}"] for at, (name, _) in enumerate(parts)}


def accepts(xsd: Any, text: str) -> bool:
    try:
        return bool(xsd.text_is_valid(text))
    except OverflowError:
        return False  # years beyond what Python counts


def _facet(facet_text: str) -> str:
    name, _, value = facet_text.partition(" ")
    return f'<xs:{name} value="{value}"/>'


@pytest.mark.parametrize("writer", [*BUILTIN, *(f"{base} {facet}" for base in FACETS for facet in FACETS[base])])
def test_compatible_change_has_no_counterexample(writer: str) -> None:
    old = types()[writer]
    texts = [text for text in TEXTS if accepts(old, text)]
    for name, new in types().items():
        if simpletypes.find_problems(old, new, lambda _: None) == []:
            assert [text for text in texts if not accepts(new, text)] == [], name


@pytest.mark.parametrize("writer", ["list int", "list token", "union int boolean", "union short NCName boolean"])
def test_comparison_of_lists_and_unions_is_sound(writer: str) -> None:
    test_compatible_change_has_no_counterexample(writer)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("byte", "short"), ("byte", "integer"), ("byte", "decimal"), ("byte", "float"), ("unsignedShort", "int"),
        ("unsignedByte", "nonNegativeInteger"), ("int", "double"), ("NCName", "NMTOKEN"), ("language", "token"),
        ("dayTimeDuration", "duration"), ("dateTimeStamp", "dateTime"), ("integer totalDigits 2", "byte"),
        ("integer maxInclusive 99", "integer"), ("NMTOKENS maxLength 2", "NMTOKENS"), ("NMTOKEN", "NMTOKENS"),
        ("string length 2", "string maxLength 3"), ("string enumeration ab", "string pattern [a-z]+"),
        ("string enumeration 12", "integer"), ("boolean", "union int boolean"), ("list int", "list integer"),
        ("union int boolean", "string"), ("token", "anyURI"), ("int", "anyURI"), ("list int", "anyURI"),
    ],
)  # fmt: skip
def test_narrower_types_are_compatible(old: str, new: str) -> None:
    """Soundness alone would be met by refusing everything."""
    assert simpletypes.find_problems(types()[old], types()[new], lambda _: None) == []

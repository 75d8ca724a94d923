from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from signalbook.messages import properties
from signalbook.messages.definitions.lint import find_malformed
from signalbook.messages.properties import Property, PropertyError


def declare(**members: Any) -> Property:
    return Property(**{"name": "p", "path": "envelopemetadata.p", **members})


def rule(declared: Property, values: dict[str, Any], context: dict[str, str] | None = None) -> str:
    check = properties.compile_property(declared)
    finding = None if check is None else check(values, {} if context is None else context)
    return "" if finding is None else finding.rule


@pytest.mark.parametrize(
    ("type", "good", "bad"),
    [
        ("any", [None, "x", 1, {}], []),
        ("binary", ["AQI=", b"x", ""], ["%%%", 1, "AQI"]),
        ("boolean", [True, "true", "false"], ["True", 1, ""]),
        ("duration", ["P1D", "PT1H30M", "P2W", "PT0.5S"], ["P", "PT", "1D", "P1H"]),
        ("integer", [5, "5", "-2147483648", 2147483647], [2147483648, "2147483648", 5.0, True, "05", "1.0", "9" * 999]),
        ("number", [1, 1.5, "1e3", "-0.1"], ["NaN", "x", True, ""]),
        ("string", ["", "x"], [1, None, True]),
        ("symbol", ["a_1"], ["a-b", "", "é"]),
        ("timestamp", ["2026-01-01T00:00:00Z", datetime(2026, 1, 1, tzinfo=UTC)], ["2026-01-01", 1]),
        ("ulong", [0, "18446744073709551615"], [-1, 2**64, "x"]),
        ("uri", ["https://x.example/"], ["/x", "a b", 1]),
        ("urireference", ["/x", "https://x.example/"], ["", "a b"]),
        ("uritemplate", ["/x", "{a}"], [1]),
        ("uuid", ["6E8bc430-9c3a-11d9-9669-0800200c9a66", UUID(int=1)], ["6e8bc430"]),
    ],
)
def test_types(type: str, good: list[Any], bad: list[Any]) -> None:
    """F-24, K-19"""
    assert properties.is_known_type(type)
    assert all(properties.check_type(type, value) for value in good)
    assert not any(properties.check_type(type, value) for value in bad)


@pytest.mark.parametrize(
    ("type", "declared", "actual", "expected"),
    [
        ("string", "a", "a", True),
        ("string", "a", "A", False),
        ("string", "5", 5, False),
        ("integer", "5", 5, True),
        ("integer", "5", "5", True),
        ("integer", "5", "6", False),
        ("integer", "5", "x", False),
        ("ulong", "9999999999", 9999999999, True),
        ("number", "1.50", 1.5, True),
        ("boolean", "true", True, True),
        ("boolean", "true", "false", False),
        ("timestamp", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", True),
        ("timestamp", "2026-01-01T00:00:00Z", datetime(2026, 1, 1, tzinfo=UTC), True),
        ("timestamp", "2026-01-01T00:00:00Z", "yesterday", False),
        ("binary", "AQI=", b"\x01\x02", True),
        ("uuid", "6E8BC430-9c3a-11d9-9669-0800200c9a66", "6e8bc430-9c3a-11d9-9669-0800200c9a66", True),
    ],
)
def test_equality(type: str, declared: str, actual: Any, expected: bool) -> None:
    """Values are compared by their type (K-20)."""
    assert properties.is_equal(type, declared, actual) is expected


@pytest.mark.parametrize(
    ("declared", "values", "expected"),
    [
        (declare(required=True), {}, "required"),
        (declare(required=True), {"p": "x"}, ""),
        (declare(value="a"), {}, ""),  # F-29: not required, absent
        (declare(value="a"), {"p": "b"}, "value"),  # F-29: present and different
        (declare(value="a"), {"p": "a"}, ""),
        (declare(type="integer"), {"p": "x"}, "type"),
        (declare(type="integer", value="5"), {"p": 5}, ""),
        (declare(type="uritemplate", value="/a/{x}"), {"p": "/a/1"}, ""),
        (declare(type="uritemplate", value="/a/{x}"), {"p": "/b/1"}, "uritemplate"),
        (declare(type="uritemplate", value="/a"), {"p": "/b"}, "value"),
        (declare(value="{x}-1"), {"p": "7-1"}, ""),  # F-28: a string may be a template
        (declare(value="{x}-1"), {"p": 7}, "uritemplate"),
        (declare(type="timestamp", value="0000-01-01T00:00:00Z"), {"p": "2026-01-01T00:00:00Z"}, ""),  # F-25
        (declare(type="timestamp", value="0000-01-01T00:00:00Z"), {"p": "now"}, "type"),
        (declare(value="a/b", comparison="content_type"), {"p": "A/B; c=d"}, ""),
        (declare(value="a/b", comparison="content_type"), {"p": "a/c"}, "content_type"),
    ],
)
def test_checks(declared: Property, values: dict[str, Any], expected: str) -> None:
    """F-23, F-25, F-28, F-29"""
    assert rule(declared, values) == expected


@pytest.mark.parametrize(
    ("value", "occurrences", "expected"),
    [("a", ("b", "a"), ""), ("a", ("b", "c"), "value"), ("v{x}", ("w1", "v2"), ""), ("a", (), "required")],
)
def test_any_occurrence_may_satisfy(value: str, occurrences: tuple[str, ...], expected: str) -> None:
    """A single matching occurrence of a repeated property suffices (K-26.4)."""
    assert rule(declare(value=value, multiple=True, required=True), {"p": occurrences}) == expected


def test_an_occurrence_that_does_not_fit_leaves_nothing_in_the_context() -> None:
    """K-26.4, K-34"""
    context = {"x": "2"}
    assert rule(declare(value="v{x}", multiple=True), {"p": ("v1", "v2")}, context) == ""
    assert context == {"x": "2"}


def test_a_placeholder_stands_for_one_value() -> None:
    """F-27, K-38"""
    assert rule(declare(value="{x}/y"), {"p": "1/y"}, {"x": "2"}) == properties.CONFLICT


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (declare(type="float"), "no property type"),
        (declare(type="uritemplate", value="{+x}"), "level 1"),
        (declare(type="string", value="{a}{b-c}"), "level 1"),
        (declare(type="integer", value="x"), "not of type integer"),
    ],
)
def test_invalid_property_is_rejected(declared: Property, message: str) -> None:
    """F-24, F-26"""
    with pytest.raises(PropertyError, match=message):
        properties.compile_property(declared)


def test_a_declaration_without_demands_costs_nothing() -> None:
    assert properties.compile_property(declare(type="any")) is None


def test_braces_that_hold_no_symbol_are_literal_text() -> None:
    """Braces without a valid symbol are literal text (K-15)."""
    assert rule(declare(value='{"a": 1}'), {"p": '{"a": 1}'}) == ""


@pytest.mark.parametrize(
    ("definition", "path"),
    [
        ({"envelope": 5}, "envelope"),
        ({"dataschemauri": []}, "dataschemauri"),
        ({"envelopemetadata": []}, "envelopemetadata"),
        ({"protocoloptions": "x"}, "protocoloptions"),
        ({"envelopeoptions": {"mode": 5}}, "envelopeoptions.mode"),
        ({"envelopemetadata": {"id": "x"}}, "envelopemetadata.id"),
        ({"envelopemetadata": {"id": {"value": {}}}}, "envelopemetadata.id.value"),
        ({"envelopemetadata": {"id": {"type": 5}}}, "envelopemetadata.id.type"),
        ({"envelopemetadata": {"id": {"required": "yes"}}}, "envelopemetadata.id.required"),
    ],
)
def test_members_of_the_wrong_type(definition: dict[str, Any], path: str) -> None:
    """F-2, F-23"""
    assert [finding.path for finding in find_malformed(definition)] == [path]


def test_null_counts_as_absent() -> None:
    assert find_malformed({"envelope": None, "envelopemetadata": None, "envelopeoptions": {"mode": None}}) == []


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"type": "var"}, {"type": "any"}),
        ({"type": "DateTime", "value": "01-01-0000T00:00:00Z"}, {"type": "timestamp", "value": "0000-01-01T00:00:00Z"}),
        ({"value": 1.5}, {"value": "1.5"}),
        ({"value": None}, {"value": None}),
        ("x", "x"),
    ],
)
def test_one_way_to_write_a_property(entry: Any, expected: Any) -> None:
    """F-41, I-6"""
    assert properties.normalise_property(entry) == expected

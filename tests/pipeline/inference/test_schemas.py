"""Schemas drafted from values accept those values, and demand what enough of them have."""

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.inference.conftest import VALUES, summary

from signalbook.pipeline.inference.schemas import ENOUGH, RULES_BY_STRICTNESS, ObjectFamilies, Rules, build_schema

INTEGER = {"type": "integer"}
BOTH = {"a": INTEGER, "b": INTEGER}
STRICT = Rules(required=2, enum=2, enough=2)
BOLD = Rules(required=1, enum=1, enough=1)


@pytest.mark.parametrize("rules", [*RULES_BY_STRICTNESS, BOLD], ids=lambda rules: rules.words)
@given(values=st.lists(VALUES, min_size=1, max_size=8))
def test_draft_accepts_its_samples(rules: Rules, values: list[Any]) -> None:
    drafted = build_schema(summary(*values), rules)
    for value in values:
        jsonschema.Draft202012Validator(drafted).validate(value)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2.5], {"type": "number"}),
        ([1, 2], {"type": "integer"}),
        ([True, None], {"type": ["boolean", "null"]}),
        ([None, None], {}),
        (["a", "a", "b", "b"], {"type": "string", "enum": ["a", "b"]}),
        (["a", None], {"type": ["string", "null"]}),
        (["a", "a", None], {"type": ["string", "null"]}),
            (["a", "a"], {"type": "string"}),
            (["a", "a", "b", "b", None], {"type": ["string", "null"], "enum": ["a", "b", None]}),
        (["a", "a", "b"], {"type": "string"}),
        (["https://a.example"] * 2, {"type": "string", "format": "uri"}),
        (["/a/17171"] * 2, {"type": "string"}),
        (["x" * 41] * 2, {"type": "string"}),
        (["a", "a", 1], {"type": ["string", "integer"]}),
        (["2026-01-01"] * 2, {"type": "string", "format": "date"}),
        ([[1], []], {"type": "array", "items": {"type": "integer"}}),
        ([[]], {"type": "array"}),
        ([{}, {}], {"type": "object"}),
        ([{"a": 1}, {"a": 1, "b": 1}], {"type": "object", "required": ["a"], "properties": BOTH}),
        ([{"a": 1}], {"type": "object", "properties": {"a": INTEGER}}),
        ([{"a": 1}, [1]], {"type": ["object", "array"], "items": INTEGER, "properties": {"a": INTEGER}}),
    ],
)  # fmt: skip
def test_drafts(values: list[Any], expected: dict[str, Any]) -> None:
    drafted = build_schema(summary(*values), STRICT)
    assert drafted.pop("$schema") == "https://json-schema.org/draft/2020-12/schema"
    assert drafted == expected


def test_few_integers_next_to_fractions_are_numbers() -> None:
    values = [{"n": 1, "amount": 2.5}, {"n": 2, "amount": 3}]
    assert build_schema(summary(*values), Rules(few=3))["properties"]["n"]["type"] == ["number", "null"]
    assert build_schema(summary(*values), STRICT)["properties"]["n"]["type"] == "integer"


def test_enums_take_enough_values() -> None:
    rules = Rules(required=2, enum=2, enough=5)
    assert "enum" not in build_schema(summary(*"aabb"), rules)
    assert "enum" in build_schema(summary(*"aabbb"), rules)


def test_names_that_are_values_make_a_map() -> None:
    values = ({"users": {f"user-{n}": 1, f"user-{n + 1}": 2}} for n in range(40))
    drafted = build_schema(summary(*values), STRICT)["properties"]["users"]
    assert drafted["additionalProperties"] == {"type": "integer"}
    assert "properties" not in drafted


def test_few_values_leave_room_for_null() -> None:
    lenient = Rules(few=3)
    assert build_schema(summary("a", "b"), lenient)["type"] == ["string", "null"]
    assert build_schema(summary("a", "b", "c"), lenient)["type"] == "string"


USER = {"id": 1, "login": "x", "name": "n", "url": "u"}


def test_similar_objects_widen_a_position() -> None:
    """Nulls and absences in one place tell of all others whose objects have the same members."""
    lean = {name: value for name, value in USER.items() if name != "url"}
    owners = [{**USER, "name": None}, lean] * 3
    seen = summary(*({"sender": USER, "owner": owner} for owner in owners))
    place = build_schema(seen, Rules(required=2), ObjectFamilies([seen]))["properties"]["sender"]
    assert place["properties"]["name"] == {"type": ["string", "null"]}
    assert place["required"] == ["id", "login", "name"]


def test_frequent_object_needs_no_similar_objects() -> None:
    seen = summary(*({"sender": USER, "owner": {**USER, "name": None}} for _ in range(ENOUGH)))
    place = build_schema(seen, STRICT, ObjectFamilies([seen]))["properties"]["sender"]
    assert place["properties"]["name"]["type"] == "string"


@given(values=st.lists(VALUES, min_size=1, max_size=8))
def test_drafted_schema_accepts_the_observed_values(values: list[Any]) -> None:
    seen = summary(*values)
    drafted = build_schema(seen, BOLD, ObjectFamilies([seen, seen]))
    for value in values:
        jsonschema.Draft202012Validator(drafted).validate(value)

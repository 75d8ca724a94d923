"""Schemas drafted from values accept those values, and demand what enough of them have."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.pipeline.inference.schemas import LADDER, Rules, schema

from .conftest import VALUES, summary

INTEGER = {"type": "integer"}
BOTH = {"a": INTEGER, "b": INTEGER}
STRICT = Rules(required=2, enum=2)


@pytest.mark.parametrize("rules", LADDER, ids=lambda rules: rules.words)
@given(values=st.lists(VALUES, min_size=1, max_size=8))
def test_a_draft_accepts_what_it_was_made_of(rules: Rules, values: list[Any]) -> None:
    drafted = schema(summary(*values), rules)
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
        (["a", "a", None], {"type": ["string", "null"], "enum": ["a", None]}),
        (["a", "a", "b"], {"type": "string"}),
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
    drafted = schema(summary(*values), STRICT)
    assert drafted.pop("$schema") == "https://json-schema.org/draft/2020-12/schema"
    assert drafted == expected


def test_names_that_are_values_make_a_map() -> None:
    drafted = schema(summary(*({f"user-{n}": 1, f"user-{n + 1}": 2} for n in range(40))), STRICT)
    assert drafted["additionalProperties"] == {"type": "integer"}
    assert "properties" not in drafted


def test_few_values_leave_room_for_null() -> None:
    lenient = Rules(required=0, enum=0, null=3)
    assert schema(summary("a", "b"), lenient)["type"] == ["string", "null"]
    assert schema(summary("a", "b", "c"), lenient)["type"] == "string"

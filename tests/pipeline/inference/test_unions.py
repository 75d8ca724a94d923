"""Objects of several shapes are drafted apart where a member tells which."""

from typing import Any

import jsonschema
import pytest
from tests.pipeline.inference.conftest import summary

from signalbook.pipeline.inference.schemas import Rules, build_schema

RULES = Rules(required=2, enum=2, enough=4)
CARD: dict[str, Any] = {"type": "card", "number": "1"}
BANK: dict[str, Any] = {"type": "bank", "iban": "D"}


def drafted(*values: Any, rules: Rules = RULES) -> dict[str, Any]:
    return build_schema(summary(*values), rules)


def valid(document: dict[str, Any], value: Any) -> bool:
    return jsonschema.Draft202012Validator(document).is_valid(value)


def test_members_that_others_never_have_are_required() -> None:
    document = drafted(*[CARD, BANK] * 3)
    assert document["oneOf"] == [
        {"properties": {"type": {"const": "bank"}}, "required": ["type", "iban"]},
        {"properties": {"type": {"const": "card"}}, "required": ["type", "number"]},
    ]
    assert sorted(document["properties"]) == ["iban", "number", "type"]
    expected = [True, True, False, False]
    assert [valid(document, value) for value in (CARD, BANK, {"type": "card"}, {"type": "cash"})] == expected


def test_cases_of_one_shape_stand_together() -> None:
    document = drafted(*[CARD, BANK, {"type": "cash"}, {"type": "gift"}] * 3)
    expected = [{"const": "bank"}, {"const": "card"}, {"enum": ["cash", "gift"]}]
    assert [shape["properties"]["type"] for shape in document["oneOf"]] == expected


@pytest.mark.parametrize(
    ("first_value", "other"),
    [(1, "x"), ([1], {"a": 1}), ({"a": 1, "b": 1}, {"c": 1, "d": 1})],
    ids=["types", "an array", "other members"],
)
def test_members_of_another_type_or_shape_are_distinguished(first_value: Any, other: Any) -> None:
    first, second = {"kind": "a", "value": first_value}, {"kind": "b", "value": other}
    document = drafted(*[first, second] * 3)
    assert len(document["oneOf"]) == 2
    assert valid(document, first)
    assert valid(document, second)
    assert not valid(document, {"kind": "a", "value": other})


@pytest.mark.parametrize(
    "values",
    [
        [{"type": "a", "n": 1}, {"type": "b", "n": 2}] * 3,
        [{"type": "a", "n": 1}, {"type": "b", "n": 2.5}] * 3,
        [{"type": "a", "n": 1}, {"type": "b", "n": None}] * 3,
        [{"type": "a", "n": {"x": 1, "y": 1}}, {"type": "b", "n": {"x": 1, "y": 1, "z": 1}}] * 3,
        [CARD] * 6,
        [CARD, BANK],
        [*[CARD] * 5, BANK],
    ],
    ids=["alike", "numbers", "null", "mostly alike", "one case", "few", "one of a case"],
)
def test_similar_shapes_are_merged(values: list[Any]) -> None:
    assert "oneOf" not in drafted(*values)


def test_union_with_other_types() -> None:
    values = [CARD, BANK, None, "free"] * 3
    document = drafted(*values)
    assert document["oneOf"][-1] == {"type": ["string", "null"]}
    assert all(valid(document, value) for value in values)
    assert not valid(document, {"type": "card"})


def test_nested_unions_are_not_repeated() -> None:
    values = [{"kind": kind, "pay": pay, "n": n} for kind, n in (("a", 1), ("b", "x")) for pay in (CARD, BANK)] * 3
    document = drafted(*values)
    assert len(document["properties"]["pay"]["oneOf"]) == 2
    assert str(document).count("oneOf") == 2
    assert all(valid(document, value) for value in values)

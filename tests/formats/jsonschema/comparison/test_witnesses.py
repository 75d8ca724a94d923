"""Reasons are given where a value shows them, and are undecided where none was found (G-30)."""

import pytest
from tests.formats.jsonschema.comparison.test_prover import NEWEST, differences

from signalbook.values import JSONObject

STRING = {"type": "string"}

# what the writer has, what the reader has, the reason with what the writer may write, or that there is none to show
REASONS: list[tuple[str, JSONObject, JSONObject, list[tuple[str, object]]]] = [
    ("the size of an object that meets no condition",
        {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"minProperties": 1}}, {"minProperties": 3},
        [("min_properties_increased", 2)]),
    ("a size that a condition rules out", {"if": {"unevaluatedProperties": False}, "then": {"minProperties": 1}},
        {"if": {"unevaluatedProperties": {"type": "null"}}, "then": {"minProperties": 1}}, [("undecided", None)]),
    ("items of which one is another", {"type": "array", "not": {"items": STRING, "maxItems": 2}}, {"minItems": 3},
        [("min_items_increased", 1)]),
    ("equal items that must differ", {"type": "array", "items": {"enum": ["a"]}, "uniqueItems": True}, {"maxItems": 1}, [("undecided", None)]),  # noqa: E501
    ("items that must differ", {"type": "array", "items": STRING, "uniqueItems": True}, {"maxItems": 1}, [("max_items_added", 2)]),  # noqa: E501
    ("equal items", {"type": "array", "contains": STRING}, {"uniqueItems": True}, [("unique_items_added", None)]),
    (
        "no item that contains allows",
        {"type": "array", "contains": {"type": "string", "minLength": 1, "maxLength": 0}, "minContains": 0,
         "unevaluatedItems": False},
        {"unevaluatedItems": False},
        [("undecided", None)],
    ),
    ("items that are left", {"type": "array", "unevaluatedItems": {"type": "null"}}, {"unevaluatedItems": False}, [("additional_items_removed", None)]),  # noqa: E501
    ("listed arrays", {"type": "array", "enum": [[1], [1, 2]], "contains": {"const": 1}}, {"maxItems": 1}, [("enum_narrowed", [[1, 2]])]),  # noqa: E501
    ("no array but the empty one", {"type": "array", "not": {"minItems": 1}}, {"enum": [[]]}, []),
    ("no text but the empty one", {"type": "string", "maxLength": 0}, {"enum": [""]}, []),
    ("a member under alternatives",
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": STRING, "b": {"type": "integer"}}},
        {"required": ["c"]}, [("required_added", [])]),
    (
        "members of members",
        {"oneOf": [{"required": ["a"]}, {"required": ["b"]}],
         "additionalProperties": {"required": ["x"], "properties": {"x": {"type": "string", "pattern": "^[a-z]{2}$"}}}},
        {"maxProperties": 2},
        [("max_properties_added", 3)],
    ),
    ("numbers with a fraction", {"type": "number", "oneOf": [{"type": "number"}, {"type": "integer"}]}, {"type": "integer"}, [("type_narrowed", "number")]),  # noqa: E501
]  # fmt: skip


@pytest.mark.parametrize(("writer", "reader", "reasons"), [row[1:] for row in REASONS], ids=[row[0] for row in REASONS])
def test_difference_is_reported_if_a_value_shows_it(
    writer: JSONObject, reader: JSONObject, reasons: list[tuple[str, object]]
) -> None:
    kind = {"type": writer.get("type", "object")}
    differences_ = differences({**kind, **reader}, {**kind, **writer}, NEWEST)
    assert [(difference.rule, difference.old) for difference in differences_] == reasons

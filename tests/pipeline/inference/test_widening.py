"""Schemas that exist are widened by what was observed."""

import pytest
from tests.pipeline.inference.conftest import summary

from signalbook.pipeline.inference.widening import widen
from signalbook.values import JSON, JSONObject

TEXT = {"type": "string"}
ORDER = {"type": "object", "properties": {"n": {"type": "integer"}, "at": TEXT}, "required": ["n", "at"]}
PATTERNS = {"properties": {}, "patternProperties": {"x": TEXT}}
CODES = {"enum": [f"w{n}" for n in range(100)]}
TUPLE = {"prefixItems": [TEXT], "items": {"type": "integer"}}
PATTERN_MAP = {"patternProperties": {"^n": {"type": "integer"}}, "additionalProperties": TEXT}
EXTENDED = {"properties": {}, "allOf": [{"$ref": "#/$defs/a"}]}
SHAPES: JSONObject = {"oneOf": [{"allOf": [{"properties": {"x": TEXT}}]}]}


@pytest.mark.parametrize(
    ("schema", "values", "expected", "changes"),
    [
        (ORDER, [{"n": 1, "at": "x"}], ORDER, []),
        (
            ORDER,
            [{"n": 1.5, "coupon": None}, {"n": 1, "at": None, "coupon": "c"}],
            {
                **ORDER,
                "properties": {
                    "n": {"type": "number"},
                    "at": {"type": ["string", "null"]},
                    "coupon": {"type": ["string", "null"]},
                },
                "required": ["n"],
            },
            [
                ("/n", "the type may also be number"),
                ("/coupon", "is new"),
                ("/at", "the type may also be null"),
                ("/at", "is not required any more"),
            ],
        ),
        ({"type": "number"}, [1], {"type": "number"}, []),
        ({"enum": ["a", 1]}, ["b", "a"], {"enum": ["a", 1, "b"]}, [("", "the enum has also b")]),
        ({"enum": ["a"]}, [f"w{n}" for n in range(100)], {}, [("", "the enum is gone: there are too many words")]),
        ({"type": "string", "format": "date"}, ["now"], TEXT, [("", "the format date is gone")]),
        (
            {"type": "array", "items": TEXT},
            [["a", 1]],
            {"type": "array", "items": {"type": ["string", "integer"]}},
            [("/*", "the type may also be integer")],
        ),
        (
            {"additionalProperties": TEXT},
            [{"a": 1}],
            {"additionalProperties": {"type": ["string", "integer"]}},
            [("/*", "the type may also be integer")],
        ),
        ({"$ref": "#/$defs/a"}, [1], {"$ref": "#/$defs/a"}, []),
        (PATTERNS, [{"x": ""}], PATTERNS, []),
        (CODES, CODES["enum"], CODES, []),
        (
            {"type": ["string", "null"], "enum": ["a"]},
            ["a", None],
            {"type": ["string", "null"], "enum": ["a", None]},
            [("", "the enum has also null")],
        ),
        ({"format": "uri"}, ["urn:isbn:1"], {"format": "uri"}, []),
        (TUPLE, [["a", 1]], TUPLE, []),
        (PATTERN_MAP, [{"n": 1}], PATTERN_MAP, []),
        (EXTENDED, [{"x": 1}], EXTENDED, []),
        (
            {**SHAPES, "properties": {}},
            [{"x": "", "y": ""}],
            {**SHAPES, "properties": {"y": TEXT}},
            [("/y", "is new")],
        ),
    ],
)  # fmt: skip
def test_widen(schema: JSONObject, values: list[JSON], expected: JSONObject, changes: list[tuple[str, str]]) -> None:
    before = repr(schema)
    assert widen(schema, summary(*values)) == (expected, changes)
    assert repr(schema) == before

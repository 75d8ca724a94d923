"""Schemas and values for the checks that generated programs do by themselves, whatever their language."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st
from tests.formats.jsonschema.cases import cases

from signalbook.codegen.standalone.rules import SchemaRules
from signalbook.formats.jsonschema.format import FORMAT, JsonSchema

NEW = "JsonSchema/draft/2020-12"
OLD = "JsonSchema/draft-07"
OLDEST = "JsonSchema/draft-04"
MIDDLE = "JsonSchema/draft/2019-09"
_TREE = {
    "$id": "https://x.example/tree", "$ref": "#/$defs/node",
    "$defs": {"node": {"type": "object", "required": ["n"], "properties": {
        "n": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "/tree"}}}}},
}  # fmt: skip
TABLE: list[tuple[str, Any, list[Any]]] = [
    (NEW, {"multipleOf": 0.1}, [0.3, 0.35, 1, 1e-7, -0.2, "x"]),
    (NEW, {"multipleOf": 1e-7}, [1e-7, 3e-7, 1.5e-7, 12]),
    (NEW, {"type": "string", "minLength": 2, "maxLength": 2}, ["😀😀", "😀", "ab", "abc", "é"]),
    (NEW, {"enum": [1, "1", True, None, {"a": [1]}]}, [1, 1.0, "1", True, False, None, 0, {"a": [1]}, {"a": [2]}]),
    (NEW, {"const": 1, "enum": [1, 2]}, [1, 2, 3]),
    (NEW, {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}, "minItems": 1},
     [[], ["a"], ["a", 1], ["a", "b"], [1]]),
    (OLD, {"items": [{"type": "string"}], "additionalItems": False}, [[], ["a"], ["a", 1], [1]]),
    (NEW, {"contains": {"const": 1}, "minContains": 2, "maxContains": 3}, [[], [1], [1, 1], [1, 1, 1, 1], [1, 2, 1]]),
    (NEW, {"uniqueItems": True}, [[1, 1.0], [1, True], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], ["1", 1], [[], {}]]),
    (NEW, {"properties": {"a": {"type": "integer"}}, "patternProperties": {"^a": {"minimum": 2}, "b$": False},
           "additionalProperties": {"type": "string"}},
     [{"a": 1}, {"a": 3}, {"ab": 3}, {"c": "x"}, {"c": 1}, {"b": 1}, {"a/b": "x"}, {"__proto__": 1}]),
    (NEW, {"propertyNames": {"pattern": "^[a-z]+$"}, "minProperties": 1, "maxProperties": 2},
     [{}, {"a": 1}, {"A": 1}, {"a": 1, "b": 1, "c": 1}, {"": 1}]),
    (NEW, {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}},
     [{"a": 1}, {"a": 1, "b": 1}, {"c": 1}, {"c": 1, "d": 1}, {}]),
    (OLD, {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}, [{"a": 1}, {"a": 1, "b": 1}, {"c": 1}, {"d": 1}]),
    (NEW, {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}},
     [{"a": 1}, {"a": 1, "b": 1}, {"c": 1}, {}]),
    (NEW, {"not": {"type": "integer"}, "anyOf": [{"minLength": 2}, {"type": "null"}]}, [1, "a", "ab", None, 1.5]),
    (NEW, {"oneOf": [{"minimum": 2}, {"maximum": 4}]}, [1, 3, 5, "x"]),
    (NEW, {"allOf": [{"properties": {"a": True}}], "properties": {"b": True}, "unevaluatedProperties": False},
     [{"a": 1}, {"b": 1}, {"a": 1, "c": 1}, {}]),
    (NEW, {"anyOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"required": ["b"]}],
           "unevaluatedProperties": {"type": "string"}}, [{"a": 1}, {"a": 2, "b": "x"}, {"a": 1, "b": 2}, {"b": "x"}]),
    (NEW, {"if": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "unevaluatedProperties": False},
     [{"a": 1}, {"a": 2}, {}]),
    (NEW, {"prefixItems": [True], "contains": {"type": "string"}, "unevaluatedItems": False},
     [[1], [1, "a"], [1, 2], ["a", "b", 3]]),
    (MIDDLE, {"items": [True], "contains": {"type": "string"}, "unevaluatedItems": False}, [["a"], [1, "a"], ["a", 1]]),
    (NEW, _TREE, [{"n": 1}, {"n": 1, "kids": [{"n": 2, "kids": []}]}, {"n": 1, "kids": [{}]}, 1]),
    (NEW, {"$ref": "#here", "$defs": {"x": {"$anchor": "here", "type": "integer"}}}, [1, "x"]),
    (OLD, {"$ref": "#/definitions/a~1b", "minimum": 5, "definitions": {"a/b": {"type": "integer"}}}, [1, 9, "x"]),
    (NEW, {"$ref": "#/$defs/x", "minimum": 5, "$defs": {"x": {"type": "integer"}}}, [1, 9, "x"]),
    (NEW, {"$dynamicRef": "#n", "$defs": {"x": {"$dynamicAnchor": "n", "type": "integer"}}}, [1, "x"]),
    (MIDDLE, {"properties": {"a": {"$recursiveRef": "#"}}, "additionalProperties": False}, [{"a": {"a": {}}}, {"b": 1},
                                                                                       {"a": {"b": 1}}]),
    (OLDEST, {"minimum": 2, "exclusiveMinimum": True, "maximum": 4}, [2, 3, 4, 5]),
    (NEW, {"exclusiveMinimum": 2, "exclusiveMaximum": 4}, [2, 3, 4]),
    (OLDEST, {"const": 1, "if": False, "contains": False, "propertyNames": False}, [2, [1], {"a": 1}]),
    (NEW, {"pattern": "^\\p{L}+$"}, ["é", "1", "日本"]),
    (NEW, {"required": ["constructor", "toString"]}, [{}, {"constructor": 1, "toString": 1}]),
    (NEW, True, [1, {}]),
    (NEW, False, [1, {}]),
    (NEW, {"format": "email", "contentEncoding": "base64"}, ["x", 1]),
]  # fmt: skip
"""Schemas with values, of which some conform."""


def random_table(size: int) -> st.SearchStrategy[list[tuple[str, Any, list[Any]]]]:
    """As ``TABLE``, at random; without numbers that only some languages have room for."""
    one = cases().map(lambda case: (OLD, _small(case[0]), [_small(case[1])]))
    return st.lists(one, min_size=size, max_size=size)


def _small(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _small(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(_small, value))
    return value % 100 if isinstance(value, (int, float)) and abs(value) >= 2**31 else value


def tasks(table: list[tuple[str, Any, list[Any]]]) -> Iterator[tuple[dict[str, Any], bool]]:
    """What a program checks, as JSON, and whether the value conforms by the validator of the pipeline."""
    for version, schema, values in table:
        parsed = parse(schema, version)
        rules = SchemaRules(parsed.document)
        root = rules.at(parsed.uri)
        for value in values:
            yield {"rules": rules.rules, "root": root, "value": value}, parsed.allows(value)


def parse(schema: Any, format: str = NEW) -> JsonSchema:
    """A schema."""
    return FORMAT.parse(json.dumps(schema).encode(), format)

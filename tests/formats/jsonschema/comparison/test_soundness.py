"""No two schemas are called compatible that are not (G-30): random pairs, judged by the validator."""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from signalbook.formats import SchemaError
from signalbook.formats.jsonschema import FORMAT
from signalbook.formats.jsonschema.comparison import compare
from signalbook.values import JSON, JSONObject, dump_json

NAMES: Final = st.sampled_from(["a", "b", "ab", "c"])
PATTERNS: Final = st.sampled_from(["^a", "b", "^c$"])
_SMALL: Final = st.integers(0, 2)
_BOUNDS: Final = st.sampled_from([0, 1, 2, 0.5, 1.5, 2.5])
SCALARS: Final = st.sampled_from([None, True, False, 0, 1, 2, 3, 1.0, 1.5, 0.3, 2.02, -1, "", "a", "ab", "abc"])
VALUES: Final[st.SearchStrategy[JSON]] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
_TYPES: Final = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
_PLAIN: Final[dict[str, st.SearchStrategy[JSON]]] = {
    "type": _TYPES | st.lists(_TYPES, min_size=1, max_size=3, unique=True),
    "enum": st.lists(VALUES, min_size=1, max_size=3),
    "const": VALUES,
    "minimum": _BOUNDS,
    "maximum": _BOUNDS,
    "exclusiveMinimum": _BOUNDS,
    "exclusiveMaximum": _BOUNDS,
    "multipleOf": st.sampled_from([1, 2, 0.5, 0.25, 0.1, 0.02]),
    "minLength": _SMALL,
    "maxLength": _SMALL,
    "pattern": PATTERNS,
    "minItems": _SMALL,
    "maxItems": _SMALL,
    "uniqueItems": st.booleans(),
    "required": st.lists(NAMES, min_size=1, max_size=2, unique=True),
    "minProperties": _SMALL,
    "maxProperties": _SMALL,
    "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=2),
    "minContains": _SMALL,
    "maxContains": _SMALL,
    "$ref": st.sampled_from(["#", "#/$defs/x", "#/$defs/y"]),
}


def _keywords(inner: st.SearchStrategy[JSON]) -> st.SearchStrategy[JSON]:
    several = st.lists(inner, min_size=1, max_size=3)
    members = st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    nested = {
        "items": inner,
        "prefixItems": several,
        "contains": inner,
        "unevaluatedItems": inner,
        "properties": members,
        "patternProperties": st.dictionaries(PATTERNS, inner, min_size=1, max_size=2),
        "additionalProperties": inner,
        "unevaluatedProperties": inner,
        "propertyNames": inner,
        "dependentSchemas": members,
        "allOf": several,
        "anyOf": several,
        "oneOf": several,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
    }
    every = {**_PLAIN, **nested}
    return st.lists(st.sampled_from(sorted(every)), min_size=1, max_size=4, unique=True).flatmap(
        lambda keywords: st.fixed_dictionaries({keyword: every[keyword] for keyword in keywords})
    )


PARTS: Final[st.SearchStrategy[JSON]] = st.recursive(st.booleans() | st.just({}), _keywords, max_leaves=8)
SCHEMAS: Final[st.SearchStrategy[JSON]] = st.builds(
    lambda top, x, y: {**(top if isinstance(top, dict) else {"allOf": [top]}), "$defs": {"x": x, "y": y}},
    PARTS,
    PARTS,
    PARTS,
)


_MEMBER: Final[st.SearchStrategy[JSON]] = st.sampled_from([True, {"type": "string"}, {"const": 1}, {"enum": [1, "a"]}])
_OBJECT: Final[st.SearchStrategy[JSON]] = st.fixed_dictionaries(
    {},
    optional={
        "properties": st.dictionaries(NAMES, _MEMBER, min_size=1, max_size=2),
        "required": st.lists(NAMES, min_size=1, max_size=1),
        "additionalProperties": _MEMBER,
    },
)
CLOSED: Final[st.SearchStrategy[JSONObject]] = st.fixed_dictionaries(
    {"unevaluatedProperties": st.just(False)},
    optional={
        "properties": st.dictionaries(NAMES, _MEMBER, min_size=1, max_size=2),
        "required": st.lists(NAMES, min_size=1, max_size=1),
        "anyOf": st.lists(_OBJECT, min_size=1, max_size=2),
        "oneOf": st.lists(_OBJECT, min_size=1, max_size=2),
        "if": _OBJECT,
        "then": _OBJECT,
        "else": _OBJECT,
        "not": _OBJECT,
        "dependentSchemas": st.dictionaries(NAMES, _OBJECT, min_size=1, max_size=2),
        "dependencies": st.dictionaries(NAMES, _OBJECT, min_size=1, max_size=2),
    },
)
OBJECTS: Final = st.dictionaries(NAMES, st.sampled_from([1, "a", None]), max_size=3)


@st.composite
def changed(draw: st.DrawFn, schema: JSON) -> JSON:
    """A schema that differs here and there, or not at all."""
    if isinstance(schema, dict):
        kept_keywords = {
            key: draw(changed(item)) for key, item in schema.items() if key == "$defs" or draw(st.integers(0, 9)) > 0
        }
        if draw(st.integers(0, 9)) == 0:
            extra = draw(PARTS)
            kept_keywords |= extra if isinstance(extra, dict) and "$defs" in schema else {}
        return kept_keywords
    if isinstance(schema, list) and schema and isinstance(schema[0], dict | bool):
        return [draw(changed(item)) for item in schema]
    return schema


FORMATS: Final = st.sampled_from([f"JsonSchema/draft{version}" for version in ("-06", "-07", "/2019-09", "/2020-12")])


def check(reader: JSON, writer: JSON, formats: tuple[str, str], values: list[JSON]) -> None:
    try:
        new, old = FORMAT.parse(dump_json(reader), formats[0]), FORMAT.parse(dump_json(writer), formats[1])
    except SchemaError:
        return
    assert compare(new.document, new.document) == []
    if compare(new.document, old.document) == []:
        for value in values:
            assert not old.validator.is_valid(value) or new.validator.is_valid(value), value


@settings(suppress_health_check=list(HealthCheck), max_examples=examples(150))
@given(st.data(), SCHEMAS, FORMATS, st.lists(VALUES, min_size=20, max_size=20))
def test_compatible_change_has_no_counterexample(
    data: st.DataObject, schema: JSON, format: str, values: list[JSON]
) -> None:
    other = data.draw(changed(schema))
    check(other, schema, (format, format), values)
    check(schema, other, (format, format), values)


@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=examples(30))
@given(st.data(), CLOSED, CLOSED, st.lists(OBJECTS, min_size=30, max_size=30))
def test_comparison_of_closed_objects_is_sound(
    data: st.DataObject, schema: JSONObject, second: JSONObject, values: list[JSON]
) -> None:
    """The result of their conditional parts depends on the value."""
    names = data.draw(st.lists(st.sampled_from(sorted(schema)), unique=True))
    other = {**{name: schema[name] for name in schema if name not in names}, **second}
    for reader, writer in ((other, schema), (schema, other)):
        check(reader, writer, ("JsonSchema/draft/2020-12", "JsonSchema/draft/2020-12"), values)


@settings(suppress_health_check=list(HealthCheck), max_examples=examples(100))
@given(SCHEMAS, SCHEMAS, st.tuples(FORMATS, FORMATS), st.lists(VALUES, min_size=20, max_size=20))
def test_comparison_across_drafts_is_sound(
    reader: JSON, writer: JSON, formats: tuple[str, str], values: list[JSON]
) -> None:
    check(reader, writer, formats, values)

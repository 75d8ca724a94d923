"""Comparing schemas: what each change means for readers, in both directions (G-30)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from signalbook.formats import SchemaError
from signalbook.formats.base import MAX_FINDINGS, Resolve
from signalbook.formats.compatibility import Difference, SchemaText, find_comparison
from signalbook.formats.jsonschema import FORMAT
from signalbook.formats.jsonschema.comparison import compare
from signalbook.formats.jsonschema.comparison.prover import compare_terms
from signalbook.formats.jsonschema.comparison.resolution import TermLibrary
from signalbook.formats.jsonschema.comparison.wording import MESSAGES
from signalbook.formats.jsonschema.document import load
from signalbook.values import JSON, JSONObject, dump_json, parse_json

DRAFT_07 = "JsonSchema/draft-07"
NEWEST = "JsonSchema/draft/2020-12"
STRING: JSONObject = {"type": "string"}
INTEGER: JSONObject = {"type": "integer"}
NUMBER: JSONObject = {"type": "number"}
NULL: JSONObject = {"type": "null"}


def open_object(*required: str, **members: JSON) -> JSONObject:
    schema: JSONObject = {"type": "object", "properties": members}
    return {**schema, "required": [*required]} if required else schema


def closed_object(*required: str, **members: JSON) -> JSONObject:
    return {**open_object(*required, **members), "additionalProperties": False}


KIND_A = open_object("kind", kind={"const": "a"})
KIND_B = open_object("kind", kind={"const": "b"})


def text(schema: JSON, format: str = DRAFT_07, resolve: Resolve | None = None) -> SchemaText:
    return SchemaText(document=dump_json(schema), format=format, resolve=resolve)


def differences(reader: JSON, writer: JSON, format: str = DRAFT_07) -> list[Difference]:
    return FORMAT.differences(text(reader, format), text(writer, format))


def named(differences_: list[Difference]) -> str:
    return " ".join(sorted({difference.rule for difference in differences_}))


def make_pair(name: str, first: JSON, other: JSON, *, forth: str = "", back: str = "") -> Any:
    """Return a test case with two schemas.

    ``forth`` are the rules of the differences for readers with the ``first`` schema, and ``back`` for the ``other``.
    """
    return pytest.param(first, other, forth, back, id=name)


PAIRS: list[Any] = [
    make_pair("the same", STRING, STRING),
    make_pair("annotations", {"title": "x", "type": "string", "default": 1, "format": "date", "$comment": "c"}, STRING),
    make_pair("everything", {}, STRING, back="type_narrowed"),
    make_pair("nothing", False, STRING, forth="nothing_accepted"),
    make_pair("integer and number", NUMBER, INTEGER, back="type_narrowed"),
    make_pair("integer and whole multiples", INTEGER, {"type": "number", "multipleOf": 2}, back="multiple_of_added"),
    make_pair("types", STRING, {"type": ["string", "null"]}, forth="type_narrowed"),
    make_pair("another type", STRING, INTEGER, forth="type_changed", back="type_changed"),
    make_pair("no type", STRING, {}, forth="type_narrowed"),
    make_pair("enum", {"enum": ["a", "b"]}, {"enum": ["a", "b", "c"]}, forth="enum_narrowed"),
    make_pair("enum and const", {"enum": ["a", "b"]}, {"const": "a"}, back="enum_narrowed"),
    make_pair("enum and type", STRING, {"enum": ["a"]}, back="enum_added"),
    make_pair("enum and length", {"type": "string", "maxLength": 1}, {"enum": ["a", "b"]}, back="enum_added"),
    make_pair("enum of 1 and 1.0", {"enum": [1]}, {"enum": [1.0]}),
    make_pair("true and 1", {"const": True}, {"const": 1}, forth="enum_narrowed", back="enum_narrowed"),
    make_pair("minimum", {"minimum": 1}, {"minimum": 2}, back="minimum_increased"),
    make_pair("no minimum", {"minimum": 1}, NUMBER, forth="minimum_added", back="type_narrowed"),
    make_pair("maximum", {"maximum": 2}, {"maximum": 1}, back="maximum_decreased"),
    make_pair("no maximum", {"maximum": 2}, {}, forth="maximum_added"),
    make_pair("exclusive minimum", {"exclusiveMinimum": 1}, {"minimum": 1}, forth="minimum_increased"),
    make_pair("exclusive maximum", {"exclusiveMaximum": 1}, {"maximum": 1}, forth="maximum_decreased"),
    make_pair("integers from 1", {"type": "integer", "minimum": 1}, {"type": "integer", "exclusiveMinimum": 0}),
    make_pair("one integer", {"type": "number", "minimum": 1, "maximum": 1}, INTEGER,
        forth="maximum_added minimum_added"),
    make_pair("integers to 9", {"type": "integer", "maximum": 9}, {"type": "integer", "exclusiveMaximum": 9.5}),
    make_pair("whole multiples", {"multipleOf": 2, "minimum": 0}, {"multipleOf": 2, "exclusiveMinimum": -1}),
    make_pair("numbers from 1", {"minimum": 1}, {"exclusiveMinimum": 0}, forth="minimum_increased"),
    make_pair("no integer between", STRING,
        {"type": ["integer", "string"], "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
    make_pair("decimal multiples", {"multipleOf": 0.001}, {"multipleOf": 0.01}, back="multiple_of_changed"),
    make_pair("quarters", {"multipleOf": 0.25}, {"multipleOf": 0.5}, back="multiple_of_changed"),
    make_pair("no common fraction", {"multipleOf": 0.2}, {"multipleOf": 0.5}, forth="multiple_of_changed",
        back="multiple_of_changed"),
    make_pair("multiples of two steps", {"multipleOf": 6}, {"allOf": [{"multipleOf": 2}, {"multipleOf": 3}]}),
    make_pair("large multiples of two steps", {"multipleOf": 5e307},
        {"allOf": [{"multipleOf": 7e307}, {"multipleOf": 3e307}]}, forth="multiple_of_changed",
        back="multiple_of_changed"),
    make_pair("halves of integers", {"multipleOf": 0.5}, INTEGER, back="type_narrowed"),
    make_pair("multiples", {"multipleOf": 2}, {"multipleOf": 4}, back="multiple_of_changed"),
    make_pair("no multiples", {"multipleOf": 0.5}, {}, forth="multiple_of_added"),
    make_pair("multiples of one", {"type": "number", "multipleOf": 1}, INTEGER),
    make_pair("shorter texts", {"minLength": 1}, {"minLength": 2}, back="min_length_increased"),
    make_pair("longer texts", {"maxLength": 2}, {"maxLength": 1}, back="max_length_decreased"),
    make_pair("any length", {"maxLength": 2}, STRING, forth="max_length_added", back="type_narrowed"),
    make_pair("pattern", {"pattern": "^a"}, STRING, forth="pattern_added", back="type_narrowed"),
    make_pair("another pattern", {"pattern": "^a"}, {"pattern": "^ab"}, forth="undecided", back="pattern_changed"),
    make_pair("a pattern for every text", {"type": "string", "pattern": ".*"}, STRING),
    make_pair("encoding", {"contentEncoding": "base64"}, STRING, forth="content_changed", back="type_narrowed"),
    make_pair("items", {"items": NUMBER}, {"items": INTEGER}, back="type_narrowed"),
    make_pair("any items", {"items": STRING}, {"type": "array"}, forth="type_narrowed", back="type_narrowed"),
    make_pair("no items", {"items": False}, {"maxItems": 0}),
    make_pair("fewer items", {"minItems": 1}, {"minItems": 2}, back="min_items_increased"),
    make_pair("more items", {"maxItems": 2}, {"maxItems": 1}, back="max_items_decreased"),
    make_pair("any number of items", {"maxItems": 2}, {"type": "array"}, forth="max_items_added", back="type_narrowed"),
    make_pair("unique items", {"uniqueItems": True}, {"type": "array"}, forth="unique_items_added",
        back="type_narrowed"),
    make_pair("unique items of one", {"uniqueItems": True}, {"maxItems": 1}, back="max_items_added"),
    make_pair("tuple", {"items": [STRING, INTEGER]}, {"items": [STRING]}, forth="item_added_to_open_content_model"),
    make_pair("closed tuple", {"items": [STRING], "additionalItems": False},
        {"items": [STRING, INTEGER], "additionalItems": False}, forth="item_removed_from_closed_content_model"),
    make_pair("open and closed tuple", {"items": [STRING], "additionalItems": False}, {"items": [STRING]},
        forth="additional_items_removed"),
    make_pair("contains", {"contains": NUMBER}, {"contains": INTEGER}, back="contains_narrowed"),
    make_pair("contains by items", {"contains": STRING}, {"items": STRING, "minItems": 1}, back="type_narrowed"),
    make_pair("required", {"type": "object", "required": ["a"]}, {"type": "object", "required": ["a", "b"]},
        back="required_added"),
    make_pair("required with default", open_object("a", a={"type": "string", "default": "x"}), open_object(a=STRING),
        forth="required_added"),
    make_pair("optional member of an open model", open_object(a=STRING), {"type": "object"},
        forth="property_added_to_open_content_model"),
    make_pair("optional member of a closed model", closed_object(a=STRING), closed_object(),
        back="property_removed_from_closed_content_model"),
    make_pair("member of a model open to texts", open_object(a=STRING),
        {**open_object(), "additionalProperties": STRING}, back="additional_properties_narrowed"),
    make_pair("another member of a model open to texts", open_object(a=INTEGER),
        {**open_object(), "additionalProperties": STRING}, forth="property_added_to_partially_open_content_model",
        back="additional_properties_narrowed property_removed_from_partially_open_content_model"),
    make_pair("member that may be anything", open_object(a={}), {"type": "object"}),
    make_pair("member goes from a partially open model", {**open_object(), "additionalProperties": STRING},
        {**open_object(a=INTEGER), "additionalProperties": STRING},
        forth="property_removed_from_partially_open_content_model",
        back="property_added_to_partially_open_content_model"),
    make_pair("closing a model", closed_object(a=STRING), open_object(a=STRING), forth="additional_properties_removed"),
    make_pair("narrowing other members", {"type": "object", "additionalProperties": STRING}, {"type": "object"},
        forth="additional_properties_narrowed"),
    make_pair("a member's type", open_object(a=NUMBER), open_object(a=INTEGER), back="type_narrowed"),
    make_pair("pattern members", {"type": "object", "patternProperties": {"^x-": STRING}},
        {"type": "object", "patternProperties": {"^x-": {"type": "string", "minLength": 1}}},
        back="min_length_increased"),
    make_pair("a new pattern", {"type": "object", "patternProperties": {"^x-": STRING}}, {"type": "object"},
        forth="pattern_property_added"),
    make_pair("pattern members for named ones", {"type": "object", "patternProperties": {"^x-": STRING}},
        {"type": "object", "properties": {"x-a": STRING}, "additionalProperties": False},
        back="additional_properties_removed"),
    make_pair("names", {"type": "object", "propertyNames": {"maxLength": 3}}, closed_object(abc=STRING),
        back="additional_properties_removed property_added_to_open_content_model"),
    make_pair("names of open objects", {"type": "object", "propertyNames": {"maxLength": 3}}, {"type": "object"},
        forth="property_names_narrowed"),
    make_pair("names by pattern", {"type": "object", "propertyNames": {"pattern": "^x"}},
        {"type": "object", "patternProperties": {"^x": STRING}, "additionalProperties": False},
        back="additional_properties_removed pattern_property_added"),
    make_pair("map with listed names", closed_object(a=STRING, b=STRING),
        {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": STRING}),
    make_pair("members of listed names",
        {"type": "object", "propertyNames": {"enum": ["a"]}, "additionalProperties": {"type": ["string", "null"]}},
        {"type": "object", "propertyNames": {"enum": ["a"]}, "additionalProperties": STRING},
        back="property_removed_from_partially_open_content_model"),
    make_pair("listed names that match a pattern",
        {"type": "object", "propertyNames": {"const": "a"}, "patternProperties": {"^a": {"type": ["string", "null"]}}},
        {"type": "object", "propertyNames": {"const": "a"}, "patternProperties": {"^a": STRING}}, back="type_narrowed"),
    make_pair("more members", {"type": "object", "maxProperties": 2}, closed_object(a=STRING, b=STRING),
        back="additional_properties_removed property_added_to_open_content_model"),
    make_pair("any number of members", {"type": "object", "maxProperties": 2}, {"type": "object", "maxProperties": 1},
        back="max_properties_decreased"),
    make_pair("fewer members", {"type": "object", "minProperties": 1}, {"type": "object", "required": ["a"]},
        back="required_added"),
    make_pair("dependencies", {"dependencies": {"a": ["b"]}}, {"required": ["b"]}, back="required_added"),
    make_pair("schema dependencies", {"dependencies": {"a": {"required": ["b"]}}}, {"dependencies": {"a": ["b"]}}),
    make_pair("allOf", {"allOf": [STRING, {"minLength": 1}]}, {"type": "string", "minLength": 1}),
    make_pair("allOf and more", {"allOf": [STRING, {"minLength": 1}]}, STRING, forth="min_length_increased"),
    make_pair("anyOf and types", {"anyOf": [STRING, NULL]}, {"type": ["string", "null"]}),
    make_pair("one more alternative", {"anyOf": [STRING, INTEGER, NULL]}, {"anyOf": [INTEGER, STRING]},
        back="alternative_removed"),
    make_pair("an alternative changed", {"anyOf": [open_object("a", a=STRING), NULL]},
        {"anyOf": [open_object(a=STRING), NULL]}, forth="required_added"),
    make_pair("oneOf and anyOf", {"oneOf": [STRING, NULL]}, {"anyOf": [STRING, NULL]}),
    make_pair("overlapping oneOf", {"oneOf": [NUMBER, INTEGER]}, INTEGER, forth="undecided", back="type_narrowed"),
    make_pair("oneOf in another order", {"oneOf": [STRING, {"minimum": 1}]}, {"oneOf": [{"minimum": 1}, STRING]}),
    make_pair("tagged union", {"oneOf": [open_object("kind", kind={"const": "a"}, x=NUMBER), KIND_B]},
        {"oneOf": [KIND_B, open_object("kind", kind={"const": "a"}, x=INTEGER)]}, back="type_narrowed"),
    make_pair("one more tag", {"oneOf": [KIND_A, KIND_B]}, KIND_A, back="enum_narrowed"),
    make_pair("union by listed tag", {"anyOf": [KIND_A, KIND_B]}, open_object("kind", kind={"enum": ["a", "b"]})),
    make_pair("not", {"not": STRING}, INTEGER, back="type_narrowed"),
    make_pair("not less", {"not": STRING}, {"not": {"type": ["string", "null"]}}, back="not_narrowed"),
    make_pair("not at all", {"not": STRING}, {}, forth="not_narrowed"),
    make_pair("if", {"if": KIND_A, "then": {"required": ["x"]}}, {"if": KIND_A, "then": {"required": ["x", "y"]}},
        back="required_added"),
    make_pair("if that is met", {"if": KIND_A, "then": {"required": ["x"]}}, KIND_A, forth="required_added",
        back="enum_added type_changed"),
    make_pair("if that is not met", {"if": KIND_A, "then": {"required": ["x"]}, "else": {}}, KIND_B,
        back="property_added_to_open_content_model type_changed"),
    make_pair("condition as union", {"if": KIND_A, "then": {"required": ["x"]}},
        {"oneOf": [open_object("kind", "x", kind={"const": "a"}), KIND_B]}, back="alternative_removed enum_added"),
    make_pair("reference", {"$ref": "#/definitions/s", "definitions": {"s": STRING}}, STRING),
    make_pair("recursion",
        {"$ref": "#/definitions/n", "definitions": {"n": open_object(v=NUMBER, next={"$ref": "#/definitions/n"})}},
        {"$ref": "#/definitions/m", "definitions": {"m": open_object(v=INTEGER, next={"$ref": "#/definitions/m"})}},
        back="type_narrowed"),
    make_pair("a collection", {"definitions": {"a": NUMBER}}, {"definitions": {"a": INTEGER, "b": STRING}},
        forth="definition_removed", back="type_narrowed"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "other", "forth", "back"), PAIRS)
def test_changes_have_the_expected_differences(first: JSON, other: JSON, forth: str, back: str) -> None:
    assert named(differences(first, other)) == forth
    assert named(differences(other, first)) == back


NEWER: list[tuple[str, JSON, JSON, str]] = [
    ("unevaluated", {"properties": {"a": {}}, "unevaluatedProperties": False}, {"properties": {"a": {}}}, "additional_properties_removed"),  # noqa: E501
    ("closed", {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, {"properties": {"a": {}}, "additionalProperties": False}, ""),  # noqa: E501
    ("closed by both", {"properties": {"a": {}}, "additionalProperties": False}, {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, ""),  # noqa: E501
    ("still closed", {"properties": {"a": {}}, "additionalProperties": False}, {"anyOf": [{"properties": {"b": {}}}], "unevaluatedProperties": False}, "property_removed_from_closed_content_model"),  # noqa: E501
    ("items left", {"prefixItems": [{}], "unevaluatedItems": False}, {"prefixItems": [{}], "items": False}, ""),
    ("more items", {"prefixItems": [{}], "unevaluatedItems": False}, {"prefixItems": [{}]}, "additional_items_removed"),
    ("dependent", {"dependentRequired": {"a": ["b"]}}, {"dependentSchemas": {"a": {"required": ["b", "c"]}}}, ""),
    ("dependency", {"dependentRequired": {"a": ["b"]}}, {}, "dependency_added"),
    ("some contained", {"contains": {}, "minContains": 1}, {"contains": {}, "minContains": 2}, ""),
    ("more contained", {"contains": {}, "minContains": 2}, {"contains": {}}, "contains_narrowed"),
    ("too many contained", {"contains": STRING, "maxContains": 1}, {"type": "array"}, "contains_narrowed undecided"),
    ("anchor", {"$ref": "#s", "$defs": {"x": {"$anchor": "s", "type": "string"}}}, STRING, ""),
    ("own base", {"$ref": "inner#/$defs/s", "$defs": {"x": {"$id": "inner", "$defs": {"s": STRING}}}}, INTEGER, "type_changed"),  # noqa: E501
    ("keywords beside a reference", {"$ref": "#/$defs/s", "minLength": 2, "$defs": {"s": STRING}}, STRING, "min_length_increased"),  # noqa: E501
    ("tuples", {"prefixItems": [NUMBER], "items": False}, {"prefixItems": [INTEGER], "maxItems": 1}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("reader", "writer", "rule"), [row[1:] for row in NEWER], ids=[row[0] for row in NEWER])
def test_keywords_of_the_newest_draft(reader: JSON, writer: JSON, rule: str) -> None:
    assert named(differences(reader, writer, NEWEST)) == rule


def tree(inner: JSON) -> JSON:
    """A tree whose nodes can be extended from outside."""
    return {
        "$id": "https://example.com/strict",
        "$dynamicAnchor": "node",
        "$ref": "tree",
        **inner,
        "$defs": {
            "tree": {
                "$id": "tree",
                "$dynamicAnchor": "node",
                "type": "object",
                "properties": {"children": {"items": {"$dynamicRef": "#node"}}},
            }
        },
    }


def test_a_dynamic_reference_leads_to_the_outermost_anchor() -> None:
    reader, writer = tree({"required": ["name"]}), tree({})
    assert differences(writer, reader, NEWEST) == []
    nested = {**tree({}), "properties": {"children": {"minItems": 0}}}
    assert named(differences(reader, writer, NEWEST)) == "required_added"
    assert differences(tree({}), nested, NEWEST) == []


def test_a_recursive_reference_leads_to_the_outermost_anchor() -> None:
    tree: Any = {"$recursiveAnchor": True, "properties": {"next": {"$recursiveRef": "#"}, "v": INTEGER}}
    wider = {**tree, "properties": {**tree["properties"], "v": NUMBER}}
    assert differences(wider, tree, "JsonSchema/draft/2019-09") == []
    assert named(differences(tree, wider, "JsonSchema/draft/2019-09")) == "type_narrowed"


def test_references_to_other_documents_are_followed() -> None:
    """Every side resolves its own documents."""
    root = {"$id": "https://example.com/order", "properties": {"item": {"$ref": "item.json#/definitions/item"}}}
    old, new = ({"definitions": {"item": {"type": name}}} for name in ("integer", "number"))
    reader = text(root, resolve=lambda uri: dump_json(old))
    writer = text(root, resolve=lambda uri: dump_json(new))
    assert FORMAT.differences(writer, reader) == []
    (difference,) = FORMAT.differences(reader, writer)
    assert (difference.path, difference.rule) == (
        "https://example.com/item.json#/definitions/item/type",
        "type_narrowed",
    )


@pytest.mark.parametrize(
    ("reader", "writer", "formats", "rule"),
    [
        (NUMBER, INTEGER, (DRAFT_07, NEWEST), ""),
        (INTEGER, INTEGER, ("JsonSchema/draft-04", DRAFT_07), "type_narrowed"),  # 1.0
        (INTEGER, INTEGER, (DRAFT_07, "JsonSchema/draft-04"), ""),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}, ("JsonSchema/draft-04", DRAFT_07), ""),
        ({"exclusiveMaximum": 1}, {"maximum": 1, "exclusiveMaximum": True}, (DRAFT_07, "JsonSchema/draft-04"), ""),
        ({"const": 1}, {"const": 2}, ("JsonSchema/draft-04", DRAFT_07), ""),  # no keyword of draft-04
        ({"items": [{}], "additionalItems": False}, {"prefixItems": [{}], "items": False}, (DRAFT_07, NEWEST), ""),
        ({"prefixItems": [NULL]}, {"items": [NULL]}, (NEWEST, DRAFT_07), ""),
        (
            {"uniqueItems": True},  # of 1 and 1.0
            {"type": "array", "items": [INTEGER, {"not": INTEGER}], "additionalItems": False},
            (DRAFT_07, "JsonSchema/draft-04"),
            "unique_items_added",
        ),
    ],
)
def test_drafts_are_compared_with_each_other(reader: JSON, writer: JSON, formats: tuple[str, str], rule: str) -> None:
    assert named(FORMAT.differences(text(reader, formats[0]), text(writer, formats[1]))) == rule


def test_difference_contains_path_and_values() -> None:
    old = {"properties": {"a/b": {"type": "string", "maxLength": 5}}}
    new = {"properties": {"a/b": {"type": "string", "maxLength": 3}}}
    (difference,) = differences(new, old)
    assert (difference.path, difference.rule) == ("/properties/a~1b/maxLength", "max_length_decreased")
    assert (difference.old, difference.new) == (5, 3)
    assert difference.message == "texts of 5 characters may be written, but at most 3 are accepted here"


@pytest.mark.parametrize("types", ["integer", "number", "boolean", ["null", "integer"], ["boolean", "number"]])
def test_difference_contains_the_types_of_the_writer(types: JSON) -> None:
    (difference,) = differences({"type": "string"}, {"type": types})
    assert (difference.rule, difference.old, difference.new) == ("type_changed", types, "string")


def test_the_alternative_that_was_meant_is_explained() -> None:
    """The explanation is more specific than that no alternative matches."""
    union = {"oneOf": [{"$ref": "#/definitions/a"}, NULL]}
    old: Any = {**union, "definitions": {"a": open_object(x=STRING)}}
    new = {**union, "definitions": {"a": {**old["definitions"]["a"], "required": ["x"]}}}
    assert [(difference.path, difference.rule) for difference in differences(new, old)] == [
        ("/definitions/a/required", "required_added")
    ]


def test_removed_definition_is_a_difference() -> None:
    (difference,) = differences({"definitions": {"a": {}}}, {"definitions": {"a": {}, "b": {}}})
    assert difference.rule == "definition_removed"
    assert "#/definitions/b is gone" in difference.message


def test_invalid_schema_cannot_be_compared() -> None:
    with pytest.raises(SchemaError):
        differences({"type": 5}, {})


def test_all_rules_can_be_checked() -> None:
    """G-25, G-26."""
    assert find_comparison(DRAFT_07) is find_comparison("JSONSchema/Draft-07") is not None


def test_every_rule_is_explained() -> None:
    page = (Path(__file__).parents[4] / "docs" / "compatibility.md").read_text()
    assert [rule for rule in MESSAGES if f"`{rule}`" not in page] == []


def nested(depth: int, leaf: JSON) -> JSON:
    for _ in range(depth):
        leaf = {"properties": {"a": leaf}}
    return leaf


def union(names: range, **more: JSON) -> JSON:
    return {"anyOf": [{"properties": {f"p{n}": STRING}, "required": [f"p{n - 1}"], **more} for n in names]}


HOSTILE: list[tuple[str, JSON, JSON]] = [
    ("unions of unions", {"allOf": [union(range(9)) for _ in range(9)]}, {"allOf": [union(range(9), minProperties=1) for _ in range(9)]}),  # noqa: E501
    ("exclusive unions", {"oneOf": union(range(60))["anyOf"]}, {"oneOf": union(range(60), minProperties=1)["anyOf"]}),
    ("depth", nested(50, STRING), nested(50, {"type": ["string", "null"]})),
    ("large enums", {"enum": list(range(20_000))}, {"enum": list(range(1, 20_002))}),
    ("many members", {"properties": {f"p{n}": STRING for n in range(3000)}}, {"type": "object"}),
    ("large unions", union(range(2000)), union(range(2000), minProperties=3)),
    ("patterns", {"patternProperties": {f"^a{n}.*b": STRING for n in range(500)}}, {"properties": {f"a{n}b": {} for n in range(500)}}),  # noqa: E501
    ("conditions", {"allOf": [{"if": {"required": [f"p{n}"]}, "then": {"required": ["x"]}} for n in range(40)]}, {"type": "object"}),  # noqa: E501
]  # fmt: skip


@pytest.mark.parametrize(("reader", "writer"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
def test_work_is_bounded(reader: JSON, writer: JSON) -> None:
    """A comparison that takes too long results in a difference."""
    assert len(differences(reader, writer)) <= MAX_FINDINGS
    assert differences(reader, reader) == []


def test_without_time_nothing_is_compatible() -> None:
    first, other = (load(dump_json(schema), DRAFT_07, None) for schema in ({"maximum": 2}, {"maximum": 1}))
    assert compare(first, other) == []
    assert [difference.rule for difference in compare(first, other, steps=0)] == ["undecided"]


def turned(value: JSON) -> JSON:
    """The same schema with other annotations and all that has no order in another one."""
    if isinstance(value, list):
        return [turned(item) for item in reversed(value)]
    if isinstance(value, dict):
        texts = [name for name in ("title", "description") if isinstance(value.get(name), str)]
        turned_members = {name: turned(item) for name, item in reversed(value.items()) if name not in texts}
        return {**turned_members, "$comment": "turned"} if isinstance(value.get("type"), str) else turned_members
    return value


def test_real_schemas_are_themselves_in_any_order(webhooks: Path) -> None:
    document = (webhooks / "schema.json").read_bytes()
    original, other = load(document, DRAFT_07, None), load(dump_json(turned(parse_json(document))), DRAFT_07, None)
    assert compare(original, other) == []
    readers, writers = TermLibrary(original), TermLibrary(other)
    for name in parse_json(document)["definitions"]:
        uri = f"#/definitions/{name}"
        assert compare_terms([(readers.refer(uri), writers.refer(uri))]) == [], name


SCENARIOS = ["contoso-erp-jsons07", "watchkam-jsons07", "waterboiler-mqtt5-jsons07", "mqtt-sparkplugB", "workshop"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_schemas_of_registries_are_themselves_in_any_order(sample_file: Callable[[str], Path], scenario: str) -> None:
    groups = parse_json(sample_file(f"{scenario}.xreg.json").read_bytes())["schemagroups"]
    schemas = [schema for group in groups.values() for schema in group["schemas"].values()]
    versions = [version for schema in schemas for version in schema["versions"].values() if "schema" in version]
    versions = [version for version in versions if version["format"].casefold().startswith("jsonschema")]
    for version in versions:
        original, other = text(version["schema"], version["format"]), text(turned(version["schema"]), version["format"])
        assert FORMAT.differences(original, other) == FORMAT.differences(other, original) == []


def test_a_change_deep_inside_is_found_from_the_top(webhooks: Path) -> None:
    document: Any = parse_json((webhooks / "schema.json").read_bytes())
    old = load(dump_json(document), DRAFT_07, None)
    document["definitions"]["user"]["required"].append("shoe_size")
    new = load(dump_json(document), DRAFT_07, None)
    uri = "#/definitions/issues_event" if webhooks.name == "github-webhooks" else "#/definitions/order_event"
    found_differences = compare_terms([(TermLibrary(new).refer(uri), TermLibrary(old).refer(uri))])
    assert [(difference.path, difference.rule) for difference in found_differences] == [
        ("/definitions/user/required", "required_added")
    ]


CARD = {"properties": {"card": STRING}, "required": ["card"]}
IBAN = {"properties": {"iban": STRING}, "required": ["iban"]}
PAYPAL = {"properties": {"paypal": STRING}, "required": ["paypal"]}
IS_A = {"properties": {"kind": {"const": "a"}}, "required": ["kind"]}
X = {"properties": {"x": STRING}}


@pytest.mark.parametrize(
    ("conditional", "more", "rule"),
    [
        ({"oneOf": [CARD, IBAN]}, {}, ""),
        ({"anyOf": [CARD, IBAN]}, {}, ""),
        ({"if": IS_A, "then": X}, {}, ""),
        ({"if": IS_A, "else": X}, {}, ""),
        ({"dependentSchemas": {"kind": X}}, {}, ""),
        ({"oneOf": [CARD, IBAN]}, {"oneOf": [CARD, IBAN, PAYPAL]}, ""),
        ({"oneOf": [CARD, IBAN, PAYPAL]}, {"oneOf": [CARD, IBAN]}, "undecided"),
        ({"if": IS_A, "then": X}, {"then": True}, "property_removed_from_closed_content_model"),
        ({"dependentSchemas": {"kind": X}}, {"dependentSchemas": {"id": X}}, "undecided"),
    ],
)
def test_members_of_conditional_parts(conditional: JSONObject, more: JSONObject, rule: str) -> None:
    """An optional member is added to objects that are closed by ``unevaluatedProperties``, and perhaps more changed."""
    closed: JSONObject = {"type": "object", "unevaluatedProperties": False, **conditional}
    writer = {**closed, "properties": {"id": STRING, "kind": STRING}}
    reader = {**closed, "properties": {"id": STRING, "kind": STRING, "note": STRING}, **more}
    assert named(differences(reader, writer, "JsonSchema/draft/2020-12")) == rule


def tagged_union(count: int) -> JSONObject:
    names = [f"e{number}" for number in range(count)]
    events: JSONObject = {name: open_object("type", type={"const": name}) for name in names}
    return {"oneOf": [{"$ref": f"#/definitions/{name}"} for name in names], "definitions": events}


def test_union_of_a_hundred_events_can_gain_an_event() -> None:
    assert differences(tagged_union(101), tagged_union(100)) == []


def test_another_of_many_alternatives_may_accept_a_value() -> None:
    """The alternative of the same name is not the only one that counts."""
    old, new = tagged_union(10), tagged_union(10)
    for schema in (old, new):
        schema["anyOf"] = schema.pop("oneOf")
    new["definitions"]["e3"]["required"] = ["type", "x"]
    assert named(differences(new, old)) == "required_added"
    new["definitions"]["e4"] = {"type": "object"}
    assert differences(new, old) == []


def branches(count: int, **members: JSON) -> JSONObject:
    """Events told apart by branches; ``members`` are those of the first one's data."""

    def branch(number: int) -> JSONObject:
        data = closed_object(x=STRING, **(members if number == 0 else {}))
        condition = {"properties": {"type": {"const": f"e{number}"}}, "required": ["type"]}
        return {"if": condition, "then": {"properties": {"data": data}}}

    names = {"enum": [f"e{number}" for number in range(count)]}
    return {**closed_object(type=names, data={"type": "object"}), "allOf": [branch(number) for number in range(count)]}


def test_branch_of_a_hundred_can_gain_a_member() -> None:
    """The branches of the writer and of the reader have the same conditions."""
    old, new = branches(100), branches(100, y=STRING)
    assert differences(new, old) == []
    (difference,) = differences(old, new)
    assert difference.rule == "property_removed_from_closed_content_model"
    assert difference.path == "/allOf/0/then/properties/data/additionalProperties"


# what the writer has, what the reader has, why: no reason is given for values that there are not
UNTRUE: list[tuple[str, JSONObject, JSONObject, str]] = [
    ("closed", {"additionalProperties": False}, {"maxProperties": 2}, ""),
    ("full", {"maxProperties": 0}, {"properties": {"a": STRING}}, ""),
    ("full of others", {"required": ["a"], "maxProperties": 1}, {"required": ["a"], "properties": {"b": False}}, ""),
    ("other names", {"propertyNames": {"enum": ["a"]}}, {"dependentRequired": {"b": ["c"]}}, ""),
    ("no such member", {"dependentSchemas": {"a": STRING}},
        {"dependentSchemas": {"a": False}, "properties": {"a": STRING}}, ""),
    ("a name of two patterns", {"patternProperties": {"^a": STRING}, "additionalProperties": STRING},
        {"patternProperties": {"^b": NUMBER}}, "type_changed undecided"),
    ("no item", {"type": "array", "items": {"enum": []}}, {"maxItems": 0}, ""),
    ("no item behind another", {"type": "array", "prefixItems": [{"type": "integer", "minimum": 1, "maximum": 0}]},
        {"prefixItems": [{}, STRING], "items": False}, ""),
    ("contained and an item", {"type": "array", "contains": STRING, "items": NUMBER}, {"maxItems": 0}, ""),
    ("a bound between multiples", {"type": "number", "multipleOf": 2, "maximum": 1.5}, {"maximum": 0}, ""),
    ("a listed value that is refused",
        {"type": "array", "prefixItems": [{"type": "object", "enum": [{}], "required": ["a"]}]}, {"maxItems": 0}, ""),
    ("a listed value", {"type": "array", "enum": [[{"a": 1}]], "items": {"type": "object"}},
        {"items": {"dependentRequired": {"a": ["b"]}}}, "enum_narrowed"),
    ("an empty type", {"type": ["object", "null"], "required": ["a"], "properties": {"a": False}}, NULL, ""),
    ("no object", {"type": ["object", "null"], "required": ["a"], "properties": {"a": False}}, {"maxProperties": 0},
        ""),
    ("closed with a member that cannot be",
        {"properties": {"a": STRING, "b": {"enum": []}}, "additionalProperties": False}, {"maxProperties": 1}, ""),
    ("closed with too few members",
        {"properties": {"a": STRING, "b": {"enum": []}}, "additionalProperties": False, "minProperties": 2},
        {"properties": {"a": NUMBER}}, ""),
    ("listed names", {"propertyNames": {"enum": ["a", "b"]}}, {"maxProperties": 2}, ""),
    ("as many members as there may be",
        {"properties": {"a": {}, "b": {}}, "additionalProperties": False, "minProperties": 2}, {"required": ["a", "b"]},
        ""),
    ("an undecided member", {},
        {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}, "undecided"),
    ("a pattern of one name",
        {"properties": {"c": {"maxProperties": 0}}, "patternProperties": {"^c$": {"type": "object"}}},
        {"patternProperties": {"^c$": {"maxProperties": 1}}}, "undecided"),
    ("names by another pattern", {"propertyNames": {"pattern": "^ab"}}, {"propertyNames": {"pattern": "^a"}},
        "undecided"),
    ("a pattern for all texts", STRING, {"pattern": "a*"}, "undecided"),
    ("no text of a pattern", {"type": "string", "pattern": "^c$", "maxLength": 0}, {"pattern": "^a"}, ""),
    ("no text of two patterns", {"type": "string", "allOf": [{"pattern": "^b"}, {"pattern": "^c"}]}, {"pattern": "^a"},
        "undecided"),
    ("lengths of a class", {"type": "string", "pattern": "^[A-Z]{2,3}$"}, {"minLength": 2, "maxLength": 3}, ""),
    ("items that differ anyway", {"type": "array", "prefixItems": [STRING, NUMBER], "items": False},
        {"uniqueItems": True}, ""),
    ("a single item", {"type": "array", "prefixItems": [{}, {"type": "integer", "minimum": 1, "maximum": 0}]},
        {"uniqueItems": True}, ""),
    ("items of a type that contain what is needed",
        {"type": "array", "contains": {"type": "object", "required": ["a"]}},
        {"contains": {"anyOf": [{"required": ["a"], "maxProperties": 1}, {"minProperties": 2}]}}, "undecided"),
    ("items that are contained",
        {"type": "array", "contains": {"type": "object", "required": ["a"]}, "unevaluatedItems": False},
        {"contains": {"type": "object"}, "unevaluatedItems": False}, "undecided"),
    ("neither of two alternatives", {"anyOf": [{"minProperties": 0}, {"type": ["object", "null"]}]},
        {"anyOf": [{"minProperties": 1}, {"type": ["object", "null"], "properties": {"a": {"enum": [1]}, "b": False}}]},
        "undecided"),
    ("lengths of a pattern", {"type": "string", "pattern": "^ab+$"}, {"minLength": 2}, ""),
    ("lengths of alternatives", {"type": "string", "pattern": "^(ab|c)$"}, {"minLength": 2}, "undecided"),
    ("alternatives together", STRING,
        {"anyOf": [{"type": "string", "minLength": 1}, {"type": "string", "maxLength": 0}]}, "undecided"),
    ("no member of a pattern that two schemas have",
        {"patternProperties": {"b": {"allOf": [NULL, NUMBER]}}, "unevaluatedProperties": False},
        {"patternProperties": {"^c$": {}}, "unevaluatedProperties": False}, ""),
    ("endless items", {"type": "array", "contains": {"$ref": "#"}}, {"maxItems": 0}, ""),
    ("endless members", {"required": ["a"], "properties": {"a": {"$ref": "#"}}}, {"minProperties": 2}, ""),
    ("members that end", {"required": ["a"], "properties": {"a": {"anyOf": [{"$ref": "#"}, NULL]}}},
        {"minProperties": 2}, "min_properties_increased"),
    (
        "too few values for items that differ",
        {
            "type": "array",
            "items": {"type": ["object", "null"], "required": ["a"], "maxProperties": 0},
            "uniqueItems": True,
            "minItems": 2,
        },
        {"maxItems": 1},
        "",
    ),
    ("a member that what depends on it describes", {"dependentSchemas": {"a": {"properties": {"a": {"const": [""]}}}}},
        {"properties": {"a": {"multipleOf": 2}}}, ""),
    ("a dependency that does not hold", {"not": {"dependentRequired": {"a": ["b"]}}}, {"minProperties": 1}, ""),
    ("itself", {"allOf": [{"$ref": "#"}]}, {"allOf": [{"$ref": "#"}], "maxItems": 2}, "undecided"),
]  # fmt: skip


@pytest.mark.parametrize(("writer", "reader", "rule"), [row[1:] for row in UNTRUE], ids=[row[0] for row in UNTRUE])
def test_impossible_values_cause_no_difference(writer: JSONObject, reader: JSONObject, rule: str) -> None:
    kind = {"type": "object"} if "type" not in writer else {}
    assert named(differences({**kind, **reader}, {**kind, **writer}, "JsonSchema/draft/2020-12")) == rule


def test_question_that_was_first_asked_about_a_deeper_part() -> None:
    """c is first compared as a member of b, then as a member of a, which is less deep, and then as a member of c."""

    def members(**names: str) -> JSONObject:
        return {"properties": {name: {"$ref": f"#/definitions/{target}"} for name, target in names.items()}}

    old = {"definitions": {"a": members(b="b", c="c"), "b": members(a="a"), "c": members(a="a", c="c")}}
    new = {
        "definitions": {
            "a": {"properties": {**members(b="b", c="c")["properties"], "new": {}}},
            "former_a": members(b="b", c="c"),
            "b": members(a="former_a"),
            "c": members(a="a", c="c"),
        }
    }
    assert differences({**new, **members(a="a")}, {**old, **members(a="a")}) == []


def test_reason_is_limited_to_possible_items() -> None:
    items: JSONObject = {"type": "array", "maxItems": 2, "prefixItems": [{}, {"const": {}, "required": ["a"]}]}
    (difference,) = differences({"type": "array", "maxItems": 0}, items, NEWEST)
    assert (difference.rule, difference.old) == ("max_items_decreased", 1)


def test_step_limit_is_the_only_reason() -> None:
    """Differences found before the limit may be cases that were left unsolved, so they are not reported."""
    new, old = (load(dump_json(tagged_union(count)), DRAFT_07, None) for count in (31, 30))
    (difference,) = compare(new, old, steps=500)
    assert difference.rule == "undecided"
    assert difference.message.endswith("the comparison reached its limit of 500 steps")

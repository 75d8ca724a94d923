"""Schemas in the normal form that libraries and runtimes read, and which schemas have none."""

from typing import Any

import jsonschema_rs
import pytest
from tests.codegen.standalone import cases
from tests.codegen.standalone.cases import MIDDLE, NEW, OLD, parse
from tests.codegen.standalone.library import WHOLE_NUMBERS, describe, official_table
from tests.formats.jsonschema.test_suite import remotes

from signalbook.codegen.base import Inexpressible
from signalbook.codegen.standalone.jsonschema import JsonSchemas
from signalbook.codegen.standalone.rules import SchemaRules


def rules(schema: Any, format: str = NEW) -> list[Any]:
    parsed = parse(schema, format)
    table = SchemaRules(parsed.document)
    assert table.of(parsed) == 0
    return table.document


def definitions(schema: Any, format: str = NEW) -> Any:
    parsed = parse(schema, format)
    schemas = JsonSchemas(parsed.document)
    assert schemas.of(parsed) == "0"
    return schemas.document["$defs"]


REFERRING = {"properties": {"a": {"$ref": "#/definitions/n"}, "b": {"$ref": "#/definitions/n", "minimum": 1}},
             "definitions": {"n": {"type": "integer", "description": "not a rule"}}}  # fmt: skip


def test_references_are_places_in_the_table() -> None:
    table = rules(REFERRING, OLD)
    assert table[0] == {"properties": {"a": 1, "b": 2}}
    assert table[1] == table[2] == {"all": [3]}
    assert table[3] == {"type": ["integer"]}


def test_references_lead_to_definitions() -> None:
    number = {"$ref": "#/$defs/3"}
    assert definitions(REFERRING, OLD) == {"0": {"properties": {"a": number, "b": number}}, "3": {"type": ["integer"]}}
    assert definitions(REFERRING)["0"]["properties"]["b"] == {"minimum": 1, "allOf": [number]}


def test_a_schema_that_leads_back_to_itself_below_is_a_loop() -> None:
    schema = {"additionalProperties": {"$ref": "#"}}
    assert rules(schema) == [{"others": 1}, {"all": [0]}]
    assert definitions(schema) == {"0": {"additionalProperties": {"$ref": "#/$defs/0"}}}


def test_old_keywords_are_written_as_new_ones() -> None:
    schema = {"id": "https://x.example/s", "title": "t", "format": "email", "minimum": 1, "exclusiveMinimum": True,
              "items": [{}], "additionalItems": False, "dependencies": {"a": ["b"], "c": {"minLength": 2}},
              "const": 1, "x": 1}  # fmt: skip
    assert definitions(schema, cases.OLDEST)["0"] == {
        "exclusiveMinimum": 1, "prefixItems": [{}], "items": False, "dependentRequired": {"a": ["b"]},
        "dependentSchemas": {"c": {"minLength": 2}},
    }  # fmt: skip


@pytest.mark.parametrize(("schema", "key"), [({"const": 1, "enum": [1, 2]}, "allOf"), ({"const": 1}, "enum")])
def test_constants_are_enums(schema: Any, key: str) -> None:
    assert str(definitions(schema)["0"][key]) in ("[1]", "[{'enum': [1]}]")


def test_patterns_that_are_one_to_an_engine_both_apply() -> None:
    parsed = parse({"patternProperties": {"a": {"minimum": 1}, "b": {"maximum": 2}}})
    schemas = JsonSchemas(parsed.document, lambda pattern: ".")
    schemas.of(parsed)
    assert schemas.document["$defs"]["0"] == {"patternProperties": {".": {"allOf": [{"minimum": 1}, {"maximum": 2}]}}}


def test_normal_forms_mean_what_their_schemas_mean() -> None:
    """The pipeline's validator judges the values of the table and of the official test suite alike by both.

    ``content…`` is checked in draft-07, which libraries can do for the normal form, too.
    """
    wrong = set()
    listed = (WHOLE_NUMBERS.format, WHOLE_NUMBERS.schema, [WHOLE_NUMBERS.value])
    for version, schema, values in [*cases.TABLE, *official_table(), listed]:
        parsed = parse(schema, version, remotes().get)
        schemas = JsonSchemas(parsed.document)
        try:
            name = schemas.of(parsed)
        except Inexpressible:
            continue
        document = {**schemas.document, "$ref": f"#/$defs/{name}"}
        validator = jsonschema_rs.Draft202012Validator(document, validate_formats=False)
        wrong |= {
            describe(version, schema, value)
            for value in values
            if validator.is_valid(value) != parsed.allows(value) and "content" not in str(schema)
        }
    assert wrong == {WHOLE_NUMBERS.verdict}


@pytest.mark.parametrize(
    ("schema", "format", "why"),
    [
        ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, NEW, "refers to itself for the same value"),
        ({"$ref": "http://json-schema.org/draft-07/schema#"}, OLD, "whose rules are not at hand"),
        ({"$dynamicRef": "#n", "$defs": {"a": {"$dynamicAnchor": "n"}, "b": {"$id": "b", "$dynamicAnchor": "n"}}}, NEW,
         "depends on who refers to it"),
        ({"$recursiveAnchor": True, "properties": {"a": {"$recursiveRef": "#"}}, "$defs": {
            "b": {"$id": "b", "$recursiveAnchor": True}}}, MIDDLE, "depends on who refers to it"),
    ],
)  # fmt: skip
def test_inexpressible_schema_is_reported(schema: Any, format: str, why: str) -> None:
    with pytest.raises(Inexpressible, match=why):
        rules(schema, format)


def test_schemas_of_great_width_and_depth() -> None:
    """Five thousand members, and a chain of sixty definitions."""
    assert len(rules({"properties": {f"m{n}": {"type": "string", "maxLength": n} for n in range(5000)}})) == 5001
    chain = {f"d{n}": {"properties": {"next": {"$ref": f"#/definitions/d{n + 1}"}}} for n in range(60)}
    schema = {"$ref": "#/definitions/d0", "definitions": {**chain, "d60": True}}
    assert len(rules(schema, OLD)) == 122
    assert len(definitions(schema, OLD)) == 61


def test_inexpressible_part_omits_only_its_referrers() -> None:
    parsed = parse({"$defs": {
        "bad": {"pattern": "(?i)a"}, "one": {"$ref": "#/$defs/bad"}, "two": {"items": {"$ref": "#/$defs/bad"}},
        "good": {"type": "string"}}})  # fmt: skip
    schemas = JsonSchemas(parsed.document)
    for name in ("one", "two"):
        with pytest.raises(Inexpressible, match="pattern"):
            schemas.at(f"{parsed.uri}/$defs/{name}")
    place = schemas.at(f"{parsed.uri}/$defs/good")
    assert schemas.document["$defs"] == {str(place): {"type": ["string"]}}

"""Schemas as rules: what has no such form is said. That rules mean what the schema says is tested in each language."""

from typing import Any

import pytest
from tests.codegen.standalone.cases import MIDDLE, NEW, OLD, parse

from signalbook.codegen.base import Inexpressible
from signalbook.codegen.standalone.rules import SchemaRules


def rules(schema: Any, format: str = NEW) -> list[Any]:
    parsed = parse(schema, format)
    table = SchemaRules(parsed.document)
    assert table.at(parsed.uri) == 0
    return table.rules


def test_references_are_places_in_the_table() -> None:
    table = rules({"properties": {"a": {"$ref": "#/definitions/n"}, "b": {"$ref": "#/definitions/n"}},
                   "definitions": {"n": {"type": "integer", "description": "not a rule"}}}, OLD)  # fmt: skip
    assert table[0] == {"properties": {"a": 1, "b": 2}}
    assert table[1] == table[2] == {"all": [3]}
    assert table[3] == {"type": ["integer"]}


def test_a_schema_that_leads_back_to_itself_below_is_a_loop_in_the_table() -> None:
    assert rules({"additionalProperties": {"$ref": "#"}}) == [{"others": 1}, {"all": [0]}]


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
    assert len(rules({"$ref": "#/definitions/d0", "definitions": {**chain, "d60": True}}, OLD)) == 122


def test_inexpressible_part_omits_only_its_referrers() -> None:
    parsed = parse({"$defs": {
        "bad": {"pattern": "(?i)a"}, "one": {"$ref": "#/$defs/bad"}, "two": {"items": {"$ref": "#/$defs/bad"}},
        "good": {"type": "string"}}})  # fmt: skip
    table = SchemaRules(parsed.document)
    for name in ("one", "two"):
        with pytest.raises(Inexpressible, match="pattern"):
            table.at(f"{parsed.uri}/$defs/{name}")
    assert table.rules[table.at(f"{parsed.uri}/$defs/good")] == {"type": ["string"]}

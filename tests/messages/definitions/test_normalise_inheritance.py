from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import json_trees

from signalbook.messages.definitions.normalise import MAX_CHAIN, materialise, merge


def chain(**definitions: dict[str, Any]) -> Any:
    return materialise(definitions["m"], definitions.get)


def test_nearer_definition_takes_precedence() -> None:
    """F-15, F-18, K-12"""
    materialised = chain(
        m={"basemessage": "b", "description": "m", "envelopemetadata": {"type": {"value": "m"}}},
        b={"basemessageurl": "a", "envelopemetadata": {"type": {"value": "b", "required": True}}},
        a={"description": "a", "labels": {"x": "1"}, "envelopemetadata": {"time": {"required": True}}},
    )
    expected = {"type": {"value": "m", "required": True}, "time": {"required": True}}
    assert materialised.definition["envelopemetadata"] == expected
    assert (materialised.definition["description"], materialised.definition["labels"]) == ("m", {"x": "1"})
    assert materialised.chain == ("b", "a")


@pytest.mark.parametrize(
    ("base", "over", "expected"),
    [
        ({"a": {"b": 1}}, {"a": 5}, {"a": 5}),  # a scalar drops the whole nested value
        ({"a": 5}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),  # arrays replace as a whole
        ({"a": 1, "b": {"c": 1}}, {"a": None, "b": {"c": None}}, {"b": {}}),  # null deletes
        ({}, {"a": {"b": None}}, {"a": {}}),
    ],
)
def test_merging(base: Any, over: Any, expected: Any) -> None:
    """Merging follows the rules of JSON Merge Patch (F-18)."""
    assert merge(base, over) == expected


JSON = json_trees(st.none() | st.integers() | st.text("ab"), st.sampled_from("abc"), leaves=10)


def test_a_schema_is_replaced_as_a_whole() -> None:
    """Null is a value inside a schema."""
    schema = {"properties": {"a": {"const": None}}, "enum": [None], "default": None}
    base = {"xid": "/m/b", "dataschema": {"type": "object"}}
    materialised = materialise({"xid": "/m/m", "dataschema": schema, "basemessage": "/m/b"}, {"/m/b": base}.get)
    assert materialised.definition["dataschema"] == schema
    materialised = materialise({"xid": "/m/n", "basemessage": "/m/m"}, {"/m/m": {"dataschema": schema}}.get)
    assert materialised.definition["dataschema"] == schema


@given(JSON, JSON)
def test_merging_twice_is_merging_once(base: Any, over: Any) -> None:
    """Merging is idempotent (F-18)."""
    once = merge(base, over)
    assert merge(once, over) == once


def test_identity_is_not_inherited() -> None:
    """Name and labels are inherited, ids and timestamps are not (F-19)."""
    identity = {"messageid": "a", "xid": "/x/a", "epoch": 3, "createdat": "x", "versionid": "1", "self": "http://x"}
    materialised = chain(m={"basemessage": "b"}, b={**identity, "name": "n", "documentation": "http://d"})
    assert materialised.definition == {"basemessageuri": "b", "name": "n", "documentation": "http://d"}


def test_overridden_properties_are_reported() -> None:
    """A registry adds ``required`` and ``type``, which revokes the inherited values (F-18, F-43)."""
    inherited = {"a": {"type": "integer", "required": True}, "b": {"type": "uri"}, "c": {"required": True}}
    overriding = {"a": {"type": "string", "required": False, "value": "5"}, "b": {"type": "uri"}, "c": {"value": "x"}}
    base = {"envelopemetadata": inherited, "protocol": "AMQP/1.0", "protocoloptions": {"properties": inherited}}
    materialised = chain(
        m={"basemessage": "b", "envelopemetadata": overriding, "protocoloptions": {"properties": overriding}}, b=base
    )
    assert [(finding.path, finding.rule, finding.severity) for finding in materialised.findings] == [
        (f"{section}.a.{member}", "basemessage_override", "warning")
        for section in ("envelopemetadata", "protocoloptions.properties")
        for member in ("required", "type")
    ]


@pytest.mark.parametrize("name", ["dataschema", "dataschemauri", "dataschemaxid"])
def test_an_own_schema_replaces_an_inherited_one_of_another_kind(name: str) -> None:
    """The inherited members of the schema are replaced together (F-20)."""
    base = {"dataschema": {"x": 1}, "dataschemauri": "/s", "dataschemaxid": "/s", "dataschemaformat": "JsonSchema/x"}
    definition = chain(m={"basemessage": "b", name: "own"}, b=base).definition
    assert {key for key in definition if key.startswith("dataschema")} == {name, "dataschemaformat"}


@pytest.mark.parametrize(("protocol", "expected"), [("http/1.1", {"method": "PUT"}), ("NATS", None)])
def test_options_of_another_protocol_are_not_inherited(protocol: str, expected: Any) -> None:
    """Options are inherited only for the same protocol (F-20)."""
    base = {"protocol": "HTTP", "protocoloptions": {"method": "PUT"}}
    assert chain(m={"basemessage": "b", "protocol": protocol}, b=base).definition.get("protocoloptions") == expected


@pytest.mark.parametrize(
    "definitions",
    [
        {"m": {"basemessage": "m", "xid": "m"}},
        {"m": {"basemessage": "m"}},
        {"m": {"basemessage": "b"}, "b": {"basemessage": "m"}},
        {"m": {"basemessage": "a"}, "a": {"basemessage": "b"}, "b": {"basemessage": "a"}},
    ],
)
def test_a_cycle_ends_the_chain(definitions: dict[str, Any]) -> None:
    """A cycle of base messages is a warning (F-16)."""
    materialised = chain(**definitions)
    assert [finding.rule for finding in materialised.findings] == ["basemessage_cycle"]
    assert {finding.severity for finding in materialised.findings} == {"warning"}


def test_a_chain_has_a_bounded_length() -> None:
    """The chain of base messages is limited (F-16)."""
    materialised = materialise({"basemessage": "0"}, lambda name: {"basemessage": str(int(name) + 1)})
    assert len(materialised.chain) == MAX_CHAIN


def test_missing_base_is_a_warning() -> None:
    """A missing base message is reported, and the definition is used (F-17)."""
    materialised = chain(m={"basemessage": "https://elsewhere.example/m", "name": "n"})
    assert materialised.definition["name"] == "n"
    assert [finding.rule for finding in materialised.findings] == ["basemessage_unresolved"]

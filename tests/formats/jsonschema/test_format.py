from typing import Any

import pytest
import yaml
from tests.formats.jsonschema.cases import is_accepted

from signalbook.formats import PayloadError, SchemaError
from signalbook.formats.base import MAX_FINDINGS
from signalbook.values import dump_json

DEFINITIONS = yaml.safe_load("""
$schema: "http://json-schema.org/draft-07/schema#"
definitions: {issues$opened: {type: object}, a b/c: {type: "null"}, n: {$id: "#anchor", type: "null"}}
type: string
""")


@pytest.mark.parametrize(
    ("link", "value"),
    [
        ("", "text"),  # G-17
        ("#", "text"),
        ("#/definitions/issues$opened", {}),
        ("#/definitions/issues%24opened", {}),
        ("/definitions/issues$opened", {}),
        ("definitions/issues$opened", {}),  # G-15
        (":definitions/issues$opened", {}),
        ("#/definitions/a%20b~1c", None),
        ("#anchor", None),
    ],
)
def test_deep_links(parse: Any, link: str, value: object) -> None:
    schema = parse(DEFINITIONS, link=link)
    assert schema.validate(value) == []
    assert schema.validate(1.5)


def test_link_to_a_missing_definition_is_an_error(parse: Any) -> None:
    with pytest.raises(SchemaError, match="names no usable schema") as caught:
        parse(DEFINITIONS, link="#/definitions/none")
    assert caught.value.findings[0].rule == "link"


def test_a_validator_is_kept_once_it_was_needed(parse: Any) -> None:
    """The validator is not needed for most messages of a pipeline."""
    schema = parse(DEFINITIONS, link="#/definitions/issues$opened")
    assert "validator" not in vars(schema)
    schema.validate({})
    assert "validator" in vars(schema)


def test_findings_have_pointer_and_rule(parse: Any) -> None:
    """Findings have a JSON pointer and the keyword (K-41)."""
    schema = parse({"properties": {"a/b": {"items": {"minimum": 3}}}, "required": ["c"], "additionalProperties": False})
    findings = schema.validate({"a/b": [3, 1], "d": 1})
    expected = {("/a~1b/1", "minimum"), ("", "required"), ("", "additionalProperties")}
    assert {(f.path, f.rule) for f in findings} == expected


def test_findings_are_limited(parse: Any) -> None:
    findings = parse({"items": {"type": "string"}}).validate([1] * 1000 + [{"x": "y" * 10_000}])
    assert len(findings) == MAX_FINDINGS
    assert all(len(finding.message) <= 300 for finding in findings)


@pytest.mark.parametrize(
    ("payload", "content_type", "reason"),
    [
        (b"{", "", "decode_error"),
        (b"", "application/json", "decode_error"),
        (b'"\xff"', "", "decode_error"),
        (b"[" * 100_000, "", "decode_error"),
        (b"[]", "application/json; charset=utf-8", "schema_violation"),
        (b"{}", "application/xml", "unsupported_format"),  # K-40
        (b"{}", "avro/binary", "unsupported_format"),
    ],
)
def test_refusals_have_a_reason(parse: Any, payload: bytes, content_type: str, reason: str) -> None:
    """Undecodable and invalid payloads have different reasons (K-44)."""
    with pytest.raises(PayloadError) as caught:
        parse({"type": "object"}).decode(payload, content_type)
    assert caught.value.reason == reason
    assert caught.value.findings


def test_decodes_what_conforms(parse: Any) -> None:
    assert parse({"type": "object"}).decode(b'{"a":[1,2.5,null]}', "application/vnd.x+json") == {"a": [1, 2.5, None]}


@pytest.mark.parametrize(
    ("format", "document", "value", "valid"),
    [
        ("JsonSchema/draft-04", {"type": "integer"}, 1.0, False),
        ("JsonSchema/draft-06", {"type": "integer"}, 1.0, True),
        ("JsonSchema/draft-04", {"maximum": 3, "exclusiveMaximum": True}, 3, False),
        ("JsonSchema/draft-04", {"const": 1}, 2, True),  # not known yet
        ("JsonSchema/draft-07", {"if": {"type": "string"}, "then": {"minLength": 2}}, "a", False),
        ("JsonSchema/draft-07", {"definitions": {"a": {"type": "null"}}, "$ref": "#/definitions/a", "type": "string"},
            None, True),
        ("JsonSchema/draft/2019-09", {"$defs": {"a": {}}, "$ref": "#/$defs/a", "type": "string"}, None, False),
        ("JsonSchema/draft/2019-09", {"dependentRequired": {"a": ["b"]}}, {"a": 1}, False),
        ("JsonSchema/draft/2020-12", {"prefixItems": [{"type": "string"}], "items": False}, ["a", 1], False),
        ("JsonSchema/draft/2020-12", {"properties": {"a": {}}, "unevaluatedProperties": False}, {"b": 1}, False),
        ("JsonSchema/draft/2020-12", {"format": "ipv4"}, "nonsense", True),  # format is an annotation
        ("JsonSchema/draft-07", {"format": "date-time"}, "nonsense", True),
        ("JsonSchema/draft-07", {"maxLength": 1}, "😀", True),  # lengths count code points
    ],
)  # fmt: skip
def test_drafts_differ(parse: Any, format: str, document: Any, value: object, valid: bool) -> None:
    schema = parse(document, format)
    assert (schema.validate(value) == []) == valid
    assert is_accepted(schema, dump_json(value)) == valid


def test_constants_are_required_closed_and_scalar(parse: Any) -> None:
    """Only required members with closed scalar values discriminate (K-30)."""
    members = yaml.safe_load("""
    {action: {enum: [opened, closed]}, online: {type: boolean, const: true}, optional: {const: 1},
      open: {type: string}, either: {oneOf: [{const: a}, {type: "null"}]}, nested: {const: {a: 1}}}
    """)
    required = ["action", "online", "open", "either", "nested"]
    constants = parse({"type": "object", "properties": members, "required": required}).constants()
    assert constants == {
        "action": frozenset({"opened", "closed"}),
        "online": frozenset({True}),
        "either": frozenset({"a", None}),
    }


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf"])
def test_constants_must_be_stated_by_all_alternatives(parse: Any, keyword: str) -> None:
    """The example resembles GitHub's ``pull_request`` events, whose reviewers are people or teams (K-30)."""

    def one(required: list[str], **members: Any) -> dict[str, Any]:
        properties = {name: {"const": value} for name, value in members.items()}
        return {"type": "object", "required": required, "properties": properties}

    first, second = one(["a", "b"], a=1, b="x", c=3), one(["a"], a=2, b="y")
    assert parse({keyword: [first, second]}).constants() == {"a": frozenset({1, 2})}
    assert parse({keyword: [first, second, {"type": "null"}]}).constants() == {"a": frozenset({1, 2})}
    assert parse({keyword: [first, second, {"type": "object"}]}).constants() == {}
    assert parse({keyword: [first, True]}).constants() == {}
    parts = [first, {keyword: [second, one(["a"], a=3)]}]
    whole = {keyword: parts, "required": ["k"], "properties": {"k": {"const": 7}}}
    assert parse(whole).constants() == {"a": frozenset({1, 2, 3}), "k": frozenset({7})}
    assert parse({"allOf": [{"type": "object"}, whole]}).constants() == parse(whole).constants()


def test_fingerprints_follow_the_content(parse: Any) -> None:
    first, again = parse(DEFINITIONS), parse({**DEFINITIONS})
    assert first.fingerprint == again.fingerprint
    assert first.fingerprint != parse(DEFINITIONS, link="#anchor").fingerprint
    assert first.fingerprint != parse({**DEFINITIONS, "title": "x"}).fingerprint


def test_values_become_payloads(parse: Any) -> None:
    """Values are encoded as JSON (K-52)."""
    schema = parse({"type": "object", "properties": {"n": {"type": "integer"}}})
    assert schema.encode({"n": 1, "x": [None, 1.5, "é"]}, "application/json") == '{"n":1,"x":[null,1.5,"é"]}'.encode()


@pytest.mark.parametrize(
    ("value", "content_type", "reason", "path"),
    [
        ({"n": "1"}, "", "schema_violation", "/n"),
        ({"n": 1}, "application/xml", "unsupported_format", ""),
        ({"x": b"bytes"}, "", "schema_violation", ""),
        ({"x": float("nan")}, "", "schema_violation", ""),
        ({"x": "\ud800"}, "", "schema_violation", ""),
        ({1: 2}, "", "schema_violation", ""),
        ({"x": object()}, "", "schema_violation", ""),
    ],
)
def test_invalid_value_is_not_encoded(parse: Any, value: Any, content_type: str, reason: str, path: str) -> None:
    """A value without a JSON form is not replaced by another one (K-52)."""
    with pytest.raises(PayloadError) as caught:
        parse({"type": "object", "properties": {"n": {"type": "integer"}}}).encode(value, content_type)
    assert (caught.value.reason, caught.value.findings[0].path) == (reason, path)

"""JSON Structure: documents, payloads, columns."""

from typing import Any

import pytest

from signalbook.formats import PayloadError, SchemaError, find
from signalbook.formats.jsonstructure import FORMAT, JsonStructure, JsonStructureFormat
from signalbook.formats.shape import Anything, ListOf, MapOf, Scalar, Struct
from signalbook.values import JSON, dump_json

DRAFT = "JsonStructure/draft-04"
HEAD = {"$schema": "https://json-structure.org/meta/core/v0/#", "$id": "https://example.com/doc", "name": "Doc"}
ADDRESS = {
    "Address": {"abstract": True, "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "Street": {
        "type": "object",
        "$extends": "#/definitions/Address",
        "properties": {"street": {"type": "string"}},
        "required": ["street"],
        "additionalProperties": False,
    },
    "Box": {"type": "object", "$extends": "#/definitions/Address", "properties": {"box": {"type": "int32"}}},
}


def document(**more: JSON) -> bytes:
    return dump_json({**HEAD, **more})


def parse(link: str = "", **more: JSON) -> JsonStructure:
    return FORMAT.parse(document(**more), DRAFT, link=link)


def of(member: JSON, **more: JSON) -> JsonStructure:
    """An object with the one property ``v``."""
    return parse(type="object", properties={"v": member}, **more)


def ref(name: str) -> JSON:
    return {"type": {"$ref": f"#/definitions/{name}"}}


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("string", ["", "x"], [1, None]),
        ("number", [0, 1.5, -2], [True, "1"]),
        ("integer", [2**31 - 1], [2**31, 1.0]),
        ("boolean", [True, False], [0, "true"]),
        ("null", [None], [0, ""]),
        ("int8", [-128, 127], [128, -129, True, "1"]),
        ("uint8", [0, 255], [256, -1]),
        ("int16", [-32768], [32768]),
        ("uint16", [65535], [65536]),
        ("int32", [-(2**31)], [2**31]),
        ("uint32", [2**32 - 1], [2**32]),
        ("int64", ["9223372036854775807", "-1", "0"], ["9223372036854775808", 1, "01", "+1", "1.0", "9" * 5000]),
        ("uint64", ["18446744073709551615"], ["-1", "18446744073709551616"]),
        ("int128", [str(-(2**127))], [str(2**127)]),
        ("uint128", [str(2**128 - 1)], [str(2**128)]),
        ("float8", [240.0], [4000]),
        ("float", [3.4e38], [3.5e38, "1"]),
        ("double", [1e308], ["1"]),
        ("decimal", ["1", "-0.10"], [1, "1.", "1e3", ".5"]),
        ("date", ["2030-12-31"], ["2030-02-30", "2030-1-1", "20301231"]),
        ("datetime", ["2030-12-31T23:59:59.123Z", "2030-12-31T23:59:59+05:30"], ["2030-12-31T23:59:59", "2030-12-31"]),
        ("time", ["23:59:59Z", "01:02:03.5-01:00"], ["24:00:00Z", "23:59:59", "1:2:3Z"]),
        ("duration", ["P1D", "PT0.5S", "P2W", "P1Y2M3DT4H5M6S"], ["P", "PT", "1D", "P1S"]),
        ("uuid", ["123e4567-e89b-12d3-a456-426614174000"], ["123e4567", "{123e4567-e89b-12d3-a456-426614174000}"]),
        ("uri", ["https://example.com/a?b#c", "../a", ""], ["a b", "%zz", 1]),
        ("jsonpointer", ["", "/a~1b/0"], ["a", "/~2"]),
        ("binary", ["", "aGk="], ["a", "!!!!", 1]),
        ("any", [None, 1, {}], []),
    ],
)
def test_types_have_their_values(kind: str, good: list[JSON], bad: list[JSON]) -> None:
    schema = of({"type": kind})
    assert [value for value in good if schema.validate({"v": value})] == []
    assert [
        value for value in bad if [(f.path, f.rule) for f in schema.validate({"v": value})] != [("/v", "type")]
    ] == []


@pytest.mark.parametrize(
    ("member", "good", "bad"),
    [
        ({"type": "string", "maxLength": 2}, "ab", "abc"),
        ({"type": "decimal", "precision": 4, "scale": 2}, "12.34", "1.234"),
        ({"type": "decimal", "precision": 4, "scale": 2}, "0.01", "12345"),
        ({"type": "binary", "contentEncoding": "base64url"}, "_-8", "/+8="),
        ({"type": "binary", "contentEncoding": "base16"}, "0Aff", "0g"),
        ({"type": "string", "enum": ["a", "b"]}, "a", "c"),
        ({"type": "int32", "const": 1}, 1, 2),
        ({"type": "array", "items": {"type": "int8"}}, [1, 2], [1, 300]),
        ({"type": "set", "items": {"type": "string"}}, ["a", "b"], ["a", "a"]),
        ({"type": "map", "values": {"type": "boolean"}}, {"any key": True}, {"k": 1}),
        ({"type": "tuple", "properties": {"a": {"type": "string"}, "b": {"type": "int8"}}, "tuple": ["b", "a"]}, [1, "x"], ["x", 1]),  # noqa: E501
        ({"type": "choice", "choices": {"s": {"type": "string"}, "i": {"type": "int32"}}}, {"i": 1}, {"s": "x", "i": 1}),  # noqa: E501
        ({"type": ["null", "int32", {"$ref": "#/definitions/Box"}]}, {"city": "Rome"}, {"box": 1}),
        (ref("Street"), {"city": "Rome", "street": "Via"}, {"city": "Rome", "street": "Via", "x": 1}),
    ],
)  # fmt: skip
def test_constraints(member: JSON, good: JSON, bad: JSON) -> None:
    schema = of(member, definitions=ADDRESS)
    assert schema.validate({"v": good}) == []
    assert schema.validate({"v": bad}) != []


def test_a_choice_is_known_by_its_selector() -> None:
    choices = {"Street": ref("Street"), "Box": ref("Box")}
    choice_members: Any = {"$extends": "#/definitions/Address", "selector": "kind", "choices": choices}
    schema = parse(type="choice", definitions=ADDRESS, **choice_members)
    assert schema.validate({"kind": "Street", "city": "Rome", "street": "Via"}) == []
    assert [f.rule for f in schema.validate({"kind": "Street", "city": "Rome"})] == ["required"]
    assert [(f.path, f.rule) for f in schema.validate({"kind": "Tent"})] == [("/kind", "choice")]
    assert schema.constants() == {"kind": frozenset({"Street", "Box"})}


def test_exactly_one_of_several_required_sets_must_match() -> None:
    members = {name: {"type": "int32"} for name in ("legs", "fins", "age")}
    schema = parse(type="object", properties=members, required=[["age", "legs"], ["age", "fins"]])
    assert schema.validate({"age": 1, "legs": 2}) == []
    assert [f.rule for f in schema.validate({"age": 1, "legs": 2, "fins": 1})] == ["required"]
    assert [f.rule for f in schema.validate({"legs": 2})] == ["required"]


BROKEN: list[tuple[JSON, str, str]] = [
    ({}, "", "type"),
    ({"type": "object", "properties": {"a": {"type": "text"}}}, "/properties/a/type", "type"),
    ({"type": "object", "properties": {"a": {}}}, "/properties/a", "type"),
    ({"type": "object", "properties": {"a": {"$ref": "#/definitions/x"}}}, "/properties/a", "$ref"),
    ({"type": "object", "properties": {"a": ref("x")}}, "/properties/a/type/$ref", "$ref"),
    ({"type": "object", "properties": {"1a": {"type": "any"}}}, "/properties/1a", "identifier"),
    ({"type": "object", "properties": {}}, "/properties", "properties"),
    ({"type": "object"}, "", "properties"),
    ({"type": "object", "properties": {"a": {"type": "any"}}, "required": ["b"]}, "/required", "required"),
    ({"type": "object", "properties": {"a": {"type": "any"}}, "required": "a"}, "/required", "required"),
    ({"type": "array"}, "", "items"),
    ({"type": "map", "items": {"type": "any"}, "values": {"type": "any"}}, "/items", "items"),
    ({"type": "tuple", "properties": {"a": {"type": "any"}}}, "", "tuple"),
    ({"type": "tuple", "properties": {"a": {"type": "any"}}, "tuple": []}, "/tuple", "tuple"),
    ({"type": "choice", "choices": {"a": {"type": "any"}}, "selector": "s"}, "/selector", "selector"),
    ({"type": ["string"]}, "/type", "type"),
    ({"type": {"$ref": "#/definitions/a"}, "definitions": {"a": {"type": "string"}}}, "/type", "type"),
    ({"$root": "#/definitions/b", "definitions": {"a": {"type": "string"}}}, "/$root", "$root"),
    ({"$root": "#/definitions/a", "type": "string", "definitions": {"a": {"type": "string"}}}, "/$root", "$root"),
    ({"type": "string", "enum": []}, "/enum", "enum"),
    ({"type": "string", "enum": ["a", "a"]}, "/enum", "enum"),
    ({"type": "string", "enum": ["a", 1]}, "/enum/1", "enum"),
    ({"type": "int8", "const": 300}, "/const", "const"),
    ({"type": "array", "items": {"type": "any"}, "const": 1}, "/const", "const"),
    ({"type": "string", "maxLength": -1}, "/maxLength", "maxLength"),
    ({"type": "int32", "maxLength": 1}, "/maxLength", "maxLength"),
    ({"type": "binary", "contentEncoding": "rot13"}, "/contentEncoding", "contentEncoding"),
    ({"definitions": {"a": {"type": {"$ref": "#/definitions/a"}}}}, "/definitions/a/type/$ref", "$ref"),
    ({"definitions": {"a": {"type": ["string", "object"]}}}, "/definitions/a/type/1", "type"),
    ({"definitions": {"a": {"type": "any", "$id": "urn:x"}}}, "/definitions/a/$id", "$id"),
    ({"definitions": []}, "/definitions", "definitions"),
    ({"definitions": ADDRESS, "type": "object", "properties": {"a": ref("Address")}}, "/properties/a/type/$ref", "abstract"),  # noqa: E501
    ({"definitions": {**ADDRESS, "A": {"type": "object", "$extends": "#/definitions/Box", "properties": {"x": {"type": "any"}}}}}, "/definitions/A/$extends", "$extends"),  # noqa: E501
    ({"definitions": {**ADDRESS, "A": {"type": "object", "$extends": "#/definitions/Address", "properties": {"city": {"type": "any"}}}}}, "/definitions/A/properties/city", "$extends"),  # noqa: E501
    ({"$offers": {"x": "#/definitions/none"}, "type": "any"}, "/$offers/x", "$offers"),
    ({"$schema": "core", "type": "any"}, "/$schema", "$schema"),
    ({"$id": None, "type": "any"}, "/$id", "$id"),
    ({"name": None, "type": "object", "properties": {"a": {"type": "any"}}}, "/name", "name"),
]  # fmt: skip


@pytest.mark.parametrize(("broken", "path", "rule"), BROKEN)
def test_documents_are_checked(broken: Any, path: str, rule: str) -> None:
    """Invalid documents have findings with path and rule (G-19)."""
    findings = FORMAT.check(document(**broken), DRAFT)
    assert (path, rule) in [(finding.path, finding.rule) for finding in findings]
    with pytest.raises(SchemaError):
        parse(**broken)


@pytest.mark.parametrize("text", [b"", b"  ", b"[]", b"{", b"\xff", b"[" * 1000, b'"x"'])
def test_unparsable_document_has_one_finding(text: bytes) -> None:
    """The document has exactly one finding (G-23)."""
    assert len(FORMAT.check(text, DRAFT)) == 1


def test_whole_documents() -> None:
    """Namespaces, extension, choices: nothing to say against them."""
    nested = {"shop": {"Item": {"type": "object", "properties": {"n": {"type": "int32"}}}}, **ADDRESS}
    assert FORMAT.check(document(**{"$root": "#/definitions/shop/Item"}, definitions=nested), DRAFT) == []
    assert FORMAT.check(document(definitions=nested, **{"$offers": {"a": ["#/definitions/Box"]}}), DRAFT) == []


@pytest.mark.parametrize("link", ["#/definitions/Box", "/definitions/Box", "definitions/Box", ":definitions/Box"])
def test_deep_links(link: str) -> None:
    """A deep link selects a definition (G-15)."""
    assert [f.rule for f in parse(link, definitions=ADDRESS).validate({"box": 1})] == ["required"]


def test_a_collection_has_no_type_of_its_own() -> None:
    """A document without a root type can only be used with a link (G-17)."""
    with pytest.raises(SchemaError, match="no type of its own"):
        parse(definitions=ADDRESS)
    with pytest.raises(SchemaError, match="names no type"):
        parse("definitions/None", definitions=ADDRESS)


def test_imports_are_checked_but_not_followed() -> None:
    imported = {"definitions": {"far": {"$import": "https://example.com/other"}, "a": ref("far/Thing")}}
    assert FORMAT.check(document(**imported), DRAFT) == []
    with pytest.raises(SchemaError, match="not followed"):
        parse("definitions/a", **imported)


@pytest.mark.parametrize(
    ("payload", "content_type", "reason"),
    [
        (b"{", "", "decode_error"),
        (b'{"v": 1}', "application/json", "schema_violation"),
        (b"{}", "avro/binary", "unsupported_format"),
    ],
)
def test_refusals_have_a_reason(payload: bytes, content_type: str, reason: str) -> None:
    """Undecodable and invalid payloads have different reasons (K-44)."""
    with pytest.raises(PayloadError) as caught:
        of({"type": "string"}).decode(payload, content_type)
    assert caught.value.reason == reason


def test_values_are_those_of_the_json() -> None:
    assert of({"type": "int64"}).decode(b'{"v": "12", "$schema": "urn:x"}') == {"v": "12", "$schema": "urn:x"}


def test_columns() -> None:
    members = {
        "id": {"type": "uuid"},
        "n": {"type": ["null", "int32"], "description": "how many"},
        "big": {"type": "int64"},
        "tags": {"type": "set", "items": {"type": "string"}},
        "more": {"type": "map", "values": {"type": "double"}},
        "either": {"type": ["string", "int32"]},
        "self": ref("Node"),
    }
    node = {"Node": {"type": "object", "properties": {"next": ref("Node")}}}
    shape = parse(type="object", properties=members, required=["id"], definitions=node).shape()
    assert isinstance(shape, Struct)
    columns = {field.name: field.shape for field in shape.fields}
    assert [field.name for field in shape.fields if field.required] == ["id"]
    assert (columns["id"], columns["n"]) == (Scalar(kind="uuid"), Scalar(kind="int32", nullable=True))
    assert columns["big"] == Scalar(kind="string")
    assert columns["tags"] == ListOf(item=Scalar(kind="string"))
    assert columns["more"] == MapOf(value=Scalar(kind="float64"))
    assert columns["either"] == Anything(nullable=True)
    inner = columns["self"]
    assert isinstance(inner, Struct)
    assert inner.fields[0].shape == Anything()


def test_constants() -> None:
    """Required enums of the members discriminate (K-30)."""
    members = {"a": {"type": "string", "enum": ["x", "y"]}, "b": {"type": "int32", "const": 1}, "c": {"type": "any"}}
    schema = parse(type="object", properties=members, required=["a", "c"])
    assert schema.constants() == {"a": frozenset({"x", "y"})}


def test_unions_of_unions_cannot_hang() -> None:
    types = {
        f"t{n}": {"type": [{"$ref": f"#/definitions/t{n + 1}"}, {"$ref": f"#/definitions/t{n + 1}"}]} for n in range(40)
    }
    schema = parse("definitions/t0", definitions={**types, "t40": {"type": "string"}})
    assert [finding.rule for finding in schema.validate(1)] == ["work"]
    assert isinstance(schema.shape(), Anything)


def test_the_format_is_found() -> None:
    """The format is found in any case (G-12)."""
    assert isinstance(find("jsonstructure/draft-04"), JsonStructureFormat)
    assert FORMAT.canonical("JSONSTRUCTURE/Draft-03") == "JsonStructure/draft-03"


def test_the_fingerprint_is_of_document_and_link() -> None:
    schema = parse("definitions/Box", definitions=ADDRESS)
    assert schema.fingerprint == parse("definitions/Box", definitions=ADDRESS).fingerprint
    assert schema.fingerprint != parse("definitions/Street", definitions=ADDRESS).fingerprint


def test_values_become_payloads() -> None:
    """Values are encoded as JSON, and invalid values are rejected (K-52)."""
    schema = of({"type": "int64"})
    assert schema.encode({"v": "5"}, "application/json") == b'{"v":"5"}'
    for value, content_type in (({"v": "x"}, ""), ({"v": "5"}, "application/xml"), ({"v": b"5"}, "")):
        with pytest.raises(PayloadError):
            schema.encode(value, content_type)

import pytest

from signalbook.formats import Anything, ListOf, MapOf, PayloadError, Scalar, SchemaError, Struct
from signalbook.formats.protobuf import FORMAT, ProtobufSchema
from signalbook.values import JSON, dump_json

EVERYTHING = b"""
syntax = "proto3";
package a.b;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
// import "commented/out.proto";
enum Kind { ZERO = 0; ONE = 1; }
message Outer {
  message Inner { int32 i = 1; }
  string text = 1;
  int64 whole = 2;
  optional bool maybe = 3;
  repeated Inner inners = 4;
  map<string, Inner> named = 5;
  map<int32, bool> numbered = 6;
  Kind kind = 7;
  bytes raw = 8;
  google.protobuf.Timestamp at = 9;
  google.protobuf.Int32Value wrapped = 10;
  google.protobuf.Struct free = 11;
  Outer self = 12;
  oneof choice { string left = 13; uint64 right = 14; }
}
message Other { Outer outer = 1; }
"""
EMPTY: dict[str, JSON] = {
    "text": "", "whole": 0, "maybe": None, "inners": [], "named": {}, "numbered": {}, "kind": "ZERO", "raw": b"",
    "at": None, "wrapped": None, "left": None, "right": None,
}  # fmt: skip
REQUIRED = b'syntax = "proto2"; message A { required int32 x = 1; optional A a = 2; }'


def parse(document: bytes = EVERYTHING, link: str = "#Outer", format: str = "Protobuf/3") -> ProtobufSchema:
    return FORMAT.parse(document, format, link=link)


def decode(value: JSON) -> JSON:
    return parse().decode(dump_json(value), "application/json")


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ({}, {}),
        ({"whole": "9223372036854775807", "right": "18446744073709551615"}, {"whole": 2**63 - 1, "right": 2**64 - 1}),
        ({"maybe": False}, {"maybe": False}),
        ({"inners": [{"i": 1}, {}]}, {"inners": [{"i": 1}, {"i": 0}]}),
        ({"named": {"k": {"i": 2}}, "numbered": {"3": True}}, {"named": {"k": {"i": 2}}, "numbered": {"3": True}}),
        ({"kind": "ONE", "raw": "AAE="}, {"kind": "ONE", "raw": b"\x00\x01"}),
        ({"at": "2020-01-01T00:00:00.000000001Z"}, {"at": "2020-01-01T00:00:00.000000001Z"}),
        ({"wrapped": 5, "free": {"a": [1, None]}}, {"wrapped": 5, "free": {"a": [1.0, None]}}),
        ({"self": {"text": "x"}}, {"self": {**EMPTY, "text": "x"}}),
        ({"left": "x"}, {"left": "x"}),
    ],
)
def test_json_payloads(sent: JSON, meant: JSON) -> None:
    """Members have the field names of the document; nanoseconds are kept (K-40)."""
    value = decode(sent)
    assert value == {**EMPTY, **meant}
    assert parse().validate(value) == []


VALUES = b"""
syntax = "proto3";
import "google/protobuf/struct.proto";
import "google/protobuf/any.proto";
message A {
  google.protobuf.Struct struct = 1; google.protobuf.Value value = 2; google.protobuf.ListValue list = 3;
  google.protobuf.Any any = 4; A self = 5; oneof choice { google.protobuf.Value left = 6; string right = 7; }
}
"""


@pytest.mark.parametrize("content_type", ["", "application/json"])
def test_unset_field_is_not_null(content_type: str) -> None:
    """A Value may be there and null; there and back nothing comes of what was not there."""
    schema = parse(VALUES, "A")
    for value in (
        {"right": None},
        {"value": None, "right": None},
        {"left": None, "right": None, "self": {"right": ""}},
    ):
        assert schema.decode(schema.encode(value, content_type), content_type) == value


def test_binary_payloads() -> None:
    assert parse().decode(b"") == EMPTY
    assert parse().decode(b"\x0a\x01x\x10\x05\x38\x63") == {**EMPTY, "text": "x", "whole": 5, "kind": "99"}


@pytest.mark.parametrize(
    ("payload", "content_type", "reason"),
    [
        (b"\xff\xff", "application/protobuf", "decode_error"),
        (b"\x0a\x01\xff", "application/x-protobuf", "decode_error"),  # a string that is not UTF-8
        (b"\x0a\x05x", "application/vnd.google.protobuf", "decode_error"),
        (b"{", "application/json", "decode_error"),
        (b"[]", "application/json", "schema_violation"),
        (b'{"text":3}', "application/json", "schema_violation"),
        (b'{"surplus":3}', "application/json", "schema_violation"),
        (b'{"at":"yesterday"}', "application/json", "schema_violation"),
        (b"", "text/xml", "unsupported_format"),
    ],
)
def test_refusals_have_a_reason(payload: bytes, content_type: str, reason: str) -> None:
    """Undecodable and invalid payloads have different reasons (K-44)."""
    with pytest.raises(PayloadError) as caught:
        parse().decode(payload, content_type)
    assert caught.value.reason == reason


def test_deep_payloads_are_refused() -> None:
    payload = b"\x08\x01"
    for _ in range(200):
        size = len(payload)
        length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
        payload = b"\x08\x01\x12" + length + payload
    with pytest.raises(PayloadError, match="Depth"):
        parse(REQUIRED, "#A", "Protobuf/2").decode(payload)


def test_required_fields_of_proto2() -> None:
    schema = parse(REQUIRED, "#A", "Protobuf/2.0")
    assert schema.decode(b"\x08\x05") == {"x": 5}
    with pytest.raises(PayloadError) as caught:
        schema.decode(b"\x08\x05\x12\x02\x12\x00")
    assert [finding.path for finding in caught.value.findings] == ["/a/x", "/a/a/x"]


@pytest.mark.parametrize("link", ["#Outer.Inner", ":Outer.Inner", "Outer.Inner", "#a.b.Outer.Inner"])
def test_deep_links_name_a_message(link: str) -> None:
    assert parse(link=link).decode(b"\x08\x02") == {"i": 2}


def test_message_must_be_named_in_a_document_with_several() -> None:
    """The link is required if the document has several messages (G-17)."""
    with pytest.raises(SchemaError, match=r"must be named, as in #Message; there are: a\.b\.Outer, a\.b\.Other"):
        parse(link="")
    with pytest.raises(SchemaError, match="there is no message 'Nope'"):
        parse(link="#Nope")


def test_the_only_message_needs_no_name() -> None:
    """The message is used with a warning (G-17)."""
    warnings = parse(b'syntax = "proto3"; message A { int32 x = 1; }', "").warnings
    assert [(finding.rule, finding.severity) for finding in warnings] == [("link", "warning")]
    assert parse().warnings == ()


@pytest.mark.parametrize(
    ("document", "path", "rule"),
    [
        (b"", "", "empty"),
        (b"\xff", "", "text"),
        (b"message", "line 1, column 8", "protoc"),
        (b'syntax = "proto3";\nmessage A { strin y = 3; }', "line 2, column 13", "undefined"),
        (b'syntax = "proto3"; message A { int32 a = 1; int32 b = 1; }', "line 1, column 55", "protoc"),
        (b'syntax = "proto2"; message A {}', "", "syntax"),
        (b'syntax = "proto3"; import "../../etc/passwd"; message A {}', "", "import"),
        (b'syntax = "proto3"; import "/etc/passwd.proto"; message A {}', "", "import"),
        (b"x" * 2_000_000, "", "size"),
    ],
)
def test_broken_documents_are_distinguished(document: bytes, path: str, rule: str) -> None:
    """Invalid documents have findings with path and rule (G-19)."""
    findings = FORMAT.check(document, "Protobuf/3")
    assert [(finding.path, finding.rule, finding.severity) for finding in findings] == [(path, rule, "error")]
    with pytest.raises(SchemaError):
        FORMAT.parse(document, "Protobuf/3")


@pytest.mark.parametrize(
    ("statements", "severities"),
    [
        ('message A { option (x.y) = {a: "}"}; int32 b = 1 [(z).t = "f", deprecated = true]; }', {"warning"}),
        ("message A { int32 b = 1; oneof o { option (z) = 1; A a = 2; } enum E { Z = 0 [(.z) = 1]; } }", {"warning"}),
        ('package io.confluent; message A { int32 b = 1 [(confluent.field_meta).tags = "T"]; }', {"warning"}),
        ("message A { option (z) = 1; int32 b = 1; C c = 2; }", {"error"}),
        ("message A { int32 b = 1 [z = 1]; }", {"error"}),
        ('message A { int32 b = 1 [(confluent.field_meta).none = "T"]; }', {"error"}),
    ],
)
def test_options_that_nothing_defines_are_warnings(statements: str, severities: set[str]) -> None:
    """The options change no message; Confluent's registry itself adds such options to schemas."""
    document = f'syntax = "proto3"; {statements} import "confluent/meta.proto";'.encode()
    assert {finding.severity for finding in FORMAT.check(document, "Protobuf/3")} == severities
    if severities == {"warning"}:
        assert parse(document, "A").decode(b"\x08\x05") == {"b": 5}


def test_unresolved_import_is_a_warning() -> None:
    findings = FORMAT.check(b'syntax = "proto3"; import "other.proto"; message A {}', "Protobuf/3")
    assert [(finding.rule, finding.severity) for finding in findings] == [("import", "warning")]


def test_columns() -> None:
    shape = parse().shape()
    assert isinstance(shape, Struct)
    columns = {field.name: field.shape for field in shape.fields}
    assert columns["maybe"] == Scalar(kind="bool", nullable=True)
    assert columns["right"] == Scalar(kind="uint64", nullable=True)
    assert columns["at"] == Scalar(kind="timestamp", sent="string", nullable=True)
    assert columns["wrapped"] == Scalar(kind="int32", nullable=True)
    assert columns["free"] == columns["self"] == Anything(nullable=True)
    assert isinstance(columns["inners"], ListOf)
    assert columns["numbered"] == MapOf(value=Scalar(kind="bool"))


def test_documents_do_not_see_each_other() -> None:
    """The same names may mean other things in another document."""
    first = parse(b'syntax = "proto3"; message A { int32 x = 1; }', "A")
    two = parse(b'syntax = "proto3"; message A { string y = 1; }', "A")
    assert (first.decode(b"\x08\x02"), two.decode(b"\x0a\x01z")) == ({"x": 2}, {"y": "z"})
    assert first.fingerprint != two.fingerprint


@pytest.mark.parametrize("content_type", ["", "application/protobuf", "application/json"])
@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"whole": "9223372036854775807", "right": "18446744073709551615", "raw": "AAE=", "kind": "ONE"},
        {"inners": [{"i": 1}, {}], "named": {"k": {"i": 2}}, "numbered": {"3": True}, "kind": 7},
        {"at": "2020-01-01T00:00:00.000000001Z", "wrapped": 5, "free": {"a": [1, None], "b": None}, "left": ""},
        {"self": {"text": "x"}},
    ],
)
def test_values_become_payloads_again(sent: JSON, content_type: str) -> None:
    """Encoded values are decoded to the same values (K-52)."""
    value = decode(sent)
    assert parse().decode(parse().encode(value, content_type), content_type) == value


def test_nan_and_infinity_can_be_encoded() -> None:
    """Protobuf has the value NaN (K-52)."""
    schema = parse(b'syntax = "proto3"; message A { double x = 1; }', "#A")
    for value in (float("inf"), float("-inf")):
        assert schema.decode(schema.encode({"x": value})) == {"x": value}
    assert schema.validate({"x": float("nan")}) == []


@pytest.mark.parametrize(
    ("value", "content_type", "reason", "path"),
    [
        ({"x": "one"}, "", "schema_violation", ""),
        ({"x": 1, "y": 2}, "", "schema_violation", ""),
        ({"a": {"x": 1}}, "", "schema_violation", "/x"),
        (5, "", "schema_violation", ""),
        ({"x": 1}, "text/plain", "unsupported_format", ""),
    ],
)
def test_invalid_value_is_not_encoded(value: JSON, content_type: str, reason: str, path: str) -> None:
    """The error has the reason and the path (K-52)."""
    with pytest.raises(PayloadError) as caught:
        parse(REQUIRED, "#A", "Protobuf/2").encode(value, content_type)
    assert (caught.value.reason, caught.value.findings[0].path) == (reason, path)


def test_members_that_are_not_set_are_no_fault() -> None:
    """Values of another version of the schema have the fields of that version (K-41)."""
    assert parse().validate({"text": "x", "gone": None, "self": {"gone": None}}) == []
    assert parse().validate({"gone": 1}) != []


def test_more_fields_than_the_library_has_room_for() -> None:
    fields = "".join(f"int32 f{i} = {i + 1};" for i in range(17_000))
    document = f'syntax = "proto3"; message M {{ {fields} }}'.encode()
    assert [finding.rule for finding in FORMAT.check(document, "Protobuf/3")] == ["protoc"]

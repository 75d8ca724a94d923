"""Protobuf documents as tokens."""

from base64 import b64encode

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from signalbook.confluent import protobuf


def test_tokens_omit_white_space_and_comments() -> None:
    text = 'syntax="proto3"; // a\r\nmessage A{/* b\n */string a=1 [x="// \\" c"];}'
    expected = ["syntax", "=", '"proto3"', ";", "message", "A", "{", "string", "a", "=", "1"]
    assert protobuf.split_tokens(text) == [*expected, "[", "x", "=", '"// \\" c"', "]", ";", "}"]
    assert protobuf.split_tokens("int32 ab = 1;") != protobuf.split_tokens("int32 a b = 1;")


def test_numbers_are_those_of_no_name() -> None:
    assert protobuf.list_numbers("message A1 { int32 a2 = 3; reserved 4 to 6; }") == {"3", "4", "6"}


@pytest.mark.parametrize(
    ("text", "syntax"),
    [
        ('/* syntax = "proto2"; */ syntax = "proto3"; message A {}', "proto3"),
        ("// a\nedition='2023';", "editions"),
        ('syntax="proto2";', "proto2"),
        ('message A { string syntax = 1; }  // syntax = "proto3";', "proto2"),
        ("", "proto2"),
    ],
)
def test_a_document_declares_its_syntax(text: str, syntax: str) -> None:
    assert protobuf.detect_syntax(text) == syntax


FIELDS = "repeated int32 a = 1 [features.repeated_field_encoding = EXPANDED]; A b = 2; map<string, bytes> c = 3;"


@pytest.mark.parametrize(
    "text",
    [
        f'edition = "2023"; package p; message A {{ {FIELDS} reserved gone; }}',
        'edition = "2023"; message A { string a = 1 [features.field_presence = LEGACY_REQUIRED, deprecated = true]; }',
        'edition = "2023"; option features.enum_type = CLOSED; enum E { A = 1; reserved B; reserved 2 to 5; }',
        'edition = "2024"; export message A { int32 a = 1; } local enum B { B_A = 0; }',
        'syntax = "proto3"; message A { map<string, A> a = 1; message B {} oneof c { B d = 2; } map<int32, B> e = 3; }',
        'syntax="proto2"; message A { optional group B = 1 { optional bytes b=1 [default = "\\001"]; } message C {} }',
    ],
)
def test_a_descriptor_is_printed_whole(text: str) -> None:
    descriptor = protobuf.build_file_descriptor(text, lambda _: None)
    printed = protobuf.render_descriptor(b64encode(descriptor).decode())
    assert printed is not None
    assert protobuf.build_file_descriptor(printed, lambda _: None) == descriptor


def test_descriptor_has_the_stated_json_names() -> None:
    """Confluent's clients print the others as well, which makes another text."""
    nested = 'message B { optional bool e_f = 1 [json_name = "eF"]; }'
    fields = f'optional string a_b = 1; optional string c_d = 2 [json_name = "x"]; {nested}'
    file = FileDescriptorProto.FromString(
        protobuf.build_file_descriptor(f'syntax = "proto2"; message A {{ {fields} }}', lambda _: None)
    )
    message = file.message_type[0]
    json_names = [
        (field.name, field.json_name)
        for message_type in (message, *message.nested_type)
        for field in message_type.field
    ]
    assert json_names == [("a_b", ""), ("c_d", "x"), ("e_f", "")]


IMPORTED = {"a.proto": b'syntax = "proto3"; message A {}', "b.proto": b'syntax = "proto3"; message B {}'}
OPTIONS = (
    'import "google/protobuf/descriptor.proto"; message O { optional string a = 1; optional O b = 2; }'
    "extend google.protobuf.FieldOptions { repeated O of = 5001; optional bytes by = 5002; optional float at = 5003; }"
    "extend google.protobuf.OneofOptions { optional string kind = 50001; }"
)


@pytest.mark.parametrize(
    ("before", "other", "is_same"),
    [
        ('option go_package = "a"; option java_package = "b";', 'option java_package="b"; option go_package="a";',
            True),
        ('import public "b.proto"; import "a.proto";', 'import "a.proto"; import public "b.proto";', True),
        ("message M { optional int32 a = 1; repeated M b = 2; }", "message M{repeated M b=2;optional int32 a=1;}",
            True),
        ("message M { oneof x { int32 a = 4; M b = 1; } oneof y { bool c = 2; } }",
            "message M { oneof y { bool c = 2; } oneof x { M b = 1; int32 a = 4; } }", True),
        ("message M { map<string, M> a = 2; map<int32, M> b = 1; message N {} }",
            "message M { map<int32, M> b = 1; map<string, M> a = 2; message N {} }", True),
        ('message M { reserved 9, 4 to 5; reserved "b", "a"; extensions 200; extensions 100; }',
            'message M { extensions 100, 200; reserved "a", "b"; reserved 4 to 5, 9; }', True),
        ("enum E { A = 2; B = 1; C = 0; }", "enum E { A = 2; C = 0; B = 1; }", True),
        (
            OPTIONS + 'message M { oneof x { option (kind) = "k"; int32 c = 2 [(at) = -1.5]; } optional int32 d = 1'
            ' [deprecated = true, (of) = {a: "\\"\\n", b: {a: "é"}}, (of) = {}, (by) = "\\xff"]; }',
            OPTIONS + 'message M { optional int32 d = 1 [(by) = "\\377", (.of) = {b {a: "é"} a: "\\"\\n"},'
            ' deprecated = true, (of) = {}]; oneof x { option (kind) = "k"; int32 c = 2 [(at) = -15e-1]; } }',
            True,
        ),
        ("enum E { A = 1; B = 2; }", "enum E { B = 2; A = 1; }", False),
        ("message M {} message N {}", "message N {} message M {}", False),
        ("message M { map<int32, M> a = 1; message N {} }", "message M { message N {} map<int32, M> a = 1; }", False),
        (OPTIONS + "message M { optional M a = 1 [(at) = 1]; }", OPTIONS + "message M { optional M a = 1; }", False),
    ],
)  # fmt: skip
def test_normalizing_sorts_what_clients_ignore(before: str, other: str, is_same: bool) -> None:
    """Clients depend on the order of message types; the first value of an enum is its default."""
    first, second = (
        protobuf.normalize_document(f'syntax = "proto2"; {text}', IMPORTED.get) for text in (before, other)
    )
    assert (first == second) is is_same
    assert first.count("\n") > 1, "it is printed"
    assert protobuf.normalize_document(first, IMPORTED.get) == first

"""Which changes of a Protobuf document keep readers reading (G-30)."""

from collections.abc import Mapping

import pytest

from signalbook.formats import SchemaError
from signalbook.formats.compatibility import Difference, SchemaText, find_comparison
from signalbook.formats.protobuf import FORMAT, comparison

THREE = 'syntax = "proto3"; '
TWO = 'syntax = "proto2"; '


def text(document: str, imports: Mapping[str, str] | None = None) -> SchemaText:
    files = {name: other.encode() for name, other in (imports or {}).items()}
    return SchemaText(document=document.encode(), format="Protobuf", resolve=files.get)


def message(fields: str, more: str = "", syntax: str = THREE) -> str:
    return f"{syntax}message M {{ {fields} }} {more}"


def differences(old: str, new: str) -> list[Difference]:
    return FORMAT.differences(reader=text(new), writer=text(old))


RGB = "enum E { RED = 0; GREEN = 1; BLUE = 2; }"
A_IN_B = "message A { int32 x = 1; }"
# old (writer), new (reader), what is in the way; without a syntax the text is that of the fields of a message M,
# of proto2 after "2:"
TABLE: dict[str, tuple[str, str, list[tuple[str, str]]]] = {
    "the same": ("int32 a = 1;", "int32 a = 1;", []),
    "a field more": ("", "int32 a = 1;", []),
    "a field less": ("int32 a = 1;", "", []),
    "int32 to int64": ("int32 a = 1;", "int64 a = 1;", []),
    "uint32 to int64": ("uint32 a = 1;", "int64 a = 1;", []),
    "uint32 to uint64": ("uint32 a = 1;", "uint64 a = 1;", []),
    "sint32 to sint64": ("sint32 a = 1;", "sint64 a = 1;", []),
    "int64 to int32": ("int64 a = 1;", "int32 a = 1;", [("M.a", "type_narrowed")]),
    "int32 to uint32": ("int32 a = 1;", "uint32 a = 1;", [("M.a", "type_narrowed")]),
    "int32 to uint64": ("int32 a = 1;", "uint64 a = 1;", [("M.a", "type_narrowed")]),
    "uint64 to int64": ("uint64 a = 1;", "int64 a = 1;", [("M.a", "type_narrowed")]),
    "uint32 to int32": ("uint32 a = 1;", "int32 a = 1;", [("M.a", "type_narrowed")]),
    "int32 to bool": ("int32 a = 1;", "bool a = 1;", [("M.a", "type_narrowed")]),
    "bool to int32": ("bool a = 1;", "int32 a = 1;", [("M.a", "json_type_changed")]),
    "sint64 to sint32": ("sint64 a = 1;", "sint32 a = 1;", [("M.a", "type_narrowed")]),
    "int32 to sint32": ("int32 a = 1;", "sint32 a = 1;", [("M.a", "type_changed")]),
    "string to bytes": ("string a = 1;", "bytes a = 1;", [("M.a", "json_type_changed")]),
    "bytes to string": ("bytes a = 1;", "string a = 1;", [("M.a", "type_narrowed")]),
    "fixed32 to sfixed32": ("fixed32 a = 1;", "sfixed32 a = 1;", [("M.a", "type_narrowed")]),
    "sfixed64 to fixed64": ("sfixed64 a = 1;", "fixed64 a = 1;", [("M.a", "type_narrowed")]),
    "fixed32 to float": ("fixed32 a = 1;", "float a = 1;", [("M.a", "type_changed")]),
    "double to fixed64": ("double a = 1;", "fixed64 a = 1;", [("M.a", "type_changed")]),
    "float to double": ("float a = 1;", "double a = 1;", [("M.a", "type_changed")]),
    "int32 to string": ("int32 a = 1;", "string a = 1;", [("M.a", "type_changed")]),
    "int32 to an open enum": ("int32 a = 1;", f"E a = 1; {RGB}", []),
    "uint32 to an enum": ("uint32 a = 1;", f"E a = 1; {RGB}", [("M.a", "type_narrowed")]),
    "an enum to int32": (f"E a = 1; {RGB}", "int32 a = 1;", [("M.a", "json_type_changed")]),
    "message to bytes": ("M a = 1;", "bytes a = 1;", [("M.a", "json_type_changed")]),
    "bytes to message": ("bytes a = 1;", "M a = 1;", [("M.a", "type_narrowed")]),
    "singular to repeated": ("string a = 1;", "repeated string a = 1;", [("M.a", "cardinality_changed")]),
    "repeated to singular": ("repeated int32 a = 1;", "int32 a = 1;", [("M.a", "cardinality_changed")]),
    "packed or not": ("repeated int32 a = 1;", "repeated int32 a = 1 [packed = false];", []),
    "presence tracked": ("int32 a = 1;", "optional int32 a = 1;", []),
    "presence not tracked": ("optional int32 a = 1;", "int32 a = 1;", []),
    "a field renamed": ("int32 a = 1;", "int32 b = 1;", [("M.b", "json_name_changed")]),
    "a field renamed in JSON": ("int32 a = 1;", 'int32 a = 1 [json_name = "b"];', []),
    "a field renamed but in JSON": ("int32 a = 1;", 'int32 b = 1 [json_name = "a"];', []),
    "another JSON name": ('int32 a = 1 [json_name = "x"];', 'int32 a = 1 [json_name = "y"];',
        [("M.a", "json_name_changed")]),
    "a field renumbered": ("int32 a = 1;", "int32 a = 2;", [("M.a", "field_renumbered")]),
    "two fields swapped": ("int32 a = 1; string b = 2;", "int32 a = 2; string b = 1;",
        [("M.b", "json_name_changed"), ("M.b", "type_changed"), ("M.a", "json_name_changed"), ("M.a", "type_changed")]),
    "one field into a oneof": ("int32 a = 1;", "oneof o { int32 a = 1; string b = 2; }", []),
    "two fields into a oneof": ("int32 a = 1; string b = 2;", "oneof o { int32 a = 1; string b = 2; }",
        [("M.o", "oneof_added")]),
    "a field into a oneof there is": ("int32 a = 1; oneof o { string b = 2; }",
        "oneof o { int32 a = 1; string b = 2; }", [("M.o", "oneof_added")]),
    "two oneofs into one": ("oneof o { int32 a = 1; } oneof p { int32 b = 2; }",
        "oneof o { int32 a = 1; int32 b = 2; }", [("M.o", "oneof_added")]),
    "a oneof more of fields": ("oneof o { int32 a = 1; int32 b = 2; }",
        "oneof o { int32 a = 1; int32 b = 2; int32 c = 3; }", []),
    "a oneof dissolved": ("oneof o { int32 a = 1; int32 b = 2; }", "int32 a = 1; int32 b = 2;",
        [("M.o", "oneof_removed")]),
    "a oneof dissolved, presence kept": ("oneof o { int32 a = 1; int32 b = 2; }",
        "optional int32 a = 1; optional int32 b = 2;", []),
    "a map's values widened": ("map<string, int32> a = 1;", "map<string, int64> a = 1;", []),
    "a map's values": ("map<string, int32> a = 1;", "map<string, string> a = 1;", [("M.a{}", "type_changed")]),
    "a map's keys": ("map<int64, int32> a = 1;", "map<int32, int32> a = 1;", [("M.a{key}", "type_narrowed")]),
    "a map to its entries": ("map<string, int32> a = 1;",
        "message E { string key = 1; int32 value = 2; } repeated E a = 1;", [("M.a", "cardinality_changed")]),
    "a message inside changed": (f"A a = 1; {A_IN_B}", "A a = 1; message A { string x = 1; }",
        [("M.A.x", "type_changed")]),
    "a message of another name, alike": (f"A a = 1; {A_IN_B}", "B a = 1; message B { int32 x = 1; }", []),
    "a message of another name": (f"A a = 1; {A_IN_B}", "B a = 1; message B { bool x = 1; }",
        [("M.a.x", "type_narrowed")]),
    "a recursive message": ("M a = 1; int32 v = 2;", "M a = 1; bool v = 2;", [("M.v", "type_narrowed")]),
    "a group to a message": ("2: optional group G = 1 {}", "2: message G {} optional G g = 1;",
        [("M.g", "type_changed")]),
    "a timestamp to a message like it": (
        f'{THREE}import "google/protobuf/timestamp.proto"; message M {{ google.protobuf.Timestamp a = 1; }}',
        "T a = 1; message T { int64 seconds = 1; int32 nanos = 2; }", [("M.a", "json_type_changed")]),
    "an empty message to one of its own": (
        f'{THREE}import "google/protobuf/empty.proto"; message M {{ google.protobuf.Empty a = 1; }}',
        "T a = 1; message T {}", []),
    "an empty message of its own to the well-known one": ("T a = 1; message T {}",
        f'{THREE}import "google/protobuf/empty.proto"; message M {{ google.protobuf.Empty a = 1; }}', []),
    "a required field more": ("2:", "2: required int32 a = 1;", [("M.a", "required_added")]),
    "optional to required": ("2: optional int32 a = 1;", "2: required int32 a = 1;", [("M.a", "required_added")]),
    "a required field less": ("2: required int32 a = 1;", "2:", []),
    "required to optional": ("2: required int32 a = 1;", "2: optional int32 a = 1;", []),
    "required in an edition": ('edition = "2023"; message M { int32 a = 1; }',
        'edition = "2023"; message M { int32 a = 1 [features.field_presence = LEGACY_REQUIRED]; }',
        [("M.a", "required_added")]),
    "another default": ("2: optional int32 a = 1 [default = 3];", "2: optional int32 a = 1;",
        [("M.a", "default_changed")]),
    "a default of nan": ("2: optional float a = 1 [default = nan];", "2: optional float a = 1 [default = nan];", []),
    "another default of what is always written": ("2: required int32 a = 1 [default = 3];", "2: optional int32 a = 1;",
        []),
    "an extension": (f"{TWO}message M {{ extensions 5 to 9; }} extend M {{ optional int32 e = 5; }}",
        f"{TWO}message M {{ extensions 5 to 9; }} extend M {{ optional bool e = 5; }}", [("M.[e]", "type_narrowed")]),
    "an enum's value more": (f"E a = 1; {RGB}", "E a = 1; enum E { RED = 0; GREEN = 1; BLUE = 2; MORE = 3; }", []),
    "an open enum's value less": (f"E a = 1; {RGB}", "E a = 1; enum E { RED = 0; GREEN = 1; }", []),
    "a closed enum's value less": (f"2: optional E a = 1; {RGB}", "2: optional E a = 1; enum E { RED = 0; GREEN = 1; }",
        [("M.E.BLUE", "enum_value_removed")]),
    "an enum's value renumbered": (f"E a = 1; {RGB}", "E a = 1; enum E { RED = 0; GREEN = 1; BLUE = 3; }",
        [("M.E.BLUE", "enum_value_renumbered")]),
    "an enum's value renamed": (f"E a = 1; {RGB}", "E a = 1; enum E { RED = 0; GREEN = 1; AZURE = 2; }",
        [("M.E.BLUE", "enum_value_renamed")]),
    "an enum's value with another name beside": (f"E a = 1; {RGB}",
        "E a = 1; enum E { option allow_alias = true; RED = 0; GREEN = 1; BLUE = 2; AZURE = 2; }", []),
    "an open enum closed": (f"E a = 1; {RGB}", f"2: optional E a = 1; {RGB}", [("M.E", "enum_closed")]),
    "a closed enum opened": (f"2: optional E a = 1; {RGB}", f"E a = 1; {RGB}", []),
    "int32 to a closed enum": ("2: optional int32 a = 1;", f"2: optional E a = 1; {RGB}", [("M.a", "type_narrowed")]),
    "an enum closed in an edition": (f'edition = "2023"; message M {{ E a = 1; {RGB} }}',
        f'edition = "2023"; message M {{ E a = 1; {RGB.replace("{", "{ option features.enum_type = CLOSED;")} }}',
        [("M.E", "enum_closed")]),
    "the same in an edition": ("int32 a = 1;", 'edition = "2023"; message M { int32 a = 1; }', []),
    "another package": (f"{THREE}package a; message M {{ int32 x = 1; }}",
        f"{THREE}package b; message M {{ bool x = 1; }}", [("", "package_changed"), ("b.M.x", "type_narrowed")]),
    "a message renamed": (f"{THREE}message A {{}} message B {{}}", f"{THREE}message A {{}} message C {{}}",
        [("B", "message_removed")]),
    "a part that is not used any more": (f"{THREE}message M {{ A a = 1; }} {A_IN_B}", "", []),
    "a message with those inside it": (f"{THREE}message A {{ message B {{}} }} message C {{}}",
        f"{THREE}message C {{}}", [("A", "message_removed")]),
    "messages that are parts of each other": (f"{THREE}message A {{ B b = 1; }} message B {{ A a = 1; }}", "",
        [("A", "message_removed"), ("B", "message_removed")]),
    "every message is compared": (f"{THREE}message M {{}} message N {{ int32 x = 1; }}",
        f"{THREE}message M {{}} message N {{ bool x = 1; }}", [("N.x", "type_narrowed")]),
    "services": (f"{THREE}message M {{}} service S {{ rpc F (M) returns (M); }}",
        f"{THREE}message M {{}} service S {{}}", []),
}  # fmt: skip


def whole(document: str) -> str:
    if document.startswith("2:"):
        return message(document.removeprefix("2:"), syntax=TWO)
    return document if document.startswith(("syntax", "edition")) else message(document)


def test_json_name_is_shown_in_json_spelling() -> None:
    (difference,) = differences(whole("int32 a_b = 1;"), whole('int32 a_b = 1 [json_name = "x"];'))
    assert (difference.old, difference.new) == ("aB or a_b", "a_b or x")


@pytest.mark.parametrize(("old", "new", "expected"), TABLE.values(), ids=TABLE)
def test_changes(old: str, new: str, expected: list[tuple[str, str]]) -> None:
    """The same number must have the same values (G-30)."""
    actual = differences(whole(old), whole(new))
    assert [(difference.path, difference.rule) for difference in actual] == expected
    assert all(difference.message for difference in actual)


def test_imports_are_compared_too() -> None:
    document = f'{THREE}import "shop/item.proto"; message M {{ Item item = 1; }}'
    old, new = (text(document, {"shop/item.proto": f"{THREE}message Item {{ {t} x = 1; }}"}) for t in ("int64", "bool"))
    (difference,) = FORMAT.differences(reader=new, writer=old)
    assert (difference.path, difference.rule) == ("Item.x", "type_narrowed")
    assert (difference.old, difference.new) == ("int64", "bool")


def test_unusable_documents_are_errors() -> None:
    with pytest.raises(SchemaError):
        differences(message(""), "message {")
    with pytest.raises(SchemaError, match="Protobuf/2"):
        FORMAT.differences(SchemaText(document=message("").encode(), format="Protobuf/2"), text(message("")))


def test_protobuf_is_compared() -> None:
    assert find_comparison("Protobuf/3") is FORMAT


def cycle(size: int) -> str:
    parts = (f"message N{i} {{ N{(i + 1) % size} next = 1; }}" for i in range(size))
    return f"{THREE}message M {{ N0 start = 1; }} {' '.join(parts)}"


def test_types_that_stand_for_ever_new_ones_are_not_compared_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cycles of 97 and 101 types make 9,797 pairs."""
    monkeypatch.setattr(comparison, "MAX_STEPS", 2_000)
    actual = differences(cycle(97), cycle(101))
    assert [difference.rule for difference in actual] == ["undecided"]


# The same as ``TABLE``, by the rules of Confluent's registry.
WIRE: dict[str, tuple[str, str, list[tuple[str, str]]]] = {
    "a field less": ("int32 a = 1; string b = 2;", "int32 a = 1;", []),
    "a field renamed": ("int32 a = 1;", "int32 b = 1;", []),
    "a field renumbered": ("int32 a = 1;", "int32 a = 2;", []),
    "int64 to uint32": ("int64 a = 1;", "uint32 a = 1;", []),
    "int32 to an enum": ("int32 a = 1;", f"E a = 1; {RGB}", []),
    "string to bytes": ("string a = 1;", "bytes a = 1;", []),
    "fixed64 to sfixed64": ("fixed64 a = 1;", "sfixed64 a = 1;", []),
    "int32 to sint32": ("int32 a = 1;", "sint32 a = 1;", [("M.a", "type_changed")]),
    "message to bytes": ("M a = 1;", "bytes a = 1;", [("M.a", "type_changed")]),
    "an enum's value gone": (f"E a = 1; {RGB}", "E a = 1; enum E { GREEN = 0; }", []),
    "texts": ("string a = 1;", "repeated string a = 1;", []),
    "messages": ("repeated M a = 1;", "M a = 1;", []),
    "numbers": ("int32 a = 1;", "repeated int32 a = 1;", []),
    "numbers, one optional": ("optional int32 a = 1;", "repeated int32 a = 1;", [("M.a", "cardinality_changed")]),
    "packed numbers": ("repeated int32 a = 1;", "int32 a = 1;", [("M.a", "cardinality_changed")]),
    "a map's values": ("map<string, int32> a = 1;", "map<string, uint64> a = 1;", []),
    "a map's keys": ("map<string, int32> a = 1;", "map<int32, int32> a = 1;", [("M.a{key}", "type_changed")]),
    "a oneof dissolved": ("oneof o { int32 a = 1; int32 b = 2; }", "int32 a = 1; int32 b = 2;", []),
    "a oneof renamed": ("oneof o { int32 a = 1; int32 b = 2; }", "oneof p { int32 a = 1; int32 b = 2; }", []),
    "a oneof gone": ("oneof o { int32 a = 1; int32 b = 2; }", "", []),
    "a field of a oneof gone": ("oneof o { int32 a = 1; int32 b = 2; }", "oneof o { int32 a = 1; }",
        [("M.b", "oneof_field_removed")]),
    "two fields into a oneof": ("int32 a = 1; int32 b = 2;", "oneof o { int32 a = 1; int32 b = 2; }",
        [("M.o", "oneof_added")]),
    "a message of another name": (f"A a = 1; {A_IN_B}", "B a = 1; message B { int32 x = 1; }",
        [("M.A", "message_removed"), ("M.a", "message_type_changed")]),
    "a message inside changed": (f"A a = 1; {A_IN_B}", "A a = 1; message A { string x = 1; }",
        [("M.A.x", "type_changed")]),
    "another package": (f"{THREE}package a; message M {{}}", f"{THREE}package b; message M {{}}",
        [("", "package_changed")]),
    "a required field less": ("2: required int32 a = 1;", "2:", [("M.a", "required_removed")]),
    "optional to required": ("2: optional string a = 1;", "2: required string a = 1;", [("M.a", "required_added")]),
    "another default": ("2: optional int32 a = 1;", "2: optional int32 a = 1 [default = 2];", []),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), WIRE.values(), ids=list(WIRE))
def test_changes_by_their_bytes(old: str, new: str, expected: list[tuple[str, str]]) -> None:
    writer, reader = text(whole(old)), text(whole(new))
    assert [
        (difference.path, difference.rule) for difference in FORMAT.wire_differences(reader=reader, writer=writer)
    ] == expected

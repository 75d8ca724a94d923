"""Tags in Protobuf documents, as the compiler reads them."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from signalbook.confluent.prototags import list_entities, with_tags
from signalbook.formats.protobuf.compiler import MAIN, compile_set, gather
from signalbook.formats.protobuf.statements import remove_custom_options

HEAD = 'syntax = "proto3";\npackage shop;\nimport "confluent/meta.proto";\n'
TEXT = """syntax = "proto3";
package shop;
import "google/protobuf/descriptor.proto";  // import "confluent/meta.proto";
message Order {
  option (hint) = { a: 1 b: "}" };  // option (confluent.message_meta).tags = "NO";
  int64 id = 1;
  string name = 2 [deprecated = true];
  map<string, Line> lines = 3;
  oneof which { string a = 4; Line b = 5; }
  message Line { string sku = 1; enum E { X = 0 [(mark) = 1]; } reserved 4 to 6; }
  reserved "q";
}
message Hint { int32 a = 1; string b = 2; }
extend google.protobuf.MessageOptions { Hint hint = 5000; }
extend google.protobuf.EnumValueOptions { int32 mark = 5001; }
service S { rpc A (Order) returns (stream Order) { option idempotency_level = IDEMPOTENT; } }
"""


def compiled(text: str) -> FileDescriptorProto:
    files = FileDescriptorSet.FromString(compile_set(gather(text.encode(), None)))
    return next(file for file in files.file if file.name == MAIN)


def by_compiler(text: str) -> dict[str, tuple[str, ...]]:
    """The tags of messages and fields as those read them who have the definition of the options."""
    files = FileDescriptorSet.FromString(compile_set(gather(text.encode(), None)))
    pool = DescriptorPool()
    for file in files.file:
        pool.Add(file)
    tags_by_path: dict[str, tuple[str, ...]] = {}

    def read(options: Message, kind: str, meta: str, path: str) -> None:
        options_class: Any = GetMessageClass(pool.FindMessageTypeByName(f"google.protobuf.{kind}"))
        stated = options_class.FromString(options.SerializeToString())
        tags = tuple(stated.Extensions[pool.FindExtensionByName(f"confluent.{meta}")].tags)
        if tags:
            tags_by_path[path] = tags

    def walk(message: DescriptorProto, path: str) -> None:
        read(message.options, "MessageOptions", "message_meta", path)
        for field in message.field:
            read(field.options, "FieldOptions", "field_meta", f"{path}.{field.name}")
        for nested in message.nested_type:
            walk(nested, f"{path}.{nested.name}")

    for message in compiled(text).message_type:
        walk(message, message.name)
    return tags_by_path


def tagged(text: str, tags: Mapping[str, Sequence[str]]) -> str:
    entities_by_path = {entity.path: entity for entity in list_entities(text)}
    return with_tags(text, {entities_by_path[path]: new_tags for path, new_tags in tags.items()})


def read(text: str) -> dict[str, tuple[str, ...]]:
    return {entity.path: entity.tags for entity in list_entities(text) if entity.tags}


WANTED = {
    "Order": ("ROW", 'quo"te'),
    "Order.id": ("A", "B"),
    "Order.name": ("C",),
    "Order.lines": ("D",),
    "Order.a": ("E",),
    "Order.Line": ("F",),
    "Order.Line.sku": ("ü",),
}


def test_tags_are_what_the_compiler_reads() -> None:
    text = tagged(TEXT, WANTED)
    assert by_compiler(text) == WANTED == read(text)
    removed = tagged(text, dict.fromkeys(WANTED, ()))
    assert read(removed) == {}
    assert removed.replace('import "confluent/meta.proto";\n', "", 1) == TEXT


@pytest.mark.parametrize(
    ("body", "tags"),
    [
        ('int32 a = 1 [(confluent.field_meta).tags = \'A\', (confluent.field_meta).tags = "B" "C"];', ("A", "BC")),
        ('int32 a = 1 [(.confluent.field_meta) = { doc: "tags: \\"no\\"" tags: "A" tags: "B" }];', ("A", "B")),
        ('int32 a = 1 [(confluent.field_meta) = { params { key: "tags" value: "x" }, tags: ["A"], }];', ("A",)),
        ('int32 a = 1 [(confluent.field_meta) . tags = "A"];', ("A",)),
        (r"int32 a = 1 [(confluent.field_meta).tags = '\303\251\x41\"'];", ('éA"',)),
        (r"int32 a = 1 [(confluent.field_meta).tags = '\u4e2d\ud83d\ude00'];", ("中😀",)),
        ('int32 a = 1 [(confluent.field_meta).doc = "x"];', ()),
    ],
)
def test_all_notations_of_tags(body: str, tags: tuple[str, ...]) -> None:
    text = f"{HEAD}message M {{ {body} }}"
    assert by_compiler(text).get("M.a", ()) == read(text).get("M.a", ()) == tags
    changed = tagged(text, {"M.a": ("N",)})
    assert by_compiler(changed) == {"M.a": ("N",)}
    assert by_compiler(tagged(changed, {"M.a": ()})) == {}


def test_a_message_with_a_whole_option() -> None:
    text = f'{HEAD}message M {{ option (confluent.message_meta) = {{ tags: "A" doc: "d" }}; }}'
    assert by_compiler(text) == read(text) == {"M": ("A",)}
    assert by_compiler(tagged(text, {"M": ("B", "C")})) == {"M": ("B", "C")}


def test_groups_of_proto2_are_messages() -> None:
    text = 'syntax = "proto2"; message M { optional group G = 1 { optional int32 a = 2; } }'
    assert by_compiler(tagged(text, {"M.G.a": ("A",), "M.G": ("B",)})) == {"M.G.a": ("A",), "M.G": ("B",)}


def test_without_extensions() -> None:
    """format=ignore_extensions: no option and no field that an extension defines, and all else as it was."""
    text = tagged(TEXT, WANTED)
    file_descriptor = compiled(remove_custom_options(text, extensions=True))
    assert not file_descriptor.extension
    assert "[" not in remove_custom_options(text, extensions=True).replace("[deprecated = true]", "")
    expected = compiled(TEXT)
    assert [message_type.name for message_type in file_descriptor.message_type] == [
        message_type.name for message_type in expected.message_type
    ]
    assert file_descriptor.message_type[0].field == expected.message_type[0].field
    assert not file_descriptor.message_type[0].options.ListFields()


@pytest.mark.parametrize("text", ["", "}", "message", "message A {", "option", "[", "message A { int32 a = 1 [(", '"'])
def test_invalid_document_has_no_tags(text: str) -> None:
    assert [entity.tags for entity in list_entities(text) if entity.tags] == []
    remove_custom_options(text, extensions=True)


@pytest.mark.parametrize("part", ["message A{", "extend A{}", "[", "option a =", "}", "int32 a = 1 [", "tags:"])
def test_hostile_documents_take_linear_time(part: str) -> None:
    """Ten times as long takes about ten times as many steps: counted as what is found, for a stack has an end."""
    assert len(list_entities(part * 10_000)) <= 10_000
    remove_custom_options(part * 10_000, extensions=True)

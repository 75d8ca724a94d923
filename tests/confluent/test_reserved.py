"""Names that the metadata of a schema reserves."""

import pytest

from signalbook.confluent.reserved import find_conflicts, list_reserved_fields, list_top_level_fields
from signalbook.formats.compatibility import SchemaText


@pytest.mark.parametrize(
    ("format", "document", "expected"),
    [
        ("Avro/1.11", '{"type":"record","name":"A","fields":[{"name":"x","type":"int"}]}', {"x"}),
        ("Avro/1.11", '"string"', set()),
        ("Avro/1.11", '{"type":"record","name":"A","fields":[{"type":"int"},{"name":[]}]}', set()),
        ("JsonSchema/draft-07", '{"properties":{"x":{"properties":{"z":true}},"y":true}}', {"x", "y"}),
        ("JsonSchema/draft-07", "true", set()),
        ("Protobuf/3", 'syntax = "proto3"; message A { int32 x = 1; } message B { int32 y = 1; }', {"x"}),
    ],
)
def test_fields_of_the_top_level(format: str, document: str, expected: set[str]) -> None:
    schema = SchemaText(document=document.encode(), format=format)
    assert list_top_level_fields(schema) == expected
    assert len(find_conflicts(schema, {*expected, "other"}, set())) == len(expected)


def test_reserved_names_are_separated_by_commas() -> None:
    assert list_reserved_fields({"properties": {"confluent:reserved": "a, b,,"}}) == {"a", "b"}
    assert list_reserved_fields(None) == list_reserved_fields({"properties": {"confluent:reserved": 5}}) == set()


def test_a_name_stays_reserved() -> None:
    schema = SchemaText(document=b'"int"', format="Avro/1.11")
    assert find_conflicts(schema, {"a"}, {"a", "b"}) == ["the field 'b' is no longer reserved in the metadata"]

"""Tags in Avro and JSON Schemas (tags of POST versions and of findTags)."""

import json
from typing import Any

import pytest

from signalbook.confluent.errors import ConfluentError
from signalbook.confluent.tags import FIELD, RECORD, TAGS, Tagged, list_tags, read_tags, with_tags

INNER = {"type": "record", "name": "Card", "fields": [{"name": "number", "type": "string", TAGS: ["PII", "X"]}]}
OUTER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "cards", "type": ["null", {"type": "array", "items": INNER}]}],
}
TEXT = json.dumps(OUTER)
ITEM = {"type": "object", "properties": {"a.b": {"type": "string", TAGS: ["DOT"]}}}
JSON_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "free": True,
        "items": {"type": "array", "items": ITEM},
        "one": {"oneOf": [{"type": "null"}, {"type": ["null", "object"], "properties": {"x": {}}}]},
        "not": {"not": {"properties": {"y": {}}}},
    },
    "if": {"properties": {"z": {}}},
    "definitions": {"D": {"type": "object", "properties": {"w": {}}}},
    "$defs": {"E": {"type": "object", TAGS: ["EE"]}},
}


def entity(path: str, *tags: str) -> list[dict[str, Any]]:
    kind = FIELD if path.rpartition(".")[2].islower() else RECORD
    return [{"schemaEntity": {"entityPath": path, "entityType": kind}, "tags": list(tags)}]


def tagged(add: str = "", remove: str = "", *tags: str) -> Any:
    body = {"add": entity(add, *tags) if add else None, "remove": entity(remove, *tags) if remove else []}
    return json.loads(with_tags(TEXT, "AVRO", read_tags(body, "add"), read_tags(body, "remove")))


@pytest.mark.parametrize("path", ["shop.Order.id", ".shop.Order.id", "Order.id"])
def test_a_field(path: str) -> None:
    record = tagged(path, "", "A", "B", "A")
    assert record["fields"][0] == {"name": "id", "type": "long", TAGS: ["A", "B"]}
    del record["fields"][0][TAGS]
    assert record == OUTER


@pytest.mark.parametrize("path", ["shop.Card", "Card"])
def test_a_record_within(path: str) -> None:
    assert tagged(path, "", "A")["fields"][1]["type"][1]["items"][TAGS] == ["A"]


def test_tags_are_added_and_removed() -> None:
    def tags(*stated: Any) -> Any:
        return tagged(*stated)["fields"][1]["type"][1]["items"]["fields"][0].get(TAGS)

    assert tags("Card.number", "", "PII", "B") == ["PII", "X", "B"]
    assert tags("", "Card.number", "PII", "none") == ["X"]
    assert tags("", "Card.number", "PII", "X") is None
    assert tags("Card.number", "Card.number", "PII") == ["X", "PII"]


@pytest.mark.parametrize("path", ["Order.none", "None", "other.Order", "other.Order.id", "", "id"])
@pytest.mark.parametrize("type", ["AVRO", "JSON", "PROTOBUF"])
def test_unknown_path_is_an_error(path: str, type: str) -> None:
    text = {"AVRO": TEXT, "JSON": json.dumps(JSON_SCHEMA), "PROTOBUF": "message Order { int32 id = 1; }"}[type]
    with pytest.raises(ConfluentError, match="No matching path") as raised:
        with_tags(text, type, [Tagged(path=path, kind=FIELD, tags=("A",))], [])
    assert raised.value.code == 42201


@pytest.mark.parametrize("text", ['"string"', "[]", '{"type": 5}', '{"type": "record", "name": "Order", "fields": 5}'])
@pytest.mark.parametrize("type", ["AVRO", "JSON", "PROTOBUF"])
def test_schemas_without_such_a_field(text: str, type: str) -> None:
    assert list_tags(text, type) == []
    with pytest.raises(ConfluentError):
        with_tags(text, type, [Tagged(path="Order.id", kind=FIELD, tags=("A",))], [])


PATHS = {
    "object": RECORD,
    "object.id": FIELD,
    "object.items": FIELD,
    "object.items.array.object": RECORD,
    "object.items.array.object.a.b": FIELD,
    "object.one.oneof.1.object": RECORD,
    "object.one.oneof.1.object.x": FIELD,
    "object.not.not.object.y": FIELD,
    "conditional.if.object.z": FIELD,
    "object.definitions.D.object.w": FIELD,
    "object.$defs.E.object": RECORD,
}


@pytest.mark.parametrize("path", PATHS)
def test_a_path_in_a_json_schema(path: str) -> None:
    """A tag is found at its path, and nothing else changes."""
    tagged_ = Tagged(path=path, kind=PATHS[path], tags=("A",))
    text = json.dumps(JSON_SCHEMA)
    before = {entity.path: entity.tags for entity in list_tags(text, "JSON")}
    assert before == {"object.items.array.object.a.b": ("DOT",), "object.$defs.E.object": ("EE",)}
    changed = with_tags(text, "JSON", [tagged_], [])
    assert {entity.path: entity.tags for entity in list_tags(changed, "JSON")} == {
        **before,
        path: (*before.get(path, ()), "A"),
    }
    assert json.loads(with_tags(changed, "JSON", [], [tagged_])) == JSON_SCHEMA


def test_the_record_that_a_field_is_has_the_tags_of_the_field() -> None:
    text = json.dumps({"type": "object", "properties": {"a": {"type": "object"}}})
    changed = with_tags(text, "JSON", [Tagged(path="object.a.object", kind=RECORD, tags=("A",))], [])
    assert list_tags(changed, "JSON") == [Tagged(path="object.a", kind=FIELD, tags=("A",))]


@pytest.mark.parametrize(
    "value",
    [5, [5], [{}], [{"schemaEntity": {"entityPath": "A", "entityType": "x"}}], [{"schemaEntity": 5, "tags": []}]]
    + [[{"schemaEntity": {"entityPath": "A", "entityType": "sr_record"}, "tags": tags}] for tags in (5, [5], [""])]
    + [[{"schemaEntity": {"entityPath": "A", "entityType": []}}]],
    ids=str,
)
def test_invalid_tags_are_rejected(value: Any) -> None:
    with pytest.raises(ConfluentError) as raised:
        read_tags({"a": value}, "a")
    assert raised.value.code == 422

"""Tags in Avro schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from signalbook.confluent.errors import ConfluentError
from signalbook.confluent.tags import TAGS, Tagged, read_tags, with_tags

INNER = {"type": "record", "name": "Card", "fields": [{"name": "number", "type": "string", TAGS: ["PII", "X"]}]}
OUTER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "cards", "type": ["null", {"type": "array", "items": INNER}]}],
}
TEXT = json.dumps(OUTER)


def entity(path: str, *tags: str) -> list[dict[str, Any]]:
    kind = "sr_field" if path.rpartition(".")[2].islower() else "sr_record"
    return [{"schemaEntity": {"entityPath": path, "entityType": kind}, "tags": list(tags)}]


def tagged(add: str = "", remove: str = "", *tags: str) -> Any:
    body = {"add": entity(add, *tags) if add else None, "remove": entity(remove, *tags) if remove else []}
    return json.loads(with_tags(TEXT, read_tags(body, "add"), read_tags(body, "remove")))


@pytest.mark.parametrize("path", ["shop.Order.id", ".shop.Order.id", "Order.id"])
def test_a_field(path: str) -> None:
    found = tagged(path, "", "A", "B", "A")
    assert found["fields"][0] == {"name": "id", "type": "long", TAGS: ["A", "B"]}
    del found["fields"][0][TAGS]
    assert found == OUTER


@pytest.mark.parametrize("path", ["shop.Card", "Card"])
def test_a_record_within(path: str) -> None:
    assert tagged(path, "", "A")["fields"][1]["type"][1]["items"][TAGS] == ["A"]


def test_what_is_there() -> None:
    def tags(*stated: Any) -> Any:
        return tagged(*stated)["fields"][1]["type"][1]["items"]["fields"][0].get(TAGS)

    assert tags("Card.number", "", "PII", "B") == ["PII", "X", "B"]
    assert tags("", "Card.number", "PII", "none") == ["X"]
    assert tags("", "Card.number", "PII", "X") is None
    assert tags("Card.number", "Card.number", "PII") == ["X", "PII"]


@pytest.mark.parametrize("path", ["Order.none", "None", "other.Order", "other.Order.id", "", "id"])
def test_what_is_not_there(path: str) -> None:
    with pytest.raises(ConfluentError, match="No matching path") as raised:
        with_tags(TEXT, [Tagged(record=path.rpartition(".")[0], field=path.rpartition(".")[2], tags=("A",))], [])
    assert raised.value.code == 42201


@pytest.mark.parametrize("text", ['"string"', "[]", '{"type": 5}', '{"type": "record", "name": "Order", "fields": 5}'])
def test_schemas_without_such_a_field(text: str) -> None:
    with pytest.raises(ConfluentError):
        with_tags(text, [Tagged(record="Order", field="id", tags=("A",))], [])


@pytest.mark.parametrize(
    "value",
    [5, [5], [{}], [{"schemaEntity": {"entityPath": "A", "entityType": "x"}}], [{"schemaEntity": 5, "tags": []}]]
    + [[{"schemaEntity": {"entityPath": "A", "entityType": "sr_record"}, "tags": tags}] for tags in (5, [5], [""])],
    ids=str,
)
def test_what_are_no_tags(value: Any) -> None:
    with pytest.raises(ConfluentError) as raised:
        read_tags({"a": value}, "a")
    assert raised.value.code == 422

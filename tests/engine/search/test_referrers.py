from typing import Any

import pytest
from tests.engine.conftest import Registry, registry_of
from tests.engine.search.test_search import find, reading, xids
from tests.engine.write.test_searchindex import OTHER, SCHEMA, avro

from signalbook.engine.search import referrers
from signalbook.storage.store import Store
from signalbook.xid import Xid

ORDER = "/schemagroups/g/schemas/order"
GROUP = "/messagegroups/m"
ROOT_URL = "https://registry.example"


@pytest.fixture
def registry(store: Store) -> Registry:
    """A schema with two Versions, of which the first is the default one, and messages that refer to it."""
    new_registry = registry_of(store, base_url=ROOT_URL)
    meta = {"defaultversionid": "1", "defaultversionsticky": True}
    new_registry.put(ORDER, {"versions": {"1": avro(SCHEMA), "2": avro(OTHER)}, "meta": meta})
    new_registry.put("/schemagroups/h/schemas/copy", {"meta": {"xref": ORDER}})
    messages_by_id = {
        "uri": {"dataschemauri": ORDER},
        "url": {"dataschemauri": f"{ROOT_URL}{ORDER}"},
        "pinned": {"dataschemaxid": f"{ORDER}/versions/2"},
        "copied": {"dataschemaxid": "/schemagroups/h/schemas/copy"},
        "none": {"dataschemauri": "https://other.example/schemagroups/g/schemas/order"},
        "own": {
            "dataschemaxid": ORDER,
            "dataschema": {"properties": {"total": {}}},
            "dataschemaformat": "JsonSchema/draft-07",
        },
    }
    new_registry.put(GROUP, {"messages": messages_by_id})
    return new_registry


def messages(registry: Registry, text: str, **more: Any) -> set[str]:
    page = find(registry.engine, text, **more)
    assert (page.complete, page.count) == (True, len(page.hits))
    return {hit.xid.resource_id for hit in page.hits if hit.xid.resource_type == "messages"}


def test_messages_are_found_by_fields_of_their_schema(registry: Registry) -> None:
    assert messages(registry, "field:customer_id") == {"uri", "url", "copied", "own"}
    assert messages(registry, "field:cust*", facets={"type": ("messages",)}) == {"uri", "url", "copied", "own"}
    assert messages(registry, "field:buyer") == {"pinned"}
    assert messages(registry, "field:buyer", versions=True) == {"pinned"}
    assert messages(registry, "field:customer_id name:url") == {"url"}
    assert messages(registry, "field:customer_id field:total") == {"own"}
    assert messages(registry, "field:customer_id -url") == {"uri", "copied", "own"}
    assert messages(registry, "field:total") == {"own"}
    assert messages(registry, "field:never") == set()


def test_fields_follow_changes_of_the_schema(registry: Registry) -> None:
    registry.patch(f"{ORDER}/meta", {"defaultversionid": "2"})
    assert messages(registry, "field:customer_id") == set()
    assert messages(registry, "field:buyer") == {"uri", "url", "copied", "own", "pinned"}
    registry.delete(ORDER)
    assert messages(registry, "field:buyer") == set()
    registry.put(ORDER, avro(SCHEMA))
    assert messages(registry, "field:customer_id") == {"uri", "url", "copied", "own"}


def test_a_snippet_names_the_schema(registry: Registry) -> None:
    hit = next(item for item in find(registry.engine, "field:customer_id uri").hits if item.xid.id == "uri")
    field, *own_snippets = [item.to_json() for item in hit.snippets]
    expected = {"kind": "field", "path": "customer_id", "text": "customer_id", "ranges": [[0, 11]], "schema": ORDER}
    assert (field, hit.score) == (expected, 0.2)
    assert [item["path"] for item in own_snippets][:1] == ["id"]


def test_fields_of_a_hidden_schema_are_no_one_s(registry: Registry) -> None:
    engine = registry.engine
    assert xids(find(engine, "field:customer_id", reading(GROUP))) == []
    assert find(engine, "field:customer_id", reading(GROUP), facets={"type": ("messages",)}).count == 0
    both = xids(find(engine, "field:customer_id", reading(GROUP, "/schemagroups/g")))
    assert both == [ORDER, *(f"{GROUP}/messages/{name}" for name in ("own", "uri", "url"))]
    assert xids(find(engine, "field:customer_id", reading(GROUP, "/schemagroups/h"))) == []
    hidden = reading("/", deny=("/schemagroups/*/schemas/*r*er",))
    assert xids(find(engine, "field:customer_id", hidden)) == []


@pytest.mark.parametrize("text", ["field:customer_id", "field:customer_id u", "field:customer_id field:total"])
def test_searches_from_the_smaller_side(registry: Registry, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    expected = xids(find(registry.engine, text))
    for most in (8, 7, 6, 5):
        monkeypatch.setattr(referrers, "MAX_REFERRERS", most)
        page = find(registry.engine, text)
        assert (xids(page), page.complete) == (expected, True), most


def test_incomplete_results_are_marked(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = xids(find(registry.engine, "field:customer_id", facets={"type": ("messages",)}))
    monkeypatch.setattr(referrers, "MAX_REFERRERS", 2)
    for name in ("another", "third"):
        registry.put(f"/schemagroups/g/schemas/{name}", avro(SCHEMA))
    page = find(registry.engine, "field:customer_id", facets={"type": ("messages",)})
    assert set(xids(page)) < set(everything)
    assert not page.complete


def test_pages_follow_one_another(registry: Registry) -> None:
    collected, after = [], None
    while True:
        page = find(registry.engine, "field:customer_id", limit=2, after=after)
        collected += xids(page)
        after = page.following
        if after is None:
            break
    assert collected == xids(find(registry.engine, "field:customer_id"))
    assert {Xid.parse(xid).id for xid in collected} == {"order", "uri", "url", "copied", "own"}


EVENTS: dict[str, Any] = {
    "definitions": {
        "fork": {"properties": {"ref": {}, "by": {"$ref": "#/definitions/person"}}},
        "purchase": {"allOf": [{"properties": {"email": {}}}]},
        "person": {"properties": {"nick": {}, "friend": {"$ref": "#/definitions/person"}}},
    }
}
TEXT = {"type": "string"}
STRUCTURE: dict[str, Any] = {
    "$schema": "https://json-structure.org/meta/core/v0/#",
    "$id": "https://example.com/events",
    "$root": "#/definitions/purchase",
    "definitions": {
        "fork": {"type": "object", "properties": {"by": {"type": {"$ref": "#/definitions/person"}}}},
        "purchase": {"type": "object", "properties": {"email": TEXT}},
        "person": {"type": "object", "properties": {"nick": TEXT}},
    },
}
RECORDS = [
    {"type": "record", "name": "a.Person", "fields": [{"name": "nick", "type": "string"}]},
    {"type": "record", "name": "a.Fork", "fields": [{"name": "by", "type": {"type": "array", "items": "a.Person"}}]},
    {"type": "record", "name": "a.Purchase", "fields": [{"name": "email", "type": "string"}]},
]
PROTO = 'syntax = "proto3"; message Fork { string ref = 1; } message Purchase { string email = 1; }'


@pytest.mark.parametrize(
    ("format", "schema", "fork", "purchase", "exact"),
    [
        ("JsonSchema/draft-07", EVENTS, "/definitions/fork", "/definitions/purchase", True),
        ("JsonStructure/draft-04", STRUCTURE, "/definitions/fork", "/definitions/purchase", True),
        ("Avro/1.11", RECORDS, "a.Fork", "a.Purchase", True),
        ("Protobuf/3", PROTO, "Fork", "Purchase", False),
    ],
)
def test_fields_of_a_deep_link_are_those_of_the_part(
    registry: Registry, format: str, schema: Any, fork: str, purchase: str, exact: bool
) -> None:
    """Fields of types that the part refers to count as well. For Protobuf and XML Schema all fields count."""
    events = "/schemagroups/g/schemas/events"
    registry.put(events, {"format": format, "schema": schema})
    links = {"fork": f"#{fork}", "purchase": f"#{purchase}", "lost": "#/definitions/none", "whole": ""}
    messages_by_id = {name: {"dataschemauri": f"{events}{link}"} for name, link in links.items()}
    registry.put(GROUP, {"messages": messages_by_id})
    both = {"lost", "whole"}
    assert messages(registry, "field:email") == both | ({"purchase"} if exact else {"purchase", "fork"})
    if exact:
        assert messages(registry, "field:nick") == both | {"fork"}
        assert messages(registry, "field:by field:email") == both
        hit = next(item for item in find(registry.engine, "field:email").hits if item.xid.id == "purchase")
        assert [item.path for item in hit.snippets if item.member] == ["email"]


def test_parts_are_looked_at_within_bounds(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    events = "/schemagroups/g/schemas/events"
    registry.put(events, {"format": "JsonSchema/draft-07", "schema": EVENTS})
    registry.put(GROUP, {"messages": {"fork": {"dataschemauri": f"{events}#/definitions/fork"}}})
    assert messages(registry, "field:email") == set()
    for name in ("MAX_LINKED_BYTES", "MAX_LINKED_STEPS"):
        with monkeypatch.context() as patched:
            patched.setattr(referrers, name, 5)
            assert messages(registry, "field:email") == {"fork"}, "all of the schema counts"

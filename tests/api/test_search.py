"""``GET /search``, on each database."""

import re
from typing import Any

import pytest
from tests.api.conftest import ADMINISTRATOR, PROXIED, Client, Serve, put_policy

from signalbook.storage.store import Store

ANN = {"X-User": "ann"}
SCHEMA = {"format": "JsonSchema/draft-07", "schema": {"properties": {"customer_id": {"description": "who bought"}}}}


@pytest.fixture
def client(store: Store, serve: Serve) -> Client:
    """A registry with five schemas, of which ann reads one."""
    new_client = serve(store, model="default", **PROXIED)
    put_policy(store, {"who": ["subject:ann"], "allow": ["read"], "on": ["/schemagroups/g/schemas/s3"]})
    schemas = {f"s{number}": SCHEMA for number in range(5)}
    assert (
        new_client.put("/schemagroups/g", {"schemas": schemas, "name": "Sales"}, headers=ADMINISTRATOR).status_code
        == 201
    )
    return new_client


def found(client: Client, query: str, who: dict[str, str] = ADMINISTRATOR) -> dict[str, Any]:
    answer = client.get(f"/search?{query}", headers=who)
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


def test_hit_describes_the_entity_and_the_match(client: Client) -> None:
    page = found(client, "q=field:customer_id&limit=1")
    assert (page["count"], page["complete"]) == (5, True)
    entity = {"xid": "/schemagroups/g/schemas/s0", "kind": "resource", "type": "schemas", "group": "/schemagroups/g"}
    attributes = {"id": "s0", "name": "", "score": 0.5, "deprecated": False, "format": "JsonSchema/draft-07"}
    snippet = {"kind": "field", "path": "customer_id", "text": "customer_id", "ranges": [[0, 11]]}
    assert page["hits"] == [{**entity, **attributes, "snippets": [snippet]}]
    assert page["facets"]["format"] == [{"value": "JsonSchema/draft-07", "count": 5}]


def test_links_lead_from_page_to_page(client: Client) -> None:
    pages = client.pages("/search?q=customer&type=schemas&type=none&limit=2", headers=ADMINISTRATOR)
    assert [hit["id"] for page in pages for hit in page.json()["hits"]] == ["s0", "s1", "s2", "s3", "s4"]


def test_a_parameter_without_a_value_asks_for_nothing(client: Client) -> None:
    assert found(client, "q=&type=&group=&deprecated=&versions=")["count"] == 6


def test_search_hides_unreadable_entities(client: Client) -> None:
    page = found(client, "q=customer", ANN)
    assert [hit["id"] for hit in page["hits"]] == ["s3"]
    assert page["count"] == 1
    assert page["facets"]["type"] == [{"value": "schemas", "count": 1}]
    assert client.get("/search?q=customer", headers={"X-User": "bob"}).status_code == 403
    assert client.get("/search?q=customer").status_code == 401


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("q=%22open", "has no end"),
        ("q=%00", "cannot be seen"),
        ("q=" + "a" * 1001, "at most 1000"),
        ("q=a&what=1", "there is no parameter"),
        ("q=a&limit=0", "whole number"),
        ("q=a&deprecated=maybe", "true or false"),
        ("q=a&versions=some", "default or all"),
        ("q=a&group=g", "the xid of a group"),
        ("q=a&type=" + "a" * 1001, "up to 20 values"),
        ("q=a&cursor=abc", "cursor"),
        ("q=a&cursor=abc&limit=1", "limit"),
    ],
)
def test_invalid_query_is_explained(client: Client, query: str, message: str) -> None:
    answer = client.get(f"/search?{query}", headers=ADMINISTRATOR)
    assert answer.status_code == 400
    assert message in answer.text


def test_a_cursor_is_of_one_search(client: Client) -> None:
    link = client.get("/search?q=customer&limit=2", headers=ADMINISTRATOR).headers["Link"]
    cursor = re.search(r"cursor=([^>&]*)", link)
    assert cursor is not None
    assert client.get(f"/search?q=customer&cursor={cursor[1]}", headers=ADMINISTRATOR).status_code == 200
    assert client.get(f"/search?q=other&cursor={cursor[1]}", headers=ADMINISTRATOR).status_code == 400

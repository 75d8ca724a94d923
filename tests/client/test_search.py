"""Search through the client."""

import pytest

from signalbook.client import BadResponse, Client, NotFound, Refused

from .conftest import Script


def test_hits_come_page_after_page(client: Client) -> None:
    schema = {"format": "JsonSchema/draft-07", "schema": {"properties": {"customer_id": {}}}}
    client.put("/schemagroups/sought", {"schemas": {f"s{number}": schema for number in range(3)}})
    result = client.search("field:customer_id", group=["/schemagroups/sought"], deprecated=False, limit=2)
    assert (result.count, result.complete, len(result.hits)) == (3, True, 2)
    assert result.facets["type"] == {"schemas": 3}
    assert [hit["id"] for hit in result] == ["s0", "s1", "s2"]
    assert client.search("field:customer_id", type=["messages"], versions=True).count == 0
    with pytest.raises(Refused, match="has no end"):
        client.search('"open')


@pytest.mark.parametrize("body", [b"{}", b"[]", b"<html>"])
def test_invalid_response_of_search_is_an_error(script: Script, body: bytes) -> None:
    script.answers = [(200, {}, body)]
    with Client(script.url) as client, pytest.raises(BadResponse):
        client.search("a")


def test_impact_lists_dependents(client: Client) -> None:
    schema = client.put("/schemagroups/named/schemas/s", {"format": "JsonSchema/draft-07", "schema": {}})
    client.put("/schemagroups/named/schemas/copy/meta", {"xref": schema["xid"]})
    result = client.impact(schema["xid"], depth=1)
    assert [dependent["relation"] for dependent in result["dependents"]] == ["xref"]
    with pytest.raises(NotFound):
        client.impact("/schemagroups/named/schemas/none")


def test_a_change_is_tried(client: Client) -> None:
    schema = client.put("/schemagroups/tried/schemas/s", {"format": "Avro/1.11", "schema": '"int"'})
    client.put("/schemagroups/tried/schemas/copy/meta", {"xref": schema["xid"]})
    result = client.try_impact(schema["xid"], b'"string"', contenttype="application/json")
    assert (result["safe"], [dependent["outcome"] for dependent in result["dependents"]]) == (False, ["breaks"])
    assert client.try_impact(schema["xid"], b'"long"', format="Avro/1.11")["safe"]
    assert not client.try_impact(schema["xid"], b'"long"', compatibility="full")["safe"]
    with pytest.raises(NotFound):
        client.try_impact("/schemagroups/tried/schemas/none", b"{}")

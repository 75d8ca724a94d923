"""The change feed: what was committed, as CloudEvents, page by page."""

from __future__ import annotations

from typing import Any

import pytest


def test_each_committed_change_is_told_once_in_order(client: Any) -> None:
    """R293, R294, R296, R298, R307."""
    start = client.get("/events").json()[-1]["id"]
    answer = client.put("/dirs/d1", {"name": "first"})
    told = client.get(f"/events?after={start}").json()
    assert [(event["type"], event["subject"]) for event in told] == [
        ("io.xregistry.registry.updated", "/"),
        ("io.xregistry.group.created", "/dirs/d1"),
    ]
    assert set(told[0]["data"]["changed"]) >= {"epoch", "modifiedat", "dirs", "dirscount"}
    assert {event["source"] for event in told} == {"http://r.example/"}
    assert {event["xregcorrelationid"] for event in told} == {answer.headers["xRegistry-xregcorrelationid"]}


def test_a_refused_write_tells_nothing(client: Any) -> None:
    """R309."""
    before = client.get("/events").json()
    client.refused("PUT", "/dirs/d1", "invalid_attribute", json={"name": 1})
    assert client.get("/events").json() == before


def test_pages_are_linked_until_the_end(client: Any) -> None:
    for number in range(5):
        client.put(f"/dirs/d{number}", {})
    whole, page, found = client.get("/events").json(), "/events?limit=3", []
    while page:
        answer = client.get(page)
        assert answer.headers["Content-Type"].startswith("application/cloudevents-batch+json")
        assert len(answer.json()) <= 3
        found += answer.json()
        page = answer.links.get("next", {}).get("url", "")
    assert found == whole


@pytest.mark.parametrize(
    "query", ["after=x", "after=-1", "limit=1e3", "limit=10001", "after=99999999999999999999", f"after={'9' * 5000}"]
)
def test_a_bad_position_or_limit_is_named(client: Any, query: str) -> None:
    answer = client.get(f"/events?{query}")
    assert answer.status_code == 400
    assert query.split("=")[1] in answer.json()["title"]

"""The change feed: what was committed, as CloudEvents, page by page."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

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


def test_a_link_leads_behind_all_events(client: Any) -> None:
    """Where to follow from, for who has read the registry itself."""
    client.put("/dirs/d", {})
    last = client.get("/events?limit=1").links["last"]["url"]
    assert client.get(last).json() == []
    client.put("/dirs/e", {})
    assert "/dirs/e" in [event["subject"] for event in client.get(last).json()]


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


@pytest.mark.parametrize(
    "filter",
    [
        "subject LIKE '/dirs/d%' AND type = 'io.xregistry.group.created'",
        '{"exact": {"type": "io.xregistry.group.created"}}',
        '[{"prefix": {"subject": "/dirs/"}}, {"not": {"suffix": {"type": ".updated"}}}]',
    ],
)
def test_only_what_is_wanted(client: Any, filter: str) -> None:
    """D-29: the dialects, page by page"""
    for number in range(5):
        client.put(f"/dirs/d{number}", {})
    page, found = f"/events?{urlencode({'filter': filter, 'limit': 2})}", []
    while page:
        answer = client.get(page)
        assert len(answer.json()) <= 2
        found += [event["subject"] for event in answer.json()]
        page = answer.links.get("next", {}).get("url", "")
    assert found == [f"/dirs/d{number}" for number in range(5)]


@pytest.mark.parametrize("filter", ["subject =", "{", '{"near": {}}', "[" * 100])
def test_a_filter_that_is_none(client: Any, filter: str) -> None:
    """D-29: an unknown dialect and bad SQL are refused"""
    client.refused("GET", f"/events?{urlencode({'filter': filter})}", "bad_filter")

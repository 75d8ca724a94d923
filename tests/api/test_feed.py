"""The change feed: what was committed, as CloudEvents, page by page."""

from typing import Any
from urllib.parse import urlencode

import pytest

from signalbook.storage.store import Store

from .conftest import ADMINISTRATOR, MODEL, PROXIED, Serve, put_policy

NOT_UPDATED = "type NOT IN ('io.xregistry.registry.updated')"


def test_rejected_write_has_no_events(client: Any) -> None:
    """A rejected write has no events (R309)."""
    before = client.get("/events").json()
    client.refused("PUT", "/dirs/d1", "invalid_attribute", json={"name": 1})
    assert client.get("/events").json() == before


def test_last_link_leads_after_all_events(client: Any) -> None:
    """A client that has read the registry itself can follow the events from this link."""
    client.put("/dirs/d", {})
    last = client.get("/events?limit=1").links["last"]["url"]
    assert client.get(last).json() == []
    client.put("/dirs/e", {})
    assert "/dirs/e" in [event["subject"] for event in client.get(last).json()]


def test_pages_are_linked_until_the_end(client: Any) -> None:
    for number in range(5):
        client.put(f"/dirs/d{number}", {})
    whole, pages = client.get("/events").json(), list(client.pages("/events?limit=3"))
    assert all(page.headers["Content-Type"].startswith("application/cloudevents-batch+json") for page in pages)
    assert max(len(page.json()) for page in pages) <= 3
    assert [event for page in pages for event in page.json()] == whole


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
def test_events_are_filtered(client: Any, filter: str) -> None:
    """The test uses each dialect, page by page (D-29)."""
    for number in range(5):
        client.put(f"/dirs/d{number}", {})
    pages = [page.json() for page in client.pages(f"/events?{urlencode({'filter': filter, 'limit': 2})}")]
    assert max(map(len, pages)) <= 2
    assert [event["subject"] for page in pages for event in page] == [f"/dirs/d{number}" for number in range(5)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("/", [("io.xregistry.group.created", "/schemagroups/g"), ("io.xregistry.group.created", "/messagegroups/g")]),
        ("/compat/schemaregistry/v0.2", [("io.cloudevents.schemaregistry.updated.v1", "/schemagroups/g")]),
        ("/compat/messagecatalog/v0", [("io.cloudevents.messagecatalog.updated.v1", "/messagecatalog/g")]),
        ("/compat/messagecatalog/v0.1", [("io.cloudevents.messagecatalog.updated.v1", "/messagecatalog/g")]),
    ],
)
def test_the_events_of_a_api(store: Store, serve: Serve, source: str, expected: list[tuple[str, str]]) -> None:
    """The API is given by its URL or its path; pages and filters work as elsewhere (D-18, J-21)."""
    client = serve(store, model="default")
    for group in ("schemagroups", "messagegroups"):
        client.put(f"/{group}/g", {}).raise_for_status()
    for source_uri in (source, f"http://r.example{source}"):
        query = urlencode({"source": source_uri, "limit": 1, "filter": NOT_UPDATED})
        events = [event for page in client.pages(f"/events?{query}") for event in page.json()]
        assert {event["source"] for event in events} == {f"http://r.example{source}"}
        assert [(event["type"], event["subject"]) for event in events] == expected


@pytest.mark.parametrize("source", ["/compat", "http://other.example/", "x"])
def test_unknown_source_is_rejected(client: Any, source: str) -> None:
    """A source that is not an API is rejected (D-25)."""
    body = client.refused("GET", f"/events?{urlencode({'source': source})}", "bad_request")
    assert "http://r.example/compat/schemaregistry/v0.2" in body["title"]


def test_pruned_history_is_an_error(store: Store, client: Any) -> None:
    for number in range(4):
        client.put(f"/dirs/d{number}", {})
    ids = [int(event["id"]) for event in client.get("/events").json()]
    with store.write() as writer:
        writer.outbox.prune(ids[2])
    assert [int(event["id"]) for event in client.get("/events").json()] == ids[3:]
    assert [int(event["id"]) for event in client.get(f"/events?after={ids[2]}").json()] == ids[3:]
    for after in (0, ids[1]):
        for headers in ({}, {"Accept": "text/event-stream"}):
            answer = client.get(f"/events?after={after}", headers=headers)
            assert (answer.status_code, answer.headers["Cache-Control"]) == (410, "no-store")
            assert answer.json()["position"] == ids[2]
            assert str(ids[2]) in answer.json()["detail"]
    assert client.get("/events", headers={"Last-Event-ID": str(ids[0])}).status_code == 410


@pytest.mark.parametrize("filter", ["subject =", "{", '{"near": {}}', "[" * 100])
def test_invalid_filter_is_rejected(client: Any, filter: str) -> None:
    """Unknown dialects and invalid SQL are rejected (D-29)."""
    client.refused("GET", f"/events?{urlencode({'filter': filter})}", "bad_filter")


def test_events_show_only_readable_entities(store: Store, serve: Serve) -> None:
    client = serve(store, **PROXIED)
    client.put("/modelsource", MODEL)
    for group in ("shown", "hidden"):
        client.put(f"/dirs/{group}/files/f$details", {"versionid": "v"})
        client.send("DELETE", f"/dirs/{group}")
    reader = {"who": ["subject:ann"], "role": "reader", "on": ["/dirs/shown"]}
    put_policy(store, reader)

    def subjects(user: dict[str, str]) -> list[str]:
        return [event["subject"] for event in client.get("/events", headers=user).json()]

    everything = subjects(ADMINISTRATOR)
    assert {"/dirs/hidden/files/f/versions/v", "/dirs/hidden/files/f", "/dirs/hidden"} <= set(everything)
    assert subjects({"X-User": "ann"}) == [subject for subject in everything if "/hidden" not in subject]
    assert "/" in subjects({"X-User": "ann"})
    put_policy(store, reader, {"who": ["anyone"], "deny": ["read"], "on": ["/dirs/shown/files"]})
    assert "/dirs/shown/files/f" not in subjects({"X-User": "ann"})
    put_policy(store)
    assert client.get("/events", headers={"X-User": "ann"}).status_code == 403
    assert client.get("/events").status_code == 401


def test_page_of_hidden_changes_has_a_next_page(store: Store, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signalbook.api.feed._DEFAULT", 10)
    monkeypatch.setattr("signalbook.api.feed._LOOKED_AT", 20)
    client = serve(store, **PROXIED)
    client.put("/modelsource", MODEL)
    assert client.send("POST", "/dirs", json={f"hidden{number}": {} for number in range(100)}).is_success
    client.put("/dirs/shown", {})
    put_policy(store, {"who": ["subject:ann"], "allow": ["read"], "on": ["/dirs/shown"]})
    pages = [page.json() for page in client.pages("/events", headers={"X-User": "ann"})]
    subjects_found = [event["subject"] for page in pages for event in page]
    assert len(pages) > 4
    assert "/dirs/shown" in subjects_found
    assert not [subject for subject in subjects_found if "hidden" in subject]

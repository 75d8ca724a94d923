"""The change feed, of a real server and of others."""

import threading

import pytest

from signalbook.client import BadResponse, Client, NotFound, Unreachable

from .conftest import Script

BATCH = {"Content-Type": "application/cloudevents-batch+json"}


def test_events_are_read_in_pages(client: Client) -> None:
    begin = client.last_event()
    client.put("/schemagroups/feed1", {})
    client.put("/schemagroups/feed2", {})
    first = client.events(begin, limit=1)
    assert (len(first.events), first.more) == (1, True)
    following = client.events(first.position)
    assert (following.more, following.position) == (False, client.last_event())
    subjects = [event["subject"] for event in (*first.events, *following.events)]
    assert {"/schemagroups/feed1", "/schemagroups/feed2"} <= set(subjects)
    assert client.events(following.position).events == ()


def test_waiting_for_a_change(client: Client) -> None:
    begin = client.last_event()
    assert not client.wait_for_event(begin, 0.05)
    writer = threading.Timer(0.1, client.put, ("/schemagroups/feed3", {}))
    writer.start()
    assert client.wait_for_event(begin, 300)
    writer.join()


def test_members_are_deleted_by_name(client: Client) -> None:
    client.patch("/schemagroups", {"feed4": {}, "feed5": {}, "feed6": {}})
    client.delete_members("/schemagroups", ["feed4", "feed6", "never"])
    remaining = dict(client.items("/schemagroups"))
    assert ("feed4" in remaining, "feed5" in remaining, "feed6" in remaining) == (False, True, False)
    assert client.offers("/schemagroups/feed5")
    assert not client.offers("/schemagroups/feed4")


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[1]", b'[{"id": "x"}]', b'[{"id": "-1"}]', b"[{}]"])
def test_invalid_change_feed_is_an_error(script: Script, body: bytes) -> None:
    script.answers = [(200, BATCH, body)]
    with Client(script.url) as client, pytest.raises(BadResponse):
        client.events()


@pytest.mark.parametrize("link", ["", "</events?after=x>;rel=last", "</events>;rel=last"])
def test_feed_without_a_valid_link_is_an_error(script: Script, link: str) -> None:
    script.answers = [(200, {**BATCH, "Link": link}, b"[]")]
    with Client(script.url) as client, pytest.raises(BadResponse):
        client.last_event()


def test_missing_feed_and_missing_server_are_errors(script: Script) -> None:
    script.answers = [(404, {}, b"{}")]
    with Client(script.url) as client:
        with pytest.raises(NotFound):
            client.events()
        with pytest.raises(NotFound):
            client.wait_for_event(0, 1)
    with Client("http://127.0.0.1:9") as client, pytest.raises(Unreachable):
        client.wait_for_event(0, 1)

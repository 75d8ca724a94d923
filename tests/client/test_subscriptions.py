"""Subscriptions through the client, and deliveries to a file."""

import pytest

from signalbook.client import BadResponse, Client, NotFound, Refused

from .conftest import Script


def test_a_life(client: Client) -> None:
    """Subscriptions can be created, replaced, listed and deleted (D-32)."""
    created = client.subscriptions.create("file:a.jsonl", protocol="FILE", types=["a"])
    assert client.subscriptions.get(created["id"])["types"] == ["a"]
    assert client.subscriptions.replace(created["id"], {**created, "types": ["b"]})["types"] == ["b"]
    assert [subscription["id"] for subscription in client.subscriptions] == [created["id"]]
    client.subscriptions.delete(created["id"])
    assert list(client.subscriptions) == []
    with pytest.raises(NotFound):
        client.subscriptions.get(created["id"])


def test_faults_come_with_their_places(client: Client) -> None:
    with pytest.raises(Refused) as caught:
        client.subscriptions.create("file:../a", protocol="FILE", filters=[{"like": {}}])
    assert {fault.path for fault in caught.value.faults} == {"/sink", "/filters/0/like"}


def test_an_id_is_no_path(client: Client) -> None:
    with pytest.raises(NotFound):
        client.subscriptions.get("../events")


@pytest.mark.parametrize("body", [b"{}", b"[1]", b"<html>"])
def test_invalid_response_of_subscriptions_is_an_error(script: Script, body: bytes) -> None:
    script.answers = [(200, {}, body)]
    with Client(script.url) as client, pytest.raises(BadResponse):
        list(client.subscriptions)


def test_circular_pages_are_an_error(script: Script) -> None:
    script.answers = [(200, {"Link": f"<{script.url}/subscriptions?cursor=1>;rel=next"}, b"[]")]
    with Client(script.url) as client, pytest.raises(BadResponse, match="names itself"):
        list(client.subscriptions)

"""Subscriptions through the client, and deliveries to a file."""

from __future__ import annotations

import pytest

from signalbook.client import BadResponse, Client, NotFound, Refused

from .conftest import Script


def test_a_life(client: Client) -> None:
    """D-32"""
    made = client.subscriptions.create("file:a.jsonl", protocol="FILE", types=["a"])
    assert client.subscriptions.get(made["id"])["types"] == ["a"]
    assert client.subscriptions.replace(made["id"], {**made, "types": ["b"]})["types"] == ["b"]
    assert [one["id"] for one in client.subscriptions] == [made["id"]]
    client.subscriptions.delete(made["id"])
    assert list(client.subscriptions) == []
    with pytest.raises(NotFound):
        client.subscriptions.get(made["id"])


def test_faults_come_with_their_places(client: Client) -> None:
    with pytest.raises(Refused) as caught:
        client.subscriptions.create("file:../a", protocol="FILE", filters=[{"like": {}}])
    assert {fault.path for fault in caught.value.faults} == {"/sink", "/filters/0/like"}


def test_an_id_is_no_path(client: Client) -> None:
    with pytest.raises(NotFound):
        client.subscriptions.get("../events")


@pytest.mark.parametrize("body", [b"{}", b"[1]", b"<html>"])
def test_what_does_not_speak_like_subscriptions(script: Script, body: bytes) -> None:
    script.answers = [(200, {}, body)]
    with Client(script.url) as client, pytest.raises(BadResponse):
        list(client.subscriptions)


def test_pages_that_go_round(script: Script) -> None:
    script.answers = [(200, {"Link": f"<{script.url}/subscriptions?cursor=1>;rel=next"}, b"[]")]
    with Client(script.url) as client, pytest.raises(BadResponse, match="names itself"):
        list(client.subscriptions)

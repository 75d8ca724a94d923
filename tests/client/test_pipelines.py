"""Pipelines and their reports through the client."""

from __future__ import annotations

from typing import Any

import pytest

from signalbook.client import BadResponse, Client, NotFound, Refused

from .conftest import Script


def report(batch: str) -> dict[str, Any]:
    counts = {"read": 0, "landed": 0, "dead_lettered": 0, "dropped": 0, "seconds": 0.0, "events_per_second": 0.0}
    return {"batch": batch, "fingerprint": "", **counts, "by_message": {}, "reasons": {}}


def test_a_life(client: Client) -> None:
    assert client.pipelines.add("p", report("a"))["number"] == 1
    assert client.pipelines.add("p", report("b"))["number"] == 2
    assert client.pipelines.get("p")["last"]["report"] == report("b")
    assert [each["number"] for each in client.pipelines.reports("p")] == [2, 1]
    assert [(each["name"], each["last"]["batch"]) for each in client.pipelines] == [("p", "b")]
    client.pipelines.delete("p")
    assert list(client.pipelines) == []
    with pytest.raises(NotFound):
        client.pipelines.get("p")


def test_what_is_no_report_is_refused(client: Client) -> None:
    with pytest.raises(Refused, match="landed") as caught:
        client.pipelines.add("p", {**report("a"), "read": 1})
    assert [fault.path for fault in caught.value.faults] == ["/read"]


@pytest.mark.parametrize("body", [b"{}", b"[1]", b"<html>"])
def test_what_does_not_speak_like_pipelines(script: Script, body: bytes) -> None:
    script.answers = [(200, {}, body)]
    with Client(script.url) as client, pytest.raises(BadResponse):
        list(client.pipelines)


def test_pages_that_go_in_a_circle(script: Script) -> None:
    script.answers = [(200, {"Link": "</pipelines>;rel=next"}, b"[]")]
    with Client(script.url) as client, pytest.raises(BadResponse, match="as the next"):
        list(client.pipelines)

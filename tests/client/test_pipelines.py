"""Pipelines and their reports through the client."""

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
    assert [entry["number"] for entry in client.pipelines.reports("p")] == [2, 1]
    assert [(entry["name"], entry["last"]["batch"]) for entry in client.pipelines] == [("p", "b")]
    client.pipelines.delete("p")
    assert list(client.pipelines) == []
    with pytest.raises(NotFound):
        client.pipelines.get("p")


def test_invalid_report_is_rejected(client: Client) -> None:
    with pytest.raises(Refused, match="landed") as caught:
        client.pipelines.add("p", {**report("a"), "read": 1})
    assert [fault.path for fault in caught.value.faults] == ["/read"]


@pytest.mark.parametrize("body", [b"{}", b"[1]", b"<html>"])
def test_invalid_response_of_pipelines_is_an_error(script: Script, body: bytes) -> None:
    script.answers = [(200, {}, body)]
    with Client(script.url) as client, pytest.raises(BadResponse):
        list(client.pipelines)


def test_circular_pages_are_an_error(script: Script) -> None:
    script.answers = [(200, {"Link": "</pipelines>;rel=next"}, b"[]")]
    with Client(script.url) as client, pytest.raises(BadResponse, match="as the next"):
        list(client.pipelines)

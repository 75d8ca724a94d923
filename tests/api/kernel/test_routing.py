"""Paths beside the registry's own: the feed, health and discovery."""

from __future__ import annotations

from typing import Any

import pytest

from signalbook.storage.store import Store

PATHS = ("/events", "/health/live", "/health/ready", "/.well-known/xregistry")


@pytest.mark.parametrize("path", PATHS)
def test_methods_are_reported(client: Any, path: str) -> None:
    """R138, R315."""
    for answer in (client.send("OPTIONS", path), client.send("OPTIONS", f"{path}/")):
        assert (answer.status_code, answer.headers["Allow"]) == (200, "GET, HEAD, OPTIONS")
        assert answer.headers["Access-Control-Allow-Methods"] == answer.headers["Allow"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["POST", "DELETE", "PURGE"])
def test_other_methods_are_refused(client: Any, path: str, method: str) -> None:
    """R134, R278, R284."""
    answer = client.send(method, path)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")
    assert answer.json()["type"].endswith("#action_not_supported")
    assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize("path", PATHS)
def test_trailing_slashes_and_head(client: Any, path: str) -> None:
    assert client.get(f"{path}/").content == client.get(path).content
    answer = client.send("HEAD", path)
    assert (answer.status_code, answer.content) == (200, b"")


def test_a_broken_store_is_no_broken_answer(client: Any, store: Store) -> None:
    """R278, R137: whatever happens, the answer has the form of all others."""
    store.close()
    answer = client.get("/events")
    assert (answer.status_code, answer.json()["type"].rsplit("#", 1)[1]) == (500, "server_error")
    assert "rel=xregistry-root" in answer.headers["Link"]

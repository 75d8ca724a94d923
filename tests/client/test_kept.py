"""What the client keeps is used again only when the server says that it may."""

from __future__ import annotations

import httpx
import pytest

from signalbook.client import Client
from signalbook.client.transport import ResponseCache

from .conftest import Script

URL = "http://r.example/dirs"


def exchange(
    kept: ResponseCache, body: bytes, tag: str = '"1"', *, url: str = URL, method: str = "GET"
) -> tuple[str, bytes]:
    """What is asked with, and what comes of it, of a server that shows ``body`` under ``tag``."""
    request = httpx.Request(method, url)
    kept.ask(request)
    asked = request.headers.get("If-None-Match", "")
    headers = [(b"ETag", tag.encode("latin-1"))] if tag else []
    response = httpx.Response(304) if asked and asked == tag else httpx.Response(200, headers=headers, content=body)
    return asked, kept.update(request, response).content


def test_what_still_holds_is_used_again() -> None:
    kept = ResponseCache()
    assert exchange(kept, b"old") == ("", b"old")
    assert exchange(kept, b"not sent") == ('"1"', b"old")
    assert exchange(kept, b"new", '"2"') == ('"1"', b"new")
    assert exchange(kept, b"not sent", '"2"') == ('"2"', b"new")


@pytest.mark.parametrize("tag", ["", "\xe9", "a\x7f"])
def test_nothing_to_ask_with(tag: str) -> None:
    kept = ResponseCache()
    exchange(kept, b"x", tag)
    assert exchange(kept, b"y", tag) == ("", b"y")


def test_only_reads_are_kept() -> None:
    kept = ResponseCache()
    exchange(kept, b"x", method="PUT")
    assert exchange(kept, b"y") == ("", b"y")


def test_what_was_used_longest_ago_goes_first() -> None:
    kept = ResponseCache(limit=20)
    for url in ("http://a/", "http://b/", "http://a/", "http://c/"):
        exchange(kept, b"x" * 10, url=url)
    assert [exchange(kept, b"x" * 10, url=url)[0] for url in ("http://a/", "http://c/")] == ['"1"', '"1"']
    assert exchange(kept, b"x" * 10, url="http://b/")[0] == ""
    assert exchange(kept, b"x" * 21, url="http://d/") == ("", b"x" * 21)
    assert exchange(kept, b"x", url="http://d/")[0] == ""


def test_a_client_asks_again(client: Client) -> None:
    """R314: what changed is seen, whoever changed it."""
    client.put("/schemagroups/kept", {"name": "a"})
    assert [client.get("/schemagroups/kept")["name"] for _ in range(2)] == ["a", "a"]
    with Client(client.base_url) as other:
        other.patch("/schemagroups/kept", {"name": "b"})
    assert client.get("/schemagroups/kept")["name"] == "b"


def test_the_second_answer_is_short(script: Script) -> None:
    script.answers = [(200, {"ETag": '"1"'}, b'{"a": 1}'), (304, {"ETag": '"1"'}, b"")]
    with Client(script.url) as client:
        assert [client.get("/dirs/d1") for _ in range(2)] == [{"a": 1}, {"a": 1}]

"""What the client keeps is used again only when the server says that it may."""

import httpx
import pytest

from signalbook.client import Client
from signalbook.client.transport import ResponseCache

from .conftest import Script

URL = "http://r.example/dirs"


def exchange(
    cache: ResponseCache, body: bytes, tag: str = '"1"', *, url: str = URL, method: str = "GET"
) -> tuple[str, bytes]:
    """Request ``body`` with ``tag`` through the cache; return the If-None-Match header and the resulting body."""
    request = httpx.Request(method, url)
    cache.ask(request)
    etag = request.headers.get("If-None-Match", "")
    headers = [(b"ETag", tag.encode("latin-1"))] if tag else []
    response = httpx.Response(304) if etag and etag == tag else httpx.Response(200, headers=headers, content=body)
    return etag, cache.update(request, response).content


def test_valid_response_is_reused() -> None:
    cache = ResponseCache()
    assert exchange(cache, b"old") == ("", b"old")
    assert exchange(cache, b"not sent") == ('"1"', b"old")
    assert exchange(cache, b"new", '"2"') == ('"1"', b"new")
    assert exchange(cache, b"not sent", '"2"') == ('"2"', b"new")


@pytest.mark.parametrize("tag", ["", "\xe9", "a\x7f"])
def test_invalid_etag_is_not_cached(tag: str) -> None:
    cache = ResponseCache()
    exchange(cache, b"x", tag)
    assert exchange(cache, b"y", tag) == ("", b"y")


def test_only_reads_are_kept() -> None:
    cache = ResponseCache()
    exchange(cache, b"x", method="PUT")
    assert exchange(cache, b"y") == ("", b"y")


def test_least_recently_used_response_is_evicted() -> None:
    cache = ResponseCache(limit=20)
    for url in ("http://a/", "http://b/", "http://a/", "http://c/"):
        exchange(cache, b"x" * 10, url=url)
    assert [exchange(cache, b"x" * 10, url=url)[0] for url in ("http://a/", "http://c/")] == ['"1"', '"1"']
    assert exchange(cache, b"x" * 10, url="http://b/")[0] == ""
    assert exchange(cache, b"x" * 21, url="http://d/") == ("", b"x" * 21)
    assert exchange(cache, b"x", url="http://d/")[0] == ""


def test_a_client_asks_again(client: Client) -> None:
    """The client sees every change, whoever made it (R314)."""
    client.put("/schemagroups/kept", {"name": "a"})
    assert [client.get("/schemagroups/kept")["name"] for _ in range(2)] == ["a", "a"]
    with Client(client.base_url) as other:
        other.patch("/schemagroups/kept", {"name": "b"})
    assert client.get("/schemagroups/kept")["name"] == "b"


def test_the_second_answer_is_short(script: Script) -> None:
    script.answers = [(200, {"ETag": '"1"'}, b'{"a": 1}'), (304, {"ETag": '"1"'}, b"")]
    with Client(script.url) as client:
        assert [client.get("/dirs/d1") for _ in range(2)] == [{"a": 1}, {"a": 1}]

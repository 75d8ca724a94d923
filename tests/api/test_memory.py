"""Answers kept in memory: until the store changes, and no more of them than allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from signalbook.api.kernel.caching import ResponseCache
from signalbook.api.kernel.responses import Response
from signalbook.storage import open_store

if TYPE_CHECKING:
    from tests.api.conftest import Client, Serve


def test_an_answer_lasts_as_long_as_its_generation() -> None:
    memory, answer = ResponseCache(), Response(body=b"x")
    assert memory.get("k", 1) is None
    memory.put("k", 1, answer)
    assert memory.get("k", 1) == answer
    assert memory.get("k", 2) is None
    assert memory.get("k", 1) is None


def test_an_answer_made_before_a_change_is_not_kept() -> None:
    memory = ResponseCache()
    memory.get("k", 1)
    memory.get("other", 2)
    memory.put("k", 1, Response(body=b"old"))
    assert memory.get("k", 2) is None


def test_errors_and_large_answers_are_not_kept() -> None:
    memory = ResponseCache()
    for key, answer in (("error", Response(status=404)), ("large", Response(body=b"x" * (1 << 21)))):
        memory.get(key, 1)
        memory.put(key, 1, answer)
        assert memory.get(key, 1) is None


def test_the_oldest_goes_first() -> None:
    memory = ResponseCache(limit=3 * 5000)
    for key in "abcd":
        memory.get(key, 1)
        memory.put(key, 1, Response(body=b"x" * 900))
    assert [key for key in "abcd" if memory.get(key, 1)] == ["b", "c", "d"]


def test_what_another_process_wrote_is_seen(store_url: str, serve: Serve) -> None:
    """Never stale: two applications on one database, each with answers in memory."""
    stores = [open_store(store_url), open_store(store_url)]
    here, there = (serve(store, model="default") for store in stores)
    for number in range(20):
        writer, reader = (here, there) if number % 2 else (there, here)
        writer.put("/schemagroups/g", {"name": f"{number}"})
        for client in (reader, writer, reader):
            assert client.get("/schemagroups/g").json()["name"] == f"{number}"
    for store in stores:
        store.close()


def test_answers_differ_by_host_query_and_form(client: Client) -> None:
    client.put_document("/dirs/d1/files/f1", b"x")
    paths = ("/dirs/d1", "/dirs/d1?inline=files", "/dirs/d1/files/f1", "/dirs/d1/files/f1$details", "/dirs/d1/")
    first = [client.get(path).text for path in paths]
    assert [client.get(path).text for path in paths] == first
    assert len(set(first)) == 4
    assert client.get("/dirs/d1", headers={"Host": "other.example"}).json()["self"] == "http://other.example/dirs/d1"
    assert client.get("/dirs/d1").json()["self"] == "http://r.example/dirs/d1"
    assert client.send("HEAD", "/dirs/d1").content == b""
    assert client.get("/dirs/d1").text == first[0]

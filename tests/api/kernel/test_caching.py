"""Tags, conditions, and the responses kept in memory: never a stale one, never one that is sent twice for nothing."""

import asyncio
import threading
from collections.abc import Hashable, Iterator
from typing import Any

import pytest
from tests.api.conftest import Client, Serve

from signalbook.api.kernel.caching import (
    CachedResponses,
    Freshness,
    OncePerTurn,
    RequestHeaders,
    compute_entity_tag,
    if_modified,
    with_etag,
)
from signalbook.api.kernel.commits import Workers
from signalbook.api.kernel.responses import Response
from signalbook.storage import open_store
from signalbook.storage.base import StorageError

F1 = "/dirs/d1/files/f1"
SHOWN = f"""/ /dirs /dirs/d1 /dirs/d1/files {F1} {F1}$details {F1}/meta {F1}/versions {F1}/versions/1
    {F1}/versions/1$details /model /modelsource /capabilities /capabilitiesoffered /export /?inline=* /.xregistry
    /.well-known/xregistry /events""".split()


def tag(client: Client, path: str, **sent: Any) -> str:
    return str(client.get(path, **sent).headers["ETag"])


@pytest.mark.parametrize("path", SHOWN)
def test_current_etag_is_answered_with_304(client: Client, path: str) -> None:
    """The response has neither body nor length, to GET and HEAD, with and without the memory cache (R314)."""
    client.put_document(F1, b"x", "text/plain")
    first = client.get(path)
    for method in ("GET", "HEAD", "GET"):
        answer = client.send(method, path, headers={"If-None-Match": first.headers["ETag"]})
        assert (answer.status_code, answer.content) == (304, b"")
        assert (answer.headers["ETag"], answer.headers["Cache-Control"]) == (first.headers["ETag"], "no-cache")
        assert not {"Content-Type", "Content-Length"} & set(answer.headers)
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert client.send("HEAD", path).headers["ETag"] == first.headers["ETag"]
    assert client.get(path, headers={"If-None-Match": '"other"'}).content == first.content


@pytest.mark.parametrize(
    ("tags", "status"),
    [
        ("*", 304),
        (" * ", 304),
        ("{}", 304),
        ("W/{}", 304),
        ('"a", {}, "b"', 304),
        ('W/"a",W/{}', 304),
        ('"a"', 200),
        ("", 200),
        ("abc", 200),
        ('"', 200),
    ],
)
def test_lists_of_tags(tags: str, status: int) -> None:
    """RFC9110 13.1.2: any of them, compared weakly."""
    answer = with_etag(Response(body=b"x"))
    headers = [(b"if-none-match", tags.replace("{}", answer.etag).encode())]
    assert if_modified(answer, headers).status == status


def test_a_tag_is_of_body_and_headers() -> None:
    tags = {compute_entity_tag(b"a", *beside) for beside in ((), ("x",), ("x", ""))}
    assert len(tags | {compute_entity_tag(b"b"), '""'}) == 5


CHANGES: dict[str, tuple[str, str, Any]] = {
    "a nested entity": ("PUT", "/dirs/d1/files/f2$details", {}),
    "an attribute": ("PATCH", f"{F1}$details", {"name": "N"}),
    "labels": ("PATCH", f"{F1}$details", {"labels": {"a": "b"}}),
    "another Version": ("PUT", f"{F1}/versions/v9$details", {}),
    "the default Version": ("PATCH", f"{F1}/meta", {"defaultversionid": "1"}),
    "the document": ("PATCH", f"{F1}$details", {"file": "other"}),
    "the content type": ("PATCH", f"{F1}$details", {"contenttype": "text/css"}),
}
SEEN: dict[str, set[str]] = {
    "a nested entity": {"/dirs", "/dirs/d1", "/dirs/d1/files", "/export", "/?inline=dirs.files"},
    "an attribute": {F1, f"{F1}$details", f"{F1}/versions", f"{F1}/versions/1", "/export", "/?inline=dirs.files"},
    "labels": {F1, f"{F1}$details", f"{F1}/versions/1$details"},
    "another Version": {F1, f"{F1}$details", f"{F1}/versions", f"{F1}/meta", "/dirs/d1/files", "/dirs/d2/files/x"},
    "the default Version": {f"{F1}/meta", "/dirs/d2/files/x/meta"},
    "the document": {F1, f"{F1}$details?inline=file", f"{F1}/versions/1", "/export", "/dirs/d2/files/x"},
    "the content type": {F1, f"{F1}/versions/1", "/dirs/d2/files/x"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_etag_changes_with_the_shown_data(client: Client, change: str) -> None:
    """The ETag depends on nested and inlined entities, counts, the default Version and the target of a cross reference
    (R314).
    """
    client.put_document(F1, b"x", "text/plain")
    client.put("/dirs/d2/files/x$details", {"meta": {"xref": F1}})
    before = {path: tag(client, path) for path in SEEN[change]}
    method, path, body = CHANGES[change]
    assert client.send(method, path, json=body).status_code < 300
    assert {path for path in before if tag(client, path) == before[path]} == set()


def test_equal_etags_mean_equal_content(client: Client) -> None:
    """The same tag, the same bytes: after another write to somewhere else, too."""
    client.put_document(F1, b"x")
    first = client.get(F1)
    client.put("/dirs/d9", {})
    again = client.get(F1)
    assert (again.headers["ETag"], again.content) == (first.headers["ETag"], first.content)
    assert not first.headers["ETag"].startswith("W/")


def test_a_document_elsewhere(client: Client) -> None:
    """A document stored elsewhere redirects, and a current ETag is answered with 304 (R157)."""
    client.put_document(F1, b"", fileurl="http://x/y")
    first = client.get(F1)
    assert first.status_code == 303
    assert client.get(F1, headers={"If-None-Match": first.headers["ETag"]}).status_code == 304


@pytest.mark.parametrize("path", ["/dirs/none", "/nope/nope", "/dirs/d1/files/f1/x", "/dirs?inline=.", "/health/live"])
def test_errors_are_not_cacheable(client: Client, path: str) -> None:
    """Caches keep some errors unless the response forbids it (RFC9111 4.2.2)."""
    answer = client.get(path, headers={"If-None-Match": "*"})
    assert answer.status_code != 304
    assert answer.headers["Cache-Control"] == "no-store"
    assert "ETag" not in answer.headers


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_if_match_rejects_changed_entities(client: Client, method: str) -> None:
    """The conditions of HTTP are supported in addition to the epoch (R314, RFC9110 13.1.1)."""
    client.put("/dirs/d1", {})
    etag = tag(client, "/dirs/d1")
    client.put("/dirs/d1/files/f1$details", {})
    answer = client.send(method, "/dirs/d1", json={}, headers={"If-Match": etag})
    assert (answer.status_code, answer.json()["type"]) == (412, "about:blank")
    assert "If-Match" in answer.json()["detail"]
    assert client.send(method, "/dirs/d1", json={}, headers={"If-Match": tag(client, "/dirs/d1")}).status_code < 300


@pytest.mark.parametrize(
    ("header", "value", "there", "status"),
    [
        ("If-Match", "*", True, 200),
        ("If-Match", "*", False, 412),
        ("If-Match", 'W/"x"', True, 412),
        ("If-None-Match", "*", True, 412),
        ("If-None-Match", "*", False, 201),
        ("If-None-Match", '"x"', True, 200),
    ],
)
def test_conditions_of_a_write(client: Client, header: str, value: str, there: bool, status: int) -> None:
    """RFC9110 13.1.1, 13.1.2: update only, create only."""
    if there:
        client.put("/dirs/d1", {})
    assert client.put("/dirs/d1", {"name": "N"}, headers={header: value}).status_code == status
    stored = client.get("/dirs/d1")
    assert (stored.status_code == 200 and stored.json().get("name") == "N") == (status < 300)


def test_a_weak_tag_is_not_enough_to_write(client: Client) -> None:
    client.put("/dirs/d1", {})
    assert client.put("/dirs/d1", {}, headers={"If-Match": f"W/{tag(client, '/dirs/d1')}"}).status_code == 412


def test_an_answer_lasts_as_long_as_its_generation() -> None:
    memory, answer = CachedResponses(), Response(body=b"x")
    assert memory.get("k", 1) is None
    memory.put("k", 1, answer)
    assert memory.get("k", 1) == answer
    assert memory.get("k", 2) is None
    assert memory.get("k", 1) is None


def test_old_answers_errors_and_large_answers_are_not_kept() -> None:
    memory = CachedResponses()
    memory.get("k", 1)
    memory.get("other", 2)
    memory.put("k", 1, Response(body=b"old"))
    assert memory.get("k", 2) is None
    for key, answer in (("error", Response(status=404)), ("large", Response(body=b"x" * (1 << 21)))):
        memory.get(key, 2)
        memory.put(key, 2, answer)
        assert memory.get(key, 2) is None


def test_oldest_answer_is_evicted_first() -> None:
    memory = CachedResponses(limit=3 * 5500)
    for key in "abcd":
        memory.get(key, 1)
        memory.put(key, 1, Response(body=b"x" * 900))
    assert [key for key in "abcd" if memory.get(key, 1)] == ["b", "c", "d"]


def test_an_answer_that_outlasts_others_of_its_key_is_for_its_own_headers() -> None:
    """The oldest answer goes; the one made without the header must not be taken for one that depends on none."""
    memory = CachedResponses(limit=3 * 5500)
    memory.get("a", 1)
    body = b"x" * 900
    for headers in ([(b"x", b"1")], []):
        memory.put("a", 1, Response(body=body), headers, names_read={b"x"})
    for key in "bc":
        memory.put(key, 1, Response(body=body))
    assert memory.get("a", 1, [(b"x", b"2")]) is None


def test_changes_of_another_process_are_visible(store_url: str, serve: Serve) -> None:
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


class Slow:
    """A generation that is returned when it is let, and what it was when it was asked."""

    def __init__(self) -> None:
        self.now = 0
        self.asked = 0
        self.begun = threading.Semaphore(0)
        self.let = threading.Semaphore(0)

    def __call__(self) -> int:
        seen, self.asked = self.now, self.asked + 1
        self.begun.release()
        assert self.let.acquire(timeout=300)
        return seen


@pytest.fixture
def workers() -> Iterator[Workers]:
    pool = Workers(threads=2, timeout=300)
    yield pool
    pool.close()


def test_late_caller_waits_for_the_next_check(workers: Workers) -> None:
    store = Slow()

    async def run() -> None:
        freshness = Freshness(store, workers)
        early = asyncio.create_task(freshness.now())
        await asyncio.to_thread(store.begun.acquire)
        store.now = 1  # committed after the first question
        late = [asyncio.create_task(freshness.now()) for _ in range(20)]
        await asyncio.sleep(0)
        store.let.release(2)
        assert await early == 0
        assert await asyncio.gather(*late) == [1] * 20

    asyncio.run(run())
    assert store.asked == 2


def test_cancelled_caller_does_not_cancel_the_others(workers: Workers) -> None:
    store = Slow()

    async def run() -> None:
        freshness = Freshness(store, workers)
        gone, stays = (asyncio.create_task(freshness.now()) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        store.let.release()
        assert await stays == 0

    asyncio.run(run())


def test_failing_check_fails_for_its_callers(workers: Workers) -> None:
    fail = True

    def ask() -> Hashable:
        return 1 // (0 if fail else 1)

    async def run() -> None:
        nonlocal fail
        freshness = Freshness(ask, workers)
        with pytest.raises(ZeroDivisionError):
            await freshness.now()
        fail = False
        assert await freshness.now() == 1

    asyncio.run(run())


def test_one_question_serves_a_turn_of_the_event_loop() -> None:
    """Callers in a later turn ask again, because a client may know of a commit by then."""
    answers: Iterator[Hashable] = iter([1, 2, StorageError("it is away"), 3])

    def ask() -> Hashable:
        answer = next(answers)
        if isinstance(answer, StorageError):
            raise answer
        return answer

    async def scenario() -> None:
        generation = OncePerTurn(ask)

        async def request() -> object:
            return generation()

        assert await asyncio.gather(*(request() for _ in range(3))) == [1, 1, 1]
        assert await asyncio.gather(*(request() for _ in range(3))) == [2, 2, 2]
        await asyncio.sleep(0)
        with pytest.raises(StorageError):
            generation()
        assert generation() == 3

    asyncio.run(scenario())


def answer_with(cache: CachedResponses, headers: dict[str, str], *names: str) -> str:
    """Answer a request from memory, else by a handler that shows the values of the headers ``names``."""
    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    response = cache.get("key", 1, sent)
    if response is None:
        request = RequestHeaders(sent)
        values = ",".join(f"{name}={request.values(name)}" for name in names)
        response = Response(body=f"made {values}".encode())
        cache.put("key", 1, response, sent, names_read=request.names_read)
        return f"new: {values}"
    return response.body.decode()


def test_an_answer_holds_for_requests_with_the_same_headers_that_were_looked_at() -> None:
    cache = CachedResponses()
    assert answer_with(cache, {"a": "1", "b": "1"}, "A") == "new: A=['1']"
    assert answer_with(cache, {"a": "1", "b": "2"}, "A") == "made A=['1']"
    assert answer_with(cache, {"b": "1"}, "A") == "new: A=[]"
    # An answer that looks at more headers leaves those before it in peace.
    assert answer_with(cache, {"a": "2", "b": "1"}, "A", "b") == "new: A=['2'],b=['1']"
    assert answer_with(cache, {"a": "2", "b": "2"}, "A", "b") == "new: A=['2'],b=['2']"
    assert answer_with(cache, {"a": "2", "b": "1"}, "A", "b") == "made A=['2'],b=['1']"


def test_a_handler_that_looks_at_all_headers_answers_those_alone() -> None:
    cache, headers = CachedResponses(), RequestHeaders([(b"a", b"1")])
    assert list(headers) == [(b"a", b"1")]
    cache.put("key", None, Response(), headers, names_read=headers.names_read)
    assert cache.get("key", None, [(b"a", b"1")]) is not None
    assert cache.get("key", None, [(b"a", b"1"), (b"b", b"1")]) is None


def test_conditions_are_no_part_of_an_answer() -> None:
    headers = RequestHeaders([(b"if-match", b"1"), (b"a", b"1")])
    assert headers.conditions == ((b"if-match", b"1"),)
    assert not headers.names_read

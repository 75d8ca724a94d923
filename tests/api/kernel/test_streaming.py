"""Large answers: begun before they are complete, the same bytes as small ones, nothing left of those nobody fetches."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from tests.api.conftest import Client, Serve

from signalbook.api.kernel import streaming
from signalbook.api.kernel.responses import Response
from signalbook.api.kernel.streaming import Abandoned, SpooledResponse
from signalbook.storage.store import Store

LARGE = Response(headers=(("X", "large"),))
Messages = list[dict[str, Any]]
TIMEOUT = 300.0


@pytest.fixture
def filled(client: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A registry that is large: an answer begins at 5,000 bytes."""
    monkeypatch.setattr(streaming, "_LARGE", 5000)
    files = {f"f{n}": {"file": {"n": n}, "description": "x" * 200} for n in range(30)}
    assert client.send("POST", "/dirs/d1", json={"files": files}).status_code == 200
    return client


@pytest.mark.parametrize(
    "path", ["/export", "/?inline=*", "/dirs?inline=files", "/dirs/d1/files", "/dirs/d1?inline=*&doc"]
)
def test_large_and_small_are_the_same(filled: Client, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only difference is the length, which is not known yet for large responses (R22, R274)."""
    large = filled.get(path)
    assert "Content-Length" not in large.headers
    monkeypatch.setattr(streaming, "_LARGE", 1 << 30)
    small = filled.get(path)
    assert small.headers["Content-Length"] == str(len(large.content))
    assert (large.status_code, large.content) == (small.status_code, small.content)
    assert large.headers["Content-Type"] == small.headers["Content-Type"]


def test_unchanged_large_response_is_not_modified(filled: Client) -> None:
    """The response is 304 without being built again until something changes, also to HEAD (R314)."""
    tag = filled.get("/export").headers["ETag"]
    for method in ("GET", "HEAD"):
        answer = filled.send(method, "/export", headers={"If-None-Match": tag})
        assert (answer.status_code, answer.headers["ETag"], answer.content) == (304, tag, b"")
    assert filled.send("HEAD", "/export").headers["ETag"] == tag
    filled.put("/dirs/d2", {})
    assert filled.get("/export", headers={"If-None-Match": tag}).json()["dirscount"] == 2
    assert filled.get("/export", headers={"Host": "other.example"}).headers["ETag"] != tag


def test_no_more_large_answers_than_threads(store: Store, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each large response occupies a file (R312)."""
    monkeypatch.setattr(streaming, "_LARGE", 100)
    client = serve(store, threads=1)
    assert [answer.status_code for answer in client.together(("GET", "/export", None))] == [200]
    statuses = [answer.status_code for answer in client.together(*[("GET", "/export", None)] * 8)]
    assert set(statuses) <= {200, 503}
    assert 200 in statuses


@pytest.mark.parametrize("path", ["/?inline=nope", "/dirs/none?inline=files", "/dirs/d1/files/f1/x?inline=*"])
def test_errors_are_reported_before_streaming_begins(filled: Client, path: str) -> None:
    assert filled.get(path).status_code in (400, 404)


def run(use: Callable[[SpooledResponse, Messages], Awaitable[None]]) -> Messages:
    """Return the messages sent for a response whose body ``use`` produces."""
    sent: Messages = []

    async def main() -> None:
        await use(SpooledResponse(timeout=TIMEOUT), sent)

    asyncio.run(main())
    return sent


async def deliver(
    spool: SpooledResponse,
    sent: Messages,
    pieces: Iterator[bytes],
    *,
    method: str = "GET",
    gone: bool = False,
    read: Callable[[], Awaitable[None]] | None = None,
) -> Any:
    """Make and send at once; returns what making it came to. The client reads parts of the body by ``read``."""

    async def receive() -> Any:
        if not gone:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        await (read() if read and "body" in message else asyncio.sleep(0))

    making = asyncio.get_running_loop().run_in_executor(None, spool.fill, Response(), LARGE, pieces)
    await asyncio.wait([making, spool.begun], return_when=asyncio.FIRST_COMPLETED)
    if spool.begun.done():
        await spool.send({"type": "http", "method": method}, receive, send)
    return (await asyncio.gather(making, return_exceptions=True))[0]


def many(count: int, end: Exception | None = None) -> Iterator[bytes]:
    for n in range(count):
        yield b"%07d\n" % n
    if end:
        raise end


def test_a_small_body_stays_in_memory() -> None:
    async def use(spool: SpooledResponse, sent: Messages) -> None:
        assert (await deliver(spool, sent, many(10))).body == b"".join(many(10))

    assert run(use) == []


def test_a_large_body_arrives() -> None:
    async def use(spool: SpooledResponse, sent: Messages) -> None:
        assert await deliver(spool, sent, many(300_000)) is LARGE

    sent = run(use)
    assert sent[0]["headers"] == [(b"x", b"large")]
    assert b"".join(message.get("body", b"") for message in sent) == b"".join(many(300_000))
    assert [message.get("more_body", False) for message in sent[1:]] == [True] * (len(sent) - 2) + [False]


@pytest.mark.parametrize("count", [10, 300_000])
def test_failure_aborts_the_response(count: int) -> None:
    """The connection of a large answer ends without the last part, so that nobody takes it for all."""

    async def use(spool: SpooledResponse, sent: Messages) -> None:
        assert isinstance(await deliver(spool, sent, many(count, ZeroDivisionError())), ZeroDivisionError)

    sent = run(use)
    assert sent[-1]["more_body"] if count > 10 else sent == []


@pytest.mark.parametrize(("method", "gone"), [("HEAD", False), ("GET", True)])
def test_abandoned_stream_stops(method: str, gone: bool) -> None:
    """The thread stops soon after."""

    async def use(spool: SpooledResponse, sent: Messages) -> None:
        assert isinstance(await deliver(spool, sent, many(1 << 60), method=method, gone=gone), Abandoned)

    assert len(run(use)) < 100


def test_client_that_does_not_read_is_disconnected() -> None:
    """The connection ends when its time is over, and the work with it."""

    async def use(spool: SpooledResponse, sent: Messages) -> None:
        loop = asyncio.get_running_loop()
        real = loop.time

        async def read() -> None:
            loop.time = lambda: real() + TIMEOUT  # type: ignore[method-assign]
            await asyncio.Event().wait()

        assert isinstance(await deliver(spool, sent, many(1 << 60), read=read), Abandoned)

    assert [message.get("more_body") for message in run(use)] == [None, True]

"""The change feed as a stream, spoken to as an ASGI server does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from starlette.applications import Starlette

from signalbook.access import tokens
from signalbook.api.app import create_app
from signalbook.api.kernel import admission
from signalbook.engine.engine import Engine
from signalbook.settings import Settings
from signalbook.storage.store import Store
from signalbook.values import JSONObject, now, parse_json

from .conftest import ADMINISTRATOR, MODEL, PROXIED, put_policy

Body = Callable[["Reader"], Awaitable[None]]
PATIENCE = 300


class Reader:
    """A listener: the events that it received so far, and the connection to the server."""

    def __init__(self, app: Starlette) -> None:
        self._app = app
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://r.example")
        self.start: JSONObject = {}
        self.text = b""
        self.over: asyncio.Task[None] | None = None
        self._grown = asyncio.Condition()
        self._hung_up = asyncio.Event()

    @asynccontextmanager
    async def listening(self, headers: dict[str, str] | None = None, **query: Any) -> AsyncIterator[None]:
        """Ask for the stream; at the end hang up, and see that the server takes notice."""
        self.text = b""
        header_values = {"accept": "text/event-stream", "host": "r.example", **(headers or {})}
        scope = {
            "type": "http", "method": "GET", "path": "/events", "scheme": "http", "http_version": "1.1",
            "client": ("127.0.0.1", 1),
            "query_string": urlencode(query, doseq=True).encode(),
            "headers": [(name.encode(), value.encode()) for name, value in header_values.items()],
        }  # fmt: skip
        self._hung_up.clear()
        self.over = task = asyncio.create_task(self._app(scope, self._receive, self._send))
        try:
            yield
        finally:
            self._hung_up.set()
            await asyncio.wait_for(task, timeout=PATIENCE)

    async def _receive(self) -> JSONObject:
        await self._hung_up.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        async with self._grown:
            if message["type"] == "http.response.start":
                self.start = message
            self.text += message.get("body", b"")
            self._grown.notify_all()

    async def until(self, enough: Callable[[], bool]) -> None:
        """Wait for what is to come."""
        async with asyncio.timeout(PATIENCE), self._grown:
            await self._grown.wait_for(enough)

    @property
    def events(self) -> list[JSONObject]:
        """The CloudEvents so far."""
        return [parse_json(line[6:]) for line in self.text.splitlines() if line.startswith(b"data: ")]

    @property
    def subjects(self) -> list[str]:
        return [event["subject"] for event in self.events]

    @property
    def position(self) -> str:
        """The last id that was sent: what a browser sends as Last-Event-ID."""
        return [line[4:] for line in self.text.splitlines() if line.startswith(b"id: ")][-1].decode()


@pytest.fixture
def run(store: Store) -> Callable[[Body], None]:
    """Run a listener's story against an application over each database."""

    async def tell(body: Body) -> None:
        settings = Settings(model="empty", allow_hosts=("r.example",), **PROXIED)
        app = create_app(Engine(store, settings=settings), settings, direct=False, close=lambda: None)
        async with app.router.lifespan_context(app):
            reader = Reader(app)
            await reader.http.put("/modelsource", json=MODEL)
            await body(reader)
            await reader.http.aclose()

    return lambda body: asyncio.run(tell(body))


def test_stream_begins_with_history_and_continues_live(run: Callable[[Body], None]) -> None:
    """The stream sends the history first, then each change once it is committed (R293 to R296)."""

    async def story(reader: Reader) -> None:
        await reader.http.put("/dirs/d1", json={})
        async with reader.listening():
            await reader.until(lambda: "/dirs/d1" in reader.subjects)
            assert dict(reader.start["headers"])[b"content-type"].startswith(b"text/event-stream")
            await reader.http.put("/dirs/d2", json={})
            await reader.until(lambda: "/dirs/d2" in reader.subjects)
        ids = [int(event["id"]) for event in reader.events]
        assert ids == sorted(set(ids))
        assert reader.events == (await reader.http.get("/events")).json()

    run(story)


def test_going_on_where_the_line_broke(run: Callable[[Body], None]) -> None:
    async def story(reader: Reader) -> None:
        async with reader.listening():
            await reader.until(lambda: "/" in reader.subjects)
            await reader.until(lambda: reader.text.endswith(b"\n\n"))
            last = reader.position
        await reader.http.put("/dirs/d1", json={})
        async with reader.listening({"last-event-id": last}):
            await reader.until(lambda: len(reader.events) == 2)
            assert reader.subjects == ["/", "/dirs/d1"]

    run(story)


def test_filtered_events_advance_the_position(run: Callable[[Body], None]) -> None:
    """A client that reconnects continues after the events that its filter hides (D-29)."""

    async def story(reader: Reader) -> None:
        async with reader.listening(filter=["subject LIKE '/dirs/%'", '{"suffix": {"type": "group.created"}}']):
            await reader.http.put("/dirs/d1", json={"name": "x"})
            await reader.http.patch("/dirs/d1", json={"name": "y"})
            await reader.until(lambda: reader.subjects == ["/dirs/d1"])
            newest = (await reader.http.get("/events")).json()[-1]["id"]
            await reader.until(lambda: reader.position == newest)
            assert reader.subjects == ["/dirs/d1"]

    run(story)


def test_invalid_stream_request_is_rejected(run: Callable[[Body], None]) -> None:
    async def story(reader: Reader) -> None:
        queries: list[dict[str, Any]] = [{"filter": "subject LIKE"}, {"after": "x"}]
        for query in queries:
            async with reader.listening(**query):
                await reader.until(lambda: bool(reader.text))
            assert reader.start["status"] == 400

    run(story)


def test_new_policy_applies_to_open_streams(
    run: Callable[[Body], None], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a server asks a database across a network is taken as it is for that long.
    monkeypatch.setattr(admission, "_RECENT", 1e-6)

    async def story(reader: Reader) -> None:
        put_policy(store, {"who": ["subject:ann"], "allow": ["read"], "on": ["/dirs/a*"]})
        async with reader.listening({"x-user": "ann"}):
            await reader.http.put("/dirs/b1", json={}, headers=ADMINISTRATOR)
            await reader.http.put("/dirs/a1", json={}, headers=ADMINISTRATOR)
            await reader.until(lambda: "/dirs/a1" in reader.subjects)
            put_policy(store, {"who": ["subject:ann"], "allow": ["read"], "on": ["/dirs/c*"]})
            await reader.http.put("/dirs/a2", json={}, headers=ADMINISTRATOR)
            await reader.http.put("/dirs/c1", json={}, headers=ADMINISTRATOR)
            await reader.until(lambda: "/dirs/c1" in reader.subjects)
            assert {subject for subject in reader.subjects if "/dirs/" in subject} == {"/dirs/a1", "/dirs/c1"}
            put_policy(store)
            assert reader.over is not None
            await asyncio.wait_for(asyncio.shield(reader.over), timeout=PATIENCE)

    run(story)


def test_revoked_token_ends_its_stream(run: Callable[[Body], None], store: Store) -> None:
    async def story(reader: Reader) -> None:
        put_policy(store, {"who": ["subject:bot"], "role": "reader"})
        with store.write() as transaction:
            token, text = tokens.create(transaction.tokens, tokens.TokenRequest(subject="bot"), now())
        async with reader.listening({"authorization": f"Bearer {text}"}):
            await reader.until(lambda: "/" in reader.subjects)
            with store.write() as transaction:
                transaction.tokens.remove(token.id)
            assert reader.over is not None
            await asyncio.wait_for(asyncio.shield(reader.over), timeout=PATIENCE)

    run(story)

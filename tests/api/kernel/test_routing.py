"""Paths beside the registry's own: the feed, health and discovery."""

import asyncio
import threading
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient

from signalbook.engine.engine import Batch, Engine
from signalbook.server import build
from signalbook.settings import Settings
from signalbook.storage.store import open_store

PATHS = ("/events", "/health/live", "/health/ready", "/.well-known/xregistry")


@pytest.mark.parametrize("path", PATHS)
def test_methods_are_reported(client: Any, path: str) -> None:
    """R138, R315."""
    for answer in (client.send("OPTIONS", path), client.send("OPTIONS", f"{path}/")):
        assert (answer.status_code, answer.headers["Allow"]) == (200, "GET, HEAD, OPTIONS")
        assert answer.headers["Access-Control-Allow-Methods"] == answer.headers["Allow"]


@pytest.mark.parametrize("path", PATHS)
def test_other_methods_are_rejected_and_a_trailing_slash_is_ignored(client: Any, path: str) -> None:
    """R134, R278, R284."""
    for method in ("POST", "DELETE", "PURGE"):
        answer = client.send(method, path)
        assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")
        assert answer.json()["type"].endswith("#action_not_supported")
        assert "Access-Control-Allow-Origin" not in answer.headers
    assert client.get(f"{path}/").content == client.get(path).content
    answer = client.send("HEAD", path)
    assert (answer.status_code, answer.content) == (200, b"")


def test_stopping_server_answers_503(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server waits for running requests and aborts those that take longer, which used to be answered with 500."""
    url = f"sqlite:///{tmp_path / 'r.db'}"
    begun = threading.Event()
    batch = Engine.batch

    def beginning(engine: Engine) -> AbstractContextManager[Batch]:
        begun.set()
        return batch(engine)

    monkeypatch.setattr(Engine, "batch", beginning)
    app = build(Settings(db=url))

    async def program() -> None:
        client = AsyncClient(transport=ASGITransport(app), base_url="http://localhost")
        async with app.router.lifespan_context(app), client:
            with closing(open_store(url)) as other, other.write():
                write = asyncio.ensure_future(client.put("/schemagroups/g", json={}))
                assert await asyncio.to_thread(begun.wait, 60)
                write.cancel()
                answer = await write
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
            assert "whether the write was kept is unknown" in answer.json()["detail"]
            assert (await client.put("/schemagroups/h", json={})).status_code == 201

    asyncio.run(program())

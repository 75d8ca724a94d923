"""Servers and cables, put away at the end."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.serving import serving_answers

from .servers import PATIENCE, Cable, Server


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start a server, with more options; all are stopped at the end."""
    started: list[Server] = []

    def start(*options: str) -> Server:
        folder = tmp_path / f"server{len(started)}"
        folder.mkdir()
        server = Server(folder=folder, options=options)
        started.append(server)
        server.start()
        return server

    yield start
    for server in started:
        server.end()


@pytest.fixture(scope="session")
def _pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    servers = [Server(folder=tmp_path_factory.mktemp(name)) for name in "abc"]
    for server in servers:
        server.start()
    yield servers
    for server in servers:
        server.end()


@pytest.fixture
def trio(_pool: list[Server]) -> list[Server]:
    """Three servers, emptied: starting them anew for every test would take most of its time.

    Even the numbers that were given there are: through the drafts, what comes again would go on counting (A-19).
    """
    for server in _pool:
        for plural in ("endpoints", "messagegroups", "schemagroups"):
            server.send("DELETE", f"/{plural}")
        with closing(sqlite3.connect(server.folder / "registry.db", timeout=PATIENCE)) as database, database:
            database.execute("DELETE FROM counters WHERE name LIKE 'versions/%'")
    return _pool


@pytest.fixture
def cable() -> Iterator[Callable[[Server], Cable]]:
    """Lay a cable to a server."""
    laid: list[Cable] = []

    def lay(server: Server) -> Cable:
        laid.append(Cable(server.port))
        return laid[-1]

    yield lay
    for one in laid:
        one.close()


@pytest.fixture
def answers() -> Iterator[Callable[[bytes], str]]:
    """A server that answers everything with the same."""
    with ExitStack() as servers:
        yield lambda body: servers.enter_context(serving_answers(lambda *_: (200, {}, body)))

"""Servers and cables, put away at the end."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar

import pytest
from tests.serving import serving_answers

from .servers import PATIENCE, Cable, Server, ServerProcess

S = TypeVar("S", bound=Server)


@contextmanager
def starting(kind: type[S], folder: Path) -> Iterator[Callable[..., S]]:
    """Start servers with more settings, each with a folder in ``folder``, and stop them at the end of the block."""
    with ExitStack() as started:

        def start(**settings: Any) -> S:
            server = kind(folder=Path(mkdtemp(dir=folder)), settings=settings)
            started.callback(server.end)
            server.start()
            return server

        yield start


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start a server in this process."""
    with starting(Server, tmp_path) as start:
        yield start


@pytest.fixture
def serve_process(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Start a server in a process of its own."""
    with starting(ServerProcess, tmp_path) as start:
        yield start


@pytest.fixture(scope="session")
def _pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    with starting(Server, tmp_path_factory.mktemp("pool")) as start:
        yield [start() for _ in "abc"]


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
    for cable_ in laid:
        cable_.close()


@pytest.fixture
def answers() -> Iterator[Callable[[bytes], str]]:
    """A server that answers everything with the same."""
    with ExitStack() as servers:
        yield lambda body: servers.enter_context(serving_answers(lambda *_: (200, {}, body)))

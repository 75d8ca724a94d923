"""A PostgreSQL server for the length of a measurement, durable as it comes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from tests.postgres import Postgres, new_database


@contextmanager
def databases(url: str | None) -> Iterator[Iterator[str]]:
    """URLs of new databases, on the server at ``url`` or on one started for the purpose."""
    if url:
        yield _new(url)
        return
    with tempfile.TemporaryDirectory(prefix="sb-") as folder:
        server = Postgres(Path(folder))
        try:
            yield _new(server.url)
        finally:
            server.stop()


def connect(url: str) -> Any:
    """A connection in autocommit mode."""
    return psycopg.connect(url, autocommit=True)


def _new(url: str) -> Iterator[str]:
    while True:
        yield new_database(url)

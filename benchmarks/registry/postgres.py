"""A PostgreSQL server for the length of a measurement, durable as it comes."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg


@contextmanager
def databases(url: str | None) -> Iterator[Iterator[str]]:
    """URLs of new databases, on the server at ``url`` or on one started for the purpose."""
    if url:
        yield _new(url)
        return
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        raise SystemExit("PostgreSQL's server programs are missing: apt-get install postgresql")
    with tempfile.TemporaryDirectory(prefix="sb-") as name:
        folder = Path(name)
        user = "postgres" if os.geteuid() == 0 else None
        if user:
            shutil.chown(folder, user)
        init: list[str | Path] = [
            programs[-1] / "initdb",
            "-D",
            folder / "data",
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
        ]
        subprocess.run(init, user=user, check=True, stdout=subprocess.DEVNULL, cwd=folder)
        command: list[str | Path] = [
            programs[-1] / "postgres",
            "-D",
            folder / "data",
            "-k",
            folder,
            "-c",
            "listen_addresses=",
        ]
        server = subprocess.Popen(command, user=user, stderr=subprocess.DEVNULL, cwd=folder)
        try:
            yield _new(f"postgresql://postgres@/postgres?host={folder}")
        finally:
            server.terminate()
            server.wait(60)


def connect(url: str) -> Any:
    """A connection in autocommit mode, once the server answers."""
    for _ in range(200):
        try:
            return psycopg.connect(url, autocommit=True)
        except psycopg.OperationalError:
            time.sleep(0.05)
    raise SystemExit(f"no answer from PostgreSQL at {url}")


def _new(url: str) -> Iterator[str]:
    for number in range(100):
        name = f"bench_{os.getpid()}_{number}"
        with connect(url) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        head, _, query = url.partition("?")
        yield f"{head.rpartition('/')[0]}/{name}{'?' if query else ''}{query}"

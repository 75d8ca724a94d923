"""Servers of a test run: each starts once, other processes find it, and it ends with the process that started it."""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url
from tests.brokers import servers
from tests.shared_servers import RemoteServers, SharedServers

from signalbook.demo.kafka import NotInstalled

_SERVES = """
import sys
from tests.shared_servers import SharedServers
print(SharedServers().serve(), flush=True)
sys.stdin.read()
"""


def fails(connect: Callable[[], object]) -> bool:
    try:
        connect()
    except (OSError, psycopg.OperationalError):
        return True
    return False


def test_shared_servers_end_with_a_killed_run() -> None:
    command = [sys.executable, "-c", _SERVES]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=Path(__file__).parents[1], stdin=pipe, stdout=pipe, text=True) as run:
        assert run.stdout is not None
        folder = Path(run.stdout.readline().strip())
        with ThreadPoolExecutor() as pool:
            answers = [pool.submit(RemoteServers(folder).find, name) for name in 4 * ("nats", "postgres")]
        ports, url = answers[0].result(), answers[1].result()
        assert [answer.result() for answer in answers] == 4 * [ports, url]
        connections = [
            lambda: socket.create_connection(("127.0.0.1", ports["plain"])).close(),
            lambda: psycopg.connect(url).close(),
        ]
        assert not any(map(fails, connections))
        run.kill()
    database_folder = Path(str(make_url(url).query["host"]))
    pid_file = database_folder / "data" / "postmaster.pid"  # PostgreSQL removes it last
    deadline = time.monotonic() + 60
    while pid_file.exists() or not all(map(fails, connections)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for folder_left in (folder, database_folder):
        shutil.rmtree(folder_left)


def test_server_that_is_not_installed_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(servers, "METADATA", tmp_path / "absent")
    with (
        closing(SharedServers()) as shared,
        pytest.raises(NotInstalled, match=r"there is no .*/absent: tools/setup test"),
    ):
        RemoteServers(shared.serve()).find("metadata")

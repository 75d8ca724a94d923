"""Deliveries by real server processes: killed in the midst of it, and several of them on one store."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from tests.serving import kept_port

from ..hooks import Hook, serving

DEADLINE = 300
PROGRAM = """
import sys
from signalbook import server
from signalbook.settings import Settings
server._SHUTDOWN_SECONDS = 300  # a server that is slow to stop is not to be killed
server.run(Settings(port=int(sys.argv[1]), db=sys.argv[2], allow_sinks=(sys.argv[3],), base_url="https://r.example"))
"""


@dataclass(frozen=True)
class Server:
    """A server process, with all of its own."""

    url: str
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """kill -9, if it runs"""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE)

    def write(self, name: str) -> bool:
        """Write a group; whether that was acknowledged."""
        try:
            return httpx.put(f"{self.url}/schemagroups/{name}", json={}, timeout=DEADLINE).is_success
        except httpx.TransportError:
            return False

    def subscribe(self, hook: Hook) -> str:
        """The URL of a subscription to created groups, at this server."""
        document: dict[str, Any] = {"protocol": "HTTP", "sink": hook.url, "types": ["io.xregistry.group.created"]}
        answer = httpx.post(f"{self.url}/subscriptions", json=document, timeout=DEADLINE)
        assert answer.status_code == 201, answer.text
        return str(httpx.URL(answer.headers["location"]).path)

    @property
    def delivers(self) -> bool:
        """Return True if this server delivers events."""
        return bool(httpx.get(f"{self.url}/health/ready", timeout=DEADLINE).json()["deliveries"]["delivers"])


Start = Callable[[Hook], Server]


@pytest.fixture
def start(store_url: str) -> Iterator[Start]:
    """Starts servers on one store, on each database, and kills those that are left."""
    with ExitStack() as started:

        def server(hook: Hook) -> Server:
            port = started.enter_context(kept_port())
            command = [sys.executable, "-c", PROGRAM, str(port), store_url, hook.place]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
            started_server = Server(url=f"http://127.0.0.1:{port}", process=process)
            started.callback(started_server.kill)
            until(lambda: _answers(started_server))
            return started_server

        yield server


@pytest.fixture
def hook() -> Iterator[Hook]:
    """A sink that takes everything."""
    with serving(Hook()) as served:
        yield served


def _answers(server: Server) -> bool:
    assert server.process.poll() is None, "the server stopped"
    with suppress(httpx.TransportError):
        return httpx.get(f"{server.url}/health/ready", timeout=DEADLINE).status_code == 200
    return False


def until(is_done: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not is_done():
        assert time.monotonic() < end
        time.sleep(0.02)


def first_times(hook: Hook) -> list[str]:
    return list(dict.fromkeys(hook.subjects))


@pytest.mark.merge
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_server_killed_in_the_midst_loses_nothing(start: Start, hook: Hook) -> None:
    """Every acknowledged change arrives, the first time in order; some arrive twice with the same id."""
    server = start(hook)
    server.subscribe(hook)
    acknowledged = [f"a{number}" for number in range(40) if server.write(f"a{number}")]
    hook.until(lambda: len(hook.subjects) > 10, DEADLINE)
    server.kill()
    server = start(hook)
    acknowledged += [f"b{number}" for number in range(5) if server.write(f"b{number}")]
    expected = [f"/schemagroups/{name}" for name in acknowledged]
    hook.until(lambda: set(expected) <= set(hook.subjects), DEADLINE)
    assert first_times(hook) == expected
    ids_by_subject: dict[str, str] = {}
    for event in (event for got in hook.posts for event in got.events):
        assert ids_by_subject.setdefault(event["subject"], event["id"]) == event["id"]


@pytest.mark.merge
def test_one_of_several_servers_delivers(start: Start, hook: Hook) -> None:
    """Whichever was written to; when it is killed, another takes over with nothing lost"""
    servers = [start(hook), start(hook)]
    servers[0].subscribe(hook)
    until(lambda: any(server.delivers for server in servers))
    holder, other = sorted(servers, key=lambda server: not server.delivers)
    written = [f"a{number}" for number in range(10)]
    assert all(servers[number % 2].write(name) for number, name in enumerate(written))
    hook.until(lambda: len(first_times(hook)) >= 10, DEADLINE)
    assert first_times(hook) == [f"/schemagroups/{name}" for name in written]
    before, other_delivers, after = (server.delivers for server in (holder, other, holder))
    if before and after:  # one that got no time for longer than its lease lasts has lost it
        assert not other_delivers
        assert len(hook.subjects) == 10
    holder.kill()
    written += [f"b{number}" for number in range(5) if other.write(f"b{number}")]
    hook.until(lambda: len(first_times(hook)) >= 15, DEADLINE)
    assert first_times(hook) == [f"/schemagroups/{name}" for name in written]
    until(lambda: other.delivers)


@pytest.mark.merge
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_stopping_server_hands_over_at_once(start: Start, hook: Hook) -> None:
    """The server finishes running attempts, stores its position and releases the lease: nothing is sent twice."""
    server = start(hook)
    path = server.subscribe(hook)
    assert all(server.write(f"a{number}") for number in range(10))
    hook.until(lambda: len(hook.subjects) >= 10, DEADLINE)
    server.process.terminate()
    assert server.process.wait(DEADLINE) == 0
    server = start(hook)
    assert httpx.get(f"{server.url}{path}", timeout=DEADLINE).json()["status"]["delivered"] == 10
    assert server.write("b0")
    hook.until(lambda: "/schemagroups/b0" in hook.subjects, DEADLINE)
    assert len(hook.subjects) == 11

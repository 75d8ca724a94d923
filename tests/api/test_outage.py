"""A server whose PostgreSQL goes away, comes back, or is not there at first."""

import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from sqlalchemy import make_url
from tests.serving import BIN, answers, kept_port

GROUP = "/schemagroups/g"


class Proxy:
    """A proxy between a server and its database, with a port of its own; it is ``up`` or ``down``."""

    def __init__(self, port: int, target: str) -> None:
        self._port = port
        self._target = target
        self._open: list[socket.socket] = []
        self._listening: socket.socket | None = None

    def up(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", self._port), reuse_port=False)
        threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def down(self) -> None:
        for sock in (self._listening, *self._open):
            if sock is not None:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
                sock.close()
        self._open.clear()

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target)
                self._open += [client, server]
                for origin, other in ((client, server), (server, client)):
                    threading.Thread(target=self._copy, args=(origin, other), daemon=True).start()

    def _copy(self, origin: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := origin.recv(1 << 16):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)


@contextmanager
def starting(folder: Path, port: int, db: str) -> Iterator[str]:
    """The URL of a server that need not be ready yet; what it logs goes to ``folder / "log"``."""
    command = [str(BIN / "signalbook"), "serve", "--port", str(port), "--db", db]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=log)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def refused(url: str) -> None:
    """Whatever is asked, the server says when to try again, and nothing of its database."""
    for method, path in (("GET", GROUP), ("PUT", GROUP), ("GET", "/"), ("GET", "/events"), ("GET", "/health/ready")):
        answer = httpx.request(method, url + path, json={} if method == "PUT" else None, timeout=60)
        assert answer.status_code == 503, (path, answer.text)
        for secret in ("postgres", "127.0.0.1:", "s3cret", "/tmp", "Traceback"):
            assert secret not in answer.text.replace(url, ""), (path, answer.text)
        if path != "/health/ready":
            assert int(answer.headers["Retry-After"]) > 0
    assert httpx.get(f"{url}/health/live", timeout=60).status_code == 200


def ready(url: str) -> None:
    deadline = time.monotonic() + 60
    while not answers(url):
        assert time.monotonic() < deadline


@pytest.fixture
def proxy(postgres_database: str) -> Iterator[tuple[Proxy, str]]:
    """Yield a proxy that is down, and the URL of the database through it."""
    real = make_url(postgres_database)
    with kept_port() as port:
        proxy = Proxy(port, f"{real.query['host']}/.s.PGSQL.5432")
        through = real.set(host="127.0.0.1", port=port, query={}, password="s3cret")
        yield proxy, through.render_as_string(hide_password=False)
        proxy.down()


@pytest.mark.merge
def test_an_outage(proxy: tuple[Proxy, str], tmp_path: Path) -> None:
    between, db = proxy
    with kept_port() as port, starting(tmp_path, port, db) as url:
        deadline = time.monotonic() + 60
        while True:
            with suppress(httpx.TransportError):
                httpx.get(f"{url}/health/live", timeout=60)
                break
            assert time.monotonic() < deadline
            time.sleep(0.05)
        refused(url)
        between.up()
        ready(url)
        assert httpx.put(url + GROUP, json={}, timeout=60).status_code == 201
        for _ in range(2):
            between.down()
            refused(url)
            refused(url)
            between.up()
            ready(url)
            assert httpx.get(url + GROUP, timeout=60).status_code == 200
            assert httpx.put(url + GROUP, json={"name": "n"}, timeout=60).status_code == 200
    log = (tmp_path / "log").read_text()
    assert "Traceback" not in log
    assert "s3cret" not in log
    assert log.count("the database is away") == 2, log
    assert log.count("the database is back") == 2, log
    assert len(log.splitlines()) < 12, log

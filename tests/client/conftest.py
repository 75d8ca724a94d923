"""Servers to talk to: a whole registry, and one that answers as a test says."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import sleep

import pytest
import uvicorn

from signalbook.client import Client
from signalbook.server import build
from signalbook.settings import Settings


@pytest.fixture(scope="module")
def registry_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry with the shipped model, on a real socket."""
    folder: Path = tmp_path_factory.mktemp("registry")
    settings = Settings(db=f"sqlite:///{folder / 'registry.db'}", sink_folder=str(folder / "sinks"))
    # Connections stay open: one that the server closes just when a request comes takes that along.
    server = uvicorn.Server(uvicorn.Config(build(settings), port=0, log_level="warning", timeout_keep_alive=300))
    thread = Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def client(registry_url: str) -> Iterator[Client]:
    """A client of that registry."""
    with Client(registry_url) as client:
        yield client


@dataclass
class Script:
    """What a server answers, (status, headers, body) by turns, the last one for ever; what was asked, by whom."""

    url: str = ""
    answers: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)


@pytest.fixture
def script() -> Iterator[Script]:
    """A server that answers as a test writes down."""
    script = Script()

    class Handler(BaseHTTPRequestHandler):
        def response(self) -> None:
            script.asked.append(f"{self.command} {self.path}")
            script.users.append(b64decode(self.headers.get("Authorization", "").partition(" ")[2]).decode())
            self.rfile.read(int(self.headers.get("content-length") or 0))
            status, headers, body = script.answers.pop(0) if len(script.answers) > 1 else script.answers[0]
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = response  # noqa: N815 - names the base class looks for

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_port}"
    yield script
    server.shutdown()
    thread.join()
    server.server_close()

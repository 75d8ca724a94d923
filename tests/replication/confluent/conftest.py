"""Registries that answer as they are told, and as those of other makes do, put away at the end."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.replication.servers import HTTP

Answering = Callable[[Mapping[str, Any]], str]
Change = Callable[[str, int, Any], tuple[int, Any]]
"""What becomes of the answer to a path with its query, of its status and its JSON."""
NOT_FOUND = {"error_code": 404, "message": "HTTP 404 Not Found"}


class Handler(BaseHTTPRequestHandler):
    """Answers JSON."""

    def found(self) -> tuple[int, Any]:
        """Status and JSON."""
        raise NotImplementedError

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, value = self.found()
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def _start() -> Iterator[Callable[[type[Handler]], str]]:
    started: list[ThreadingHTTPServer] = []

    def start(handler: type[Handler]) -> str:
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        started.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


@pytest.fixture
def answering(_start: Callable[[type[Handler]], str]) -> Answering:
    """A server with these answers by path; to what is written, that of ``*``, and else nothing."""

    def start(answers: Mapping[str, Any]) -> str:
        class Answers(Handler):
            def found(self) -> tuple[int, Any]:
                name = self.path.partition("?")[0] if self.command == "GET" else "*"
                return (200, answers[name]) if name in answers else (404, NOT_FOUND)

        return _start(Answers)

    return start


@pytest.fixture
def changing(_start: Callable[[type[Handler]], str]) -> Callable[[str, Change], str]:
    """A registry that has what the one at a URL has, and shows it as others do."""

    def start(url: str, change: Change) -> str:
        class Changes(Handler):
            def found(self) -> tuple[int, Any]:
                real = HTTP.get(url + self.path)
                return change(self.path, real.status_code, real.json())

        return _start(Changes)

    return start

"""Registries that answer as they are told, put away at the end."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

Answering = Callable[[Mapping[str, Any]], str]


@pytest.fixture
def answering() -> Iterator[Answering]:
    """A server with these answers by path; there is nothing else."""
    started: list[ThreadingHTTPServer] = []

    def start(answers: Mapping[str, Any]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                body = json.dumps(answers.get(path, {"error_code": 404, "message": "HTTP 404 Not Found"})).encode()
                self.send_response(200 if path in answers else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        started.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in started:
        server.shutdown()
        server.server_close()

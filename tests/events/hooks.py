"""Web hooks to deliver to: real servers on this machine that do what a test says, and remember what they got."""

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from signalbook.values import JSONObject

DEADLINE = 300


@dataclass(frozen=True)
class Got:
    """A received request; ``headers`` has lower-case names."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @cached_property
    def events(self) -> list[JSONObject]:
        """The CloudEvents in it."""
        parsed = json.loads(self.body)
        return parsed if isinstance(parsed, list) else [parsed]


@dataclass(frozen=True)
class Says:
    """An answer: ``act`` may write to the connection by itself instead, or wait."""

    status: int = 204
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    act: Callable[[BaseHTTPRequestHandler], None] | None = None


AGREES = Says(200, (("WebHook-Allowed-Origin", "*"), ("Allow", "POST")))


class Hook:
    """A sink. It says what ``script`` has for each delivery in turn, then ``always``; ``agrees`` to OPTIONS."""

    def __init__(self, *script: Says, always: Says | None = None, agrees: Says = AGREES) -> None:
        self.got: list[Got] = []
        self.script = list(script)
        self.always = always or Says()
        self.agrees = agrees
        self.url = ""
        self.place = ""
        self._more = threading.Condition()

    @property
    def posts(self) -> list[Got]:
        """Deliveries, whatever was answered."""
        with self._more:
            return [got for got in self.got if got.method != "OPTIONS"]

    @property
    def ids(self) -> list[int]:
        """The ids of all events that came, in their order."""
        return [int(event["id"]) for got in self.posts for event in got.events]

    @property
    def subjects(self) -> list[str]:
        """Return the subjects of the received events."""
        return [event["subject"] for got in self.posts for event in got.events]

    def until(self, enough: Callable[[], bool], deadline: float = DEADLINE) -> None:
        """Wait until enough has come."""
        with self._more:
            assert self._more.wait_for(enough, deadline), [got.path for got in self.got]

    def answer(self, got: Got) -> Says:
        """Return the scripted response to a request."""
        with self._more:
            self.got.append(got)
            self._more.notify_all()
            if got.method == "OPTIONS":
                return self.agrees
            return self.script.pop(0) if self.script else self.always


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hook: Hook
    disable_nagle_algorithm = True

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        says = self.hook.answer(Got(self.command, self.path, headers, body))
        if says.act is not None:
            says.act(self)
            self.close_connection = True
            return
        self.send_response(says.status)
        for name, value in (*says.headers, ("Content-Length", str(len(says.body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(says.body)

    do_POST = do_PUT = do_OPTIONS = do_GET = handle_any  # noqa: N815

    def log_message(self, *_: Any) -> None: ...


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: Any) -> None:
        """A client that hangs up is no error of ours."""


@contextmanager
def reserved(hook: Hook) -> Iterator[socket.socket]:
    """An address of ``hook`` where nobody answers: connections are refused until it is served there."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        _name(hook, bound, "http")
        yield bound


@contextmanager
def serving(hook: Hook, tls: ssl.SSLContext | None = None, at: socket.socket | None = None) -> Iterator[Hook]:
    """Serve ``hook`` at its ``url``, until the end of the block; ``at`` is an address that was ``reserved``."""
    handler = type("Handler", (_Handler,), {"hook": hook})
    with _Server(("127.0.0.1", 0), handler, bind_and_activate=at is None) as server:
        if at is not None:
            server.socket.close()
            server.socket = at
            server.server_activate()
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        _name(hook, server.socket, "https" if tls else "http")
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield hook
        finally:
            server.shutdown()
            thread.join()


def _name(hook: Hook, bound: socket.socket, scheme: str) -> None:
    hook.place = f"localhost:{bound.getsockname()[1]}"
    hook.url = f"{scheme}://{hook.place}/hook"

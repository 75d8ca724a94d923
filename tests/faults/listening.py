"""Those who are told of changes: a reader of the feed, one of the stream, a web hook, a file."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.faults.load import PATIENCE, Client, Ledger


class Told(NamedTuple):
    """A received event with its relevant attributes."""

    id: int
    type: str
    subject: str
    correlation: str

    @classmethod
    def of(cls, event: dict[str, Any]) -> Told:
        """Return the event from its JSON form."""
        return cls(int(event["id"]), event["type"], event["subject"], event["xregcorrelationid"])


class FeedReader(threading.Thread):
    """Reads page after page, through the balancer."""

    def __init__(self, url: str, ledger: Ledger) -> None:
        super().__init__(daemon=True)
        self.told: list[Told] = []
        self.ends_at: int | None = None
        self._client = Client(url, ledger)
        self._ledger = ledger

    def run(self) -> None:
        """Read until the event ``ends_at``."""
        at = 0
        while self.ends_at is None or at < self.ends_at:
            answer = self._client.send("GET", f"/events?after={at}&limit=500")
            if answer.done:
                self.told += map(Told.of, answer.body)
                at = self.told[-1].id if self.told else 0
            elif not answer.refused:
                self._ledger.violation(f"the feed after {at}: {answer.status} {answer.body}")
                break
            time.sleep(0.3)
        self._client.close()


class StreamReader(threading.Thread):
    """Listens to the stream of events, through the balancer, and goes on where it broke."""

    def __init__(self, url: str, ledger: Ledger) -> None:
        super().__init__(daemon=True)
        self.told: list[Told] = []
        self.ends_at: int | None = None
        self.connections = 0
        parts = urlsplit(url)
        self._place = (parts.hostname or "", parts.port or 0)

    def run(self) -> None:
        """Listen until the event ``ends_at`` arrives."""
        while not self._done():
            with suppress(OSError, http.client.HTTPException, ValueError):
                self._listen()
            time.sleep(0.2)

    def _done(self) -> bool:
        return self.ends_at is not None and bool(self.told) and self.told[-1].id >= self.ends_at

    def _listen(self) -> None:
        connection = http.client.HTTPConnection(*self._place, timeout=PATIENCE)
        try:
            headers = {"Accept": "text/event-stream", "Last-Event-ID": str(self.told[-1].id if self.told else 0)}
            connection.request("GET", "/events", headers=headers)
            with connection.getresponse() as response:
                if response.status != 200:
                    return
                self.connections += 1
                while not self._done() and (line := response.readline()):
                    if line.startswith(b"data:"):
                        self.told.append(Told.of(json.loads(line[5:])))
        finally:
            connection.close()


class Hook:
    """A web hook that notes what comes."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.place = ""


@contextmanager
def hook() -> Iterator[Hook]:
    """A web hook at its ``place`` (HOST:PORT), until the end of the block."""
    new_hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_OPTIONS(self) -> None:
            self._say(200, [("WebHook-Allowed-Origin", "*")])

        def do_POST(self) -> None:
            event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            new_hook.told.append(Told.of(event))
            self._say(204, [])

        def _say(self, status: int, headers: list[tuple[str, str]]) -> None:
            self.send_response(status)
            for name, value in [*headers, ("Content-Length", "0")]:
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, *_: Any) -> None:
            """A server that is killed hangs up."""

    with Quiet(("127.0.0.1", 0), Handler) as server:
        new_hook.place = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield new_hook
        finally:
            server.shutdown()


def in_file(path: Path) -> list[Told]:
    """Return the events in a file; an incomplete last line is from a killed writer."""
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    return [Told.of(json.loads(line)) for line in lines[:-1]]

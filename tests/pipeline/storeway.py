"""A way to an S3 server on which requests fail, are lost, repeated or slow, answers end early, listings are old."""

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from typing import Final

_PASSED_ON: Final = (
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "etag",
    "last-modified",
    "x-amz-version-id",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: its ``number`` on this way, starting at 1, its method, path and body."""

    number: int
    method: str
    path: str
    body: bytes = b""

    @property
    def lists(self) -> bool:
        """Return True if the request lists objects."""
        return self.method == "GET" and "list-type=2" in self.path


@dataclass(frozen=True, slots=True)
class Answer:
    """The response of the server."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


Deliver = Callable[[], Answer]
# What becomes of a request: an answer, or none but the end of the connection.
Fate = Callable[[Asked, Deliver], Answer | None]


def delivered(_: Asked, deliver: Deliver) -> Answer:
    """Deliver the request unchanged."""
    return deliver()


def lost(_: Asked, deliver: Deliver) -> None:
    """Deliver the request and lose the response."""
    deliver()


def never_came(_: Asked, __: Deliver) -> None:
    """Lose the request."""


def failing(_: Asked, __: Deliver) -> Answer:
    """The store is overloaded."""
    return Answer(503, (("content-length", "0"),))


def unknown(_: Asked, deliver: Deliver) -> Answer:
    """Deliver the request, and respond as a proxy that does not know the outcome."""
    deliver()
    return Answer(500, (("content-length", "0"),))


def twice(_: Asked, deliver: Deliver) -> Answer:
    """Something sends it again, and tells of the second time."""
    deliver()
    return deliver()


def cut(request: Asked, deliver: Deliver) -> Answer:
    """The connection ends in the midst of what is answered."""
    answer = deliver()
    return answer if request.method == "HEAD" else replace(answer, body=answer.body[: len(answer.body) // 2])


def slow(_: Asked, deliver: Deliver) -> Answer:
    """Deliver the request after a delay."""
    time.sleep(0.3)
    return deliver()


def at_first(fate: Fate, count: int = 2) -> Fate:
    """The same for so many requests, and no more."""
    turns = iter([fate] * count)
    return lambda request, deliver: next(turns, delivered)(request, deliver)


def now_and_then(fate: Fate, every: int = 3) -> Fate:
    """The same for one request in so many."""

    def chosen(request: Asked, deliver: Deliver) -> Answer | None:
        return (fate if request.number % every == 0 else delivered)(request, deliver)

    return chosen


def in_turn(*fates: Fate) -> Fate:
    """Return a fate that applies the fates in turn."""
    turns = cycle(fates)
    return lambda request, deliver: next(turns)(request, deliver)


class OldListings:
    """Listings that tell what was there when they were first asked for, until they are ``let_go``."""

    def __init__(self) -> None:
        self._kept: dict[str, Answer] | None = {}

    def let_go(self) -> None:
        """Return current listings from now on."""
        self._kept = None

    def __call__(self, request: Asked, deliver: Deliver) -> Answer:
        if not request.lists or self._kept is None:
            return deliver()
        return self._kept.get(request.path) or self._kept.setdefault(request.path, deliver())


@dataclass(slots=True)
class StoreWay:
    """A way to the server at ``port``; ``fate`` says what becomes of each request."""

    port: int
    own: int = 0
    fate: Fate = delivered
    count: int = 0
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def number(self) -> int:
        """Return the number of the next request."""
        with self._turn:
            self.count += 1
            return self.count


@contextmanager
def store_way(port: int) -> Iterator[StoreWay]:
    """A way to the S3 server at a port of this machine; conditional writes are made one after the other on it.

    As stores do it: the servers here look first and write then.
    """
    way = StoreWay(port)
    conditional = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))

            def deliver() -> Answer:
                if not {"if-match", "if-none-match"} & {name.lower() for name in self.headers}:
                    return self._ask(body)
                with conditional:
                    return self._ask(body)

            answer = way.fate(Asked(way.number(), self.command, self.path, body), deliver)
            if answer is None:
                self.close_connection = True
                return
            self.send_response_only(answer.status)
            for name, value in answer.headers:
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)
                content_length = dict(answer.headers).get("content-length", "")
                self.close_connection = self.close_connection or len(answer.body) < int(content_length or 0)

        def _ask(self, body: bytes) -> Answer:
            server = http.client.HTTPConnection("127.0.0.1", way.port, timeout=60)
            try:
                # As it came: the name of the host is a part of what was signed.
                server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    server.putheader(name, value)
                server.endheaders(body)
                answer = server.getresponse()
                content = answer.read()
                headers = [(name, value) for name, value in answer.getheaders() if name.lower() in _PASSED_ON]
                if self.command != "HEAD":
                    headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
                    headers.append(("content-length", str(len(content))))
                return Answer(answer.status, tuple(headers), content)
            finally:
                server.close()

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass  # noqa: N815

        def log_message(self, format: str, *args: object) -> None: ...

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128  # with five, clients of a busy machine wait until they give up

        def handle_error(self, request: object, client_address: object) -> None:
            """Ignore the error, because the client is gone."""

    with Server(("127.0.0.1", 0), Handler) as server:
        way.own = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield way
        finally:
            server.shutdown()
            thread.join()

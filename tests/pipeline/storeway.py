"""A way to an S3 server on which requests fail, are lost, repeated or slow, answers end early, listings are old."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from typing import Final

_PASSED_ON: Final = ("content-length", "content-type", "content-range", "etag", "last-modified", "x-amz-version-id")


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: its ``number`` on this way, from 1, its method, path and body."""

    number: int
    method: str
    path: str
    body: bytes = b""

    @property
    def lists(self) -> bool:
        """Whether it asks what is there."""
        return self.method == "GET" and "list-type=2" in self.path


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server answered."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


Deliver = Callable[[], Answer]
# What becomes of a request: an answer, or none but the end of the connection.
Fate = Callable[[Asked, Deliver], Answer | None]


def delivered(_: Asked, deliver: Deliver) -> Answer:
    """As it should be."""
    return deliver()


def lost(_: Asked, deliver: Deliver) -> None:
    """It was done, and nobody is told."""
    deliver()


def never_came(_: Asked, __: Deliver) -> None:
    """It was not done."""


def failing(_: Asked, __: Deliver) -> Answer:
    """The store is overloaded."""
    return Answer(503, (("content-length", "0"),))


def unknown(_: Asked, deliver: Deliver) -> Answer:
    """It was done, and what stands before the store does not know."""
    deliver()
    return Answer(500, (("content-length", "0"),))


def twice(_: Asked, deliver: Deliver) -> Answer:
    """Something sends it again, and tells of the second time."""
    deliver()
    return deliver()


def cut(asked: Asked, deliver: Deliver) -> Answer:
    """The connection ends in the midst of what is answered."""
    answer = deliver()
    return answer if asked.method == "HEAD" else replace(answer, body=answer.body[: len(answer.body) // 2])


def slow(_: Asked, deliver: Deliver) -> Answer:
    """It takes a while."""
    time.sleep(0.3)
    return deliver()


def at_first(fate: Fate, count: int = 2) -> Fate:
    """The same for so many requests, and no more."""
    turns = iter([fate] * count)
    return lambda asked, deliver: next(turns, delivered)(asked, deliver)


def now_and_then(fate: Fate, every: int = 3) -> Fate:
    """The same for one request in so many."""

    def chosen(asked: Asked, deliver: Deliver) -> Answer | None:
        return (fate if asked.number % every == 0 else delivered)(asked, deliver)

    return chosen


def in_turn(*fates: Fate) -> Fate:
    """One after the other."""
    turns = cycle(fates)
    return lambda asked, deliver: next(turns)(asked, deliver)


class OldListings:
    """Listings that tell what was there when they were first asked for, until they are ``let_go``."""

    def __init__(self) -> None:
        self._kept: dict[str, Answer] | None = {}

    def let_go(self) -> None:
        """From now on they tell what is there."""
        self._kept = None

    def __call__(self, asked: Asked, deliver: Deliver) -> Answer:
        if not asked.lists or self._kept is None:
            return deliver()
        return self._kept.get(asked.path) or self._kept.setdefault(asked.path, deliver())


@dataclass(slots=True)
class StoreWay:
    """A way to the server at ``port``; ``fate`` says what becomes of each request."""

    port: int
    own: int = 0
    fate: Fate = delivered
    count: int = 0
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def number(self) -> int:
        """That of the next request."""
        with self._turn:
            self.count += 1
            return self.count


@contextmanager
def store_way(port: int) -> Iterator[StoreWay]:
    """A way to the S3 server at a port of this machine; conditional writes are made one after the other on it.

    As stores do it: the servers here look first and write then.
    """
    found = StoreWay(port)
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

            answer = found.fate(Asked(found.number(), self.command, self.path, body), deliver)
            if answer is None:
                self.close_connection = True
                return
            self.send_response_only(answer.status)
            for name, value in answer.headers:
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)
                told = dict(answer.headers).get("content-length", "")
                self.close_connection = self.close_connection or len(answer.body) < int(told or 0)

        def _ask(self, body: bytes) -> Answer:
            server = http.client.HTTPConnection("127.0.0.1", found.port, timeout=60)
            try:
                # As it came: the name of the host is a part of what was signed.
                server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    server.putheader(name, value)
                server.endheaders(body)
                answer = server.getresponse()
                content = answer.read()
                kept = [(name, value) for name, value in answer.getheaders() if name.lower() in _PASSED_ON]
                if self.command != "HEAD":
                    kept = [(name, value) for name, value in kept if name.lower() != "content-length"]
                    kept.append(("content-length", str(len(content))))
                return Answer(answer.status, tuple(kept), content)
            finally:
                server.close()

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128  # with five, clients of a busy machine wait until they give up

        def handle_error(self, request: object, client_address: object) -> None:
            """Nothing: who asked is gone."""

    with Server(("127.0.0.1", 0), Handler) as server:
        found.own = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()

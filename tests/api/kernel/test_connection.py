"""Connections as clients make them: byte by byte, on a socket."""

import asyncio
import re
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from unittest.mock import Mock

import pytest
import uvicorn
from starlette.applications import Starlette

from signalbook.api.kernel import connection
from signalbook.api.kernel.connection import HEAD_BYTES, HTTPConnection
from signalbook.api.waiting import Waiting
from signalbook.server import build
from signalbook.settings import Settings

PATIENCE = 300
END = b" HTTP/1.1\r\nHost: r.example\r\n\r\n"
LIVE = b"GET /health/live" + END
OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"


@contextmanager
def listening(app: Starlette | Waiting) -> Iterator[int]:
    """The port at which such connections lead to an application."""
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, http=HTTPConnection, ws="none", log_config=None, proxy_headers=False)
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A whole registry behind such connections."""
    with listening(build(Settings(db="sqlite://", allow_hosts=("r.example",)))) as port:
        yield port


def exchange(port: int, *parts: bytes) -> bytes:
    """Send ``parts`` and return all that the server sends until it closes the connection."""
    with closing(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)) as client:
        for part in parts:
            client.sendall(part)
        return b"".join(iter(lambda: client.recv(1 << 16), b""))


def statuses(received: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"^HTTP/1\.1 (\d+) ", received, re.MULTILINE)]


def last(head: bytes) -> bytes:
    """``head`` with a request behind it that ends the connection."""
    return head + b"GET /health/live HTTP/1.1\r\nHost: r.example\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"/schemagroups?filter=epoch>1", 200),
        (b"/schemagroups?filter=epoch<>1", 200),
        (b'/schemagroups?filter=name="a"', 200),
        (b"/schemagroups?filter=name=[{a|b}]^`", 200),
        (b"/a<b>", 404),
        (b"/schemagroups/a%2Fb", 400),
        (b"/schemagroups/%zz?filter=%zz", 400),
        (b"/%", 404),
        (b"/schemagroups?limit=%", 400),
        (b"//schemagroups", 200),
        (b"http://r.example:80/schemagroups", 200),
        (b"/schemagroups/" + b"a" * 60_000, 400),
    ],
)
def test_targets(port: int, target: bytes, status: int) -> None:
    """Characters that are not allowed in a URL are accepted too: curl sends filters as they are typed (raw-lt)."""
    assert statuses(exchange(port, last(b"GET " + target + END))) == [status, 200]


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /schemagroups?filter=name=a b" + END,
        b"GET /schemagroups?filter=name=\xc3\xa9" + END,
        b"GET /\xff" + END,
        b"GET /a\x01" + END,
        b"GET schemagroups" + END,
        b"CONNECT r.example:80" + END,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\nHost: r.example\n\n",
        b"GET / HTTP/1.1\r\nHost: r.example\r\nA: b\r\n c\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: r.example\r\nA: \x00\r\n\r\n",
        b"PUT / HTTP/1.1\r\nHost: r.example\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"PUT / HTTP/1.1\r\nHost: r.example\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        b"PUT / HTTP/1.1\r\nHost: r.example\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"PUT / HTTP/1.1\r\nHost: r.example\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"PUT / HTTP/1.1\r\nHost: r.example\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"PUT / HTTP/1.1\r\nHost: r.example\r\nContent-Length: +2\r\n\r\n{}",
        b"PUT / HTTP/1.1\r\nHost: r.example\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        b"PUT / HTTP/1.1\r\nHost: r.example\r\nTransfer-Encoding: chunked\r\n\r\n2\n{}\n0\n\n",
    ],
)
def test_malformed_request_is_rejected(port: int, request_: bytes) -> None:
    """Requests that a proxy could interpret differently are rejected, with an ordinary error response."""
    received = exchange(port, request_)
    assert statuses(received) == [400]
    assert b"Connection: close" in received or b"connection: close" in received
    assert b'core/spec.md#bad_request","title":"this is no HTTP/1.1 request' in received


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (b"GET / HTTP/1.1\r\n", b"there is no Host header"),
        (b"GET / HTTP/1.1\r\nHost: r.example\r\nHost: r.example\r\n", b"more than one Host header"),
        (b"GET / HTTP/1.1\r\nHost: r.example\r\nhost: other\r\n", b"more than one Host header"),
        (b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n", b"more than one Host header"),
        (b"GET / HTTP/1.1\r\nHost:\r\n", b"the Host header is not HOST or HOST:PORT"),
        (b"GET / HTTP/1.1\r\nHost: a/b\r\n", b"the Host header is not HOST or HOST:PORT"),
        (b"GET / HTTP/1.1\r\nHost: a b\r\n", b"the Host header is not HOST or HOST:PORT"),
        (b"GET / HTTP/1.1\r\nHost: u@a\r\n", b"the Host header is not HOST or HOST:PORT"),
        (b"GET / HTTP/1.1\r\nHost: a:80:80\r\n", b"the Host header is not HOST or HOST:PORT"),
        (b"GET / HTTP/1.1\r\nHost: <a>\r\n", b"the Host header is not HOST or HOST:PORT"),
        (b"GET / HTTP/1.1\r\nHost: \xc3\xa9\r\n", b"the Host header is not HOST or HOST:PORT"),
        (b"PUT / HTTP/1.1\r\nHost: r.example\r\nTransfer-Encoding: gzip, chunked\r\n", b"Transfer-Encoding that is"),
        (b"PUT / HTTP/1.1\r\nHost: r.example\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
         b"Transfer-Encoding that is"),
        (b"PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n", b"HTTP/1.0 has no Transfer-Encoding"),
    ],
)  # fmt: skip
def test_invalid_heads_are_rejected(port: int, head: bytes, message: bytes) -> None:
    """RFC 9112, 3.2 and 6.1. What follows is not read."""
    received = exchange(port, head + b"\r\n0\r\n\r\n" + LIVE)
    assert statuses(received) == [400]
    assert message in received


def test_a_refused_head_waits_for_the_request_before(port: int) -> None:
    received = exchange(port, LIVE + b"GET /health/live HTTP/1.1\r\n\r\n" + LIVE)
    assert statuses(received) in ([200], [200, 400])


def test_unusual_heads_are_accepted(port: int) -> None:
    chunked = b"PUT /nothing HTTP/1.1\r\nHost: r.example:80\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    assert statuses(exchange(port, last(chunked))) == [404, 200]
    assert statuses(exchange(port, b"GET /health/live HTTP/1.0\r\n\r\n")) == [200]
    assert statuses(exchange(port, last(b"GET /health/live HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n"))) == [200, 200]


@pytest.mark.parametrize(
    ("request_", "status", "length", "body"),
    [
        (b"GET /health/live HTTP/1.1", 200, True, b'{"status":"ok"}\n'),
        (b"GET /health/live HTTP/1.0", 200, True, b'{"status":"ok"}\n'),
        (b"HEAD /health/live HTTP/1.1", 200, True, b""),
        (b"GET /capabilities HTTP/1.1\r\nIf-None-Match: *", 304, False, b""),
        (b"DELETE /schemagroups HTTP/1.1", 204, False, b""),
    ],
    ids=["GET", "HTTP/1.0", "HEAD", "304", "204"],
)
def test_a_response(port: int, request_: bytes, status: int, length: bool, body: bytes) -> None:
    """Status, the headers of the response, those of all responses and of the server, each once, and the body."""
    received = exchange(port, request_ + b"\r\nHost: r.example\r\nConnection: close\r\n\r\n")
    head, _, received_body = received.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    names = [line.partition(b": ")[0] for line in lines]
    assert first.startswith(b"HTTP/1.1 %d " % status)
    assert (received_body, b"content-length" in names) == (body, length)
    assert {b"date", b"connection", b"link", b"access-control-expose-headers"} <= {*names}
    assert (b"access-control-allow-origin" in names) == (status != 204)  # every page may read, none may write
    assert len(names) == len({*names})


def test_slow_client_limits_the_produced_responses(port: int) -> None:
    """The server produces only few of a thousand large pipelined responses before the client reads them."""
    request = b"GET /openapi.json HTTP/1.1\r\nHost: r.example\r\n\r\n"
    size = len(exchange(port, last(request)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with closing(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)) as client:
        client.sendall(request * 1000)
        assert statuses(exchange(port, last(LIVE))) == [200, 200]
        grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert grown < 100 * size


def test_a_request_is_answered_before_what_follows_is_refused(port: int) -> None:
    assert statuses(exchange(port, LIVE + b"\x00")) == [200]
    assert statuses(exchange(port, last(LIVE + LIVE))) == [200, 200, 200]


@pytest.mark.parametrize("head", [b"GET /", b"GET / HTTP/1.1\r\nA: "])
def test_a_head_that_never_ends_is_refused(port: int, head: bytes) -> None:
    received = exchange(port, head + b"a" * HEAD_BYTES)
    assert statuses(received) == [400]
    assert b"headers are larger than 131072 bytes" in received


def test_a_trailer_that_never_ends_is_refused(port: int) -> None:
    with closing(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)) as client:
        client.sendall(b"PUT /" + END[:-2] + b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
        assert client.recv(1 << 16) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"0\r\nA: " + b"a" * HEAD_BYTES)
        assert statuses(client.recv(1 << 16)) == [400]


def test_pipelined_requests_use_bounded_memory(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server reads no further requests before it has answered those that it read."""
    waiting = [0]
    complete = HTTPConnection.on_response_complete

    def counted(self: HTTPConnection) -> None:
        waiting.append(len(self.pipeline))
        complete(self)

    monkeypatch.setattr(HTTPConnection, "on_response_complete", counted)
    head = b"HEAD /health/live HTTP/1.1\r\nHost: localhost\r\nX-Padding: %s\r\n\r\n" % (b"x" * 1000)
    assert statuses(exchange(port, head * 1200, last(head))) == [200] * 1202
    assert max(waiting) < 600


def test_an_offer_of_another_protocol_changes_nothing(port: int) -> None:
    """Java's client makes one with its first request, whatever that is."""
    put = b"PUT /schemagroups/%s HTTP/1.1\r\nHost: r.example\r\n%s" + OFFER + b"\r\n"
    get = b"GET /health/live HTTP/1.1\r\nHost: r.example\r\n" + OFFER + b"\r\n"
    assert statuses(exchange(port, get, last(get))) == [200, 200, 200]
    whole = put % (b"whole", b"Content-Length: 12\r\n") + b'{"name":"a"}'
    assert statuses(exchange(port, last(whole))) == [201, 200]
    received = exchange(port, put % (b"late", b"Content-Length: 12\r\n"), b'{"name"', last(b':"a"}'))
    assert (statuses(received), b'"name":"a"' in received) == ([201, 200], True)
    chunks = b'7\r\n{"name"\r\n5\r\n:"a"}\r\n0\r\nIf-Match: trailer\r\n\r\n'
    received = exchange(port, put % (b"chunks", b"Transfer-Encoding: chunked\r\n"), last(chunks))
    assert (statuses(received), b'"name":"a"' in received) == ([201, 200], True)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        LIVE,
        LIVE + b"GET / HT",
        b"GET /health/live HTTP/1.1\r\nHost: r.example\r\nContent-Length: 5\r\n\r\n1234",
    ],
)
def test_idle_connections_are_closed(port: int, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    """The client sends no request, a part of one, nothing after the first, or a body that nobody reads."""
    monkeypatch.setattr(connection, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(uvicorn.Config, "timeout_keep_alive", 0.05, raising=False)
    assert statuses(exchange(port, sent)) == [200] * sent.startswith(LIVE[:16])


def test_incomplete_body_counts_as_idle(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is idle like any other while an unread body is incomplete."""
    monkeypatch.setattr(connection, "IDLE_SECONDS", 2)
    with closing(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)) as client:
        client.sendall(b"GET /health/live HTTP/1.1\r\nHost: r.example\r\nContent-Length: 5\r\n\r\n")
        assert statuses(client.recv(1 << 16)) == [200]
        client.sendall(b"12345")
        assert client.recv(1) == b""


def test_error_is_not_written_into_a_running_response(port: int) -> None:
    """An unreadable request behind an endless response adds nothing to this response."""
    with closing(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)) as client:
        client.sendall(b"GET /events HTTP/1.1\r\nHost: r.example\r\nAccept: text/event-stream\r\n\r\n")
        received = client.recv(1 << 16)
        client.sendall(b"PUT /schemagroups/g HTTP/1.1\r\nHost: r.example\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n")
        received += b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert statuses(received) == [200]
    assert b"bad_request" not in received.partition(b"\r\n\r\n")[2]


def test_write_to_a_closed_connection_counts_as_disconnected() -> None:
    """Writing to a connection that is closed raises."""
    exchange = object.__new__(connection._Exchange)
    exchange.transport = Mock(writelines=Mock(side_effect=RuntimeError("the handler is closed")))
    exchange.flow = Mock(write_paused=False)
    exchange.default_headers = []
    exchange.response_started = exchange.disconnected = False
    exchange.keep_alive = True

    async def send() -> None:
        head: Any = {"type": "http.response.start", "status": 200, "headers": [], "length": 1}
        head["head"] = b"HTTP/1.1 200 OK\r\n"
        await exchange.send(head)
        await exchange.send({"type": "http.response.body", "body": b"x", "more_body": False})

    asyncio.run(send())
    assert exchange.disconnected
    assert not exchange.transport.write.called

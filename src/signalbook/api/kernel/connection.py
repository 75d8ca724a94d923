"""HTTP connections with the limits that uvicorn leaves to a proxy: on the size of request heads, and on idleness."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final, cast

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from signalbook.access.base import Identity
from signalbook.api.kernel.errors import build_error_response
from signalbook.api.kernel.repeats import Repeats
from signalbook.api.kernel.requests import HOST
from signalbook.api.kernel.streaming import STOPPING
from signalbook.api.kernel.tls import read_certificate_identity
from signalbook.errors import RegistryError

IDLE_SECONDS: Final = 30
"""The seconds allowed for the head of a request, for the unread rest of a body, and between two requests."""
HEAD_BYTES: Final = 1 << 17
_TOO_LARGE: Final = f"the request line and headers are larger than {HEAD_BYTES} bytes"
_UNREADABLE: Final = (
    "this is no HTTP/1.1 request; in a URL, spaces, control characters and what is not ASCII have to be percent-encoded"
)
_MOST_ANSWERED: Final = 1 << 18
"""The bytes of unsent responses to repeated requests, from which on further pipelined requests are handled normally."""
_REPEATABLE: Final = frozenset({b"GET", b"POST"})
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})


class HTTPConnection(HttpToolsProtocol):
    """An HTTP/1.1 connection, as uvicorn handles it with httptools.

    The parser accepts a head of any size that arrives at any speed. So this class counts the bytes received since the
    last progress (a complete head, a part of a body, a complete request), and requires progress in time. Refusals here
    have the same format as other errors, not plain text.
    """

    _waiting = 0
    """The bytes received since the last progress."""
    _deadline: asyncio.TimerHandle | None = None
    _resuming = False
    """True while ``_resume_parsing`` feeds the parser the headers that delimit the body again."""

    _refusal = ""
    """The reason why the head of a request is refused."""
    _certificate: Identity | None = None
    """The identity in the client's certificate, which TLS has verified."""
    _repeats: Repeats | None = None
    _body: bytearray | None = None
    """The body received so far, for a request that may be a repeated one. It is handled when its body is complete."""
    _answers: list[bytes]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request."""
        super().connection_made(transport)  # type: ignore[arg-type]  # narrower there than in asyncio
        self._certificate = read_certificate_identity(transport.get_extra_info("peercert"))
        self._repeats = getattr(self.app, "repeats", None)
        self._answers = []
        self._expect_more()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting for data."""
        super().connection_lost(exc)
        self._clear_deadline()

    def data_received(self, data: bytes) -> None:
        """Parse the received data."""
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None
        self._waiting += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._resume_parsing(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self.send_400_response(self._refusal or _UNREADABLE)
            return
        if self._body is not None:  # the rest may take its time, which the handler counts
            self._begin()
        if self._waiting > HEAD_BYTES:
            self.send_400_response(_TOO_LARGE)
        elif self._waiting:
            self._expect_more()

    def on_message_begin(self) -> None:
        """Begin a request."""
        if not self._resuming:
            super().on_message_begin()
            if self._certificate is not None:
                self.scope["certificate"] = self._certificate  # type: ignore[typeddict-unknown-key]

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header to the request. Trailers, which come after the body has begun, are ignored."""
        if self._body is None and (self.cycle is None or self.scope is not self.cycle.scope):
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Check the head, and handle the request, unless its body may make it a repeated request."""
        self._clear_deadline()
        if self._resuming:
            return
        self._refusal = find_head_fault(self.headers, self.parser.get_http_version())
        if self._refusal:
            raise ValueError(self._refusal)  # the parser stops, and ``feed_data`` raises an error of its own
        if self._can_repeat():
            self.scope["target"] = self.url  # type: ignore[typeddict-unknown-key]
            self._body = bytearray()
        else:
            self._start_exchange()

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body for the handler."""
        self._waiting = 0
        if self._body is not None:
            self._body += body
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Respond from a former response if the request repeats one, else let the handler finish."""
        self._clear_deadline()
        if self._body is not None and self._try_repeat(self._body):
            self._body = None
        elif not (self.parser.should_upgrade() and self._list_framing()):
            if self._body is not None:
                self._begin()
            super().on_message_complete()
        # The response was complete before the request; now wait for the next request.
        if self.cycle.response_complete:
            self._expect_more()

    def on_response_complete(self) -> None:
        """Continue with the next request."""
        super().on_response_complete()
        if self.pipeline:
            # uvicorn reads on after each response, so the queue would grow by thousands of requests with each.
            self.flow.pause_reading()
        if self.cycle.more_body:
            self._expect_more()

    def eof_received(self) -> None:
        """Send the pending responses. The caller closes the connection afterwards."""
        self._send_answers()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that cannot be parsed, and close the connection after the response."""
        self._send_answers()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if not cycle.more_body:
                # The unreadable data belongs to the next request, so finish the response to this one first.
                cycle.keep_alive = False
                self.flow.pause_reading()
                return
            if cycle.response_started or self.pipeline:  # a response has begun, to this request or an earlier one
                self.transport.close()
                return
        response = build_error_response(RegistryError("bad_request", subject="/", error_detail=msg), "/")
        self.transport.write(
            _complete_head(response.head, self.server_state.default_headers, stays=False) + response.body
        )
        self.transport.close()

    def shutdown(self) -> None:
        """Close the connection after the running request. Event streams, which never end by themselves, end now."""
        self._send_answers()
        super().shutdown()
        self.app_state[STOPPING].set()

    def _start_exchange(self) -> None:
        super().on_headers_complete()
        # uvicorn makes cycles of its own class and no other. The task of this cycle starts to run later.
        self.cycle.__class__ = _Exchange

    def _resume_parsing(self, remaining_data: bytes) -> None:
        """Continue after a request that offers another protocol, such as h2c, which a server may ignore (RFC9110 7.8).

        The parser treats everything that follows as the other protocol, including the body. So a new parser continues.
        """
        self.parser = httptools.HttpRequestParser(self)
        framing = self._list_framing()
        if framing:
            self._resuming = True
            self.parser.feed_data(b"POST / HTTP/1.1\r\n%s\r\n" % b"".join(b"%s: %s\r\n" % header for header in framing))
            self._resuming = False
        if remaining_data:
            self.data_received(remaining_data)

    def _can_repeat(self) -> bool:
        """Return True if a request may be answered with a former response, and no earlier request is unfinished."""
        parser = self.parser
        return (
            self._repeats is not None
            and parser.get_method() in _REPEATABLE
            and parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
            and not parser.should_upgrade()
            and not self.expect_100_continue
            and (self.cycle is None or self.cycle.response_complete)
            and not self.flow.write_paused
            and sum(map(len, self._answers)) < _MOST_ANSWERED
        )

    def _try_repeat(self, body: bytearray) -> bool:
        """Respond to a request with a former response, if there is one. Return True if there is."""
        assert self._repeats is not None, "nothing else may repeat"
        method = self.parser.get_method().decode("ascii")
        scope = cast("dict[str, Any]", self.scope)
        response = self._repeats.answer(scope, self.url, method, bytes(body))
        if response is None or self.transport.is_closing():
            return False
        head = _complete_head(response.head, self.server_state.default_headers, stays=True)
        if not self._answers:
            self.loop.call_soon(self._send_answers)
        self._answers += (head, response.body)
        self.server_state.total_requests += 1
        self.cycle = _ANSWERED
        return True

    def _send_answers(self) -> None:
        """Send the responses to repeated requests.

        The responses of all connections are sent together at the end of a turn of the event loop. A client that the
        first response wakes is then awake for the others: waking costs a third of such a request's time.
        """
        answers, self._answers = self._answers, []
        if answers and not self.transport.is_closing():
            self.transport.write(b"".join(answers))

    def _begin(self) -> None:
        """Let the application handle a request that repeats no other."""
        body, self._body = self._body, None
        self._start_exchange()
        if body:
            super().on_body(bytes(body))

    def _list_framing(self) -> list[tuple[bytes, bytes]]:
        return [header for header in self.headers if header[0] in _FRAMING]

    def _expect_more(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(IDLE_SECONDS, self._give_up)

    def _clear_deadline(self) -> None:
        self._waiting = 0
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        # During a request, its handler limits the time for the body.
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def find_head_fault(headers: Iterable[tuple[bytes, bytes]], version: str) -> str:
    """Return the reason why proxies could interpret this head differently, so it is refused; "" if it is safe.

    Names of ``headers`` are in lower case. The parser itself refuses a second Content-Length, and Content-Length
    together with Transfer-Encoding (RFC 9112, 3.2, 6.1 and 6.3).
    """
    hosts, codings = [], []
    for name, value in headers:
        if name == b"host":
            hosts.append(value)
        elif name == b"transfer-encoding":
            codings.append(value)
    if len(hosts) > 1:
        return "there is more than one Host header"
    if not hosts and version != "1.0":
        return "there is no Host header"
    if hosts and not HOST.fullmatch(hosts[0].decode("latin-1")):
        return "the Host header is not HOST or HOST:PORT"
    if codings and version == "1.0":
        return "HTTP/1.0 has no Transfer-Encoding"
    if codings and (len(codings) > 1 or codings[0].lower() != b"chunked"):
        return "the only Transfer-Encoding that is supported is chunked"
    return ""


class _Exchange(RequestResponseCycle):
    """A request and its response. The head is sent unchanged, and in one write with the body.

    uvicorn checks every header of each response for invalid characters: 15 of the 60 us of a cached read. A second
    write to the socket would take another 10 us.
    """

    _head = b""
    """The head, until the body is sent."""

    async def send(self, message: Any) -> None:
        head = message.get("head")
        if isinstance(head, bytes) and not self.response_started:
            self.response_started = True
            self.waiting_for_100_continue = False
            self.chunked_encoding = False
            self.expected_content_length = message.get("length")
            self._head = _complete_head(head, self.default_headers, stays=self.keep_alive)
            return
        if self._head and not self.disconnected:
            body = message.get("body", b"")
            try:
                self.transport.writelines((self._head, body))
            except RuntimeError:  # the transport is closed, which was not reported yet
                self.disconnected = True
                return
            self._head = b""
            self.expected_content_length -= len(body)
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await super().send(message)


def _build_answered_cycle() -> RequestResponseCycle:
    """Return the object that stands for a request that was answered with a former response."""
    cycle = RequestResponseCycle(
        scope=cast("Any", {}),
        transport=cast("asyncio.Transport", None),
        flow=cast("FlowControl", None),
        logger=logging.getLogger(__name__),
        access_logger=logging.getLogger(__name__),
        access_log=False,
        default_headers=[],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=True,
        on_response=lambda: None,
    )
    cycle.response_complete, cycle.more_body = True, False
    return cycle


_ANSWERED: Final = _build_answered_cycle()


def _complete_head(head: bytes, more: Iterable[tuple[bytes, bytes]], *, stays: bool) -> bytes:
    """Return a complete head: ``head``, the server's headers ``more``, and "connection: close" unless the connection
    ``stays``."""
    lines = b"".join(b"%s: %s\r\n" % header for header in more)
    return b"%s%s%s\r\n" % (head, lines, b"" if stays else b"connection: close\r\n")

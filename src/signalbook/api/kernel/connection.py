"""One connection of a client to the server, with bounds that uvicorn leaves to a proxy: on heads, and on idleness."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final, cast

import httptools
from uvicorn._types import ASGI3Application, ASGISendEvent, HTTPScope
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
"""For the head of a request, for the rest of a body that nobody reads, and between two requests."""
HEAD_BYTES: Final = 1 << 17
_TOO_LARGE: Final = f"the request line and headers are larger than {HEAD_BYTES} bytes"
_UNREADABLE: Final = (
    "this is no HTTP/1.1 request; in a URL, spaces, control characters and what is not ASCII have to be percent-encoded"
)
_MOST_ANSWERED: Final = 1 << 18
"""Bytes of answers from which on requests that came at once wait like all others, until somebody reads."""
_REPEATABLE: Final = frozenset({b"GET", b"POST"})
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})


class HTTPConnection(HttpToolsProtocol):
    """HTTP/1.1 as uvicorn speaks it with httptools.

    The parser takes whatever a client sends for a head, however long and however slowly. So what was received since
    the last progress (a complete head, some of a body, a complete request) is counted, and has to go on in time. What
    is refused here is answered like any other error, not in plain text.
    """

    _waiting = 0
    """Bytes received since then."""
    _deadline: asyncio.TimerHandle | None = None
    _resuming = False
    """The parser is given again how the body of a request is delimited; see ``_resume_parsing``."""

    _refusal = ""
    """The reason why the head of a request is refused."""
    _certificate: Identity | None = None
    """Who the client's certificate is from; TLS has verified it."""
    _repeats: Repeats | None = None
    _body: bytearray | None = None
    """The body so far of a request that may be a repeated one. The request is handled when its body is complete."""
    _answers: list[bytes]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request."""
        super().connection_made(transport)  # type: ignore[arg-type]  # narrower there than in asyncio
        self._certificate = read_certificate_identity(transport.get_extra_info("peercert"))
        self._repeats = getattr(self.app, "repeats", None)
        self._answers = []
        self._expect_more()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        super().connection_lost(exc)
        self._clear_deadline()

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        self._unset_keepalive_if_required()
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
        """Take a header; trailers, which come when its body has begun already, are not for anybody."""
        if self._body is None and (self.cycle is None or self.scope is not self.cycle.scope):
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Answer the request."""
        self._clear_deadline()
        if self._resuming:
            return
        self._refusal = find_head_fault(self.headers, self.parser.get_http_version())
        if self._refusal:
            raise ValueError(self._refusal)  # the parser stops, and its own error is raised where it is fed
        if self._can_repeat():
            self.scope["target"] = self.url  # type: ignore[typeddict-unknown-key]
            self._body = bytearray()
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Keep it for who reads it."""
        self._waiting = 0
        if self._body is not None:
            self._body += body
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the request is complete."""
        self._clear_deadline()
        if self._body is not None and self._try_repeat(self._body):
            self._body = None
        elif not (self.parser.should_upgrade() and self._list_framing()):
            if self._body is not None:
                self._begin()
            super().on_message_complete()
        # Its answer was there before all of it was: now the next request is waited for.
        if self.cycle.response_complete:
            self._expect_more()

    def on_response_complete(self) -> None:
        """Go on with the next request."""
        super().on_response_complete()
        if self.pipeline:
            # uvicorn reads on behind each response: what waits would grow by thousands of requests for each.
            self.flow.pause_reading()
        if self.cycle.more_body:
            self._expect_more()

    def eof_received(self) -> None:
        """Send what there is: the connection is closed behind it."""
        self._send_answers()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that cannot be read, and close the connection behind the response."""
        self._send_answers()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if not cycle.more_body:
                # What cannot be read is the next request: this one is answered first.
                cycle.keep_alive = False
                self.flow.pause_reading()
                return
            if cycle.response_started or self.pipeline:  # in the midst of an answer, this one's or an earlier one's
                self.transport.close()
                return
        response = build_error_response(RegistryError("bad_request", subject="/", error_detail=msg), "/")
        self.transport.write(
            _complete_head(response.head, self.server_state.default_headers, stays=False) + response.body
        )
        self.transport.close()

    def shutdown(self) -> None:
        """Let the request under way be the last; streams of events, which have no end, end now."""
        self._send_answers()
        super().shutdown()
        self.app_state[STOPPING].set()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        # uvicorn makes cycles of its own class and no other.
        cycle.__class__ = _Exchange
        super()._start_asgi_task(cycle, app)

    def _resume_parsing(self, remaining_data: bytes) -> None:
        """Go on behind a request that offers another protocol, such as h2c: nobody has to take that up (RFC9110 7.8).

        The parser takes all that follows for the other protocol, the body too. So a new one goes on from there.
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
        """Return True if a request may be answered from a former response, with nothing before it to wait for."""
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
        """Answer a request as before, if it can be."""
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
        """Send the answers to repeated requests.

        Those of all connections go out together at the end of a turn of the event loop, so that a client which the
        first one wakes is awake for the others: waking costs a third of all that such a request does.
        """
        answers, self._answers = self._answers, []
        if answers and not self.transport.is_closing():
            self.transport.write(b"".join(answers))

    def _begin(self) -> None:
        """Let the application answer a request that repeats no other."""
        body, self._body = self._body, None
        super().on_headers_complete()
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
        # While a request is under way, its handler says how long its body may take.
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def find_head_fault(headers: Iterable[tuple[bytes, bytes]], version: str) -> str:
    """Return why proxies could read this head differently, so that it is refused, or "" if it is safe.

    Names of ``headers`` are in lower case. The parser itself refuses a second Content-Length, and Content-Length beside
    Transfer-Encoding (RFC 9112, 3.2, 6.1 and 6.3).
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
    """A request and its response, whose head goes out as it was made, and in one piece with the body.

    uvicorn looks at each header of each response for what must not be in it: 15 of the 60 us of a hot read. Another 10
    are for a second write to the socket.
    """

    _head = b""
    """What waits for the body."""

    async def send(self, message: ASGISendEvent) -> None:
        head = message.get("head")
        if isinstance(head, bytes) and not self.response_started:
            self.response_started = True
            self.waiting_for_100_continue = False
            self.chunked_encoding = False
            self.expected_content_length = cast("int", message.get("length"))
            self._head = _complete_head(head, self.default_headers, stays=self.keep_alive)
            return
        if self._head and not self.disconnected:
            body = cast("bytes", message.get("body", b""))
            try:
                self.transport.writelines((self._head, body))
            except RuntimeError:  # it is closed, and nothing has said so yet
                self.disconnected = True
                return
            self._head = b""
            self.expected_content_length -= len(body)
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await super().send(message)


def _build_answered_cycle() -> RequestResponseCycle:
    """Return the cycle of a request that was answered at once."""
    cycle = RequestResponseCycle(
        scope=cast("HTTPScope", {}),
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
    """Return a head with the headers of the server, and whether the connection stays."""
    lines = b"".join(b"%s: %s\r\n" % header for header in more)
    return b"%s%s%s\r\n" % (head, lines, b"" if stays else b"connection: close\r\n")

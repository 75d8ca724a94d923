"""HTTP/1.1 as bytes: requests of any kind are sent, and their responses read as strictly as the text allows."""

import select
import socket
import time
from dataclasses import dataclass, field
from typing import Final, Self

from tests.fuzzing.grammar import Request

HANG_SECONDS: Final = 90.0
_IDLE_SECONDS: Final = 0.2
"""For a response to what is no whole request: there need be none."""
_PAUSE_SECONDS: Final = 0.005
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_BODILESS: Final = frozenset({204, 304})


class WireError(Exception):
    """There was no valid response in time."""


@dataclass(frozen=True, kw_only=True)
class Response:
    """A response. Header names are in lower case, and the last value of each counts. ``endless`` is a stream that the
    client left.
    """

    status: int
    headers: dict[str, str]
    body: bytes = field(repr=False)
    seconds: float = 0.0
    endless: bool = False


class Connection:
    """A connection to a server on this machine, which is reopened as needed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._buffer = None, b""

    def ask(self, request: Request) -> Response | None:
        """The response to a request, None if there is none and need not be. Raises ``WireError``."""
        began = time.perf_counter()
        fresh = self._socket is None
        try:
            response = self._asked(request, began)
        except (OSError, EOFError) as error:
            self.close()
            if not request.whole or not request.method:
                return None
            # A connection that was kept may have been closed meanwhile: that is no answer to this request.
            if fresh:
                raise WireError(f"{type(error).__name__}: {error} after {time.perf_counter() - began:.1f} s") from None
            return self.ask(request)
        if not request.whole or not request.method or response.endless or _closes(response):
            self.close()
        return response

    def _asked(self, request: Request, began: float) -> Response:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=HANG_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(HANG_SECONDS if request.whole else _IDLE_SECONDS)
        for number, part in enumerate(request.parts):
            if number:
                time.sleep(_PAUSE_SECONDS)
            self._send(part)
        while True:
            response = self._response(request.method, began)
            if response.status >= 200:
                return response

    def _send(self, part: bytes) -> None:
        """Send, but stop when there is a final response already: a body that is refused need not be read."""
        assert self._socket is not None
        view = memoryview(part)
        try:
            while view:
                view = view[self._socket.send(view[: 1 << 18]) :]
                if view and select.select([self._socket], [], [], 0)[0]:
                    self._receive()
                    if self._buffer != _CONTINUE:
                        return
                    self._buffer = b""
        except (BrokenPipeError, ConnectionResetError):
            return

    def _response(self, method: str, began: float) -> Response:
        head = self._until(b"\r\n\r\n")
        lines = head[:-4].decode("latin-1").split("\r\n")
        version, _, status_text = lines[0].partition(" ")
        if version != "HTTP/1.1" or not status_text[:3].isdigit():
            raise WireError(f"no status line: {lines[0][:100]!r}")
        status = int(status_text[:3])
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            has_controls = any(ord(character) < 32 and character != "\t" for character in line)
            if not colon or not name or name != name.strip() or has_controls:
                raise WireError(f"no header: {line[:100]!r}")
            headers[name.lower()] = value.strip()
        endless = headers.get("content-type", "").startswith("text/event-stream")
        body = b"" if endless or method == "HEAD" or status in _BODILESS or status < 200 else self._body(headers)
        return Response(status=status, headers=headers, body=body, seconds=time.perf_counter() - began, endless=endless)

    def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") == "chunked":
            parts = []
            while size := int(self._until(b"\r\n")[:-2], 16):
                parts.append(self._exactly(size))
                self._exactly(2)
            self._until(b"\r\n")
            return b"".join(parts)
        if "content-length" not in headers:
            raise WireError("neither Content-Length nor Transfer-Encoding")
        return self._exactly(int(headers["content-length"]))

    def _until(self, end: bytes) -> bytes:
        at = self._buffer.find(end)
        while at < 0:
            self._receive()
            at = self._buffer.find(end)
        at += len(end)
        data, self._buffer = self._buffer[:at], self._buffer[at:]
        return data

    def _exactly(self, size: int) -> bytes:
        parts = [self._buffer]
        have = len(self._buffer)
        while have < size:
            self._buffer = b""
            self._receive()
            parts.append(self._buffer)
            have += len(self._buffer)
        data = b"".join(parts)
        self._buffer = data[size:]
        return data[:size]

    def _receive(self) -> None:
        assert self._socket is not None
        data = self._socket.recv(1 << 18)
        if not data:
            raise EOFError("the connection was closed")
        self._buffer += data


def _closes(response: Response) -> bool:
    return "close" in response.headers.get("connection", "").lower()

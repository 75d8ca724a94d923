"""The client's side of the NATS protocol: greetings, messages with headers, requests and what answers them.

It trusts a server with little: TLS is begun because the caller says so, not because the server does; other servers
that it tells of are not followed; lines and messages have their limits.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpcore

from signalbook.errors import SignalbookError
from signalbook.values import JSONError, JSONObject, dump_json, parse_json

_LONGEST_LINE: Final = 64 * 1024
_LARGEST_MESSAGE: Final = 1024 * 1024
_LARGEST_POSSIBLE: Final = 64 * 1024 * 1024
_SUBSCRIPTION: Final = b"1"
# What servers say when they hang up and may take the next connection.
_PASSING: Final = ("timeout", "stale connection", "maximum connections", "slow consumer", "shutdown")


class NATSError(SignalbookError):
    """What a server sent is not of its protocol, or it hung up."""


class Refused(NATSError):
    """The server says no: to the user, or to what was sent or asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came to an inbox: for which request, the status if that is all (``503``: nobody listens), the payload.

    A message out of a stream has no ``request``, but the ``subject`` it was sent to; its ``reply`` says what it is
    there, and ``head`` are its headers as they were sent.
    """

    request: int | None
    status: str = ""
    payload: bytes = b""
    subject: str = ""
    reply: str = ""
    head: bytes = b""

    def document(self) -> JSONObject:
        """The payload as a JSON object, empty if it is none."""
        try:
            found = parse_json(self.payload)
        except JSONError:
            return {}
        return found if isinstance(found, dict) else {}


class NATSLine:
    """One connection. For one thread. Raises ``NATSError``, and httpcore's errors for the stream."""

    def __init__(
        self,
        stream: httpcore.NetworkStream,
        *,
        user: tuple[str, str],
        token: str = "",
        encrypt: Callable[[httpcore.NetworkStream], httpcore.NetworkStream] | None,
    ) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._inbox = f"_INBOX.{secrets.token_hex(11)}"
        self.info = self._greeting()
        secure = encrypt is not None
        if encrypt is not None:
            if not (self.info.get("tls_required") or self.info.get("tls_available")):
                raise Refused("the server offers no TLS")
            self._buffer.clear()  # what stands before the handshake may be anybody's
            self._stream = encrypt(stream)
        elif self.info.get("tls_required"):
            raise Refused("the server takes connections with TLS only: the URI begins with tls:// then")
        if not self.info.get("headers"):
            raise Refused("the server has no message headers, which NATS 2.2 brought")
        self._connect(user, token, secure)

    @property
    def max_payload(self) -> int:
        """The most bytes that a message may have, headers included."""
        found = self.info.get("max_payload")
        return min(found, _LARGEST_POSSIBLE) if isinstance(found, int) and found > 0 else _LARGEST_MESSAGE

    def listen(self) -> None:
        """Ask for what comes to the inbox of this connection."""
        self._stream.write(b"SUB %s.* %s\r\n" % (self._inbox.encode(), _SUBSCRIPTION))

    def publish(self, subject: str, message: bytes, head: int, request: int | None = None) -> None:
        """Send a message whose first ``head`` bytes are its headers; the answer to a request comes to the inbox."""
        reply = "" if request is None else f" {self._inbox}.{request}"
        if head:
            command = f"HPUB {subject}{reply} {head} {len(message)}\r\n"
        else:
            command = f"PUB {subject}{reply} {len(message)}\r\n"
        self._stream.write(command.encode() + message + b"\r\n")

    def round_trip(self) -> None:
        """Return when the server has dealt with all that was sent. Raises ``Refused`` for what it did not take."""
        self._stream.write(b"PING\r\n")
        while self._next() != b"PONG":
            pass

    def answer(self) -> Answer:
        """The next message in the inbox. Raises ``Refused``."""
        while True:
            found = self._next()
            if isinstance(found, Answer):
                return found

    def close(self) -> None:
        """Hang up."""
        self._stream.close()

    def _greeting(self) -> JSONObject:
        operation, _, rest = self._line().partition(b" ")
        try:
            info = parse_json(rest)
        except JSONError:
            info = None
        if operation.upper() != b"INFO" or not isinstance(info, dict):
            raise NATSError("the other side does not speak NATS")
        return info

    def _connect(self, user: tuple[str, str], token: str, secure: bool) -> None:
        options: dict[str, Any] = {
            "verbose": False,
            "pedantic": False,
            "tls_required": secure,
            "headers": True,
            "no_responders": True,
            "name": "signalbook",
            "lang": "python",
            "version": "1",
            "protocol": 1,
            "echo": False,
        }
        if user[0]:
            options |= {"user": user[0], "pass": user[1]}
        if token:
            options["auth_token"] = token
        self._stream.write(b"CONNECT " + dump_json(options) + b"\r\n")
        self.round_trip()

    def _next(self) -> bytes | Answer | None:
        """What the server says next: ``PONG``, a message, or nothing of interest.

        Raises ``Refused`` if it says no, ``NATSError`` if that may pass.
        """
        operation, _, rest = self._line().partition(b" ")
        match operation.upper():
            case b"PONG":
                return b"PONG"
            case b"PING":
                self._stream.write(b"PONG\r\n")
            case b"MSG" | b"HMSG":
                return self._message(operation.upper() == b"HMSG", rest.split())
            case b"-ERR":
                raise _refusal(rest[:500].decode(errors="replace").strip())
            case b"+OK" | b"INFO":
                pass
            case _:
                raise NATSError("the server sent something that is not of the NATS protocol")
        return None

    def _message(self, headers: bool, fields: list[bytes]) -> Answer:
        try:
            head, size = (int(fields[-2]) if headers else 0), int(fields[-1])
            subject = fields[0].decode(errors="replace")
            inbox, _, number = subject.rpartition(".")
            request = int(number) if inbox == self._inbox else None
        except (ValueError, IndexError):
            raise NATSError("the server sent a message that is none") from None
        if not 0 <= head <= size <= max(_LARGEST_MESSAGE, self.max_payload):
            raise NATSError("the server sent a message of an impossible size")
        content = self._take(size + 2)[:size]
        status = content[:head].partition(b"\r\n")[0].partition(b" ")[2][:3]
        reply = fields[2] if len(fields) > (4 if headers else 3) else b""
        return Answer(
            request=request,
            status=status.decode(errors="replace"),
            payload=content[head:],
            subject=subject,
            reply=reply.decode(errors="replace"),
            head=content[:head],
        )

    def _line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if len(self._buffer) > _LONGEST_LINE:
                raise NATSError("the server sent a line without an end")
            self._read()
        return self._take(end + 2)[:end]

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._read()
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _read(self) -> None:
        found = self._stream.read(65_536)
        if not found:
            raise NATSError("the server hung up")
        self._buffer += found


def _refusal(said: str) -> NATSError:
    kind = NATSError if any(word in said.lower() for word in _PASSING) else Refused
    return kind(f"the server says {said}")


def headers(named: Mapping[str, str]) -> bytes:
    """A block of message headers."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode()


def pairs(head: bytes) -> list[tuple[str, bytes]]:
    """The headers in such a block, in their order; names have the case they were sent in."""
    found = []
    for line in head.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            found.append((name.decode(errors="backslashreplace"), value.strip()))
    return found

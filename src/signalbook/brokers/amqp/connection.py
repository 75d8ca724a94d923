"""A connection with one session (AMQP 1.0 parts 2 and 5): greetings, frames, and the errors that a peer names."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from signalbook.brokers.amqp.messages import trimmed
from signalbook.brokers.amqp.types import AMQPError, Described, Symbol, Uint, Ulong, Ushort, decode_first, encode
from signalbook.brokers.connection import BrokerError, BrokerRefused, BrokerSettings, ByteStream

OPEN: Final = 0x10
BEGIN: Final = 0x11
ATTACH: Final = 0x12
FLOW: Final = 0x13
TRANSFER: Final = 0x14
DISPOSITION: Final = 0x15
DETACH: Final = 0x16
END: Final = 0x17
CLOSE: Final = 0x18
_MECHANISMS: Final = 0x40
_INIT: Final = 0x41
_OUTCOME: Final = 0x44

WINDOW: Final = 2048
_FRAME: Final = 65_536
_LEAST_FRAME: Final = 512
_AMQP: Final = (b"AMQP\x00\x01\x00\x00", 0)
_SASL: Final = (b"AMQP\x03\x01\x00\x00", 1)
_BEAT: Final = struct.pack("!IBBH", 8, 2, 0, 0)
_EMPTY: Final = _BEAT[:4]
_CLOSE_SECONDS: Final = 1.0
_DRAIN_SECONDS: Final = 5.0
# Conditions that may be others in a moment.
_PASSING: Final = ("amqp:connection:", "amqp:internal-error", "amqp:resource-limit-exceeded", "amqp:link:detach-forced")


class AMQPEnded(AMQPError):
    """The broker ended the link or the connection; ``condition`` is the standard's word for why: ``amqp:not-found``."""

    def __init__(self, message: str, condition: str = "") -> None:
        super().__init__(message)
        self.condition = condition


@contextmanager
def refusals() -> Iterator[None]:
    """An end while a connection or a link is being made is a no, unless the broker may do otherwise in a moment."""
    try:
        yield
    except AMQPEnded as error:
        if error.condition.startswith(_PASSING):
            raise
        raise BrokerRefused(str(error)) from None


class AMQPConnection:
    """One connection with one session, on channel 0. For one thread. Raises ``BrokerError``.

    ``host`` is the name of the broker that is wanted, ``container`` the name of this client.
    """

    def __init__(self, stream: ByteStream, *, host: str, container: str, user: str = "", password: str = "") -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._over = False
        self._authenticate(host, user, password)
        self._greet(_AMQP)
        self.send(OPEN, container, host, Uint(_FRAME), Ushort(0))
        opened = self.expect(OPEN)
        self.max_frame = min(int(_at(opened, 2) or 0xFFFFFFFF), _FRAME)
        if self.max_frame < _LEAST_FRAME:
            raise AMQPError(f"the broker takes frames of {self.max_frame} bytes, fewer than AMQP demands")
        self.send(BEGIN, None, Uint(0), Uint(WINDOW), Uint(WINDOW), Uint(0))
        begun = self.expect(BEGIN)
        self.first_incoming = int(_at(begun, 1) or 0)
        self.window = int(_at(begun, 2) or 0)

    @classmethod
    def open(cls, settings: BrokerSettings, container: str) -> AMQPConnection:
        """A connection to the broker of these settings."""
        stream = settings.open()
        try:
            if settings.secure:
                stream.encrypt()
            with refusals():
                user, password = settings.user, settings.password
                return cls(stream, host=stream.host, container=container, user=user, password=password)
        except BaseException:
            stream.close()
            raise

    def limit(self, seconds: float | None = None) -> None:
        """Give all that follows so many seconds, or the timeout of the broker's settings."""
        self._stream.limit(seconds)

    def send(self, code: int, *fields: Any, payload: bytes = b"") -> None:
        """Send a performative."""
        self._write(_AMQP[1], code, fields, payload)

    def receive(self) -> tuple[int, list[Any], bytes]:
        """The next performative: its code, its fields, and the payload behind it. Raises ``AMQPEnded`` for the last."""
        code, fields, payload = self._read(_AMQP[1])
        if code in (CLOSE, END):
            raise AMQPEnded(*error_text("the broker ended the connection", _at(fields, 0)))
        if code == DETACH:
            raise AMQPEnded(*error_text("the broker ended the link", _at(fields, 2)))
        return code, fields, payload

    def has_frame(self) -> bool:
        """Whether a whole frame is there to be received, after reading once if it was not.

        What came in part is kept where the time limit ends the reading.
        """
        if not self._whole():
            self._fill()
        return self._whole()

    def send_heartbeat(self) -> None:
        """Show that this side still is: an empty frame, as a peer may demand now and then (part 2, section 4.5)."""
        self._stream.write(_BEAT)

    def expect(self, code: int) -> list[Any]:
        """The fields of the next performative, which has to be this one."""
        found, fields, _ = self.receive()
        if found != code:
            raise AMQPError(f"the broker sent 0x{found:02x} where 0x{code:02x} has to come")
        return fields

    def close(self, *, drain: bool = False) -> None:
        """Say good-bye and hang up, whatever state the connection is in; raises nothing.

        With ``drain`` read on until the broker has hung up, too: all that it was sent is known to it then.
        """
        self.limit(_DRAIN_SECONDS if drain else _CLOSE_SECONDS)
        with suppress(BrokerError):
            self.send(CLOSE)
            # Who hangs up with something unread takes back what the other side has not read either: TCP then resets
            # the connection, and acceptances that were on their way are lost with it.
            while drain and not self._over:
                self._read(_AMQP[1])
        self._stream.close()

    def _authenticate(self, host: str, user: str, password: str) -> None:
        self._greet(_SASL)
        code, fields, _ = self._read(_SASL[1])
        offered = _at(fields, 0)
        mechanism = "PLAIN" if user else "ANONYMOUS"
        if code != _MECHANISMS or mechanism not in (offered if isinstance(offered, list) else [offered]):
            raise BrokerRefused(f"the broker does not offer the SASL mechanism {mechanism}")
        response = f"\0{user}\0{password}".encode() if user else b""
        self._write(_SASL[1], _INIT, (Symbol(mechanism), response, host), b"")
        code, fields, _ = self._read(_SASL[1])
        if code != _OUTCOME or _at(fields, 0) != 0:
            raise BrokerRefused(
                f"the broker does not take {'the user and the password' if user else 'anybody without a user'}"
            )

    def _greet(self, protocol: tuple[bytes, int]) -> None:
        self._stream.write(protocol[0])
        answer = self._take(8)
        if answer != protocol[0]:
            raise AMQPError(f"the other side does not speak AMQP 1.0: it answers {answer!r}")

    def _write(self, kind: int, code: int, fields: tuple[Any, ...], payload: bytes) -> None:
        body = encode(Described(Ulong(code), trimmed(list(fields)))) + payload
        self._stream.write(struct.pack("!IBBH", len(body) + 8, 2, kind, 0) + body)

    def _read(self, kind: int) -> tuple[int, list[Any], bytes]:
        while True:
            size, offset, found, _ = struct.unpack("!IBBH", self._take(8))
            if found != kind or offset < 2 or not 4 * offset <= size <= _FRAME:
                raise AMQPError("the broker sent a frame that is none")
            body = self._take(size - 8)[4 * offset - 8 :]
            if body:
                code, fields, payload = _performative(body)
                self._over = self._over or (kind == _AMQP[1] and code == CLOSE)
                return code, fields, payload
            # else it is there to show that the other side still is

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._fill()
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _whole(self) -> bool:
        while self._buffer.startswith(_EMPTY) and len(self._buffer) >= 8:
            del self._buffer[:8]
        return len(self._buffer) >= 8 and len(self._buffer) >= int.from_bytes(self._buffer[:4])

    def _fill(self) -> None:
        found = self._stream.read(65_536)
        if not found:
            raise AMQPError("the broker hung up")
        self._buffer += found


def error_text(what: str, error: Any) -> tuple[str, str]:
    """Message and condition of an error as the standard has it (part 2, section 8.14), or of none."""
    fields = error.value if isinstance(error, Described) and isinstance(error.value, list) else []
    condition, description = str(_at(fields, 0) or ""), str(_at(fields, 1) or "")
    said = f"{condition} {description}".strip()[:500]
    return f"{what}: {said}" if said else what, condition


def _performative(body: bytes) -> tuple[int, list[Any], bytes]:
    described, end = decode_first(body)
    if not (isinstance(described, Described) and isinstance(described.descriptor, int)):
        raise AMQPError("the broker sent something that is no performative")
    fields = described.value
    return described.descriptor, fields if isinstance(fields, list) else [], body[end:]


def _at(fields: list[Any], index: int) -> Any:
    return fields[index] if index < len(fields) else None

"""Connections and links of AMQP 1.0 (parts 2 and 5): frames, credit, transfers, outcomes, and errors."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from signalbook.brokers.amqp.messages import (
    AMQPError,
    DescribedValue,
    Symbol,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
    decode_first,
    encode,
    trim,
)
from signalbook.brokers.connection import BrokerError, BrokerRefused, BrokerSettings, ByteStream, MessageTooLarge

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
_SOURCE: Final = 0x28
_TARGET: Final = 0x29
_ACCEPTED: Final = 0x24
_REJECTED: Final = 0x25
_ENDS: Final = {_REJECTED: "rejected", 0x26: "released", 0x27: "modified"}
_UNSETTLED: Final = 0
_SETTLED: Final = 1
# Bytes of a frame that are reserved for everything except the bytes of the message.
_AROUND: Final = 64
_MAX_MESSAGE_BYTES: Final = 256 * 1024 * 1024
_CLOSE_SECONDS: Final = 1.0
_DRAIN_SECONDS: Final = 5.0
# Prefixes of error conditions that may pass, so that a new attempt can succeed.
_PASSING: Final = ("amqp:connection:", "amqp:internal-error", "amqp:resource-limit-exceeded", "amqp:link:detach-forced")


class AMQPEnded(AMQPError):
    """The error if the broker ends the link or connection. ``condition`` is the reason, such as ``amqp:not-found``."""

    def __init__(self, message: str, condition: str = "") -> None:
        super().__init__(message)
        self.condition = condition


@contextmanager
def refusals() -> Iterator[None]:
    """Raise ``BrokerRefused`` if the broker ends the connection or link while it is set up in the context.

    ``AMQPEnded`` is raised unchanged if its condition may pass.
    """
    try:
        yield
    except AMQPEnded as error:
        if error.condition.startswith(_PASSING):
            raise
        raise BrokerRefused(str(error)) from None


class AMQPConnection:
    """A connection with one session, on channel 0, for use by one thread. Methods raise ``BrokerError``.

    ``host`` is the name of the broker, ``container`` the name of this client.
    """

    def __init__(self, stream: ByteStream, *, host: str, container: str, user: str = "", password: str = "") -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._over = False
        self._authenticate(host, user, password)
        self._greet(_AMQP)
        # State no idle timeout, so that the broker need not send heartbeats. The broker may still require ours.
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
        """Return a new connection to the broker of ``settings``. ``container`` is the name of this client."""
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
        """Restart the time limit for all following calls: ``seconds``, or the timeout of the settings if None."""
        self._stream.limit(seconds)

    def send(self, code: int, *fields: Any, payload: bytes = b"") -> None:
        """Send the performative ``code`` with its ``fields``, followed by ``payload``."""
        self._write(_AMQP[1], code, fields, payload)

    def receive(self) -> tuple[int, list[Any], bytes]:
        """Return code, fields and payload of the next performative.

        Raises ``AMQPEnded`` if the broker ends the link, the session or the connection.
        """
        code, fields, payload = self._read(_AMQP[1])
        if code in (CLOSE, END):
            raise AMQPEnded(*format_error("the broker ended the connection", _at(fields, 0)))
        if code == DETACH:
            raise AMQPEnded(*format_error("the broker ended the link", _at(fields, 2)))
        return code, fields, payload

    def has_frame(self) -> bool:
        """Return True if a complete frame is in memory, after reading once from the broker if necessary.

        Raises ``BrokerTimeout`` if nothing arrives in time; a partial frame then stays in memory.
        """
        if not self._has_whole_frame():
            self._fill()
        return self._has_whole_frame()

    def send_heartbeat(self) -> None:
        """Send an empty frame, which shows the broker that this client is alive (part 2, section 4.5)."""
        self._stream.write(_BEAT)

    def expect(self, code: int) -> list[Any]:
        """Return the fields of the next performative. Raises ``AMQPError`` if its code is not ``code``."""
        received_code, fields, _ = self.receive()
        if received_code != code:
            raise AMQPError(f"the broker sent 0x{received_code:02x} where 0x{code:02x} has to come")
        return fields

    def close(self, *, drain: bool = False) -> None:
        """Close the connection, whatever its state. Raises nothing.

        With ``drain`` continue to read until the broker has closed its side, too. The broker has then read everything
        that was sent to it.
        """
        self.limit(_DRAIN_SECONDS if drain else _CLOSE_SECONDS)
        with suppress(BrokerError):
            self.send(CLOSE)
            # Closing a socket with unread data resets the TCP connection. Acceptances that the broker has not read yet
            # would then be lost.
            while drain and not self._over:
                self._read(_AMQP[1])
        self._stream.close()

    def _authenticate(self, host: str, user: str, password: str) -> None:
        # Begin with the SASL layer even without a user: most brokers reject a plain AMQP greeting.
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
        body = encode(DescribedValue(Ulong(code), trim(list(fields)))) + payload
        self._stream.write(struct.pack("!IBBH", len(body) + 8, 2, kind, 0) + body)

    def _read(self, kind: int) -> tuple[int, list[Any], bytes]:
        while True:
            size, offset, frame_kind, _ = struct.unpack("!IBBH", self._take(8))
            # Check the size before reading the frame: a peer with another protocol may claim any size.
            if frame_kind != kind or offset < 2 or not 4 * offset <= size <= _FRAME:
                raise AMQPError("the broker sent a frame that is none")
            body = self._take(size - 8)[4 * offset - 8 :]
            if body:
                code, fields, payload = _parse_performative(body)
                self._over = self._over or (kind == _AMQP[1] and code == CLOSE)
                return code, fields, payload
            # An empty frame is a heartbeat of the broker.

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._fill()
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def _has_whole_frame(self) -> bool:
        while self._buffer.startswith(_EMPTY) and len(self._buffer) >= 8:
            del self._buffer[:8]
        return len(self._buffer) >= 8 and len(self._buffer) >= int.from_bytes(self._buffer[:4])

    def _fill(self) -> None:
        data = self._stream.read(65_536)
        if not data:
            raise AMQPError("the broker hung up")
        self._buffer += data


def format_error(event: str, error: Any) -> tuple[str, str]:
    """Return the text and the condition of an AMQP error (part 2, section 8.14).

    The text begins with ``event``. Without an ``error`` it is only ``event``, and the condition is empty.
    """
    fields = error.value if isinstance(error, DescribedValue) and isinstance(error.value, list) else []
    condition, description = str(_at(fields, 0) or ""), str(_at(fields, 1) or "")
    reason = f"{condition} {description}".strip()[:500]
    return f"{event}: {reason}" if reason else event, condition


def _parse_performative(body: bytes) -> tuple[int, list[Any], bytes]:
    described, end = decode_first(body)
    if not (isinstance(described, DescribedValue) and isinstance(described.descriptor, int)):
        raise AMQPError("the broker sent something that is no performative")
    fields = described.value
    return described.descriptor, fields if isinstance(fields, list) else [], body[end:]


def _at(fields: list[Any], index: int) -> Any:
    return fields[index] if index < len(fields) else None


class AMQPSender:
    """A sender of messages over one link to the node ``address``, for use by one thread.

    With ``settled`` messages are sent without waiting for the broker's confirmation. ``properties`` are the properties
    of the link. Methods raise ``BrokerError``.
    """

    def __init__(
        self,
        connection: AMQPConnection,
        *,
        address: str,
        name: str,
        settled: bool = False,
        properties: Mapping[str, Any] = {},
    ) -> None:
        self.connection = connection
        self._settled = settled
        self._sent = 0
        self._confirmed = 0
        self._credit_end = 0
        self._frames = 0
        self._window_end = connection.window
        self._answers: dict[int, BrokerRefused | None] = {}
        self._max_message = self._attach(address, name, properties)

    @classmethod
    def open(
        cls,
        settings: BrokerSettings,
        *,
        address: str,
        name: str,
        settled: bool = False,
        properties: Mapping[str, Any] = {},
    ) -> AMQPSender:
        """Return a sender with a new connection, which ``close`` closes."""
        connection = AMQPConnection.open(settings, f"signalbook-{name}")
        try:
            with refusals():
                return cls(connection, address=address, name=name, settled=settled, properties=properties)
        except BaseException:
            connection.close()
            raise

    def publish(self, messages: Sequence[bytes]) -> Iterator[None]:
        """Send encoded messages. Yield once for each confirmed message, in order.

        As many messages are sent at once as the broker has granted credit for. Raises ``BrokerRefused`` for the first
        message that is not accepted; later messages may have been accepted.
        """
        self.connection.limit()
        for message in messages:
            try:
                self._send_transfer(message)
            except MessageTooLarge:
                yield from self._confirm()  # so that the caller knows that all messages before this one are confirmed
                raise
            yield from self._yield_confirmed()
        yield from self._confirm()

    def close(self) -> None:
        """Close the connection. Raises nothing."""
        self.connection.close()

    def _confirm(self) -> Iterator[None]:
        while self._confirmed < self._sent:
            yield from self._yield_confirmed()
            if self._confirmed < self._sent:
                self._take()

    def _yield_confirmed(self) -> Iterator[None]:
        while self._confirmed < self._sent and (self._settled or self._confirmed in self._answers):
            answer = self._answers.pop(self._confirmed, None)
            if answer is not None:
                raise answer
            self._confirmed += 1
            self.connection.limit()
            yield

    def _attach(self, address: str, name: str, properties: Mapping[str, Any]) -> int:
        link_properties = {Symbol(key): value for key, value in properties.items()}
        self.connection.send(
            ATTACH,
            name,
            Uint(0),
            False,
            Ubyte(_SETTLED if self._settled else _UNSETTLED),
            Ubyte(0),
            DescribedValue(Ulong(_SOURCE), [name]),
            DescribedValue(Ulong(_TARGET), [address]),
            None,
            None,
            Uint(0),
            None,
            None,
            None,
            link_properties or None,
        )
        fields = self.connection.expect(ATTACH)
        if len(fields) < 7 or fields[6] is None:
            self.connection.receive()  # raises ``AMQPEnded`` with the reason, if the broker states one
            raise AMQPError("the broker has no such address")
        size = fields[10] if len(fields) > 10 else None
        return int(size or 0)

    def _send_transfer(self, message: bytes) -> None:
        if self._max_message and len(message) > self._max_message:
            raise MessageTooLarge(f"the event has {len(message)} bytes, the broker takes {self._max_message}")
        while self._sent >= self._credit_end:  # the credit of the link is counted in messages
            self._take()
        delivery, room = self._sent, self.connection.max_frame - _AROUND
        # The standard requires only that tags are unique among unsettled deliveries.
        tag = delivery.to_bytes(8)
        # A message beyond the frame size goes in several transfers, each of which needs room in the window.
        for start in range(0, max(len(message), 1), room):
            while self._frames >= self._window_end:  # the window of the session is counted in frames
                self._take()
            more = start + room < len(message)
            part = message[start : start + room]
            head = (Uint(0), Uint(delivery), tag, Uint(0), self._settled, more)
            self.connection.send(TRANSFER, *head, payload=part)
            self._frames += 1
        self._sent += 1

    def _take(self) -> None:
        """Wait for the next performative of the broker and process it."""
        code, fields, _ = self.connection.receive()
        if code == FLOW:
            self._handle_flow(fields)
        elif code == DISPOSITION:
            self._handle_disposition(fields)

    def _handle_flow(self, fields: list[Any]) -> None:
        fields = [*fields, *[None] * 11]
        self._window_end = int(fields[0] or 0) + int(fields[1] or 0)
        if fields[4] is not None:
            self._credit_end = int(fields[5] or 0) + int(fields[6] or 0)
        if fields[9]:
            window = (Uint(self.connection.first_incoming), Uint(WINDOW), Uint(self._frames), Uint(WINDOW))
            self.connection.send(FLOW, *window)

    def _handle_disposition(self, fields: list[Any]) -> None:
        role, first, last, settled, state = [*fields, *[None] * 5][:5]
        if not role or not isinstance(first, int) or state is None:
            return
        outcome = state.descriptor if isinstance(state, DescribedValue) else None
        if outcome != _ACCEPTED and outcome not in _ENDS:
            return
        last = first if last is None else min(int(last), self._sent - 1)
        # Brokers may answer out of order and for several messages at once. Answers are stored until it is their turn.
        for delivery in range(max(first, self._confirmed), last + 1):
            self._answers[delivery] = None if outcome == _ACCEPTED else _make_refusal(int(outcome), state.value)
        if not settled:
            self.connection.send(DISPOSITION, False, Uint(first), Uint(last), True, state)


def _make_refusal(outcome: int, value: Any) -> BrokerRefused:
    error = value[0] if outcome == _REJECTED and isinstance(value, list) and value else None
    return BrokerRefused(format_error(f"the broker {_ENDS[outcome]} the event", error)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class AMQPDelivery:
    """A delivered message. ``content`` has all its sections; a ``settled`` delivery needs no acceptance."""

    number: int
    content: bytes
    settled: bool


class AMQPReceiver:
    """A receiver of messages from the node ``address``, for use by one thread. Methods raise ``BrokerError``.

    The broker sends at most ``most`` messages that are not yet accepted. When the connection ends, the broker delivers
    messages that were not accepted again, to this or another receiver.
    """

    def __init__(self, connection: AMQPConnection, address: str, name: str, most: int = 500) -> None:
        self.connection = connection
        self._most = most
        self._given = most
        self._frames = 0
        self._window = WINDOW
        self._content = bytearray()
        self._current: tuple[int, bool] | None = None
        self._count = self._attach(address, name)
        self._send_flow()

    @classmethod
    def open(cls, settings: BrokerSettings, *, address: str, name: str, most: int) -> AMQPReceiver:
        """Return a receiver with a new connection. Raises ``BrokerRefused`` if the node does not exist."""
        connection = AMQPConnection.open(settings, f"signalbook-{name}")
        try:
            with refusals():
                return cls(connection, address, name, most)
        except BaseException:
            connection.close()
            raise

    def take(self) -> AMQPDelivery | None:
        """Wait for the next frame. Return the delivery that it completes, or None if it completes no delivery."""
        code, fields, payload = self.connection.receive()
        if code == FLOW and len(fields) > 9 and fields[9]:
            self._send_flow()
        return self._handle_transfer(fields, payload) if code == TRANSFER else None

    def accept(self, deliveries: Sequence[AMQPDelivery]) -> None:
        """Accept ``deliveries`` and grant the broker credit for as many new messages."""
        numbers = [delivery.number for delivery in deliveries if not delivery.settled]
        for first, last in _group_ranges(numbers):
            self.connection.send(DISPOSITION, True, Uint(first), Uint(last), True, DescribedValue(Ulong(_ACCEPTED), []))
        # Credit is granted only with acceptance, so that at most ``most`` messages wait to be written to disk.
        self._given += len(deliveries)
        self._send_flow()

    def _attach(self, address: str, name: str) -> int:
        source, target = DescribedValue(Ulong(_SOURCE), [address]), DescribedValue(Ulong(_TARGET), [name])
        modes = Ubyte(_UNSETTLED), Ubyte(0)
        self.connection.send(
            ATTACH, name, Uint(0), True, *modes, source, target, None, None, None, Ulong(_MAX_MESSAGE_BYTES)
        )
        fields = [*self.connection.expect(ATTACH), *[None] * 10]
        if fields[5] is None:
            self.connection.receive()  # raises ``AMQPEnded`` with the reason, if the broker states one
            raise AMQPError("the broker has no such address")
        return int(fields[9] or 0)

    def _send_flow(self) -> None:
        """Grant the broker credit for up to ``most`` messages that are not accepted, and renew the window of frames."""
        self._window = WINDOW
        incoming = (self.connection.first_incoming + self._frames) % 2**32
        window = (Uint(incoming), Uint(self._window), Uint(0), Uint(WINDOW))
        self.connection.send(FLOW, *window, Uint(0), Uint(self._count % 2**32), Uint(min(self._given, self._most)))

    def _handle_transfer(self, fields: list[Any], payload: bytes) -> AMQPDelivery | None:
        _, number, _, _, settled, more, _, _, _, aborted = [*fields, *[None] * 10][:10]
        self._frames += 1
        self._window -= 1
        if self._current is None:
            if not isinstance(number, int):
                raise AMQPError("the broker sent a message without a number")
            self._current = number, bool(settled)
        self._content += payload
        if len(self._content) > _MAX_MESSAGE_BYTES:
            raise AMQPError(f"the broker sent a message of more than {_MAX_MESSAGE_BYTES} bytes")
        delivery = None if more and not aborted else self._complete(bool(settled), bool(aborted))
        # Renew the window when half of it is used: the broker then never waits, and not every frame needs an answer.
        if self._window < WINDOW // 2:
            self._send_flow()
        return delivery

    def _complete(self, settled: bool, aborted: bool) -> AMQPDelivery | None:
        assert self._current is not None
        number, before = self._current
        content = bytes(self._content)
        self._content.clear()
        self._current = None
        self._count += 1
        self._given -= 1
        if not aborted:
            return AMQPDelivery(number=number, content=content, settled=settled or before)
        self._given += 1  # an aborted message uses no credit
        return None


def _group_ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and last number of each run of consecutive ``numbers``."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    return ranges

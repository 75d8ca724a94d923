"""Connections of AMQP 1.0 and links over them (parts 2 and 5): frames, credit, transfers, outcomes, and errors."""

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
# Room in a frame for what stands around a message's bytes.
_AROUND: Final = 64
_MAX_MESSAGE_BYTES: Final = 256 * 1024 * 1024
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
    """A connection with one session, on channel 0. For one thread. Raises ``BrokerError``.

    ``host`` is the name of the broker, ``container`` the name of this client.
    """

    def __init__(self, stream: ByteStream, *, host: str, container: str, user: str = "", password: str = "") -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._over = False
        self._authenticate(host, user, password)
        self._greet(_AMQP)
        # No idle time is named here, so that the broker need not send heartbeats; it may still ask for ours.
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
            raise AMQPEnded(*format_error("the broker ended the connection", _at(fields, 0)))
        if code == DETACH:
            raise AMQPEnded(*format_error("the broker ended the link", _at(fields, 2)))
        return code, fields, payload

    def has_frame(self) -> bool:
        """Return True if a whole frame can be received, after reading once if necessary.

        A partial frame is kept if the time limit ends the reading.
        """
        if not self._has_whole_frame():
            self._fill()
        return self._has_whole_frame()

    def send_heartbeat(self) -> None:
        """Show that this side still is: an empty frame, as a peer may demand now and then (part 2, section 4.5)."""
        self._stream.write(_BEAT)

    def expect(self, code: int) -> list[Any]:
        """The fields of the next performative, which has to be this one."""
        received_code, fields, _ = self.receive()
        if received_code != code:
            raise AMQPError(f"the broker sent 0x{received_code:02x} where 0x{code:02x} has to come")
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
        # The SASL layer comes first, also without a user: most brokers hang up at a plain AMQP greeting.
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
            # Sizes are checked before that much is read: a peer that speaks something else may claim anything.
            if frame_kind != kind or offset < 2 or not 4 * offset <= size <= _FRAME:
                raise AMQPError("the broker sent a frame that is none")
            body = self._take(size - 8)[4 * offset - 8 :]
            if body:
                code, fields, payload = _parse_performative(body)
                self._over = self._over or (kind == _AMQP[1] and code == CLOSE)
                return code, fields, payload
            # else it is there to show that the other side still is

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
    """Return message and condition of an error as the standard has it (part 2, section 8.14), or of none."""
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
    """Sends messages over one link to the node ``address``, in order. For one thread. Raises ``BrokerError``.

    With ``settled`` the broker is not asked what becomes of them.
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
        """A link over a connection of its own."""
        connection = AMQPConnection.open(settings, f"signalbook-{name}")
        try:
            with refusals():
                return cls(connection, address=address, name=name, settled=settled, properties=properties)
        except BaseException:
            connection.close()
            raise

    def publish(self, messages: Sequence[bytes]) -> Iterator[None]:
        """Send encoded messages; yields once for each that is confirmed, in their order.

        Several are on their way at once, as many as the other side has given credit for. Raises ``BrokerRefused`` for
        the first that is not accepted; those behind it may have been.
        """
        self.connection.limit()
        for message in messages:
            try:
                self._send_transfer(message)
            except MessageTooLarge:
                yield from self._confirm()  # so that who sends knows that only this one is left
                raise
            yield from self._yield_confirmed()
        yield from self._confirm()

    def close(self) -> None:
        """Say good-bye, and hang up; raises nothing."""
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
            self.connection.receive()  # the reason follows
            raise AMQPError("the broker has no such address")
        size = fields[10] if len(fields) > 10 else None
        return int(size or 0)

    def _send_transfer(self, message: bytes) -> None:
        if self._max_message and len(message) > self._max_message:
            raise MessageTooLarge(f"the event has {len(message)} bytes, the broker takes {self._max_message}")
        while self._sent >= self._credit_end:  # credit is of the link, counted in messages
            self._take()
        delivery, room = self._sent, self.connection.max_frame - _AROUND
        # Unique among deliveries that are not settled, which is all that the standard asks.
        tag = delivery.to_bytes(8)
        # A message beyond the frame size goes in several transfers, each of which needs room in the window.
        for start in range(0, max(len(message), 1), room):
            while self._frames >= self._window_end:  # the window is of the session, counted in frames
                self._take()
            more = start + room < len(message)
            part = message[start : start + room]
            head = (Uint(0), Uint(delivery), tag, Uint(0), self._settled, more)
            self.connection.send(TRANSFER, *head, payload=part)
            self._frames += 1
        self._sent += 1

    def _take(self) -> None:
        """Wait for whatever the other side says next."""
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
        # Brokers may answer out of order and for several at once; the sender waits for them in the order it sent.
        for delivery in range(max(first, self._confirmed), last + 1):
            self._answers[delivery] = None if outcome == _ACCEPTED else _make_refusal(int(outcome), state.value)
        if not settled:
            self.connection.send(DISPOSITION, False, Uint(first), Uint(last), True, state)


def _make_refusal(outcome: int, value: Any) -> BrokerRefused:
    error = value[0] if outcome == _REJECTED and isinstance(value, list) and value else None
    return BrokerRefused(format_error(f"the broker {_ENDS[outcome]} the event", error)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class AMQPDelivery:
    """A message as bytes, all sections of it; one that is ``settled`` need not be accepted."""

    number: int
    content: bytes
    settled: bool


class AMQPReceiver:
    """Takes messages from the node ``address``, of which ``most`` may come before they are accepted. For one thread.

    What was not accepted when the connection ends is given again, to anybody. Raises ``BrokerError``.
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
        """A link over a connection of its own. Raises ``BrokerRefused`` if there is no such node."""
        connection = AMQPConnection.open(settings, f"signalbook-{name}")
        try:
            with refusals():
                return cls(connection, address, name, most)
        except BaseException:
            connection.close()
            raise

    def take(self) -> AMQPDelivery | None:
        """Return the delivery that the next frame completes, or None."""
        code, fields, payload = self.connection.receive()
        if code == FLOW and len(fields) > 9 and fields[9]:
            self._send_flow()
        return self._handle_transfer(fields, payload) if code == TRANSFER else None

    def accept(self, deliveries: Sequence[AMQPDelivery]) -> None:
        """Accept deliveries, in order, and grant the broker as many new ones."""
        numbers = [delivery.number for delivery in deliveries if not delivery.settled]
        for first, last in _group_ranges(numbers):
            self.connection.send(DISPOSITION, True, Uint(first), Uint(last), True, DescribedValue(Ulong(_ACCEPTED), []))
        # Credit goes back with acceptance only: more than ``most`` messages never wait for the disk.
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
            self.connection.receive()  # the reason follows
            raise AMQPError("the broker has no such address")
        return int(fields[9] or 0)

    def _send_flow(self) -> None:
        """Say how much may come: ``most`` messages that are not accepted, and frames enough for them."""
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
        # Renewed at half, so that the broker never waits for room, and does not hear of it after every frame.
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
        self._given += 1  # what the broker took back in the middle used up no credit
        return None


def _group_ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return first and last of each run of numbers."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    return ranges

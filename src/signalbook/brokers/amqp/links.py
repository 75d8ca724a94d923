"""Links that messages are sent or received over (AMQP 1.0 part 2, sections 6 and 7): credit, transfers, outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from signalbook.brokers.amqp.connection import (
    ATTACH,
    DISPOSITION,
    FLOW,
    TRANSFER,
    WINDOW,
    AMQPConnection,
    error_text,
    refusals,
)
from signalbook.brokers.amqp.types import AMQPError, Described, Symbol, Ubyte, Uint, Ulong
from signalbook.brokers.connection import BrokerRefused, BrokerSettings, MessageTooLarge

_SOURCE: Final = 0x28
_TARGET: Final = 0x29
_ACCEPTED: Final = 0x24
_REJECTED: Final = 0x25
_ENDS: Final = {_REJECTED: "rejected", 0x26: "released", 0x27: "modified"}
_UNSETTLED: Final = 0
_SETTLED: Final = 1
# Room in a frame for what stands around a message's bytes.
_AROUND: Final = 64
_LARGEST: Final = 256 * 1024 * 1024


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

    def send(self, messages: Sequence[bytes]) -> Iterator[None]:
        """Send encoded messages; yields once for each that is confirmed, in their order.

        Several are on their way at once, as many as the other side has given credit for. Raises ``BrokerRefused`` for
        the first that is not accepted; those behind it may have been.
        """
        self.connection.limit()
        for message in messages:
            try:
                self._transfer(message)
            except MessageTooLarge:
                yield from self._confirm()  # so that who sends knows that only this one is left
                raise
            yield from self._confirmed_by_now()
        yield from self._confirm()

    def _confirm(self) -> Iterator[None]:
        while self._confirmed < self._sent:
            yield from self._confirmed_by_now()
            if self._confirmed < self._sent:
                self._take()

    def _confirmed_by_now(self) -> Iterator[None]:
        while self._confirmed < self._sent and (self._settled or self._confirmed in self._answers):
            answer = self._answers.pop(self._confirmed, None)
            if answer is not None:
                raise answer
            self._confirmed += 1
            self.connection.limit()
            yield

    def _attach(self, address: str, name: str, properties: Mapping[str, Any]) -> int:
        named = {Symbol(key): value for key, value in properties.items()}
        self.connection.send(
            ATTACH,
            name,
            Uint(0),
            False,
            Ubyte(_SETTLED if self._settled else _UNSETTLED),
            Ubyte(0),
            Described(Ulong(_SOURCE), [name]),
            Described(Ulong(_TARGET), [address]),
            None,
            None,
            Uint(0),
            None,
            None,
            None,
            named or None,
        )
        fields = self.connection.expect(ATTACH)
        if len(fields) < 7 or fields[6] is None:
            self.connection.receive()  # the reason follows
            raise AMQPError("the broker has no such address")
        size = fields[10] if len(fields) > 10 else None
        return int(size or 0)

    def _transfer(self, message: bytes) -> None:
        if self._max_message and len(message) > self._max_message:
            raise MessageTooLarge(f"the event has {len(message)} bytes, the broker takes {self._max_message}")
        while self._sent >= self._credit_end:  # credit is of the link, counted in messages
            self._take()
        delivery, room = self._sent, self.connection.max_frame - _AROUND
        tag = delivery.to_bytes(8)
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
            self._flow(fields)
        elif code == DISPOSITION:
            self._disposed(fields)

    def _flow(self, fields: list[Any]) -> None:
        fields = [*fields, *[None] * 11]
        self._window_end = int(fields[0] or 0) + int(fields[1] or 0)
        if fields[4] is not None:
            self._credit_end = int(fields[5] or 0) + int(fields[6] or 0)
        if fields[9]:
            window = (Uint(self.connection.first_incoming), Uint(WINDOW), Uint(self._frames), Uint(WINDOW))
            self.connection.send(FLOW, *window)

    def _disposed(self, fields: list[Any]) -> None:
        role, first, last, settled, state = [*fields, *[None] * 5][:5]
        if not role or not isinstance(first, int) or state is None:
            return
        outcome = state.descriptor if isinstance(state, Described) else None
        if outcome != _ACCEPTED and outcome not in _ENDS:
            return
        last = first if last is None else min(int(last), self._sent - 1)
        # Brokers may answer out of order and for several at once; the sender waits for them in the order it sent.
        for delivery in range(max(first, self._confirmed), last + 1):
            self._answers[delivery] = None if outcome == _ACCEPTED else _unaccepted(int(outcome), state.value)
        if not settled:
            self.connection.send(DISPOSITION, False, Uint(first), Uint(last), True, state)


def _unaccepted(outcome: int, value: Any) -> BrokerRefused:
    error = value[0] if outcome == _REJECTED and isinstance(value, list) and value else None
    return BrokerRefused(error_text(f"the broker {_ENDS[outcome]} the event", error)[0])


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
        self._flow()

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
        """What the next frame completes, None if that is nothing."""
        code, fields, payload = self.connection.receive()
        if code == FLOW and len(fields) > 9 and fields[9]:
            self._flow()
        return self._transferred(fields, payload) if code == TRANSFER else None

    def accept(self, deliveries: Sequence[AMQPDelivery]) -> None:
        """Have the broker forget deliveries, in the order they came, and give as many others."""
        numbers = [delivery.number for delivery in deliveries if not delivery.settled]
        for first, last in _ranges(numbers):
            self.connection.send(DISPOSITION, True, Uint(first), Uint(last), True, Described(Ulong(_ACCEPTED), []))
        self._given += len(deliveries)
        self._flow()

    def _attach(self, address: str, name: str) -> int:
        source, target = Described(Ulong(_SOURCE), [address]), Described(Ulong(_TARGET), [name])
        modes = Ubyte(_UNSETTLED), Ubyte(0)
        self.connection.send(ATTACH, name, Uint(0), True, *modes, source, target, None, None, None, Ulong(_LARGEST))
        fields = [*self.connection.expect(ATTACH), *[None] * 10]
        if fields[5] is None:
            self.connection.receive()  # the reason follows
            raise AMQPError("the broker has no such address")
        return int(fields[9] or 0)

    def _flow(self) -> None:
        """Say how much may come: ``most`` messages that are not accepted, and frames enough for them."""
        self._window = WINDOW
        incoming = (self.connection.first_incoming + self._frames) % 2**32
        window = (Uint(incoming), Uint(self._window), Uint(0), Uint(WINDOW))
        self.connection.send(FLOW, *window, Uint(0), Uint(self._count % 2**32), Uint(min(self._given, self._most)))

    def _transferred(self, fields: list[Any], payload: bytes) -> AMQPDelivery | None:
        _, number, _, _, settled, more, _, _, _, aborted = [*fields, *[None] * 10][:10]
        self._frames += 1
        self._window -= 1
        if self._current is None:
            if not isinstance(number, int):
                raise AMQPError("the broker sent a message without a number")
            self._current = number, bool(settled)
        self._content += payload
        if len(self._content) > _LARGEST:
            raise AMQPError(f"the broker sent a message of more than {_LARGEST} bytes")
        found = None if more and not aborted else self._complete(bool(settled), bool(aborted))
        if self._window < WINDOW // 2:
            self._flow()
        return found

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


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """First and last of each run of numbers."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found

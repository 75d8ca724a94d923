"""A link that messages are sent over (AMQP 1.0 part 2, sections 6 and 7): credit, transfers, what became of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from signalbook.brokers.amqp.connection import ATTACH, DISPOSITION, FLOW, TRANSFER, WINDOW, Connection, Refused, told
from signalbook.brokers.amqp.types import AMQPError, Described, Symbol, Ubyte, Uint, Ulong

_SOURCE: Final = 0x28
_TARGET: Final = 0x29
_ACCEPTED: Final = 0x24
_REJECTED: Final = 0x25
_ENDS: Final = {_REJECTED: "rejected", 0x26: "released", 0x27: "modified"}
_UNSETTLED: Final = 0
_SETTLED: Final = 1
# Room in a frame for what stands around a message's bytes.
_AROUND: Final = 64


class TooLarge(Refused):
    """A message larger than the link takes; it was not sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What a link is to be: ``address`` is the node to send to; ``settled`` sends without asking for an answer."""

    address: str
    name: str
    settled: bool = False
    properties: Mapping[str, Any] = field(default_factory=dict)


class Sender:
    """Sends messages over one link, in order. For one thread. Raises ``AMQPError`` and what the stream raises."""

    def __init__(self, connection: Connection, link: Link) -> None:
        self._connection = connection
        self._settled = link.settled
        self._sent = 0
        self._confirmed = 0
        self._credit_end = 0
        self._frames = 0
        self._window_end = connection.window
        self._answers: dict[int, Refused | None] = {}
        self._max_message = self._attach(link)

    def send(self, messages: Sequence[bytes]) -> Iterator[None]:
        """Send encoded messages; yields once for each that is confirmed, in their order.

        Several are on their way at once, as many as the other side has given credit for. Raises ``Refused`` for the
        first that is not accepted; those behind it may have been.
        """
        for message in messages:
            try:
                self._transfer(message)
            except TooLarge:
                yield from self._confirm()
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
            yield

    def _attach(self, link: Link) -> int:
        properties = {Symbol(name): value for name, value in link.properties.items()}
        self._connection.send(
            ATTACH,
            link.name,
            Uint(0),
            False,
            Ubyte(_SETTLED if link.settled else _UNSETTLED),
            Ubyte(0),
            Described(Ulong(_SOURCE), [link.name]),
            Described(Ulong(_TARGET), [link.address]),
            None,
            None,
            Uint(0),
            None,
            None,
            None,
            properties or None,
        )
        fields = self._connection.expect(ATTACH)
        if len(fields) < 7 or fields[6] is None:
            self._connection.receive()  # the reason follows
            raise AMQPError("the broker has no such address")
        size = fields[10] if len(fields) > 10 else None
        return int(size or 0)

    def _transfer(self, message: bytes) -> None:
        if self._max_message and len(message) > self._max_message:
            raise TooLarge(f"the event has {len(message)} bytes, the broker takes {self._max_message}")
        while self._sent >= self._credit_end:
            self._take()
        delivery, room = self._sent, self._connection.max_frame - _AROUND
        tag = delivery.to_bytes(8)
        for start in range(0, max(len(message), 1), room):
            while self._frames >= self._window_end:
                self._take()
            more = start + room < len(message)
            part = message[start : start + room]
            head = (Uint(0), Uint(delivery), tag, Uint(0), self._settled, more)
            self._connection.send(TRANSFER, *head, payload=part)
            self._frames += 1
        self._sent += 1

    def _take(self) -> None:
        """Wait for whatever the other side says next."""
        code, fields, _ = self._connection.receive()
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
            window = (Uint(self._connection.first_incoming), Uint(WINDOW), Uint(self._frames), Uint(WINDOW))
            self._connection.send(FLOW, *window)

    def _disposed(self, fields: list[Any]) -> None:
        role, first, last, settled, state = [*fields, *[None] * 5][:5]
        if not role or not isinstance(first, int) or state is None:
            return
        outcome = state.descriptor if isinstance(state, Described) else None
        if outcome != _ACCEPTED and outcome not in _ENDS:
            return
        last = first if last is None else min(int(last), self._sent - 1)
        for delivery in range(max(first, self._confirmed), last + 1):
            self._answers[delivery] = None if outcome == _ACCEPTED else _unaccepted(int(outcome), state.value)
        if not settled:
            self._connection.send(DISPOSITION, False, Uint(first), Uint(last), True, state)


def _unaccepted(outcome: int, value: Any) -> Refused:
    error = value[0] if outcome == _REJECTED and isinstance(value, list) and value else None
    return Refused(*told(f"the broker {_ENDS[outcome]} the event", error))

"""A link that messages come over (AMQP 1.0 part 2, sections 6 and 7): credit, transfers, and their acceptance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from signalbook.brokers.amqp.connection import ATTACH, DISPOSITION, FLOW, TRANSFER, WINDOW, Connection
from signalbook.brokers.amqp.types import AMQPError, Described, Ubyte, Uint, Ulong

_SOURCE: Final = 0x28
_TARGET: Final = 0x29
_ACCEPTED: Final = Described(Ulong(0x24), [])
_UNSETTLED: Final = 0
_LARGEST: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message as bytes, all sections of it; one that is ``settled`` need not be accepted."""

    number: int
    content: bytes
    settled: bool


class Receiver:
    """Takes messages from the node ``address``, of which ``most`` may come before they are accepted. For one thread.

    What was not accepted when the connection ends is given again, to anybody. Raises ``AMQPError`` and what the stream
    raises; ``Refused`` if there is no such node.
    """

    def __init__(self, connection: Connection, address: str, name: str, most: int = 500) -> None:
        self._connection = connection
        self._most = most
        self._given = most
        self._frames = 0
        self._window = WINDOW
        self._content = bytearray()
        self._current: tuple[int, bool] | None = None
        self._count = self._attach(address, name)
        self._flow()

    def take(self) -> Delivery | None:
        """What the next frame completes, None if that is nothing."""
        code, fields, payload = self._connection.receive()
        if code == FLOW and len(fields) > 9 and fields[9]:
            self._flow()
        return self._transferred(fields, payload) if code == TRANSFER else None

    def accept(self, deliveries: Sequence[Delivery]) -> None:
        """Have the broker forget deliveries, in the order they came, and give as many others."""
        numbers = [delivery.number for delivery in deliveries if not delivery.settled]
        for first, last in _ranges(numbers):
            self._connection.send(DISPOSITION, True, Uint(first), Uint(last), True, _ACCEPTED)
        self._given += len(deliveries)
        self._flow()

    def _attach(self, address: str, name: str) -> int:
        source, target = Described(Ulong(_SOURCE), [address]), Described(Ulong(_TARGET), [name])
        modes = Ubyte(_UNSETTLED), Ubyte(0)
        self._connection.send(ATTACH, name, Uint(0), True, *modes, source, target, None, None, None, Ulong(_LARGEST))
        fields = [*self._connection.expect(ATTACH), *[None] * 10]
        if fields[5] is None:
            self._connection.receive()  # the reason follows
            raise AMQPError("the broker has no such address")
        return int(fields[9] or 0)

    def _flow(self) -> None:
        """Say how much may come: ``most`` messages that are not accepted, and frames enough for them."""
        self._window = WINDOW
        incoming = (self._connection.first_incoming + self._frames) % 2**32
        window = (Uint(incoming), Uint(self._window), Uint(0), Uint(WINDOW))
        self._connection.send(FLOW, *window, Uint(0), Uint(self._count % 2**32), Uint(min(self._given, self._most)))

    def _transferred(self, fields: list[Any], payload: bytes) -> Delivery | None:
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

    def _complete(self, settled: bool, aborted: bool) -> Delivery | None:
        assert self._current is not None
        number, before = self._current
        content = bytes(self._content)
        self._content.clear()
        self._current = None
        self._count += 1
        self._given -= 1
        if not aborted:
            return Delivery(number=number, content=content, settled=settled or before)
        self._given += 1
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

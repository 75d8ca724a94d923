"""What a receiver makes of transfers, windows and ends; and messages of a real broker."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from tests.amqp.receiver import SocketStream
from tests.amqp.test_connection import HEARTBEAT, OPENED, Scripted, frame
from tests.amqp.test_sender import performatives
from tests.brokers.program import Broker

from signalbook.amqp.connection import ATTACH, CLOSE, DETACH, DISPOSITION, FLOW, TRANSFER, Connection, Ended, Refused
from signalbook.amqp.message import Message, from_bytes, to_bytes
from signalbook.amqp.receiver import Delivery, Receiver
from signalbook.amqp.sender import Link, Sender
from signalbook.amqp.types import AMQPError, Described, Symbol, Uint, Ulong

SOURCE = Described(Ulong(0x28), ["orders"])
ATTACHED = frame(0, ATTACH, "link", Uint(0), False, None, None, SOURCE, None, None, None, Uint(0))
_numbers = count(1)


def transfer(number: int | None, content: bytes, *, settled: bool = False, more: bool = False, **end: bool) -> bytes:
    fields = [Uint(0), None if number is None else Uint(number), b"t", Uint(0), settled, more, None, None, None]
    made = frame(0, TRANSFER, *fields, *end.values()) + content
    return (len(made)).to_bytes(4) + made[4:]


def received(said: bytes, accept: bool = True) -> tuple[list[Delivery], Exception | None, list[tuple[int, list[Any]]]]:
    """What came until the peer had said all, what was raised, and what it was answered."""
    stream = Scripted(OPENED + said)
    connection = Connection(stream, host="broker.example", container="tests")
    stream.heard, found, error = b"", list[Delivery](), None
    try:
        receiver = Receiver(connection, "orders", "link", most=5)
        while True:
            delivery = receiver.take()
            found += [delivery] if delivery else []
            if delivery and accept:
                receiver.accept([delivery])
    except AMQPError as raised:
        error = raised
    return found, error, performatives(stream.heard)


def test_a_message_comes_in_parts() -> None:
    said = transfer(7, b"ab", more=True) + HEARTBEAT + transfer(None, b"cd") + transfer(8, b"e", settled=True)
    found, error, answers = received(ATTACHED + said)
    assert [(each.number, each.content, each.settled) for each in found] == [(7, b"abcd", False), (8, b"e", True)]
    assert "hung up" in str(error)
    assert [fields[:4] for code, fields in answers if code == DISPOSITION] == [[True, 7, 7, True]]


def test_credit_is_given_for_what_was_accepted() -> None:
    said = ATTACHED + transfer(0, b"a") + transfer(1, b"b")
    flows = [fields for code, fields in received(said)[2] if code == FLOW]
    assert [(fields[5], fields[6]) for fields in flows] == [(0, 5), (1, 5), (2, 5)]
    assert len([1 for code, _ in received(said, accept=False)[2] if code == FLOW]) == 1


def test_the_window_is_opened_again() -> None:
    parts = b"".join(transfer(0 if part == 0 else None, b"x", more=True) for part in range(1100))
    flows = [fields for code, fields in received(ATTACHED + parts)[2] if code == FLOW]
    assert [fields[0] for fields in flows] == [0, 1025]


def test_a_peer_that_asks_is_told() -> None:
    asked = frame(0, FLOW, Uint(0), Uint(9), Uint(0), Uint(9), Uint(0), Uint(0), Uint(0), None, None, True)
    assert len([1 for code, _ in received(ATTACHED + asked)[2] if code == FLOW]) == 2


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        (frame(0, ATTACH, "link", Uint(0), False) + frame(0, DETACH, Uint(0), True, None), Ended, "ended the link"),
        (ATTACHED + transfer(None, b"a"), AMQPError, "without a number"),
        (ATTACHED + frame(0, CLOSE, Described(Ulong(0x1D), [Symbol("amqp:connection:forced"), "bye"])), Ended, "bye"),
        (ATTACHED + transfer(1, b"a", more=True, aborted=True) + transfer(None, b"b"), AMQPError, "without a number"),
    ],
)
def test_what_ends_a_link(said: bytes, kind: type[Exception], words: str) -> None:
    found, error, _ = received(said)
    assert found == []
    assert isinstance(error, kind)
    assert words in str(error)


def connected(broker: Broker) -> tuple[SocketStream, Connection]:
    stream = SocketStream(broker.ports["plain"])
    return stream, Connection(stream, host="127.0.0.1", container=f"tests-{next(_numbers)}")


def test_what_was_not_accepted_is_given_again(artemis: Broker) -> None:
    """Messages of several frames, more than there is credit for at once."""
    sent = [
        to_bytes(Message(body=bytes([number]) * 100_000, properties={"subject": str(number)})) for number in range(9)
    ]
    stream, connection = connected(artemis)
    list(Sender(connection, Link(address="given.again", name="s")).send(sent))
    stream.socket.close()
    for accepted in (4, 9):
        stream, connection = connected(artemis)
        receiver, subjects = Receiver(connection, "given.again", "r", most=3), list[str]()
        while len(subjects) < accepted - (4 if accepted == 9 else 0):
            if delivery := receiver.take():
                subjects.append(from_bytes(delivery.content).properties["subject"])
                receiver.accept([delivery])
        assert subjects == [str(number) for number in range(0 if accepted == 4 else 4, accepted)]
        connection.close()
        stream.socket.close()


def test_a_node_that_may_not_be_read(artemis: Broker) -> None:
    """The broker's own words."""
    stream, connection = connected(artemis)
    with pytest.raises(Refused):
        Receiver(connection, "", "r").take()
    stream.socket.close()


def test_a_part_of_a_frame_waits_for_the_rest() -> None:
    stream = Scripted(OPENED + HEARTBEAT + transfer(1, b"abc"))
    connection = Connection(stream, host="broker.example", container="tests")
    while not connection.look():
        pass
    code, fields, payload = connection.receive()
    assert (code, fields[1], payload) == (TRANSFER, 1, b"abc")
    connection.beat()
    assert stream.heard.endswith(HEARTBEAT)

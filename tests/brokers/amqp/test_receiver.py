"""What a receiver makes of transfers, windows and ends; and messages of a real broker."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from tests.brokers.amqp.receiver import SocketStream, from_bytes
from tests.brokers.amqp.test_connection import HEARTBEAT, OPENED, Scripted, frame
from tests.brokers.amqp.test_sender import performatives
from tests.brokers.program import Broker

from signalbook.brokers.amqp.connection import (
    ATTACH,
    CLOSE,
    DETACH,
    DISPOSITION,
    FLOW,
    TRANSFER,
    AMQPConnection,
    AMQPDelivery,
    AMQPEnded,
    AMQPReceiver,
    AMQPSender,
)
from signalbook.brokers.amqp.messages import (
    AMQPError,
    AMQPMessage,
    DescribedValue,
    Symbol,
    Uint,
    Ulong,
    to_bytes,
)

SOURCE = DescribedValue(Ulong(0x28), ["orders"])
ATTACHED = frame(0, ATTACH, "link", Uint(0), False, None, None, SOURCE, None, None, None, Uint(0))
_numbers = count(1)


def transfer(number: int | None, content: bytes, *, settled: bool = False, more: bool = False, **end: bool) -> bytes:
    fields = [Uint(0), None if number is None else Uint(number), b"t", Uint(0), settled, more, None, None, None]
    body = frame(0, TRANSFER, *fields, *end.values()) + content
    return (len(body)).to_bytes(4) + body[4:]


def received(
    received_bytes: bytes, accept: bool = True
) -> tuple[list[AMQPDelivery], Exception | None, list[tuple[int, list[Any]]]]:
    """Return the deliveries up to the end of the input, the exception that was raised, and the responses."""
    stream = Scripted(OPENED + received_bytes)
    connection = AMQPConnection(stream, host="broker.example", container="tests")
    stream.heard, deliveries, error = b"", list[AMQPDelivery](), None
    try:
        receiver = AMQPReceiver(connection, "orders", "link", most=5)
        while True:
            delivery = receiver.take()
            deliveries += [delivery] if delivery else []
            if delivery and accept:
                receiver.accept([delivery])
    except AMQPError as raised:
        error = raised
    return deliveries, error, performatives(stream.heard)


def test_message_in_several_frames_is_received() -> None:
    input_ = transfer(7, b"ab", more=True) + HEARTBEAT + transfer(None, b"cd") + transfer(8, b"e", settled=True)
    deliveries, error, answers = received(ATTACHED + input_)
    assert [(delivery.number, delivery.content, delivery.settled) for delivery in deliveries] == [
        (7, b"abcd", False),
        (8, b"e", True),
    ]
    assert "hung up" in str(error)
    assert [fields[:4] for code, fields in answers if code == DISPOSITION] == [[True, 7, 7, True]]


def test_credit_grows_with_accepted_messages() -> None:
    input_ = ATTACHED + transfer(0, b"a") + transfer(1, b"b")
    flows = [fields for code, fields in received(input_)[2] if code == FLOW]
    assert [(fields[5], fields[6]) for fields in flows] == [(0, 5), (1, 5), (2, 5)]
    assert len([1 for code, _ in received(input_, accept=False)[2] if code == FLOW]) == 1


def test_the_window_is_opened_again() -> None:
    parts = b"".join(transfer(0 if part == 0 else None, b"x", more=True) for part in range(1100))
    flows = [fields for code, fields in received(ATTACHED + parts)[2] if code == FLOW]
    assert [fields[0] for fields in flows] == [0, 1025]


def test_flow_request_is_answered() -> None:
    flow_request = frame(0, FLOW, Uint(0), Uint(9), Uint(0), Uint(9), Uint(0), Uint(0), Uint(0), None, None, True)
    assert len([1 for code, _ in received(ATTACHED + flow_request)[2] if code == FLOW]) == 2


@pytest.mark.parametrize(
    ("input_", "kind", "words"),
    [
        (frame(0, ATTACH, "link", Uint(0), False) + frame(0, DETACH, Uint(0), True, None), AMQPEnded, "ended the link"),
        (ATTACHED + transfer(None, b"a"), AMQPError, "without a number"),
        (
            ATTACHED + frame(0, CLOSE, DescribedValue(Ulong(0x1D), [Symbol("amqp:connection:forced"), "bye"])),
            AMQPEnded,
            "bye",
        ),
        (ATTACHED + transfer(1, b"a", more=True, aborted=True) + transfer(None, b"b"), AMQPError, "without a number"),
    ],
)
def test_closed_link_is_an_error(input_: bytes, kind: type[Exception], words: str) -> None:
    deliveries, error, _ = received(input_)
    assert deliveries == []
    assert isinstance(error, kind)
    assert words in str(error)


@contextmanager
def connected(broker: Broker) -> Iterator[AMQPConnection]:
    with SocketStream(broker.ports["plain"]) as stream:
        yield AMQPConnection(stream, host="127.0.0.1", container=f"tests-{next(_numbers)}")


def taken(broker: Broker, count: int) -> list[str]:
    """The subjects of so many messages, accepted; what came beyond them is left where it is."""
    with connected(broker) as connection:
        receiver, subjects = AMQPReceiver(connection, "given.again", "r", most=3), list[str]()
        while len(subjects) < count:
            if delivery := receiver.take():
                subjects.append(from_bytes(delivery.content).properties["subject"])
                receiver.accept([delivery])
        connection.close(drain=True)
    return subjects


def test_unaccepted_messages_are_delivered_again(artemis: Broker) -> None:
    """Messages of several frames, more than there is credit for at once."""
    sent = [
        to_bytes(AMQPMessage(body=bytes([number]) * 100_000, properties={"subject": str(number)}))
        for number in range(9)
    ]
    with connected(artemis) as connection:
        list(AMQPSender(connection, address="given.again", name="s").publish(sent))
        connection.close(drain=True)
    assert taken(artemis, 4) == ["0", "1", "2", "3"]
    # in any order: the broker may give what comes next before it has put back what was not accepted
    assert sorted(taken(artemis, 5)) == ["4", "5", "6", "7", "8"]


def test_unreadable_node_is_an_error(artemis: Broker) -> None:
    """The broker's own words."""
    with connected(artemis) as connection, pytest.raises(AMQPEnded):
        AMQPReceiver(connection, "", "r").take()


def test_a_part_of_a_frame_waits_for_the_rest() -> None:
    stream = Scripted(OPENED + HEARTBEAT + transfer(1, b"abc"))
    connection = AMQPConnection(stream, host="broker.example", container="tests")
    while not connection.has_frame():
        pass
    code, fields, payload = connection.receive()
    assert (code, fields[1], payload) == (TRANSFER, 1, b"abc")
    connection.send_heartbeat()
    assert stream.heard.endswith(HEARTBEAT)


@pytest.mark.parametrize("farewell", [frame(0, CLOSE, None), b"", b"\0\0\0\x07\x02\0\0\0"])
def test_parting_reads_on_to_the_end(farewell: bytes) -> None:
    """Otherwise the broker would take back confirmed messages together with those that were not read."""
    stream = Scripted(OPENED + transfer(1, b"abc") + HEARTBEAT + frame(0, DETACH, Uint(0), True) + farewell)
    connection = AMQPConnection(stream, host="broker.example", container="tests")
    connection.close(drain=True)
    assert performatives(stream.heard[-len(frame(0, CLOSE)) :]) == [(CLOSE, [])]
    assert stream.read(9) == b""


def test_reading_ends_when_the_peer_closes() -> None:
    stream = Scripted(OPENED + frame(0, CLOSE) + HEARTBEAT * 9)
    connection = AMQPConnection(stream, host="broker.example", container="tests")
    with pytest.raises(AMQPEnded):
        connection.receive()
    connection.close(drain=True)
    assert stream.read(1)

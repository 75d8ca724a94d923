"""What a sender makes of credit, windows and answers; that brokers take its messages is seen in the tests of sinks."""

import struct
from typing import Any

import pytest
from tests.brokers.amqp.test_connection import OPENED, Scripted, frame

from signalbook.brokers.amqp.connection import (
    ATTACH,
    DETACH,
    DISPOSITION,
    FLOW,
    TRANSFER,
    AMQPConnection,
    AMQPEnded,
    AMQPSender,
)
from signalbook.brokers.amqp.messages import DescribedValue, Symbol, Uint, Ulong, decode_first
from signalbook.brokers.connection import BrokerError, BrokerRefused, MessageTooLarge

ACCEPTED = DescribedValue(Ulong(0x24), [])
TARGET = DescribedValue(Ulong(0x29), ["changes"])
ATTACHED = frame(0, ATTACH, "link", Uint(0), True, None, None, None, TARGET)


def flow(credit: int, count: int = 0, window: int = 1000, **more: bool) -> bytes:
    return frame(0, FLOW, Uint(0), Uint(window), Uint(0), Uint(100), Uint(0), Uint(count), Uint(credit), *more.values())


def answer(first: int, last: int | None = None, state: Any = ACCEPTED, settled: bool = True) -> bytes:
    return frame(0, DISPOSITION, True, Uint(first), last if last is None else Uint(last), settled, state)


def sent(received: bytes, count: int = 3, size: int = 10, **more: Any) -> tuple[int, Exception | None, list[list[Any]]]:
    """Return the number of confirmed messages, the exception that was raised, and the transfers."""
    stream = Scripted(OPENED + received)
    connection = AMQPConnection(stream, host="broker.example", container="tests")
    confirmed = 0
    error = None
    stream.heard = b""
    try:
        sender = AMQPSender(connection, address="changes", name="link", **more)
        for _ in sender.publish([b"x" * size] * count):
            confirmed += 1
    except BrokerError as raised:
        error = raised
    return confirmed, error, [fields for code, fields in performatives(stream.heard) if code == TRANSFER]


def performatives(data: bytes) -> list[tuple[int, list[Any]]]:
    parsed = []
    while data:
        (size,) = struct.unpack("!I", data[:4])
        described, _ = decode_first(data[8:size])
        parsed.append((int(described.descriptor), described.value))
        data = data[size:]
    return parsed


def test_messages_wait_for_credit_and_dispositions() -> None:
    received = ATTACHED + flow(2) + answer(0) + answer(1) + flow(1, count=2) + answer(2)
    confirmed, error, transfers = sent(received)
    assert (confirmed, error) == (3, None)
    assert [fields[1] for fields in transfers] == [0, 1, 2]


def test_answers_may_come_for_several_and_out_of_order() -> None:
    assert sent(ATTACHED + flow(5) + answer(1, 2) + answer(0))[:2] == (3, None)


def test_settled_messages_have_no_answers() -> None:
    confirmed, error, transfers = sent(ATTACHED + flow(5), settled=True)
    assert (confirmed, error) == (3, None)
    assert all(fields[4] is True for fields in transfers)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (
            DescribedValue(Ulong(0x25), [DescribedValue(Ulong(0x1D), [Symbol("amqp:decode-error"), "bad"])]),
            "the broker rejected the event: amqp:decode-error bad",
        ),
        (DescribedValue(Ulong(0x25), []), "the broker rejected the event"),
        (DescribedValue(Ulong(0x26), []), "the broker released the event"),
        (DescribedValue(Ulong(0x27), [True]), "the broker modified the event"),
    ],
)
def test_a_message_that_is_not_accepted_ends_the_count(state: DescribedValue, message: str) -> None:
    confirmed, error, _ = sent(ATTACHED + flow(5) + answer(0) + answer(1, state=state) + answer(2))
    assert confirmed == 1
    assert isinstance(error, BrokerRefused)
    assert str(error) == message


def test_a_message_waits_for_the_window_of_the_session() -> None:
    small = flow(5, window=1)
    confirmed, error, transfers = sent(ATTACHED + small + flow(5, window=3) + answer(0, 2))
    assert (confirmed, error, len(transfers)) == (3, None, 3)


def test_a_message_that_is_too_large_for_the_link_is_not_sent() -> None:
    limited = frame(0, ATTACH, "link", Uint(0), True, None, None, None, TARGET, None, None, None, Ulong(5))
    confirmed, error, transfers = sent(limited + flow(5))
    assert (confirmed, transfers) == (0, [])
    assert isinstance(error, MessageTooLarge)


def test_a_message_larger_than_a_frame_takes_several() -> None:
    confirmed, error, transfers = sent(ATTACHED + flow(5) + answer(0), count=1, size=150_000)
    assert (confirmed, error) == (1, None)
    assert [fields[5] if len(fields) > 5 else False for fields in transfers] == [True, True, False]


def test_flow_request_is_answered_with_a_flow() -> None:
    asking = frame(0, FLOW, Uint(0), Uint(1000), Uint(0), Uint(100), None, None, None, None, None, True)
    stream = Scripted(OPENED + ATTACHED + asking + flow(1) + answer(0))
    sender = AMQPSender(AMQPConnection(stream, host="x", container="tests"), address="changes", name="link")
    stream.heard = b""
    assert len(list(sender.publish([b"x"]))) == 1
    assert [code for code, _ in performatives(stream.heard)] == [FLOW, TRANSFER]


def test_unsettled_disposition_is_settled() -> None:
    stream = Scripted(OPENED + ATTACHED + flow(1) + answer(0, settled=False))
    sender = AMQPSender(AMQPConnection(stream, host="x", container="tests"), address="changes", name="link")
    stream.heard = b""
    assert len(list(sender.publish([b"x"]))) == 1
    assert [code for code, _ in performatives(stream.heard)] == [TRANSFER, DISPOSITION]


@pytest.mark.parametrize(
    "received",
    [
        frame(0, ATTACH, "link", Uint(0), True, None, None, None, None)
        + frame(0, DETACH, Uint(0), True, DescribedValue(Ulong(0x1D), [Symbol("amqp:not-found")])),
        frame(0, ATTACH, "link")
        + frame(0, DETACH, Uint(0), True, DescribedValue(Ulong(0x1D), [Symbol("amqp:not-found")])),
    ],
)
def test_unknown_address_is_an_error(received: bytes) -> None:
    confirmed, error, _ = sent(received)
    assert confirmed == 0
    assert isinstance(error, AMQPEnded)
    assert error.condition == "amqp:not-found"


@pytest.mark.parametrize(
    "extra",
    [
        answer(7, 2**31),
        answer(0, 2**31, state=None),
        frame(0, DISPOSITION, False, Uint(0)),
        frame(0, DISPOSITION, True),
    ],
)
def test_dispositions_of_unknown_messages_are_ignored(extra: bytes) -> None:
    assert sent(ATTACHED + flow(5) + extra + answer(0, 2))[:2] == (3, None)

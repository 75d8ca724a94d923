"""Streams of nats-server, read by number."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import nats as client
import pytest
from tests.brokers.program import Broker
from tests.brokers.scripted_nats import Scripted

from signalbook.brokers.connection import BrokerError, BrokerRefused, BrokerSettings
from signalbook.brokers.nats import JetStream, NATSConnection, NATSError

PATIENCE = 300
_numbers = count(1)
Streamed = Callable[..., str]


@pytest.fixture
def streamed(nats: Broker) -> Streamed:
    """Makes a stream of messages with these payloads, to two subjects in turn."""

    def make(payloads: list[bytes], drop: int = 0, **config: Any) -> str:
        name = f"READ-{os.getpid()}-{next(_numbers)}"

        async def fill() -> None:
            connection = await client.connect(f"nats://127.0.0.1:{nats.ports['plain']}", connect_timeout=PATIENCE)
            streams = connection.jetstream(timeout=PATIENCE)
            await streams.add_stream(name=name, subjects=[f"{name}.*"], **config)
            for number, payload in enumerate(payloads):
                await streams.publish(f"{name}.{'ab'[number % 2]}", payload, headers={"N": str(number)})
            if drop:
                await streams.purge_stream(name, seq=drop + 1)
            await connection.close()

        asyncio.run(fill())
        return name

    return make


@contextmanager
def reading(broker: Broker) -> Iterator[JetStream]:
    settings = BrokerSettings(servers=(("127.0.0.1", broker.ports["plain"]),), secure=False, timeout=PATIENCE)
    connection = NATSConnection.open(settings)
    try:
        yield JetStream(connection)
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("start", "end", "subject", "numbers"),
    [
        (1, 5, "", [1, 2, 3, 4, 5]),
        (2, 3, "", [2, 3]),
        (4, 99, "", [4, 5]),
        (6, 9, "", []),
        (3, 2, "", []),
        (1, 4, "{}.b", [2, 4]),
        (1, 5, "{}.*", [1, 2, 3, 4, 5]),
    ],
)
def test_messages_by_number(
    nats: Broker, streamed: Streamed, start: int, end: int, subject: str, numbers: list[int]
) -> None:
    name = streamed([b"x", b"", b"y", b"z" * 100_000, b"5"])
    with reading(nats) as jetstream:
        messages = [message for some in jetstream.read(name, start, end, subject.format(name)) for message in some]
    assert [message.number for message in messages] == numbers
    assert all(message.subject == f"{name}.{'ba'[message.number % 2]}" for message in messages)
    assert all(message.headers == [("N", str(message.number - 1).encode())] for message in messages)


def test_more_than_one_answer_holds(nats: Broker, streamed: Streamed) -> None:
    """Lists are bounded by number and by size, and nothing is left out between them."""
    name = streamed([b"x" * 20_000] * 1200)
    with reading(nats) as jetstream:
        batches = list(jetstream.read(name, 1, 1200))
    assert [message.number for some in batches for message in some] == list(range(1, 1201))
    assert max(sum(len(message.payload) for message in some) for some in batches) < 10_000_000
    assert batches[0][0].time > 1_700_000_000 * 10**9


def test_deleted_messages_are_skipped(nats: Broker, streamed: Streamed) -> None:
    name = streamed([b"x"] * 5, drop=3)
    with reading(nats) as jetstream:
        assert [message.number for some in jetstream.read(name, 1, 5) for message in some] == [4, 5]
        state = jetstream.stream(name)
    assert state is not None
    assert (state.first, state.last, state.retention) == (4, 5, "limits")


def test_the_state_of_streams(nats: Broker, streamed: Streamed) -> None:
    empty, gone = streamed([]), streamed([b"x"] * 2, drop=2)
    with reading(nats) as jetstream:
        states = [jetstream.stream(name) for name in (empty, gone)]
        assert [(state.first, state.last) for state in states if state] == [(1, 0), (3, 2)]
        assert len({state.created for state in states if state} - {""}) == 2
        assert jetstream.stream("NOWHERE") is None
        assert jetstream.streams_of(f"{gone}.a") == [gone]
        assert jetstream.streams_of("nothing.of.it") == []
        with pytest.raises(BrokerRefused, match="stream not found"):
            list(jetstream.read("NOWHERE", 1, 2))


def scripted(*answers: bytes) -> JetStream:
    return JetStream(NATSConnection(Scripted(answers)))


def consumer(pending: int) -> bytes:
    return b'{"name":"c","num_pending":%d}' % pending


def error(code: int, number: int) -> bytes:
    return b'{"error":{"code":%d,"err_code":%d,"description":"no"}}' % (code, number)


@pytest.mark.parametrize("status", ["404 No Messages", "408 Request Timeout", "409 Consumer Deleted", "503"])
def test_pending_messages_are_not_reported_as_gone(status: str) -> None:
    """A new consumer knows whether it is."""
    with pytest.raises(NATSError, match=f"status {status[:3]}"):
        list(scripted(consumer(2), f"NATS/1.0 {status}\r\n\r\n".encode()).read("S", 1, 2))


def test_expired_consumer_is_not_an_error() -> None:
    assert list(scripted(consumer(0), error(404, 10014)).read("S", 1, 2)) == []


@pytest.mark.parametrize(
    ("code", "number", "kind"),
    [(503, 10008, NATSError), (503, 10076, BrokerRefused), (503, 10039, BrokerRefused), (400, 1, BrokerRefused)],
)
def test_errors_are_distinguished_by_their_code(code: int, number: int, kind: type[BrokerError]) -> None:
    with pytest.raises(BrokerError) as caught:
        scripted(error(code, number)).stream("S")
    assert type(caught.value) is kind

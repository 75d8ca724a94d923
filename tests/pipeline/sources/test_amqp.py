"""Messages of AMQP as they wait, with the types they had, and links to a real broker that lose nothing."""

import os
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from tests.brokers.amqp.receiver import SocketStream
from tests.brokers.program import Broker

from signalbook.brokers.amqp.connection import AMQPConnection, AMQPSender
from signalbook.brokers.amqp.messages import AMQPMessage, DescribedValue, Symbol, Timestamp, Ulong, encode, to_bytes
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources.amqp import SOURCE, _build_spooled_message
from signalbook.pipeline.sources.base import build_single_batch
from signalbook.pipeline.sources.spool import MessageSpool

PATIENCE = 300
UUID_1 = UUID(int=1)
_numbers = count(1)


def section(code: int, value: Any) -> bytes:
    return encode(DescribedValue(Ulong(code), value))


def read_back(content: bytes) -> Any:
    """Return the message after the way through a spool and Spark's rows."""
    spooled = _build_spooled_message(content)
    row = {"key": spooled.key, "value": spooled.value, "received_at": None}
    batch = build_single_batch("amqp:q", spooled.value, 5)
    return spooled, SOURCE.message(replace(batch, records=pa.RecordBatch.from_pylist([row])), 0)


def test_a_message_has_all_its_sections() -> None:
    """The values keep their types (K-7, K-35)."""
    properties = {"cloudEvents_n": 5, "flag": True, "at": None, "bin": b"\xff", "deep": [1, {"a": None}]}
    sections = (
        section(0x70, [True]),
        section(0x72, {Symbol("x-opt-a"): Symbol("b")}),
        section(0x73, [UUID_1, b"me", "orders", "s", None, None, Symbol("text/plain"), None, None, Timestamp(1500)]),
        section(0x74, {**properties, "at": Timestamp(0)}),
        section(0x75, b"hello"),
    )
    spooled, message = read_back(b"".join(sections))
    assert (message.protocol, message.content_type, message.body) == ("AMQP/1.0", "text/plain", b"hello")
    assert message.sections == {
        "header": {"durable": True},
        "message-annotations": {"x-opt-a": "b"},
        "properties": {
            "message-id": UUID_1,
            "user-id": b"me",
            "to": "orders",
            "subject": "s",
            "content-type": "text/plain",
            "creation-time": datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC),
        },
        "application-properties": {**properties, "at": datetime(1970, 1, 1, tzinfo=UTC)},
    }
    assert spooled.address == "orders"
    assert dict(spooled.headers) == {
        "content-type": b"text/plain",
        "cloudEvents_n": b"5",
        "flag": b"true",
        "at": b"1970-01-01T00:00:00Z",
        "bin": b"\xff",
        "deep": b"[1, {'a': None}]",
    }


@pytest.mark.parametrize(
    ("content", "body"),
    [
        (b"", b""),
        (section(0x77, "größe"), "größe".encode()),
        (section(0x77, b"raw"), b"raw"),
        (section(0x77, None), b""),
        (section(0x77, {"a": 1}), encode({"a": 1})),
        (b"\x00garbage", b"\x00garbage"),
        (section(0x73, {}), section(0x73, {})),
    ],
)
def test_bodies_of_every_kind(content: bytes, body: bytes) -> None:
    """Other content is kept unchanged (K-45)."""
    assert read_back(content)[1].body == body


def test_an_application_property_is_no_content_type() -> None:
    content = section(0x74, {"content-type": "application/cloudevents+json"}) + section(0x75, b"{}")
    spooled, message = read_back(content)
    expected = [b"", b"application/cloudevents+json"]
    assert [value for name, value in spooled.headers if name == "content-type"] == expected
    assert message.content_type == ""


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (["amqp://h"], "name one address of h:5672"),
        (["amqp://h/a", "amqp://h/b"], "others are streams of their own"),
        (["mqtt://h/a"], "no address of AMQP 1.0: it looks like amqp://HOST:PORT/ADDRESS"),
    ],
)
def test_invalid_address_is_rejected(inputs: list[str], words: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(words)):
        SOURCE.parse_broker(inputs, {})


@contextmanager
def opened_sender(port: int, queue: str) -> Iterator[AMQPSender]:
    with SocketStream(port) as stream:
        connection = AMQPConnection(stream, host="127.0.0.1", container="tests")
        yield AMQPSender(connection, address=queue, name="s")
        connection.close(drain=True)


def send(port: int, queue: str, bodies: Sequence[bytes]) -> None:
    with opened_sender(port, queue) as sender:
        list(sender.publish([to_bytes(AMQPMessage(body=body)) for body in bodies]))


@pytest.fixture
def queue() -> str:
    return f"queue-{os.getpid()}-{next(_numbers)}"


def test_unconfirmed_message_is_delivered_again(artemis: Broker, spool: MessageSpool, queue: str) -> None:
    """A connection that ends before confirming a message receives it again."""
    port = artemis.ports["plain"]
    send(port, queue, [b"0", b"1", b"2", b"3", b"4"])
    url = f"amqp://127.0.0.1:{port}/{queue}?timeout={PATIENCE}"
    for confirm in (False, True):
        receiving = SOURCE.connect([url], {}, spool)
        values: list[bytes] = []
        while len(values) < 5:
            received_now = receiving.receive(0.5)
            values += [received_message.message.value for received_message in received_now]
            if confirm:
                receiving.confirm(received_now)
        receiving.close()
        assert sorted(values) == [b"0", b"1", b"2", b"3", b"4"]


def test_steady_messages_do_not_wait_for_all(artemis: Broker, spool: MessageSpool, queue: str) -> None:
    """A message is sent every two milliseconds, for longer than the first one is not delivered."""
    port = artemis.ports["plain"]
    over, most, sent = threading.Event(), 400, list[int]()

    def send_steadily() -> None:
        with opened_sender(port, queue) as sender:
            while not over.wait(0.002) and len(sent) < most:
                list(sender.publish([to_bytes(AMQPMessage(body=b"a"))]))
                sent.append(len(sent))

    receiving = SOURCE.connect([f"amqp://127.0.0.1:{port}/{queue}?timeout={PATIENCE}"], {}, spool)
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(send_steadily)
        while not (first := receiving.receive(0.5)):
            pass
        over.set()
        sending.result()
    assert len(first) < most
    receiving.close()


def test_slow_message_does_not_trigger_the_idle_timeout(artemis: Broker, spool: MessageSpool, queue: str) -> None:
    """The transfer of the message takes two seconds, in a steady flow of frames."""
    send(artemis.ports["plain"], queue, [b"x" * 4_000_000])
    frames = list[int]()

    def pass_on(origin: socket.socket, other: socket.socket, pause: float) -> None:
        with suppress(OSError), origin.makefile("rb") as file:
            while head := file.read(4):
                remaining_bytes = file.read((8 if head == b"AMQP" else int.from_bytes(head)) - 4)
                other.sendall(head + remaining_bytes)
                if pause:
                    frames.append(len(remaining_bytes))
                    time.sleep(pause)

    with socket.create_server(("127.0.0.1", 0)) as door:
        url = f"amqp://127.0.0.1:{door.getsockname()[1]}/{queue}?timeout={PATIENCE}"
        with ThreadPoolExecutor(1) as pool:
            opening = pool.submit(SOURCE.connect, [url], {}, spool)
            client = door.accept()[0]
            server = socket.create_connection(("127.0.0.1", artemis.ports["plain"]))
            for arguments in ((client, server, 0.0), (server, client, 0.04)):
                threading.Thread(target=pass_on, args=arguments, daemon=True).start()
            receiving = opening.result()
        before = len(frames)
        while not (received_messages := receiving.receive(0.5)):
            assert len(frames) - before < 5, "that is silence to those who look"
            before = len(frames)
        assert [len(arguments.message.value) for arguments in received_messages] == [4_000_000]
        receiving.confirm(received_messages)
        receiving.close()
        client.close()
        server.close()


@pytest.mark.parametrize(
    ("scheme", "options", "words"),
    [
        ("amqp", {"user": "alice", "password": "not-it-3", "timeout": "300"}, "does not take"),
        ("amqps", {}, "is not trusted"),
    ],
)
def test_refusal_of_the_broker_is_reported(
    artemis: Broker, spool: MessageSpool, scheme: str, options: dict[str, str], words: str
) -> None:
    port = artemis.ports["tls" if scheme == "amqps" else "plain"]
    with pytest.raises(PipelineError, match=words) as caught:
        SOURCE.connect([f"{scheme}://127.0.0.1:{port}/a"], options, spool)
    assert "not-it-3" not in str(caught.value)

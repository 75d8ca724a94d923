"""NATS against nats-server: with and without a stream, and what a server's no looks like."""

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import nats as client
import pytest
from nats.aio.msg import Msg
from tests.brokers.certificates import Certificates
from tests.brokers.deliveries import EVENT_TYPE, events, parsed, plain, policy, subscription
from tests.brokers.program import Broker, StartBroker

from signalbook.events.sinks.base import DeliveryError
from signalbook.events.sinks.nats import FACTORY
from signalbook.events.subscription import Credential
from signalbook.values import JSONObject

PATIENCE = 300


def address(broker: Broker, scheme: str = "nats", host: str = "127.0.0.1") -> str:
    return f"{scheme}://{host}:{broker.ports['plain']}"


def deliver(broker: Broker, sent: list[JSONObject], credential: Credential | None = None, **settings: Any) -> None:
    with closing(FACTORY.open(subscription("NATS", address(broker), credential, **settings), policy(broker))) as sink:
        sink.send(sent)


def heard(broker: Broker, subject: str, count: int, send: Callable[[], None]) -> list[Msg]:
    """Return the messages that arrive at a subject while ``send`` runs."""

    async def listen() -> list[Msg]:
        connection = await client.connect(address(broker), connect_timeout=PATIENCE)
        try:
            subscription_ = await connection.subscribe(subject)
            await connection.flush(PATIENCE)
            await asyncio.to_thread(send)
            return [await subscription_.next_msg(PATIENCE) for _ in range(count)]
        finally:
            await connection.close()

    return asyncio.run(listen())


def stored(broker: Broker, stream: str, subject: str, send: Callable[[], None], **config: Any) -> list[Msg]:
    """Return the content of a stream after messages were sent to its subject. Errors of ``send`` are raised."""

    async def store() -> list[Msg]:
        connection = await client.connect(address(broker), connect_timeout=PATIENCE)
        try:
            streams = connection.jetstream(timeout=PATIENCE)
            await streams.add_stream(name=stream, subjects=[subject], **config)
            await asyncio.to_thread(send)
            count = (await streams.stream_info(stream)).state.messages
            reader = await streams.subscribe(subject, ordered_consumer=True)
            return [await reader.next_msg(PATIENCE) for _ in range(count)]
        finally:
            await connection.jetstream(timeout=PATIENCE).delete_stream(stream)
            await connection.close()

    return asyncio.run(store())


def test_events_arrive_once_and_in_order(nats: Broker) -> None:
    """The subject has no stream, and the events need more than one round (D-30 subject)."""
    messages = heard(nats, "plain.changes", 250, lambda: deliver(nats, events(250), subject="plain.changes"))
    assert parsed([message.data for message in messages]) == events(250)
    assert {(message.headers or {})["Content-Type"] for message in messages} == {EVENT_TYPE}


def test_a_stream_has_each_event_once(nats: Broker) -> None:
    """A batch whose acknowledgements were lost is sent again, and dropped by the stream."""

    def send() -> None:
        for _ in range(2):
            deliver(nats, events(250), subject="stored.changes")

    messages = stored(nats, "CHANGES", "stored.changes", send)
    assert parsed([message.data for message in messages]) == events(250)
    assert {(message.headers or {})["Content-Type"] for message in messages} == {EVENT_TYPE}


def test_full_stream_reports_the_accepted_events(nats: Broker) -> None:
    def send() -> None:
        with pytest.raises(DeliveryError, match="the stream does not take the event: maximum messages exceeded") as no:
            deliver(nats, events(5), subject="full.changes")
        assert no.value.delivered == 2

    messages = stored(nats, "FULL", "full.changes", send, max_msgs=2, discard=client.js.api.DiscardPolicy.NEW)
    assert parsed([message.data for message in messages]) == events(2)


def test_an_event_that_is_too_large_is_reported(nats: Broker) -> None:
    large = events(1, start=2, data="x" * 1_100_000)
    with pytest.raises(DeliveryError, match=r"the event has \d+ bytes, the server takes 1048576") as caught:
        deliver(nats, [*events(2), *large, *events(1, start=3)], subject="large.changes")
    assert (caught.value.delivered, caught.value.rejected) == (2, True)


def test_a_user_is_taken_by_the_password(nats: Broker) -> None:
    """D-31 PLAIN."""
    deliver(nats, events(1), plain(), subject="x")


def test_wrong_password_is_reported(nats: Broker) -> None:
    with pytest.raises(DeliveryError, match="Authorization Violation") as caught:
        deliver(nats, events(1), plain("not-it"), subject="x")
    assert "not-it" not in str(caught.value)


def test_a_user_may_not_publish_everywhere(nats: Broker) -> None:
    """The user has no right to look up streams either."""
    bounded = plain(user="bounded")
    with pytest.raises(DeliveryError, match="Permissions Violation"):
        deliver(nats, events(1), bounded, subject="closed.changes")
    assert len(heard(nats, "open.changes", 1, lambda: deliver(nats, events(1), bounded, subject="open.changes"))) == 1


def test_tls_checks_the_name(nats: Broker, certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = FACTORY.open(subscription("NATS", address(nats, "tls", "localhost"), subject="x"), policy(nats))
    with pytest.raises(DeliveryError, match="certificate verify failed"):
        sink.send(events(1))
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    sink.send(events(1))
    sink.close()


def test_a_server_that_comes_back_is_used_again(own_server: StartBroker) -> None:
    nats = own_server("nats")
    sink = FACTORY.open(subscription("NATS", address(nats), subject="again"), policy(nats))
    sink.send(events(1))
    nats.stop()
    try:
        with pytest.raises(DeliveryError, match=r"127\.0\.0\.1:\d+ cannot be reached"):
            sink.send(events(1, start=1))
    finally:
        nats.start()
    messages = heard(nats, "again", 2, lambda: sink.send(events(2, start=1)))
    assert parsed([message.data for message in messages]) == events(2, start=1)
    sink.close()


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak NATS"),
        (b"INFO {]\r\n", "does not speak NATS"),
        (b"INFO []\r\n", "does not speak NATS"),
        (b"INFO {}\r\n", "no message headers"),
        (b'INFO {"headers":true,"tls_required":true}\r\n', "begins with tls://"),
        (b'INFO {"headers":true}\r\nPONG\r\nMSG x.1 1 99999999999\r\n', "impossible size"),
        (b'INFO {"headers":true}\r\nPONG\r\nMSG x.1 1 five\r\n', "a message that is none"),
        (b'INFO {"headers":true}\r\nGOOD DAY\r\n', "not of the NATS protocol"),
        (b"x" * 70_000, "a line without an end"),
        (b"INFO", "hung up"),
    ],
)
def test_server_of_another_protocol_is_an_error(reply: bytes, complaint: str, nats: Broker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):  # nobody has to listen to the end
                connection.sendall(reply)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65_536):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        port = server.getsockname()[1]
        place = subscription("NATS", f"nats://127.0.0.1:{port}", subject="x")
        sink = FACTORY.open(place, policy(nats, f"127.0.0.1:{port}"))
        with pytest.raises(DeliveryError, match=complaint):
            sink.send(events(1))
        thread.join()

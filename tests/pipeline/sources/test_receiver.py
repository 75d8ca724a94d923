"""Receiving: written before it is confirmed, connected anew where that may help, ended where it may not."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from paho.mqtt import publish
from tests.brokers.program import Broker
from tests.pipeline.s3 import KINDS, place
from tests.pipeline.sources.test_amqp import send as send_amqp

from signalbook.brokers import mqtt as mqtt_client
from signalbook.brokers.connection import BrokerUnavailable
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import Place, place_of
from signalbook.pipeline.sources import amqp, mqtt, receiver
from signalbook.pipeline.sources.receiver import ReceivedMessage, SpoolReceiver
from signalbook.pipeline.sources.spool import MessageSpool, SpooledMessage, is_full, read_messages

PATIENCE = 300.0


class Source:
    """A connection to nowhere, that gives its messages by threes, and more of them as those are confirmed.

    It breaks for each of ``breaks`` first, and then has nothing for ``short`` looks that end at once.
    """

    def __init__(self, spot: Place, count: int, breaks: Sequence[Exception] = (), short: int = 0) -> None:
        self.spot = spot
        self.left = list(range(count))
        self.breaks = list(breaks)
        self.short = short
        self.given = 0
        self.done = threading.Event()

    def connect(self) -> Source:
        self.given = 0
        return self

    def receive(self, seconds: float) -> list[ReceivedMessage]:
        if self.breaks:
            raise self.breaks.pop()
        if self.short:
            self.short -= 1
            return []
        given_messages, self.given = self.left[self.given : 3], len(self.left[:3])
        if not given_messages:
            self.done.wait(seconds)
        messages = [SpooledMessage(address=str(n), value=b"", received_at=0) for n in given_messages]
        return [ReceivedMessage(message=message, token=n) for message, n in zip(messages, given_messages, strict=True)]

    def confirm(self, messages: Sequence[ReceivedMessage]) -> None:
        written = {message.address for message in self.written(self.spool.end)}
        assert all(confirmed.message.address in written for confirmed in messages)
        assert [confirmed.token for confirmed in messages] == self.left[: len(messages)]
        del self.left[: len(messages)]
        self.given -= len(messages)

    def keep_alive(self) -> None:
        pass

    def close(self) -> None:
        pass

    def written(self, end: int) -> list[SpooledMessage]:
        return [message for _, message in read_messages(self.spot, self.spool.find_segments(0, end), 0, end)]

    def run(self, patience: float = PATIENCE) -> tuple[int, list[str]]:
        with MessageSpool(self.spot) as self.spool:
            receiver = SpoolReceiver(self.spool, self.connect, patience)
            try:
                end = receiver.wait_for_end()
            finally:
                receiver.stop()
        return end, [str(message.address) for message in self.written(end)]


@pytest.fixture
def spot(tmp_path: Path) -> Place:
    return place_of(tmp_path)


@pytest.mark.parametrize("breaks", [[], [BrokerUnavailable("gone"), BrokerUnavailable("again")]])
@pytest.mark.parametrize("kind", KINDS)
def test_each_message_is_written_and_confirmed(
    kind: str, breaks: list[Exception], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source = Source(place(kind, tmp_path, request), 7, breaks)
    assert source.run() == (7, [str(number) for number in range(7)])
    assert source.left == []


@pytest.mark.parametrize(
    ("failure", "patience", "words"),
    [
        (PipelineError("no such user"), PATIENCE, "no such user"),
        (BrokerUnavailable("nobody there"), -1.0, "the broker is away: nobody there"),
        (ValueError("odd"), PATIENCE, "receiving ended: ValueError: odd"),
    ],
)
def test_an_end_is_reported(spot: Place, failure: Exception, patience: float, words: str) -> None:
    with MessageSpool(spot) as spool:
        source = Source(spot, 1, [failure])
        receiver = SpoolReceiver(spool, lambda: source, patience)
        receiver._thread.join(PATIENCE)
        with pytest.raises(PipelineError, match=words):
            receiver.wait_for_end()
        receiver.stop()


def test_short_poll_does_not_end_the_reception(spot: Place) -> None:
    assert Source(spot, 7, short=50).run()[0] == 7


def test_immediate_disconnects_count_as_absence(spot: Place) -> None:
    """A broker that takes them is away nevertheless: until something was received there was no patience to renew."""
    source = Source(spot, 7, [BrokerUnavailable("shown the door")] * 1000)
    with pytest.raises(PipelineError, match="the broker is away: shown the door"):
        source.run(patience=1.0)
    assert source.breaks


LARGE = 500_000


class Flood:
    """A connection that gives a large message whenever it is asked, up to ``count``."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.given = 0
        self.kept_alive = 0

    def receive(self, seconds: float) -> list[ReceivedMessage]:
        if self.given == self.count:
            time.sleep(seconds)
            return []
        self.given += 1
        message = SpooledMessage(address=str(self.given - 1), value=bytes(LARGE), received_at=0)
        return [ReceivedMessage(message=message, token=self.given)]

    def confirm(self, messages: Sequence[ReceivedMessage]) -> None:
        pass

    def keep_alive(self) -> None:
        self.kept_alive += 1

    def close(self) -> None:
        pass


def emptied(spool: MessageSpool, spot: Place, count: int) -> list[SpooledMessage]:
    """Read and forget ``count`` messages of a spool."""
    messages, deadline = list[SpooledMessage](), time.monotonic() + PATIENCE
    while len(messages) < count and time.monotonic() < deadline:
        first, end = len(messages), spool.end
        messages += [message for _, message in read_messages(spot, spool.find_segments(first, end), first, end)]
        spool.trim(end)
        time.sleep(0.01)
    return messages


@pytest.mark.parametrize("kind", KINDS)
def test_memory_for_waiting_messages_is_bounded(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a limited number of bytes waits in memory while the spool is full."""
    monkeypatch.setattr(receiver, "_HELD_BYTES", 3 * LARGE)
    monkeypatch.setattr(receiver, "_LOOK", 0.01)
    monkeypatch.setattr(receiver, "_MOST", 1)
    spot, flood = place(kind, tmp_path, request), Flood(12)
    with MessageSpool(spot, limit=LARGE + 1000) as spool:
        receiving = SpoolReceiver(spool, lambda: flood, PATIENCE)
        while flood.kept_alive < 5:
            time.sleep(0.01)
        assert (spool.end, flood.given) == (1, 4)
        messages = emptied(spool, spot, flood.count)
        receiving.stop()
    assert [message.address for message in messages] == [str(number) for number in range(flood.count)]


def _send_mqtt(port: int, name: str, payloads: Sequence[bytes]) -> None:
    publish.multiple([{"topic": name, "payload": payload, "qos": 1} for payload in payloads], "127.0.0.1", port)


@pytest.mark.parametrize(
    ("program", "source", "send"),
    [("mosquitto", mqtt.MQTT3, _send_mqtt), ("mosquitto", mqtt.MQTT5, _send_mqtt), ("artemis", amqp.SOURCE, send_amqp)],
)
def test_large_messages_wait_at_a_broker(
    program: str,
    source: receiver.SpoolingSource,
    send: Callable[[int, str, Sequence[bytes]], None],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The receiver waits longer than the broker keeps an idle connection; then all messages arrive, once."""
    monkeypatch.setattr(receiver, "_HELD_BYTES", 2 * LARGE)
    monkeypatch.setattr(mqtt_client, "_KEEPALIVE", 2)
    broker: Broker = request.getfixturevalue(program)
    name, port = f"large-{os.getpid()}-{source.name}", broker.ports["plain"]
    url = f"{source.name[:4]}://127.0.0.1:{port}/{name}?timeout={PATIENCE}"
    payloads = [bytes([number]) * LARGE for number in range(15)]
    spot = place_of(tmp_path / "spool")
    with MessageSpool(spot, limit=4 * LARGE + 4000) as spool:
        source.connect([url], {}, spool).close()  # MQTT keeps what is sent for whoever was there before
        send(port, name, payloads)
        receiving = SpoolReceiver(spool, lambda: source.connect([url], {}, spool), PATIENCE)
        while not is_full(spot):
            time.sleep(0.01)
        time.sleep(4)  # more than one and a half times as long as an MQTT client may be silent
        assert spool.end == 4
        messages = emptied(spool, spot, len(payloads))
        receiving.stop()
    assert [message.value for message in messages] == payloads

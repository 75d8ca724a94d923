"""Receiving: written before it is confirmed, connected anew where that may help, ended where it may not."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.pipeline.s3 import KINDS, place

from signalbook.brokers.connection import BrokerUnavailable
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import Place, place_of
from signalbook.pipeline.sources.receiver import ReceivedMessage, SpoolReceiver
from signalbook.pipeline.sources.spool import MessageSpool, SpooledMessage, read_messages

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
        found, self.given = self.left[self.given : 3], len(self.left[:3])
        if not found:
            self.done.wait(seconds)
        return [
            ReceivedMessage(message=SpooledMessage(address=str(n), value=b"", received_at=0), token=n) for n in found
        ]

    def confirm(self, messages: Sequence[ReceivedMessage]) -> None:
        written = {message.address for message in self.written(self.spool.end)}
        assert all(each.message.address in written for each in messages)
        assert [each.token for each in messages] == self.left[: len(messages)]
        del self.left[: len(messages)]
        self.given -= len(messages)

    def close(self) -> None:
        pass

    def written(self, end: int) -> list[SpooledMessage]:
        return [message for _, message in read_messages(self.spot, self.spool.segments(0, end), 0, end)]

    def run(self, patience: float = PATIENCE) -> tuple[int, list[str]]:
        with MessageSpool(self.spot) as self.spool:
            receiver = SpoolReceiver(self.spool, self.connect, patience)
            try:
                end = receiver.settled()
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
            receiver.settled()
        receiver.stop()


def test_a_look_that_ended_early_is_not_the_end(spot: Place) -> None:
    assert Source(spot, 7, short=50).run()[0] == 7


def test_connections_that_end_at_once_are_no_presence(spot: Place) -> None:
    """A broker that takes them is away nevertheless: until something was received there was no patience to renew."""
    source = Source(spot, 7, [BrokerUnavailable("shown the door")] * 1000)
    with pytest.raises(PipelineError, match="the broker is away: shown the door"):
        source.run(patience=1.0)
    assert source.breaks

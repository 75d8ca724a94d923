"""Receiving: written before it is confirmed, connected anew where that may help, ended where it may not."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from signalbook.brokers.connection import BrokerUnavailable
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources.receiver import ReceivedMessage, SpoolReceiver
from signalbook.pipeline.sources.spool import MessageSpool, SpooledMessage, read_messages

PATIENCE = 300.0


class Source:
    """A connection to nowhere, that gives each of its messages until that is confirmed.

    It breaks for each of ``breaks`` first, and then has nothing for ``short`` looks that end at once.
    """

    def __init__(self, folder: Path, count: int, breaks: Sequence[Exception] = (), short: int = 0) -> None:
        self.folder = folder
        self.left = list(range(count))
        self.breaks = list(breaks)
        self.short = short
        self.done = threading.Event()

    def receive(self, seconds: float) -> list[ReceivedMessage]:
        if self.breaks:
            raise self.breaks.pop()
        if self.short:
            self.short -= 1
            return []
        if not self.left:
            self.done.wait(seconds)
        return [
            ReceivedMessage(message=SpooledMessage(address=str(n), value=b"", received_at=0), token=n)
            for n in self.left[:3]
        ]

    def confirm(self, messages: Sequence[ReceivedMessage]) -> None:
        written = {message.address for _, message in read_messages(self.folder, 0, self.spool.end)}
        assert all(each.message.address in written for each in messages)
        self.left = [number for number in self.left if number not in [each.token for each in messages]]

    def close(self) -> None:
        pass

    def run(self, patience: float = PATIENCE) -> tuple[int, list[str]]:
        with MessageSpool(self.folder) as self.spool:
            receiver = SpoolReceiver(self.spool, lambda: self, patience)
            try:
                end = receiver.settled()
            finally:
                receiver.stop()
        return end, [str(message.address) for _, message in read_messages(self.folder, 0, end)]


@pytest.mark.parametrize("breaks", [[], [BrokerUnavailable("gone"), BrokerUnavailable("again")]])
def test_each_message_is_written_and_confirmed(tmp_path: Path, breaks: list[Exception]) -> None:
    source = Source(tmp_path, 7, breaks)
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
def test_an_end_is_reported(tmp_path: Path, failure: Exception, patience: float, words: str) -> None:
    with MessageSpool(tmp_path) as spool:
        source = Source(tmp_path, 1, [failure])
        receiver = SpoolReceiver(spool, lambda: source, patience)
        receiver._thread.join(PATIENCE)
        with pytest.raises(PipelineError, match=words):
            receiver.settled()
        receiver.stop()


def test_a_look_that_ended_early_is_not_the_end(tmp_path: Path) -> None:
    assert Source(tmp_path, 7, short=50).run()[0] == 7


def test_connections_that_end_at_once_are_no_presence(tmp_path: Path) -> None:
    """A broker that takes them is away nevertheless: until something was received there was no patience to renew."""
    source = Source(tmp_path, 7, [BrokerUnavailable("shown the door")] * 1000)
    with pytest.raises(PipelineError, match="the broker is away: shown the door"):
        source.run(patience=1.0)
    assert source.breaks

import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from queue import SimpleQueue

import pytest

from signalbook.events.delivery import executor
from signalbook.events.delivery.executor import POOLS, AttemptExecutor, AttemptResult, WorkerPool
from signalbook.events.delivery.machine import NEW, SLOW, AttemptEnded, AttemptRefused, Send
from signalbook.events.sinks.base import DeliveryError, NotYet, Sink
from signalbook.events.subscription import Subscription
from signalbook.storage.base import StorageUnavailable
from signalbook.values import JSONObject

DEADLINE = 300


def test_number_of_running_attempts_is_limited() -> None:
    pool, gate, changed = WorkerPool("test", 3), threading.Event(), threading.Condition()
    running: list[int] = []
    finished: list[int] = []

    def work(number: int) -> None:
        with changed:
            running.append(number)
            changed.notify_all()
        assert gate.wait(DEADLINE)
        with changed:
            finished.append(number)
            changed.notify_all()

    for number in range(10):
        pool.put(lambda number=number: work(number))  # type: ignore[misc]
    with changed:
        assert changed.wait_for(lambda: len(running) == 3, DEADLINE)
        gate.set()
        assert changed.wait_for(lambda: len(finished) == 10, DEADLINE)
    assert sorted(running[:3]) == [0, 1, 2]
    pool.close()


def test_failing_work_does_not_stop_the_pool(caplog: pytest.LogCaptureFixture) -> None:
    pool, finished = WorkerPool("test", 1), threading.Event()

    def fail() -> None:
        raise ValueError

    with caplog.at_level(logging.CRITICAL, "signalbook.delivery"):
        pool.put(fail)
        pool.put(finished.set)
        assert finished.wait(DEADLINE)
    pool.close()


def test_a_closed_lane_lets_its_threads_go() -> None:
    pool, finished = WorkerPool("closed", 4), threading.Event()
    pool.put(finished.set)
    assert finished.wait(DEADLINE)
    threads = [thread for thread in threading.enumerate() if thread.name == "deliver-closed"]
    pool.close()
    for thread in threads:
        thread.join(DEADLINE)
    assert not any(thread.is_alive() for thread in threads)


WANTED = Subscription(id="s", protocol="FILE", sink="file:a")


class RecordingSink:
    """A sink that raises what a test says, and remembers what it got."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.sent: list[JSONObject] = []
        self.may_close = threading.Event()
        self.may_close.set()
        self.closed = threading.Event()

    def send(self, events: Sequence[JSONObject]) -> None:
        self.sent += events
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self.may_close.wait(DEADLINE)
        self.closed.set()


class TestAttempts:
    """Tests of successive attempts as the dispatcher starts them."""

    @pytest.fixture(autouse=True)
    def executor(self) -> Iterator[None]:
        self.results: SimpleQueue[AttemptResult] = SimpleQueue()
        self.sinks: list[RecordingSink] = []
        self.error: Exception | None = None
        self.may = True
        self.made = AttemptExecutor(self.open, may=lambda: self.may, ended=self.results.put)
        yield
        self.made.finish()

    def open(self, _: Subscription) -> Sink:
        sink = RecordingSink(self.error)
        self.sinks.append(sink)
        return sink

    def attempt(self, id: str = "s", pool: str = NEW) -> AttemptEnded | AttemptRefused:
        self.made.send(id, Send(WANTED, pool, ({"id": "1"}, {"id": "2"})))
        result = self.results.get(timeout=DEADLINE)
        assert result.id == id
        self.made.take_back(result)
        return result.event

    def test_a_sink_stays_open(self) -> None:
        for _ in range(2):
            ended = self.attempt()
            assert isinstance(ended, AttemptEnded)
            assert (ended.sent, ended.error) == (2, None)
        assert [len(sink.sent) for sink in self.sinks] == [4]
        assert not self.sinks[0].closed.is_set()

    def test_broken_sink_is_opened_again(self) -> None:
        self.error = ValueError()
        ended = self.attempt()
        assert isinstance(ended, AttemptEnded)
        assert str(ended.error) == "unexpected ValueError"
        assert self.sinks[0].closed.is_set()
        self.attempt()
        assert len(self.sinks) == 2

    def test_a_lost_database_is_not_described(self, caplog: pytest.LogCaptureFixture) -> None:
        self.error = StorageUnavailable("it is away", where="postgresql://db", cause="refused")
        ended = self.attempt()
        assert isinstance(ended, AttemptEnded)
        assert str(ended.error) == "the database could not be asked: it is away"
        assert "Traceback" not in caplog.text

    @pytest.mark.parametrize("error", [DeliveryError("415", rejected=True), NotYet("slow", retry_after=1.0)])
    def test_working_sink_is_reused(self, error: DeliveryError) -> None:
        self.error = error
        self.attempt()
        self.attempt()
        assert len(self.sinks) == 1

    def test_nothing_is_sent_without_the_lease(self) -> None:
        self.may = False
        assert self.attempt() == AttemptRefused()
        assert self.sinks == []

    def test_a_sink_that_is_not_needed_is_closed(self) -> None:
        self.attempt()
        self.made.close("s")
        assert self.sinks[0].closed.wait(DEADLINE)
        self.made.close("s")

    def test_a_place_is_delivered_to_by_one_sink_at_a_time(self) -> None:
        """Whichever subscription it is of; others do not wait for it"""
        self.attempt()
        slow = self.sinks[0]
        slow.may_close.clear()
        self.made.close("s")
        self.made.send("t", Send(WANTED, NEW, ()))
        self.made.send("u", Send(replace(WANTED, sink="file:b"), NEW, ()))
        assert self.results.get(timeout=DEADLINE).id == "u"
        assert not slow.closed.is_set()
        slow.may_close.set()
        assert self.results.get(timeout=DEADLINE).id == "t"
        assert slow.closed.is_set()

    def test_number_of_open_sinks_is_limited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(executor, "_MAX_OPEN", 2)
        for key in ("a", "b", "a", "c"):
            self.attempt(key)
        assert self.sinks[1].closed.wait(DEADLINE)
        assert [sink.closed.is_set() for sink in self.sinks] == [False, True, False]

    def test_a_pool_has_room_for_as_many_as_it_has_threads(self) -> None:
        for number in range(POOLS[SLOW]):
            assert self.made.has_room(SLOW)
            self.made.send(str(number), Send(WANTED, SLOW, ()))
        assert (self.made.has_room(SLOW), self.made.has_room(NEW)) == (False, True)
        self.made.take_back(self.results.get(timeout=DEADLINE))
        assert self.made.has_room(SLOW)

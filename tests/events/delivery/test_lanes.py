"""Threads that work in turn."""

from __future__ import annotations

import logging
import threading

import pytest

from signalbook.events.delivery.executor import Lane

DEADLINE = 300


def test_at_most_so_many_at_once() -> None:
    lane, gate, changed = Lane("test", 3), threading.Event(), threading.Condition()
    running: list[int] = []
    done: list[int] = []

    def work(number: int) -> None:
        with changed:
            running.append(number)
            changed.notify_all()
        assert gate.wait(DEADLINE)
        with changed:
            done.append(number)
            changed.notify_all()

    for number in range(10):
        lane.put(lambda number=number: work(number))  # type: ignore[misc]
    with changed:
        assert changed.wait_for(lambda: len(running) == 3, DEADLINE)
        gate.set()
        assert changed.wait_for(lambda: len(done) == 10, DEADLINE)
    assert sorted(running[:3]) == [0, 1, 2]
    lane.close()


def test_work_that_fails_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    lane, done = Lane("test", 1), threading.Event()

    def fail() -> None:
        raise ValueError

    with caplog.at_level(logging.CRITICAL, "signalbook.delivery"):
        lane.put(fail)
        lane.put(done.set)
        assert done.wait(DEADLINE)
    lane.close()


def test_a_closed_lane_lets_its_threads_go() -> None:
    lane, done = Lane("closed", 4), threading.Event()
    lane.put(done.set)
    assert done.wait(DEADLINE)
    threads = [thread for thread in threading.enumerate() if thread.name == "deliver-closed"]
    lane.close()
    for thread in threads:
        thread.join(DEADLINE)
    assert not any(thread.is_alive() for thread in threads)

"""Threads that work in turn."""

from __future__ import annotations

import logging
import threading

import pytest

from signalbook.events.delivery.executor import WorkerPool

DEADLINE = 300


def test_at_most_so_many_at_once() -> None:
    pool, gate, changed = WorkerPool("test", 3), threading.Event(), threading.Condition()
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
        pool.put(lambda number=number: work(number))  # type: ignore[misc]
    with changed:
        assert changed.wait_for(lambda: len(running) == 3, DEADLINE)
        gate.set()
        assert changed.wait_for(lambda: len(done) == 10, DEADLINE)
    assert sorted(running[:3]) == [0, 1, 2]
    pool.close()


def test_work_that_fails_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    pool, done = WorkerPool("test", 1), threading.Event()

    def fail() -> None:
        raise ValueError

    with caplog.at_level(logging.CRITICAL, "signalbook.delivery"):
        pool.put(fail)
        pool.put(done.set)
        assert done.wait(DEADLINE)
    pool.close()


def test_a_closed_lane_lets_its_threads_go() -> None:
    pool, done = WorkerPool("closed", 4), threading.Event()
    pool.put(done.set)
    assert done.wait(DEADLINE)
    threads = [thread for thread in threading.enumerate() if thread.name == "deliver-closed"]
    pool.close()
    for thread in threads:
        thread.join(DEADLINE)
    assert not any(thread.is_alive() for thread in threads)

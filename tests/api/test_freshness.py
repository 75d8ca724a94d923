"""Asking a store for its generation: never an answer from before the question, and few questions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from signalbook.api.kernel.caching import Freshness
from signalbook.api.kernel.commits import Workers


class Slow:
    """A generation that is told when it is let, and what it was when it was asked."""

    def __init__(self) -> None:
        self.now = 0
        self.asked = 0
        self.begun = threading.Semaphore(0)
        self.let = threading.Semaphore(0)

    def __call__(self) -> int:
        seen, self.asked = self.now, self.asked + 1
        self.begun.release()
        assert self.let.acquire(timeout=300)
        return seen


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers(threads=2, timeout=300)
    yield made
    made.close()


def test_who_comes_while_one_asks_waits_for_the_next(workers: Workers) -> None:
    store = Slow()

    async def run() -> None:
        freshness = Freshness(store, workers)
        early = asyncio.create_task(freshness.now())
        await asyncio.to_thread(store.begun.acquire)
        store.now = 1  # committed after the first question
        late = [asyncio.create_task(freshness.now()) for _ in range(20)]
        await asyncio.sleep(0)
        store.let.release(2)
        assert await early == 0
        assert await asyncio.gather(*late) == [1] * 20

    asyncio.run(run())
    assert store.asked == 2


def test_who_goes_away_takes_nobody_along(workers: Workers) -> None:
    store = Slow()

    async def run() -> None:
        freshness = Freshness(store, workers)
        gone, stays = (asyncio.create_task(freshness.now()) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        store.let.release()
        assert await stays == 0

    asyncio.run(run())


def test_a_question_that_fails_fails_for_those_who_asked(workers: Workers) -> None:
    fail = True

    def ask() -> int:
        return 1 // (0 if fail else 1)

    async def run() -> None:
        nonlocal fail
        freshness = Freshness(ask, workers)
        with pytest.raises(ZeroDivisionError):
            await freshness.now()
        fail = False
        assert await freshness.now() == 1

    asyncio.run(run())

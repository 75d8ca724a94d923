"""Writes: in order, several in one transaction; reads: in threads; nobody waits for ever."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from signalbook.api.kernel.commits import Commits, Workers
from signalbook.storage.base import StorageBusy, StorageError
from signalbook.xid import Xid

PATIENCE = 300


class Ledger:
    """Transactions as lists of what was done in them; one that is not among ``commits`` is still open."""

    def __init__(self) -> None:
        self.commits: list[list[Any]] = []
        self.fault: Exception | None = None
        self.begun = threading.Event()
        self.opened = threading.Semaphore(1_000_000)

    @contextmanager
    def transaction(self) -> Iterator[list[Any]]:
        self.begun.set()
        assert self.opened.acquire(timeout=PATIENCE)
        lines: list[Any] = []
        yield lines
        if self.fault:
            raise self.fault
        self.commits.append(lines)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def commits(ledger: Ledger) -> Iterator[Commits[list[Any]]]:
    started = Commits(ledger.transaction, timeout=PATIENCE)
    yield started
    started.close()


def hold(ledger: Ledger) -> None:
    """Block transactions until ``go`` is called."""
    ledger.opened = threading.Semaphore(0)


def go(ledger: Ledger, transactions: int = 1000) -> None:
    ledger.opened.release(transactions)


def together(writes: Callable[[], list[Awaitable[Any]]], ledger: Ledger) -> list[Any]:
    """Their results or errors, all being there before the first transaction opens."""

    async def run() -> list[Any]:
        hold(ledger)
        tasks = [asyncio.ensure_future(write) for write in writes()]
        await asyncio.sleep(0)
        go(ledger)
        return await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(run())


def test_waiting_writes_share_a_transaction_in_order(ledger: Ledger, commits: Commits[list[Any]]) -> None:
    def line(number: int, lines: list[Any]) -> int:
        lines.append(number)
        return number

    results = together(lambda: [commits.write(partial(line, number)) for number in range(300)], ledger)
    assert results == [number for lines in ledger.commits for number in lines] == list(range(300))
    assert len(ledger.commits) < 10


def test_failing_write_fails_alone(ledger: Ledger, commits: Commits[list[Any]]) -> None:
    def odd(number: int, lines: list[Any]) -> None:
        lines.append(1 // (number % 2))

    results = together(lambda: [commits.write(partial(odd, number)) for number in range(4)], ledger)
    assert [type(result) for result in results] == [ZeroDivisionError, type(None)] * 2


@pytest.mark.parametrize("fault", [StorageError("disk full"), StorageBusy("busy")])
def test_failing_commit_fails_all_its_writes(ledger: Ledger, commits: Commits[list[Any]], fault: StorageError) -> None:
    ledger.fault = fault

    def work(number: int, _: list[Any]) -> float:
        return 1 / number

    assert together(lambda: [commits.write(partial(work, number)) for number in range(3)], ledger) == [fault] * 3


def test_write_is_answered_after_its_commit(ledger: Ledger, commits: Commits[list[Any]]) -> None:
    async def both() -> None:
        first = asyncio.create_task(commits.write(lambda lines: lines.append("first")))
        assert not ledger.commits
        await first
        assert ledger.commits == [["first"]]

    asyncio.run(both())


def test_a_long_write_has_a_transaction_of_its_own(ledger: Ledger, commits: Commits[list[Any]]) -> None:
    def writes() -> list[Awaitable[Any]]:
        names = ["short", "short", "long", "short"]
        return [commits.write(partial(_append, name), alone=name == "long") for name in names]

    together(writes, ledger)
    assert ["long"] in ledger.commits
    assert [name for lines in ledger.commits for name in lines] == ["short", "short", "long", "short"]


def _append(name: str, lines: list[Any]) -> None:
    lines.append(name)


def test_write_that_waits_too_long_is_rejected(
    ledger: Ledger, commits: Commits[list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that has not started is cancelled after the timeout."""
    hold(ledger)

    async def both() -> None:
        first = asyncio.create_task(commits.write(partial(_append, "first")))
        assert await asyncio.to_thread(ledger.begun.wait, PATIENCE)
        monkeypatch.setattr(commits, "_timeout", 0.01)  # not before: the first would have to start in it
        with pytest.raises(StorageBusy):
            await commits.write(partial(_append, "second"))
        go(ledger)
        await first

    asyncio.run(both())
    commits.close()
    assert ledger.commits == [["first"]]


def test_cancelled_write_is_not_executed(ledger: Ledger, commits: Commits[list[Any]]) -> None:
    async def one() -> None:
        hold(ledger)
        first = asyncio.create_task(commits.write(partial(_append, "first")))
        gone = asyncio.create_task(commits.write(partial(_append, "gone")))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        go(ledger)
        await first

    asyncio.run(one())
    commits.close()
    assert ledger.commits == [["first"]]


def test_read_that_waits_too_long_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that has not started is cancelled after the timeout."""
    begun, release = threading.Event(), threading.Event()
    started: list[str] = []
    workers = Workers(threads=1, timeout=PATIENCE)

    def hold() -> bool:
        begun.set()
        return release.wait(PATIENCE)

    async def both() -> None:
        first = asyncio.create_task(workers.read(hold))
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        monkeypatch.setattr(workers, "_timeout", 0.01)  # not before: the first would have to start in it
        with pytest.raises(StorageBusy):
            await workers.read(lambda: started.append("second"))
        release.set()
        assert await first

    asyncio.run(both())
    workers.close()
    assert started == []


def test_failing_read_fails_for_its_caller() -> None:
    workers = Workers(threads=1, timeout=PATIENCE)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(workers.read(lambda: 1 // 0))
    workers.close()


def test_waiting_writes_announce_their_entities_before_they_run(ledger: Ledger) -> None:
    def expect(lines: list[Any], xids: list[Xid]) -> None:
        lines.append([xid.id for xid in xids])

    def line(number: int, lines: list[Any]) -> None:
        lines.append(number)

    commits = Commits(ledger.transaction, expect, timeout=PATIENCE)
    about = [[Xid(("g", "1"))], [], [Xid(("g", "3"))]]
    together(lambda: [commits.write(partial(line, n), about=xids) for n, xids in enumerate(about)], ledger)
    commits.close()
    # The first write may have its transaction to itself, or all three share one.
    assert ledger.commits in ([[["1", "3"], 0, 1, 2]], [[["1"], 0, ["3"], 1, 2]])


def test_write_shares_the_commit_of_running_writes(ledger: Ledger) -> None:
    """Otherwise it waits for that commit and needs another one."""
    commits = Commits(ledger.transaction, timeout=PATIENCE)

    async def run() -> None:
        began, queued = threading.Event(), threading.Event()

        def first(lines: list[Any]) -> None:
            began.set()
            assert queued.wait(PATIENCE)
            lines.append(1)

        running = asyncio.create_task(commits.write(first))
        await asyncio.to_thread(began.wait, PATIENCE)
        second = asyncio.create_task(commits.write(lambda lines: lines.append(2)))
        await asyncio.sleep(0)
        queued.set()
        await asyncio.gather(running, second)

    asyncio.run(run())
    commits.close()
    assert ledger.commits == [[1, 2]]

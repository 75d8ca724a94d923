"""Where requests run: reads in a pool of threads; writes one after another in one thread (group commit).

Writes that wait together share a transaction: a durable commit takes milliseconds, most of it waiting for the disk.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Any, Final, Generic, TypeVar

from signalbook import metrics, tracing
from signalbook.storage.base import StorageBusy
from signalbook.xid import Xid

T = TypeVar("T")

_MAX_BATCH_WRITES: Final = 128
"""Writes in one transaction: the first of them waits for the last."""


class Workers:
    """Some threads of a server process. ``timeout`` is how many seconds work may wait for its turn."""

    def __init__(self, *, threads: int, timeout: float, name: str = "read") -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._timeout = timeout

    async def read(self, work: Callable[[], T]) -> T:
        """Run ``work`` that writes nothing. Raises ``StorageBusy`` if it does not start in time."""
        queued = self._threads.submit(work)
        running = asyncio.wrap_future(queued)
        finished, _ = await asyncio.wait([running], timeout=self._timeout)
        # Work that has begun is not given up: only its turn may come too late.
        if not finished and queued.cancel():
            raise StorageBusy(f"the request waited {self._timeout:g} s for its turn; try again")
        return await running

    def begin(self, work: Callable[[], object]) -> None:
        """Run ``work`` when there is a thread for it; nobody waits for it."""
        self._threads.submit(work)

    def close(self, *, drop: bool = False) -> None:
        """Wait for what runs, and for what has no turn yet unless that is to ``drop``; end the threads."""
        self._threads.shutdown(cancel_futures=drop)


Batch = TypeVar("Batch")


class Commits(Generic[Batch]):
    """The writes of one server process. A durable commit takes milliseconds, most of it waiting for the disk.

    ``transaction`` opens one for any number of writes, each of which undoes itself when it fails, and commits at the
    end of its block. A write ends after that commit, in the order of arrival, or with the commit's failure.
    ``expect`` is called in that transaction with what the next writes are about. ``timeout`` is how many seconds a
    write may wait for its turn.
    """

    def __init__(
        self,
        transaction: Callable[[], AbstractContextManager[Batch]],
        expect: Callable[[Batch, list[Xid]], None] = lambda batch, xids: None,  # noqa: ARG005
        *,
        timeout: float,
    ) -> None:
        self._transaction = transaction
        self._expect = expect
        self._timeout = timeout
        self._queue: SimpleQueue[_Write[Batch] | None] = SimpleQueue()
        self._next: _Write[Batch] | None = None
        self.busy = False
        """Whether a commit is under way: what comes now shares the next one."""
        self._thread = threading.Thread(target=self._serve, name="write", daemon=True)
        self._thread.start()

    async def write(self, work: Callable[[Batch], T], *, alone: bool = False, about: Collection[Xid] = ()) -> T:
        """Run ``work`` in a transaction, ``alone`` if it is long and others had to wait for it.

        ``about`` are entities that it will ask for, there or not.

        Raises what ``work`` or the commit raises, and ``StorageBusy`` if it does not start in time.
        """
        loop = asyncio.get_running_loop()
        write = _Write(work, loop, alone=alone, about=about)
        self._queue.put(write)
        timer = loop.call_later(self._timeout, write.give_up, self._timeout)
        try:
            result: T = await write.outcome
            return result
        finally:
            timer.cancel()
            # A client that went away cancels this coroutine; the write is then skipped unless it has started already.
            write.claim()  # whoever does not wait any more wants nothing done

    def close(self) -> None:
        """Do what is in the queue, and end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while (first := self._next or self._queue.get()) is not None:
            self._next = None
            if first.claim():
                self.busy = True
                self._commit(first)
                self.busy = False

    def _commit(self, first: _Write[Batch]) -> None:
        writes = [first]
        began = perf_counter()
        metrics.WRITE_QUEUE.set(self._queue.qsize())
        metrics.WRITE_WAIT.observe(began - first.since)
        try:
            # Of several requests: it is no part of one of them, and ends the waiting of each.
            with tracing.span("commit") as span, self._transaction() as batch:
                # What queues up while others run shares their commit: under load batches grow by themselves.
                for some in self._collect_rounds(first):
                    writes += some[some[0] is first :]
                    # What they ask for one by one is read together before: a batch takes few statements.
                    self._expect(batch, [xid for write in some for xid in write.about])
                    for write in some:
                        write.run(batch)
                tracing.describe(span, {"signalbook.writes": len(writes)}, (write.context for write in writes))
        # The commit failed, so that nothing of the batch is stored, whatever each write returned.
        except BaseException as error:
            for write in writes:
                write.result, write.error = None, error
        metrics.COMMIT.observe(perf_counter() - began)
        metrics.WRITE_BATCH.observe(len(writes))
        metrics.WRITE_QUEUE.set(self._queue.qsize())
        _finish(writes)

    def _collect_rounds(self, first: _Write[Batch]) -> Iterator[list[_Write[Batch]]]:
        """``first`` and what waits with it, then what came meanwhile, as far as they may share the transaction."""
        remaining = 1 if first.alone else _MAX_BATCH_WRITES
        some = [first, *self._take_waiting(remaining - 1)]
        while some:
            remaining -= len(some)
            yield some
            some = list(self._take_waiting(remaining))

    def _take_waiting(self, most: int) -> Iterator[_Write[Batch]]:
        """Yield the writes in the queue, up to the first that may not share the transaction."""
        for _ in range(most if self._next is None else 0):
            try:
                write = self._queue.get_nowait()
            except Empty:
                return
            if write is None:
                # The sign to stop goes back into the queue: the batch under way is committed first.
                self._queue.put(None)
                return
            if write.alone:
                self._next = write
                return
            if write.claim():
                yield write


class _Write(Generic[Batch]):
    """A write: its work, and the waiting caller. It is run or given up, never both."""

    def __init__(
        self, work: Callable[[Batch], Any], loop: asyncio.AbstractEventLoop, *, alone: bool, about: Collection[Xid]
    ) -> None:
        self.alone = alone
        self.about = about
        self.since = perf_counter()
        self.context = tracing.current()
        self.loop = loop
        self.outcome: asyncio.Future[Any] = loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None
        self._work = work
        self._claimed = threading.Lock()

    def claim(self) -> bool:
        """Take it; False if somebody has."""
        return self._claimed.acquire(blocking=False)

    def give_up(self, seconds: float) -> None:
        """Fail it for whoever waits, unless it has started."""
        if self.claim():
            self.outcome.set_exception(StorageBusy(f"the request waited {seconds:g} s for its turn; try again"))

    def run(self, batch: Batch) -> None:
        """Do the work, and keep what came of it."""
        try:
            with tracing.within(self.context):
                self.result = self._work(batch)
        except BaseException as error:
            self.error = error

    def hand_out(self) -> None:
        """Hand the result to whoever waits, on the event loop."""
        if self.outcome.done():
            return
        if self.error is not None:
            self.outcome.set_exception(self.error)
        else:
            self.outcome.set_result(self.result)


def _finish(writes: list[_Write[Any]]) -> None:
    """Wake the event loop once for all; it is gone if the server stops without waiting."""
    for loop in {write.loop for write in writes}:
        finished = [write for write in writes if write.loop is loop]
        try:
            # One wake-up for the batch: each costs a system call, and 128 of them would delay the next commit.
            loop.call_soon_threadsafe(_hand_out, finished)
        except RuntimeError:
            return


def _hand_out(writes: list[_Write[Any]]) -> None:
    for write in writes:
        write.hand_out()

"""Run requests: reads in a pool of threads, writes one after another in one thread (group commit).

Writes that wait at the same time share a transaction, because a durable commit takes milliseconds, most of it waiting
for the disk.
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
"""The maximum number of writes in one transaction. The first of them waits for the last."""


class Workers:
    """A pool of threads. ``timeout`` is the number of seconds that work may wait for a free thread."""

    def __init__(self, *, threads: int, timeout: float, name: str = "read") -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._timeout = timeout

    async def read(self, work: Callable[[], T]) -> T:
        """Run ``work``, which must not write, and return its result. Raises ``StorageBusy`` if it does not start in
        time."""
        queued = self._threads.submit(work)
        running = asyncio.wrap_future(queued)
        finished, _ = await asyncio.wait([running], timeout=self._timeout)
        # Only work that has not begun is given up.
        if not finished and queued.cancel():
            raise StorageBusy(f"the request waited {self._timeout:g} s for its turn; try again")
        return await running

    def begin(self, work: Callable[[], object]) -> None:
        """Run ``work`` when a thread is free, without waiting for it."""
        self._threads.submit(work)

    def close(self, *, drop: bool = False) -> None:
        """End the threads after the running work and, unless ``drop`` is True, the waiting work."""
        self._threads.shutdown(cancel_futures=drop)


Batch = TypeVar("Batch")


class Commits(Generic[Batch]):
    """The writes of one server process, grouped into commits.

    ``transaction`` opens a transaction for any number of writes and commits it at the end of its block. Each write must
    undo itself if it fails. ``write`` returns after that commit, in the order of arrival, or raises the commit's
    failure. ``expect`` is called in the transaction with the xids that the next writes will read. ``timeout`` is the
    number of seconds that a write may wait for its turn.
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
        """True while a commit is running. Writes that arrive now share the next commit."""
        self._thread = threading.Thread(target=self._serve, name="write", daemon=True)
        self._thread.start()

    async def write(self, work: Callable[[Batch], T], *, alone: bool = False, about: Collection[Xid] = ()) -> T:
        """Run ``work`` in a transaction and return its result after the commit.

        Use ``alone`` for long work, so that no other write has to wait for its commit. ``about`` are xids that ``work``
        will read, whether they exist or not. Raises the errors of ``work`` and the commit, and ``StorageBusy`` if it
        does not start in time.
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
            write.claim()  # from here on nobody waits for the result

    def close(self) -> None:
        """Finish the queued writes, and end the thread."""
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
            # The span belongs to several requests, so it is linked to each of them and part of none.
            with tracing.span("commit") as span, self._transaction() as batch:
                # Writes that arrive while others run share their commit, so batches grow by themselves under load.
                for some in self._collect_rounds(first):
                    writes += some[some[0] is first :]
                    # Read together the entities that the writes will read one by one, so that a batch needs few
                    # statements.
                    self._expect(batch, [xid for write in some for xid in write.about])
                    for write in some:
                        write.run(batch)
                tracing.describe(span, {"signalbook.writes": len(writes)}, (write.context for write in writes))
        # The commit failed, so nothing of the batch is stored, whatever each write returned.
        except BaseException as error:
            for write in writes:
                write.result, write.error = None, error
        metrics.COMMIT.observe(perf_counter() - began)
        metrics.WRITE_BATCH.observe(len(writes))
        metrics.WRITE_QUEUE.set(self._queue.qsize())
        _finish(writes)

    def _collect_rounds(self, first: _Write[Batch]) -> Iterator[list[_Write[Batch]]]:
        """Yield ``first`` with the writes waiting with it, then those that arrived since, as far as they may share a
        transaction."""
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
    """A queued write: its work, and the waiting caller. It is either run or given up, never both."""

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
        """Claim the write. Return False if it was claimed before."""
        return self._claimed.acquire(blocking=False)

    def give_up(self, seconds: float) -> None:
        """Raise ``StorageBusy`` in the waiting caller, unless the write has started. ``seconds`` is how
        long it waited."""
        if self.claim():
            self.outcome.set_exception(StorageBusy(f"the request waited {seconds:g} s for its turn; try again"))

    def run(self, batch: Batch) -> None:
        """Run the work, and store its result or error."""
        try:
            with tracing.within(self.context):
                self.result = self._work(batch)
        except BaseException as error:
            self.error = error

    def hand_out(self) -> None:
        """Give the result or error to the waiting caller. Call this on the event loop."""
        if self.outcome.done():
            return
        if self.error is not None:
            self.outcome.set_exception(self.error)
        else:
            self.outcome.set_result(self.result)


def _finish(writes: list[_Write[Any]]) -> None:
    """Give the results to the callers, waking each event loop once. If the server stops without waiting, its loop is
    gone."""
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

"""Where synchronous work runs: reads in threads or, where that is faster, on the event loop; writes in one thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from signalbook.storage.base import StorageBusy

T = TypeVar("T")


class Workers:
    """The threads of one server process. ``timeout`` is how many seconds work may wait for its turn.

    A store takes one writer of a process at a time, so that further threads would only wait there and keep reads from
    getting one.
    """

    def __init__(self, *, threads: int, timeout: float) -> None:
        self._reads = ThreadPoolExecutor(threads, thread_name_prefix="read")
        self._writes = ThreadPoolExecutor(1, thread_name_prefix="write")
        self._timeout = timeout

    async def read(self, work: Callable[[], T]) -> T:
        """Run ``work`` that only reads. Raises ``StorageBusy`` if it does not start in time."""
        return await self._run(self._reads, work)

    async def write(self, work: Callable[[], T]) -> T:
        """Run ``work`` that may write, in the order of arrival. Raises ``StorageBusy`` if it does not start in time."""
        return await self._run(self._writes, work)

    def close(self) -> None:
        """Wait for what runs, and end the threads."""
        self._reads.shutdown()
        self._writes.shutdown()

    async def _run(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        queued = threads.submit(work)
        running = asyncio.wrap_future(queued)
        done, _ = await asyncio.wait([running], timeout=self._timeout)
        if not done and queued.cancel():
            raise StorageBusy(f"the request waited {self._timeout:g} s for its turn; try again")
        return await running

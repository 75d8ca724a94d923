"""Where reads run that are not answered on the event loop: in threads, nobody waiting for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from signalbook.storage.base import StorageBusy

T = TypeVar("T")


class Workers:
    """The threads of one server process. ``timeout`` is how many seconds work may wait for its turn."""

    def __init__(self, *, threads: int, timeout: float) -> None:
        self._reads = ThreadPoolExecutor(threads, thread_name_prefix="read")
        self._timeout = timeout

    async def read(self, work: Callable[[], T]) -> T:
        """Run ``work`` that only reads. Raises ``StorageBusy`` if it does not start in time."""
        queued = self._reads.submit(work)
        running = asyncio.wrap_future(queued)
        done, _ = await asyncio.wait([running], timeout=self._timeout)
        if not done and queued.cancel():
            raise StorageBusy(f"the request waited {self._timeout:g} s for its turn; try again")
        return await running

    def close(self) -> None:
        """Wait for what runs, and end the threads."""
        self._reads.shutdown()

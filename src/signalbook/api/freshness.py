"""Which state of the store an answer must not be older than, asked once for all requests that wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable

from signalbook.api.workers import Workers


class Freshness:
    """The generation of a store that it takes a while to ask, such as one across a network. For one event loop.

    One question is under way at a time. Who comes meanwhile waits for the next one, since the state may have changed
    after the present one was asked.
    """

    def __init__(self, generation: Callable[[], Hashable], workers: Workers) -> None:
        self._generation = generation
        self._workers = workers
        self._asked: asyncio.Future[Hashable] | None = None
        self._next: asyncio.Future[Hashable] | None = None

    async def now(self) -> Hashable:
        """A generation that was told after this call began. Raises what asking raises."""
        if self._next is None:
            self._next = asyncio.ensure_future(self._ask(self._asked))
        return await asyncio.shield(self._next)

    async def _ask(self, before: asyncio.Future[Hashable] | None) -> Hashable:
        if before is not None:
            await asyncio.wait([before])
        self._asked, self._next = self._next, None
        return await self._workers.read(self._generation)

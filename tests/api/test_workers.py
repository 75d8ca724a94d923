"""Reads in threads, nobody waiting for ever."""

from __future__ import annotations

import asyncio
import threading

import pytest

from signalbook.api.workers import Workers
from signalbook.storage.base import StorageBusy


def test_who_waits_too_long_is_told() -> None:
    """And what did not start never will."""
    release = threading.Event()
    started: list[str] = []
    workers = Workers(threads=1, timeout=0.01)

    async def both() -> None:
        first = asyncio.create_task(workers.read(lambda: release.wait(10)))
        await asyncio.sleep(0)
        with pytest.raises(StorageBusy):
            await workers.read(lambda: started.append("second"))
        release.set()
        assert await first

    asyncio.run(both())
    workers.close()
    assert started == []


def test_what_fails_fails_for_its_caller() -> None:
    workers = Workers(threads=1, timeout=10)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(workers.read(lambda: 1 // 0))
    workers.close()

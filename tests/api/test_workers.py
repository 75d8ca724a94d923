"""Reads in threads, nobody waiting for ever."""

from __future__ import annotations

import asyncio
import threading

import pytest

from signalbook.api.kernel.commits import Workers
from signalbook.storage.base import StorageBusy

PATIENCE = 300


def test_who_waits_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what did not start never will."""
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


def test_what_fails_fails_for_its_caller() -> None:
    workers = Workers(threads=1, timeout=PATIENCE)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(workers.read(lambda: 1 // 0))
    workers.close()

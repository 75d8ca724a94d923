"""Where work runs: writes one after another, reads beside them, nobody waiting for ever."""

from __future__ import annotations

import asyncio
import threading

import pytest

from signalbook.api.workers import Workers
from signalbook.storage.base import StorageBusy


def test_writes_run_in_order_one_at_a_time() -> None:
    done: list[int] = []
    workers = Workers(threads=4, timeout=10)

    async def all_of_them() -> None:
        await asyncio.gather(*(workers.write(lambda n=n: done.append(n)) for n in range(50)))  # type: ignore[misc]

    asyncio.run(all_of_them())
    workers.close()
    assert done == list(range(50))


def test_reads_go_on_beside_a_write() -> None:
    release = threading.Event()
    workers = Workers(threads=1, timeout=10)

    async def both() -> str:
        write = asyncio.create_task(workers.write(lambda: release.wait(10)))
        answer = await workers.read(lambda: "read")
        release.set()
        assert await write
        return answer

    assert asyncio.run(both()) == "read"
    workers.close()


def test_who_waits_too_long_is_told() -> None:
    """And what did not start never will."""
    release = threading.Event()
    started: list[str] = []
    workers = Workers(threads=1, timeout=0.01)

    async def both() -> None:
        first = asyncio.create_task(workers.write(lambda: release.wait(10)))
        await asyncio.sleep(0)
        with pytest.raises(StorageBusy):
            await workers.write(lambda: started.append("second"))
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

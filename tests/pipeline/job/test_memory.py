"""What is kept between batches, what is given back, and collecting that stops meanwhile."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from signalbook.pipeline.job.memory import Latest, give_back, uncollected
from signalbook.pipeline.sources.base import ALONE, MessageBatch, Split
from signalbook.pipeline.sources.files import array_batches, line_batches


@uncollected()
def failing() -> None:
    assert not gc.isenabled()
    raise ValueError("x")


@pytest.mark.parametrize("collects", [True, False])
def test_collection_goes_on_as_before(collects: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        with pytest.raises(ValueError, match="x"):
            failing()
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()


def test_what_is_kept_is_the_latest_that_there_is_room_for() -> None:
    latest = Latest[str, int](10)
    for number, name in enumerate("abc"):
        latest.keep(name, number, 4)
    assert (latest.get("a"), latest.get("b"), latest.get("c")) == (None, 1, 2)
    assert latest.get("b") == 1  # asked for last: the next takes the room of the other
    latest.keep("d", 3, 6)
    assert (latest.get("c"), latest.get("b"), latest.get("d")) == (None, 1, 3)
    latest.keep("e", 4, 11)
    assert (latest.get("b"), latest.get("d"), latest.get("e")) == (None, None, 4)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def line(path: Path, size: int) -> Iterator[MessageBatch]:
    path.write_bytes(b"x" * size)
    return line_batches(Split(path=str(path), start=0, end=size, limit=1 << 30))


def element(path: Path, size: int) -> Iterator[MessageBatch]:
    return array_batches(str(path), BytesIO(b"[" + b"1" * size + b"]"))


@pytest.mark.skipif(sys.platform != "linux", reason="takes what Linux says of a process's memory")
@pytest.mark.parametrize("read", [line, element])
def test_memory_is_given_back_before_a_long_message_takes_it(tmp_path: Path, read: Any) -> None:
    give_back()
    many = [bytes(2000) for _ in range(100_000)]
    after = bytes(2000)  # what is free lies before this, so that the allocator keeps it
    for size, given in ((ALONE // 2, False), (ALONE * 2, True)):
        messages = read(tmp_path / "f", size)
        if many:
            many.clear()
        before = resident()
        (message,) = messages
        assert len(message.raw(0)) == size
        del message
        assert (resident() < before - 100_000_000) == given
    del after

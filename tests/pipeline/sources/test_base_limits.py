"""Messages that are too long are set apart from their neighbours, and nothing else is changed; long ones have room."""

import os
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.kafkarows import rows

from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.files import read_array_batches, read_line_batches

EVENT = ("content-type", b"application/cloudevents+json")


@given(st.lists(st.integers(0, 12), max_size=8), st.booleans())
def test_overlong_records_are_shortened(sizes: list[int], lines: bool) -> None:
    batches = base.read_record_batches(rows(*[(b"x" * size, [EVENT] if lines else []) for size in sizes]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "KEPT", 3)
        batches_ = list(base.separate_too_long(batches, 6))
    expected = [(int(batch.positions[i]), batch.raw(i), batch.rule) for batch in batches_ for i in range(len(batch))]
    assert [(len(raw), rule) for _, raw, rule in expected] == [
        (size, "unreadable") if size <= 6 else (3, "too_long") for size in sizes
    ]
    assert [position for position, _, _ in expected] == sorted({position for position, _, _ in expected})
    assert all(len(batch.records) == len(batch) for batch in batches_ if batch.records is not None)


def test_too_long_message_is_described() -> None:
    batch = base.build_too_long_batch("f", b"x" * 100_000, 7, 300_000, 200_000)
    assert (batch.location(0).position, len(batch.raw(0)), batch.rule, batch.slow_path) == (7, 65536, "too_long", True)
    assert batch.error.startswith("a message of 300000 bytes; at most 200000 are read (max_message_bytes)")


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def line(path: Path, size: int) -> Iterator[base.MessageBatch]:
    path.write_bytes(b"x" * size)
    return read_line_batches(base.Split(path=str(path), start=0, end=size, limit=1 << 30))


def element(path: Path, size: int) -> Iterator[base.MessageBatch]:
    return read_array_batches(str(path), BytesIO(b"[" + b"1" * size + b"]"))


@pytest.mark.skipif(sys.platform != "linux", reason="takes what Linux says of a process's memory")
@pytest.mark.parametrize("read", [line, element])
def test_memory_is_released_before_a_long_message(tmp_path: Path, read: Any) -> None:
    base.release_memory()
    many = [bytes(2000) for _ in range(100_000)]
    after = bytes(2000)  # what is free lies before this, so that the allocator keeps it
    for size, gives_back in ((base.ALONE // 2, False), (base.ALONE * 2, True)):
        messages = read(tmp_path / "f", size)
        many.clear()
        before = resident()
        (message,) = messages
        assert len(message.raw(0)) == size
        del message
        assert (resident() < before - 100_000_000) == gives_back
    del after

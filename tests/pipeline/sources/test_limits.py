"""Messages that are too long are set apart from their neighbours, and nothing else is changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.kafkarows import rows

from signalbook.pipeline.sources import base, records

EVENT = ("content-type", b"application/cloudevents+json")


@given(st.lists(st.integers(0, 12), max_size=8), st.booleans())
def test_records_that_are_too_long(sizes: list[int], lines: bool) -> None:
    frames = records.record_batches(rows(*[(b"x" * size, [EVENT] if lines else []) for size in sizes]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "KEPT", 3)
        found = list(base.within_limit(frames, 6))
    told = [(int(frame.positions[i]), frame.raw(i), frame.rule) for frame in found for i in range(len(frame))]
    assert [(len(raw), rule) for _, raw, rule in told] == [
        (size, "unreadable") if size <= 6 else (3, "too_long") for size in sizes
    ]
    assert [position for position, _, _ in told] == sorted({position for position, _, _ in told})
    assert all(len(frame.records) == len(frame) for frame in found if frame.records is not None)


def test_what_is_said() -> None:
    frame = base.too_long("f", b"x" * 100_000, 7, 300_000, 200_000)
    assert (frame.location(0).position, len(frame.raw(0)), frame.rule, frame.slow_path) == (7, 65536, "too_long", True)
    assert frame.error.startswith("a message of 300000 bytes; at most 200000 are read (max_message_bytes)")

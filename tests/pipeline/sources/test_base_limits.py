"""Messages that are too long are set apart from their neighbours, and nothing else is changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.kafkarows import rows

from signalbook.pipeline.sources import base

EVENT = ("content-type", b"application/cloudevents+json")


@given(st.lists(st.integers(0, 12), max_size=8), st.booleans())
def test_records_that_are_too_long(sizes: list[int], lines: bool) -> None:
    batches = base.record_batches(rows(*[(b"x" * size, [EVENT] if lines else []) for size in sizes]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "KEPT", 3)
        found = list(base.within_limit(batches, 6))
    expected = [(int(batch.positions[i]), batch.raw(i), batch.rule) for batch in found for i in range(len(batch))]
    assert [(len(raw), rule) for _, raw, rule in expected] == [
        (size, "unreadable") if size <= 6 else (3, "too_long") for size in sizes
    ]
    assert [position for position, _, _ in expected] == sorted({position for position, _, _ in expected})
    assert all(len(batch.records) == len(batch) for batch in found if batch.records is not None)


def test_what_is_said() -> None:
    batch = base.too_long("f", b"x" * 100_000, 7, 300_000, 200_000)
    assert (batch.location(0).position, len(batch.raw(0)), batch.rule, batch.slow_path) == (7, 65536, "too_long", True)
    assert batch.error.startswith("a message of 300000 bytes; at most 200000 are read (max_message_bytes)")

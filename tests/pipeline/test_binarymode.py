"""Attributes of events in binary mode, out of the headers of many records at once."""

from __future__ import annotations

from tests.pipeline.kafkarows import rows

from signalbook.pipeline.fastpath import modes
from signalbook.pipeline.fastpath.modes import MOST_EXTENSIONS
from signalbook.pipeline.sources import records

EVENT = [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t")]


def test_strangers_may_make_up_names_of_attributes() -> None:
    """Not of any number in a task: events with more go the thorough way."""
    known: dict[str, None] = {}
    taken = 0
    for turn in range(4):
        batch = rows(*[(b"{}", [*EVENT, (f"ce_x{turn}n{number}", b"v")]) for number in range(20)], (b"{}", EVENT))
        (frame,) = records.record_batches(batch)
        block, refused = modes.taken_apart(frame, "KAFKA", known)
        assert len(block.indices) + len(refused) == 21
        assert 20 in block.indices
        taken += len(block.indices) - 1
    assert len(known) == taken == MOST_EXTENSIONS


def test_names_that_were_met_are_taken_again() -> None:
    known: dict[str, None] = {}
    batch = rows((b"{}", [*EVENT, ("ce_trace", b"v")]), (b"{}", EVENT))
    for _ in range(2):
        (frame,) = records.record_batches(batch)
        block, refused = modes.taken_apart(frame, "KAFKA", known)
        assert (block.extensions["trace"].texts.to_pylist(), refused) == (["v", None], [])

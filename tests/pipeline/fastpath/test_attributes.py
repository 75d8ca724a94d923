"""Answers about envelopes that are kept, and forgotten again."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from signalbook.messages import Contract
from signalbook.pipeline.fastpath import attributes
from signalbook.pipeline.fastpath.attributes import EnvelopeChecks
from signalbook.pipeline.fastpath.batch import EventBatch
from signalbook.pipeline.fastpath.modes import StructuredMode
from signalbook.pipeline.sources.base import one_message

XID = "/messagegroups/g/messages/m"


def answers(source: dict[str, Any]) -> EnvelopeChecks:
    """Those for events of a type that have such a source."""
    metadata = {"type": {"value": "t"}, "source": source}
    contract = Contract.compile({XID: {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata}}, lambda _: None)
    return EnvelopeChecks(contract.definitions[XID], "t")


def batch(*sources: str) -> EventBatch:
    parts = []
    for source in sources:
        event = {"specversion": "1.0", "id": "1", "source": source, "type": "t", "data": 1}
        frame = one_message("f", json.dumps(event).encode(), 0)
        parts.append(StructuredMode().columns(frame)[0])
    return EventBatch(parts)


@pytest.mark.parametrize(
    ("declared", "fit"), [({"type": "uritemplate", "value": "/shops/{shop}"}, True), ({"value": "/here"}, False)]
)
def test_no_more_answers_are_kept_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch, declared: dict[str, Any], fit: bool
) -> None:
    """K-34: also of events that fit nothing, of which anybody may send any number."""
    monkeypatch.setattr(attributes, "_MOST_CONTEXTS", 10)
    asked = answers(declared)
    for first in range(0, 60, 6):
        shops = [str(number) for number in range(first, first + 6)]
        numbers = asked.numbers(batch(*(f"/shops/{shop}" for shop in shops)), np.arange(6))
        assert sum(map(len, asked._numbers.values())) <= 16
        if fit:
            assert asked.maps(numbers).to_pylist() == [[("shop", shop)] for shop in shops]
        else:
            assert max(numbers.tolist()) < 0
            assert len(asked._breaches.found) <= 16

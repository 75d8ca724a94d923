"""Answers about envelopes: kept, forgotten again, and those of one definition about each event."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.pipeline.kafkarows import event_headers, rows
from tests.pipeline.processing.test_routing import check_batches

from signalbook.messages import Contract, parse_flags
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.processing import attributes
from signalbook.pipeline.processing.attributes import EnvelopeChecks
from signalbook.pipeline.processing.batch import EventBatch
from signalbook.pipeline.processing.modes import StructuredMode
from signalbook.pipeline.sources.base import build_single_batch, read_record_batches

XID = "/messagegroups/g/messages/m"
NEEDED = {"specversion": "1.0", "id": "1", "source": "s", "type": "t"}


def answers(**declared: Any) -> EnvelopeChecks:
    """Return the envelope checks for events of a type with these attributes."""
    metadata = {"type": {"value": "t"}, **declared}
    contract = Contract.compile({XID: {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata}}, lambda _: None)
    return EnvelopeChecks(contract.definitions[XID], "t")


def batch(*events: dict[str, Any]) -> EventBatch:
    parts, mode = [], StructuredMode()
    for event in events:
        frame = build_single_batch("f", json.dumps({**NEEDED, **event, "data": 1}).encode(), 0)
        parts.append(mode.read_events(frame)[0])
    return EventBatch(parts)


@pytest.mark.parametrize(
    ("declared", "fit"), [({"type": "uritemplate", "value": "/{kind}/{shop}"}, True), ({"value": "/here"}, False)]
)
def test_kept_answers_are_bounded(monkeypatch: pytest.MonkeyPatch, declared: dict[str, Any], fit: bool) -> None:
    """The bound includes events that match nothing, which anybody may send in any number (K-34)."""
    monkeypatch.setattr(attributes, "_MOST_CONTEXTS", 10)
    checks, events = answers(source=declared), np.arange(6)
    for first in range(0, 60, 6):
        shops = [str(number) for number in range(first, first + 6)]
        events_ = batch(*({"source": f"/shops/{shop}"} for shop in shops))
        numbers = checks.number_contexts(events_, events)
        assert sum(map(len, checks._numbers.values())) <= 16
        if fit:
            maps = checks.build_maps(events_, events, numbers)
            assert maps.to_pylist() == [[("kind", "shops"), ("shop", shop)] for shop in shops]
        else:
            assert max(numbers.tolist()) < 0
            assert len(checks._breaches.by_number) <= 16


def test_long_values_leave_room_for_fewer_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attributes, "_MOST_KEPT", 10_000)
    checks = answers(source={"type": "uritemplate", "value": "/{kind}/{shop}"})
    for number in range(20):
        source = f"/shops/{number:0>3000}"
        events = batch({"source": source})
        (context,) = checks.build_maps(events, np.arange(1), checks.number_contexts(events, np.arange(1))).to_pylist()
        assert dict(context)["shop"] == source.rpartition("/")[2]
        assert sum(map(len, checks._numbers.values())) <= 4


def test_events_that_differ_in_a_placeholder_share_a_check() -> None:
    """Only one check is made (K-34)."""
    checks = answers(source={"type": "uritemplate", "value": "/shops/{shop}"}, subject={"value": "order {number}"})
    events = batch(*({"source": f"/shops/{n % 7}", "subject": f"order {n}"} for n in range(100)))
    numbers = checks.number_contexts(events, np.arange(100))
    assert [len(cached) for cached in checks._numbers.values()] == [1]
    expected = [[("shop", str(n % 7)), ("number", str(n))] for n in range(100)]
    assert checks.build_maps(events, np.arange(100), numbers).to_pylist() == expected


PIECES = st.sampled_from(["a", "/", ".", "%41", "%", "%C3", "é", "\n", "{", "x", "a/", "/b", "shops", ":"])
TEXTS = st.lists(PIECES, min_size=1, max_size=5).map("".join)
FILLINGS = st.sampled_from(["", "a", "/", "%41", "é%"]) | TEXTS
LITERALS = TEXTS.map(lambda text: text.replace("{", "é"))
PLACES = st.lists(LITERALS | st.sampled_from(["{a}", "{b}"]), min_size=1, max_size=4).map("".join)
ENDS = st.sampled_from(["", "a", "a/", "/a"])
# Most have one placeholder, and what is before and behind it may be the same.
TEMPLATES = st.tuples(ENDS, st.sampled_from(["{a}", "{b}"]), ENDS).map("".join) | PLACES
DECLARED = st.fixed_dictionaries(
    {"type": st.sampled_from(["uritemplate", "string", "any"]), "value": TEMPLATES},
    optional={"required": st.booleans()},
)


@settings(max_examples=examples(300))
@given(st.fixed_dictionaries({"source": DECLARED}, optional=dict.fromkeys(("subject", "tenant"), DECLARED)), st.data())
def test_checks_equal_those_of_the_definition(declared: dict[str, Any], data: st.DataObject) -> None:
    """The property holds for any templates, and for matching, nearly matching and other texts (K-16, K-34, F-27)."""
    checks = answers(**declared)

    def values(name: str) -> st.SearchStrategy[Any]:
        template = str(declared.get(name, {}).get("value", ""))
        filled = st.tuples(FILLINGS, FILLINGS).map(lambda two: template.replace("{a}", two[0]).replace("{b}", two[1]))
        more_values = st.integers(0, 9) | st.booleans() if name == "tenant" else st.nothing()
        return filled.map(lambda text: text or "a") | filled.map(lambda text: f"a{text}") | TEXTS | more_values

    optional = {name: values(name) for name in ("subject", "tenant")}
    drawn = st.fixed_dictionaries({"source": values("source")}, optional=optional)
    events = data.draw(st.lists(drawn, min_size=1, max_size=8))
    events_, order = batch(*events), np.arange(len(events))
    for _ in range(2):  # asked, and known
        numbers = checks.number_contexts(events_, order)
        fitting = np.flatnonzero(numbers >= 0)
        maps = iter(checks.build_maps(events_, fitting, numbers[fitting]).to_pylist())
        for event, number in zip(events, numbers.tolist(), strict=True):
            context: dict[str, str] = {}
            breach = checks._definition.check_event({**NEEDED, **event}, context)
            if breach:
                assert checks._breaches.by_number[-1 - number] == tuple(breach)
            else:
                assert dict(next(maps) or ()) == context


@pytest.mark.parametrize("types", ["ab", "ba"])
def test_definitions_that_differ_in_strict_delivery_share_no_checks(types: str) -> None:
    """Only one of them checks the partition, whichever comes first (K-46)."""
    messages = {
        name: {
            "envelope": "CloudEvents/1.0",
            "envelopemetadata": {"type": {"value": name}},
            "protocol": "KAFKA",
            "protocoloptions": {"topic": "t", "partition": 1},
        }
        for name in "ab"
    }
    snapshot = Snapshot.of_documents([("g", {"messagegroups": {"g": {"messages": messages}}})])
    contract = snapshot.compile(parse_flags(["/messagegroups/g/messages/a:strict_delivery=true"]))
    records = [(b"{}", event_headers({"ce_type": name.encode()})) for name in types]
    tally, _ = check_batches(contract, list(read_record_batches(rows(*records, partition=2, topic="t"))))
    assert (tally.landed, tally.reasons) == ({"/messagegroups/g/messages/b": 1}, {"metadata_violation": 1})

"""The ledger against what lies in the tables."""

from __future__ import annotations

from collections import Counter

import pytest

from signalbook.demo.results import differences, misplaced
from signalbook.demo.traffic import Place, TrafficLedger
from signalbook.pipeline import Report
from signalbook.pipeline.reports.report import Tally

PLACE = ("deliveries-0.jsonl", 120)


def ledger() -> TrafficLedger:
    return TrafficLedger(written=3, landed=Counter({"/m": 2}), sidelined={PLACE: "no_match"})


def report(**changed: object) -> Report:
    tally = Tally(read=3, landed=Counter({"/m": 2}), dead_lettered=1, reasons=Counter({"no_match": 1}))
    for name, value in changed.items():
        setattr(tally, name, value)
    return Report(batch="b", fingerprint="f", tally=tally, seconds=1.0)


def test_consistent_report_has_no_differences() -> None:
    assert differences(ledger(), report(), {PLACE: "no_match"}) == []


@pytest.mark.parametrize(
    ("changed", "sidelined", "expected"),
    [
        ({"read": 2}, {PLACE: "no_match"}, "3 lines were written, but 2 read"),
        ({"landed": Counter({"/m": 1, "/n": 1})}, {PLACE: "no_match"}, "landed in /n: 0 were due, there are 1"),
        ({"reasons": Counter()}, {PLACE: "no_match"}, "dead letters for no_match: 1 were due, there are 0"),
        ({}, {PLACE: "ambiguous"}, "deliveries-0.jsonl, byte 120: no_match was due, it came to ambiguous"),
        ({}, {}, "deliveries-0.jsonl, byte 120: no_match was due, it came to landing"),
        ({}, {PLACE: "no_match", ("f", 7): "x"}, "f, byte 7: landing was due, it came to x"),
    ],
)
def test_each_difference_is_reported(
    changed: dict[str, object], sidelined: dict[tuple[str, int], str], expected: str
) -> None:
    assert expected in differences(ledger(), report(**changed), sidelined)


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([(("kafka:t/0", 1), "/m"), (("kafka:t/0", 2), "no_match")], []),
        ([(("kafka:t/0", 2), "no_match")], ["kafka:t/0, offset 1: /m was due, there is nothing"]),
        (
            [(("kafka:t/0", 1), "/m"), (("kafka:t/0", 1), "no_match"), (("kafka:t/0", 2), "no_match")],
            ["kafka:t/0, offset 1: /m was due, there is /m and no_match"],
        ),
        (
            [(("kafka:t/0", 1), "/m"), (("kafka:t/0", 2), "/m"), (("kafka:t/1", 0), "/m")],
            ["kafka:t/0, offset 2: no_match was due, there is /m", "kafka:t/1, offset 0: nothing was due, there is /m"],
        ),
    ],
)
def test_each_misplaced_message_is_reported(places: list[tuple[Place, str]], expected: list[str]) -> None:
    assert misplaced({("kafka:t/0", 1): "/m", ("kafka:t/0", 2): "no_match"}, places) == expected

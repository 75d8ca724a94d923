"""Is every seeded fault sidelined for its reason, and nothing else? The ledger against what lies in the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from signalbook.demo.lake import Lake
from signalbook.demo.traffic import Ledger
from signalbook.pipeline import Report

_SHOWN: Final = 5


def dead_letters(lake: Lake, batch: str) -> dict[tuple[str, int], str]:
    """The reason of each dead letter of a batch, by file name and byte offset."""
    rows = lake.dead_letters(batch).to_pylist()
    return {(Path(row["source"]).name, row["position"]): row["reason"] for row in rows}


def differences(ledger: Ledger, report: Report, sidelined: Mapping[tuple[str, int], str]) -> list[str]:
    """What is not as the ledger says it must be, in words; empty when everything is."""
    found = []
    if report.tally.read != ledger.written:
        found.append(f"{ledger.written} lines were written, but {report.tally.read} read")
    found += _counts("landed in", ledger.landed, report.tally.landed)
    found += _counts("sidelined for", Counter(ledger.sidelined.values()), report.tally.reasons)
    for place in sorted(ledger.sidelined.keys() | sidelined.keys()):
        wanted, got = ledger.sidelined.get(place, "landing"), sidelined.get(place, "landing")
        if wanted != got:
            found.append(f"{place[0]}, byte {place[1]}: {wanted} was due, it came to {got}")
    return found[:_SHOWN] + ([f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else [])


def _counts(what: str, wanted: Mapping[str, int], got: Mapping[str, int]) -> list[str]:
    names = sorted(name for name in wanted.keys() | got.keys() if wanted.get(name, 0) != got.get(name, 0))
    return [f"{what} {name}: {wanted.get(name, 0)} were due, there are {got.get(name, 0)}" for name in names]

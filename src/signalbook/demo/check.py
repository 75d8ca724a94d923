"""Is every seeded fault sidelined for its reason, and nothing else? The ledger against what lies in the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from signalbook.demo.lake import Lake
from signalbook.demo.traffic import Ledger, Place
from signalbook.errors import SignalbookError
from signalbook.pipeline import Report

_SHOWN: Final = 5


class DemoFailed(SignalbookError):
    """Something did not come out as the ledger says it must."""


def dead_letters(lake: Lake, batch: str) -> dict[Place, str]:
    """The reason of each dead letter of a batch, by file name and byte offset."""
    rows = lake.dead_letters(batch).to_pylist()
    return {(Path(row["source"]).name, row["position"]): row["reason"] for row in rows}


def differences(ledger: Ledger, report: Report, sidelined: Mapping[Place, str]) -> list[str]:
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
    return _some(found)


def misplaced(due: Mapping[Place, str], found: Iterable[tuple[Place, str]]) -> list[str]:
    """What is not in the one place where it must be, once, in words; empty when everything is.

    Both say of a message what became of it: the xid of the definition it landed for, or a reason.
    """
    ends: dict[Place, list[str]] = {place: [] for place in due}
    for place, end in found:
        ends.setdefault(place, []).append(end)
    return _some([_told(place, due.get(place), got) for place, got in sorted(ends.items()) if got != [due.get(place)]])


def _told(place: Place, due: str | None, got: list[str]) -> str:
    source, position = place
    return f"{source}, offset {position}: {due or 'nothing'} was due, there is {' and '.join(got) or 'nothing'}"


def _some(found: list[str]) -> list[str]:
    return found[:_SHOWN] + ([f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else [])


def _counts(what: str, wanted: Mapping[str, int], got: Mapping[str, int]) -> list[str]:
    names = sorted(name for name in wanted.keys() | got.keys() if wanted.get(name, 0) != got.get(name, 0))
    return [f"{what} {name}: {wanted.get(name, 0)} were due, there are {got.get(name, 0)}" for name in names]

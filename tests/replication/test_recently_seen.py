from __future__ import annotations

from signalbook.replication.following import RecentlySeen


def test_only_so_many_are_remembered() -> None:
    seen: RecentlySeen[str] = RecentlySeen(limit=2)
    for thing in "aabc":
        seen.add(thing)
    assert [thing in seen for thing in "abc"] == [False, True, True]

from __future__ import annotations

from signalbook.replication.following import RecentlySeen


def test_number_of_remembered_values_is_bounded() -> None:
    seen: RecentlySeen[str] = RecentlySeen(limit=2)
    for letter in "aabc":
        seen.add(letter)
    assert [letter in seen for letter in "abc"] == [False, True, True]

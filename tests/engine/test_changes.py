"""Changes of one interaction, put together."""

from __future__ import annotations

import pytest

from signalbook.engine.write.changes import Action, Change, Entity, coalesce


def change(xid: str, action: str, *changed: str) -> Change:
    return Change(xid=xid, entity=Entity.GROUP, action=Action(action), changed=changed)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (change("/a/1", "updated", "x", "y"), change("/a/1", "updated", "y", "z"), ("updated", "x", "y", "z")),
        (change("/a/1", "created"), change("/a/1", "updated", "x"), ("created",)),
        (change("/a/1", "created"), change("/a/1", "deleted"), ("deleted",)),
        (change("/a/1", "deprecation", "x"), change("/a/1", "deprecation", "y"), ("deprecation", "x", "y")),
    ],
)
def test_one_subject(one: Change, other: Change, expected: tuple[str, ...]) -> None:
    """R297, R298."""
    assert coalesce([one, other]) == [change("/a/1", *expected)]


def test_different_subjects_and_kinds_stay() -> None:
    """R297, R303: a deprecation stands beside its update"""
    told = [change("/a/1", "updated", "x"), change("/a/2", "updated", "x"), change("/a/1", "deprecation", "y")]
    assert coalesce(told) == told

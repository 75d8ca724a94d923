"""Walking a tree of any size in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from signalbook.storage import walk as walking
from signalbook.storage.base import Row, Store, Writer
from signalbook.storage.walk import walk
from signalbook.values import now
from signalbook.xid import ROOT, Xid

TREE = {"A": {"x": ["1", "2"], "Y": []}, "b": {}, "c": {"z": ["3"], "_": ["6", "5", "4"], "k": [], "l": ["7"]}}
ORDER = ["", *["A", "x", "1", "2", "Y", "b", "c", "_", "4", "5", "6", "k", "l", "7", "z", "3"]]


def plant(writer: Writer, parent: int, xids: Sequence[Xid]) -> list[Row]:
    keys = writer.reserve(len(xids))
    rows = [
        Row(key=key, parent=parent, xid=xid, epoch=1, createdat=now(), modifiedat=now())
        for key, xid in zip(keys, xids, strict=True)
    ]
    writer.insert(rows)
    return rows


def shown(rows: Iterable[Row]) -> list[str]:
    return ["".join(row.xid.parts[-1:]) for row in rows]


@pytest.fixture
def root(store: Store) -> Row:
    with store.write() as writer:
        (root,) = plant(writer, 0, [ROOT])
        for group in plant(writer, root.key, [Xid(("gs", name)) for name in reversed(TREE)]):
            for resource in plant(writer, group.key, [group.xid / "rs" / name for name in TREE[group.xid.id]]):
                versions = TREE[group.xid.id][resource.xid.id]
                plant(writer, resource.key, [resource.xid / "versions" / name for name in versions])
    return root


@pytest.mark.parametrize("batch", [1, 2, 3, 1000])
def test_a_tree_is_walked_depth_first_whatever_fits_in_memory(
    store: Store, root: Row, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "_BATCH", batch)
    with store.read() as reader:
        assert shown(walk(reader, [root])) == ORDER


def test_a_walk_may_begin_with_several_and_with_none(store: Store, root: Row) -> None:
    with store.read() as reader:
        groups = list(reader.children([root.key]))
        assert shown(walk(reader, groups)) == ORDER[1:]
        assert list(walk(reader, [])) == []

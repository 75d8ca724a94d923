"""What every store does, on every database."""

from __future__ import annotations

from signalbook.storage.base import Row, Store
from signalbook.values import now
from signalbook.xid import ROOT, Xid


def test_a_row_comes_back_equal(store: Store) -> None:
    stamp = now()
    with store.write() as writer:
        (key,) = writer.reserve(1)
        row = Row(key=key, parent=0, xid=ROOT, epoch=1, createdat=stamp, modifiedat=stamp, attributes={"a": [1, None]})
        writer.insert([row])
    with store.read() as reader:
        assert reader.get(ROOT) == row
        assert reader.get(Xid(("groups", "g"))) is None

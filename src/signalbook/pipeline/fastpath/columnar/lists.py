"""Lists whose items are read in rounds: the first of every list, then the second."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from signalbook.pipeline.fastpath.columnar.cursors import Numbers

# Rounds that are made before whoever has more is refused: each costs the same, however few lists are left.
MOST_ROUNDS: Final = 100


class Items:
    """Items as they come, with the numbers of their lists."""

    def __init__(self, kind: pa.ListType) -> None:
        self._kind = kind
        self._items: list[pa.Array] = []
        self._owners: list[Numbers] = []

    def __len__(self) -> int:
        return len(self._items)

    def add(self, items: pa.Array, owners: Numbers) -> None:
        """One item for each of these lists."""
        self._items.append(items)
        self._owners.append(owners)

    def lists(self, count: int) -> pa.Array:
        """All ``count`` lists."""
        if not self._items:
            offsets, items = np.zeros(count + 1, np.int32), pa.array([], self._kind.value_type)
        else:
            owners = np.concatenate(self._owners)
            offsets = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=count))]).astype(np.int32)
            items = pa.concat_arrays(self._items).take(pa.array(np.argsort(owners, kind="stable")))
        return pa.ListArray.from_arrays(pa.array(offsets), items, type=self._kind)

"""Iterate over items in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield the items in lists of up to ``size``, as ``itertools.batched`` does since Python 3.12 with tuples."""
    stream = iter(items)
    while batch := list(islice(stream, size)):
        yield batch

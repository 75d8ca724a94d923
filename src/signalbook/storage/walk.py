"""Whole trees of rows, in the order in which they are shown, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from signalbook.storage.base import Reader, Row

_BATCH: Final = 1000


def walk(reader: Reader, rows: Iterable[Row]) -> Iterator[Row]:
    """Each of ``rows`` followed by all beneath it, depth first; siblings by type and folded id.

    Holds some thousand rows at once, however many there are, and asks a few queries per thousand. Ends with the
    transaction of ``reader``. Raises ``StorageError``.
    """
    stream = iter(rows)
    while batch := list(islice(stream, _BATCH)):
        sizes = _sizes(reader, batch)
        for part in _parts(batch, sizes):
            yield from _walk(reader, part, sizes)


def _sizes(reader: Reader, rows: list[Row]) -> Counter[int]:
    """Number of children by key."""
    sizes: Counter[int] = Counter()
    for (parent, _), count in reader.counts([row.key for row in rows]).items():
        sizes[parent] += count
    return sizes


def _parts(rows: list[Row], sizes: Counter[int]) -> Iterator[list[Row]]:
    """``rows`` cut so that the children of each part are one batch; a row with more stands alone."""
    part: list[Row] = []
    total = 0
    for row in rows:
        if part and total + sizes[row.key] > _BATCH:
            yield part
            part, total = [], 0
        part.append(row)
        total += sizes[row.key]
    yield part


def _walk(reader: Reader, part: list[Row], sizes: Counter[int]) -> Iterator[Row]:
    owners = {row.key: row for row in part if sizes[row.key]}
    waiting = iter(part)
    owner = 0
    for row in walk(reader, _children(reader, owners)) if owners else ():
        while row.parent in owners and row.parent != owner:
            following = next(waiting)
            owner = following.key
            yield following
        yield row
    yield from waiting


def _children(reader: Reader, owners: dict[int, Row]) -> Iterable[Row]:
    """The children of ``owners`` in their order; of a single owner as a stream."""
    rows = reader.children(owners)
    if len(owners) == 1:
        return rows
    places = {key: place for place, key in enumerate(owners)}
    return sorted(rows, key=lambda row: places[row.parent])

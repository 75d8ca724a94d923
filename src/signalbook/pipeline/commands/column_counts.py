"""Counts for ``pipeline profile``, made from Arrow rows in this process or in Spark's tasks and then merged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# The standard error of an estimate is 1 / sqrt(_MAX_HASHES): 1.6 %.
_MAX_HASHES: Final = 4096
_HASH_BYTES: Final = 8


@dataclass(slots=True)
class ColumnCounts:
    """Statistics of the values of one column: the number ``present``, the ``least`` and the ``most``.

    Of lists and maps, ``least`` and ``most`` are sizes, and distinct values are not counted. ``hashes`` are the
    smallest hashes of the values in ascending order, at most ``_MAX_HASHES``. Their range gives an estimate of the
    number of distinct values (a KMV sketch).
    """

    present: int = 0
    least: Any = None
    most: Any = None
    hashes: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))

    def add(self, values: pa.Array) -> None:
        """Add the values of an array."""
        values = values.drop_null()
        if is_collection(values.type):
            sizes = pa.array(np.diff(values.offsets.to_numpy()))
            hashes = self.hashes
        else:
            sizes, hashes = values, _hash_distinct(values)
        span = pc.min_max(sizes)
        self.merge(ColumnCounts(len(values), span["min"].as_py(), span["max"].as_py(), hashes))

    def merge(self, other: ColumnCounts) -> None:
        """Add the counts of ``other``, which are of other rows."""
        self.present += other.present
        self.least = _choose(min, self.least, other.least)
        self.most = _choose(max, self.most, other.most)
        self.hashes = np.unique(np.concatenate([self.hashes, other.hashes]))[:_MAX_HASHES]

    @property
    def distinct(self) -> int:
        """The number of distinct values: exact below ``_MAX_HASHES``, else an estimate."""
        if len(self.hashes) < _MAX_HASHES:
            return len(self.hashes)
        share: float = int(self.hashes[-1]) / 2 ** (8 * _HASH_BYTES)
        return min(self.present, round((_MAX_HASHES - 1) / share))


@dataclass(slots=True)
class RowCounts:
    """The number of rows, and the counts of each column that holds values (``iterate_leaves``)."""

    rows: int
    columns: list[ColumnCounts]

    @classmethod
    def of(cls, columns: pa.Schema) -> RowCounts:
        """Return counts of zero rows with these columns."""
        return cls(0, [ColumnCounts() for _ in iterate_leaves(columns)])

    def merge(self, other: RowCounts) -> None:
        """Add the counts of ``other``, which are of other rows."""
        self.rows += other.rows
        for mine, theirs in zip(self.columns, other.columns, strict=True):
            mine.merge(theirs)


def count_rows(columns: pa.Schema, batches: Iterable[pa.RecordBatch]) -> RowCounts:
    """Return the counts of all rows in ``batches``, which have these ``columns``."""
    counts = RowCounts.of(columns)
    paths = [path for path, _ in iterate_leaves(columns)]
    for batch in batches:
        counts.rows += len(batch)
        for (name, *members), column in zip(paths, counts.columns, strict=True):
            values = batch.column(name)
            column.add(pc.struct_field(values, members) if members else values)
    return counts


def iterate_leaves(
    fields: Iterable[pa.Field], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    """Yield the path and type of each column, at any depth, that is not a struct.

    ``above`` is the path of its parent.
    """
    for column in fields:
        path = (*above, column.name)
        if pa.types.is_struct(column.type):
            yield from iterate_leaves(column.type, path)
        else:
            yield path, column.type


def is_collection(kind: pa.DataType) -> bool:
    """Return True if ``kind`` is the type of lists or maps."""
    return bool(pa.types.is_list(kind) or pa.types.is_map(kind))


def _choose(choose: Callable[..., Any], first: Any, second: Any) -> Any:
    """Return the least or greatest of two values, by ``choose`` (``min`` or ``max``).

    None means no value. NaN is returned only if there is no other value.
    """
    values = [value for value in (first, second) if value is not None]
    return choose([value for value in values if value == value] or values, default=None)


def _hash_distinct(values: pa.Array) -> npt.NDArray[np.uint64]:
    """Return the hashes of the distinct ``values``, at most the ``_MAX_HASHES`` smallest."""
    distinct = values.unique()
    if not pa.types.is_binary(distinct.type):
        distinct = distinct.cast(pa.string()).cast(pa.binary())
    digests = b"".join(blake2b(value, digest_size=_HASH_BYTES).digest() for value in distinct.to_pylist())
    hashes = np.frombuffer(digests, np.uint64)
    return hashes if len(hashes) <= _MAX_HASHES else np.partition(hashes, _MAX_HASHES)[:_MAX_HASHES]

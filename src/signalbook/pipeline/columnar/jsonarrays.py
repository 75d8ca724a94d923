"""From the buffers that the native decoder of JSON fills to arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from signalbook.formats.base import REFUSALS
from signalbook.pipeline.arrays import Build

# Rows, nulls, buffers and children of an array.
Found = tuple[int, int, list[bytes | None], list[Any]]


class Owners:
    """Which payload each row of a column is of, and which payloads have a value that was refused."""

    def __init__(self, numbers: npt.NDArray[np.int64], bad: npt.NDArray[np.bool_]) -> None:
        self.numbers = numbers
        self.bad = bad

    @classmethod
    def of(cls, rows: int) -> Owners:
        """Of a column with a row for each payload."""
        return cls(np.arange(rows), np.zeros(rows, np.bool_))

    def of_items(self, offsets: bytes | None) -> Owners:
        """Of the items of lists, or the values of maps."""
        assert offsets is not None
        ends = np.frombuffer(offsets, np.int32)
        return Owners(np.repeat(self.numbers, ends[1:] - ends[:-1]), self.bad)


Make = Callable[[Found, Owners], pa.Array]


def plain(kind: pa.DataType) -> Make:
    """A column of scalars."""

    def make(found: Found, _: Owners) -> pa.Array:
        return _of_buffers(kind, found) if found[2] else pa.nulls(found[0], kind)

    return make


def structs(kind: pa.DataType, members: Sequence[Make]) -> Make:
    """A column of objects."""

    def make(found: Found, owners: Owners) -> pa.Array:
        parts = [member(part, owners) for member, part in zip(members, found[3], strict=True)]
        return _of_buffers(kind, found, parts)

    return make


def lists(kind: pa.DataType, item: Make) -> Make:
    """A column of lists."""

    def make(found: Found, owners: Owners) -> pa.Array:
        return _of_buffers(kind, found, [item(found[3][0], owners.of_items(found[2][1]))])

    return make


def maps(kind: pa.DataType, value: Make) -> Make:
    """A column of maps."""
    entries = pa.struct([kind.key_field, kind.item_field])

    def make(found: Found, owners: Owners) -> pa.Array:
        names, values = found[3]
        parts = [_of_buffers(kind.key_type, names), value(values, owners.of_items(found[2][1]))]
        return _of_buffers(kind, found, [pa.Array.from_buffers(entries, names[0], [None], 0, children=parts)])

    return make


def guarded(check: Callable[[bytes], Any], build: Build | None) -> Make:
    """A column of JSON text whose values have to pass ``check``, once for each that occurs.

    The column is made of what that gives by ``build``; without, it stays text.
    """

    def make(found: Found, owners: Owners) -> pa.Array:
        texts = _of_buffers(pa.string(), found)
        encoded = texts.dictionary_encode()
        values, sound = _checked(check, encoded.dictionary)
        if not sound.all():
            # The last is for rows without a value, which nothing can be wrong with.
            places = encoded.indices.fill_null(len(sound)).to_numpy()
            owners.bad[owners.numbers[~np.append(sound, True)[places]]] = True
        return texts if build is None else build(values, True).take(encoded.indices)

    return make


def _checked(check: Callable[[bytes], Any], texts: pa.Array) -> tuple[list[Any], npt.NDArray[np.bool_]]:
    values: list[Any] = []
    sound = np.ones(len(texts), np.bool_)
    for number, text in enumerate(texts.cast(pa.binary()).to_pylist()):
        try:
            values.append(check(text))
        except REFUSALS:
            values.append(None)
            sound[number] = False
    return values, sound


def _of_buffers(kind: pa.DataType, found: Found, children: list[pa.Array] | None = None) -> pa.Array:
    rows, nulls, buffers, _ = found
    held = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    return pa.Array.from_buffers(kind, rows, held, nulls, children=children)

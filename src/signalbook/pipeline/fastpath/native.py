"""The native module: how it is found, and Arrow arrays of the buffers that its decoders of payloads fill.

A decoder is made once for a schema, from a plan (``payloads.py``), and reads the payloads of
a batch into one column, of records where the schema has members. It may refuse any payload, and refuses whatever is
doubtful; it never takes one that ``Schema.decode`` refuses, and what it takes becomes the values that gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from signalbook.formats.jsonschema.guards import REFUSALS
from signalbook.pipeline.arrays import Build
from signalbook.pipeline.errors import PipelineError

# As native/src/lib.rs has it: a module built from other sources may misread plans.
INTERFACE: Final = 8
_INSTALL: Final = "run pip install ./native in a clone of this version"

# Columns of the payloads that are taken, in order, and the numbers of the others.
Decoded = tuple[list[pa.Array], list[int]]
Decode = Callable[[pa.BinaryArray], Decoded]
# What a decoder of the native module reads: rows, nulls, buffers and children of a column; and whom it refused.
Found = tuple[int, int, list[bytes | None], list[Any]]
# Of JSON there is a second column, for what the first does not hold of objects.
Read = Callable[[bytes, bytes], tuple[Found, list[int]] | tuple[Found, list[int], Found]]


class NoPlan(Exception):
    """The native module has no way to decode payloads of a schema, which go the slow path."""


@cache
def module() -> Any:
    """``signalbook_native``. Raises ``PipelineError`` where it is missing, or is one of another interface."""
    try:
        found = import_module("signalbook_native")
    except ImportError as error:
        raise PipelineError(f"the pipeline needs its native module, signalbook-native ({error}): {_INSTALL}") from error
    # A module of another version may take the same plan for another one, and answer with wrong columns instead of an
    # error.
    interface = getattr(found, "INTERFACE", "none")
    if interface != INTERFACE:
        raise PipelineError(f"signalbook-native has interface {interface}, not {INTERFACE}: {_INSTALL}")
    return found


def json_name(name: str) -> str:
    """A name that stands in JSON as it is, without escapes. Raises ``NoPlan``."""
    if not name.isprintable() or '"' in name or "\\" in name:
        raise NoPlan
    return name


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


# Makes an array of a column's buffers.
Make = Callable[[Found, Owners], pa.Array]


def decoder(read: Read, make: Make, *, members: bool) -> Decode:
    """What reads payloads into ``columns.payload``: of records the array of each member, else the one array.

    Behind those of JSON is that of ``columns.RESCUE``.

    The function raises one of ``arrays.MISFITS`` for a value that does not fit its column.
    """

    def decode(payloads: pa.BinaryArray) -> Decoded:
        # One call for all payloads, in one piece of memory: crossing over to the module once per payload would cost
        # more than decoding.
        found, refused, *rest = read(*in_one_piece(payloads))
        owners = Owners.of(found[0])
        whole = make(found, owners)
        arrays = whole.flatten() if members else [whole]
        arrays += [of_buffers(pa.string(), column) for column in rest]
        if not owners.bad.any():
            return arrays, refused
        taken = np.delete(np.arange(len(payloads)), refused)
        # Rows are only of those payloads that the module took; the numbers of the others are known from ``refused``.
        kept = pa.array(np.flatnonzero(~owners.bad))
        return [array.take(kept) for array in arrays], sorted([*refused, *taken[owners.bad].tolist()])

    return decode


def in_one_piece(payloads: pa.BinaryArray | pa.StringArray) -> tuple[bytes, bytes]:
    """The payloads one behind the other, and where each begins and the last ends."""
    offsets = np.frombuffer(payloads.buffers()[1], np.int32, len(payloads) + 1, payloads.offset * 4)
    block, first = payloads.buffers()[2], int(offsets[0])
    data = b"" if block is None else block.slice(first, int(offsets[-1]) - first).to_pybytes()
    return data, (offsets - offsets[0]).tobytes()


def plain(kind: pa.DataType) -> Make:
    """A column of ``kind`` and all within it, as they were read."""
    if pa.types.is_struct(kind):
        return structs(kind, [plain(field.type) for field in kind])
    if pa.types.is_list(kind):
        return lists(kind, plain(kind.value_type))
    if pa.types.is_map(kind):
        return maps(kind, plain(kind.item_type))
    # a column of nothing but nulls has no buffers, whatever its type
    return lambda found, _: of_buffers(kind, found) if found[2] else pa.nulls(found[0], kind)


def structs(kind: pa.DataType, members: Sequence[Make]) -> Make:
    """A column of objects."""

    def make(found: Found, owners: Owners) -> pa.Array:
        parts = [member(part, owners) for member, part in zip(members, found[3], strict=True)]
        return of_buffers(kind, found, parts)

    return make


def lists(kind: pa.DataType, item: Make) -> Make:
    """A column of lists."""

    def make(found: Found, owners: Owners) -> pa.Array:
        return of_buffers(kind, found, [item(found[3][0], owners.of_items(found[2][1]))])

    return make


def maps(kind: pa.DataType, value: Make) -> Make:
    """A column of maps."""
    entries = pa.struct([kind.key_field, kind.item_field])

    def make(found: Found, owners: Owners) -> pa.Array:
        names, values = found[3]
        parts = [of_buffers(kind.key_type, names), value(values, owners.of_items(found[2][1]))]
        return of_buffers(kind, found, [pa.Array.from_buffers(entries, names[0], [None], 0, children=parts)])

    return make


def guarded(check: Callable[[bytes], Any], build: Build | None) -> Make:
    """A column of JSON text whose values have to pass ``check``, once for each that occurs.

    The column is made of what that gives by ``build``; without, it stays text.
    """

    def make(found: Found, owners: Owners) -> pa.Array:
        texts = of_buffers(pa.string(), found)
        # Each distinct text is checked once: in a column of a stream most values recur.
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


def of_buffers(kind: pa.DataType, found: Found, children: list[pa.Array] | None = None) -> pa.Array:
    """The array of one column."""
    rows, nulls, buffers, _ = found
    # The module allocated them as Arrow lays out its buffers, so that nothing is copied here; the arrays keep them
    # alive.
    held = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    return pa.Array.from_buffers(kind, rows, held, nulls, children=children)

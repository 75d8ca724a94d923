"""The native module: how it is found, what it is given, and Arrow arrays of what its decoders of payloads find.

A decoder is made once for a schema, from a plan (``payloads.py``), and reads the payloads of
a batch into one column, of records where the schema has members. It may refuse any payload, and refuses whatever is
doubtful; it never takes one that ``Schema.decode`` refuses, and what it takes becomes the values that gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from signalbook.formats.jsonschema.guards import REFUSALS
from signalbook.pipeline.arrays import Build
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources.base import Offsets

# As native/src/lib.rs has it: a module built from other sources may misread plans.
INTERFACE: Final = 15
_INSTALL: Final = "run pip install ./native in a clone of this version"
_TEXT: Final = pa.field("", pa.string())


@dataclass(frozen=True, slots=True)
class PayloadSpans:
    """Payloads where they lie, so that none is copied before it is decoded.

    ``counts`` says how many of them, one after the other, are in each of the ``blocks``, ``starts`` and ``ends`` where
    in those they are.
    """

    blocks: Sequence[bytes]
    counts: Offsets
    starts: Offsets
    ends: Offsets

    @classmethod
    def of(cls, values: pa.BinaryArray | pa.StringArray) -> PayloadSpans:
        """Return the spans of an array. Null counts as empty."""
        if not len(values):  # which need not have buffers
            return cls.of_list([])
        offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
        block, first = values.buffers()[2], offsets[0]
        data = b"" if block is None else block.slice(first, offsets[-1] - first).to_pybytes()
        return cls.within(data, offsets[:-1] - first, offsets[1:] - first)

    @classmethod
    def of_list(cls, values: Sequence[bytes]) -> PayloadSpans:
        """Return the spans of a list of payloads."""
        ends = np.fromiter(map(len, values), np.int64, len(values))
        return cls(values, np.ones_like(ends), np.zeros_like(ends), ends)

    @classmethod
    def within(cls, block: bytes, starts: Offsets, ends: Offsets) -> PayloadSpans:
        """Return the spans in one block."""
        return cls([block], np.array([len(starts)]), starts, ends)

    @classmethod
    def joined(cls, parts: Sequence[PayloadSpans]) -> PayloadSpans:
        """Join spans."""
        return cls(
            [block for part in parts for block in part.blocks],
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.ends for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, number: int) -> bytes:
        """A copy of one."""
        block = self.blocks[int(np.searchsorted(np.cumsum(self.counts), number, "right"))]
        return block[self.starts[number] : self.ends[number]]

    @property
    def lengths(self) -> Offsets:
        """The length of each payload in bytes."""
        return self.ends - self.starts

    def take(self, numbers: Offsets) -> PayloadSpans:
        """Return the spans with these numbers, in ascending order."""
        limits = np.searchsorted(numbers, np.cumsum(self.counts))
        return PayloadSpans(self.blocks, np.diff(limits, prepend=0), self.starts[numbers], self.ends[numbers])

    def behind(self, lengths: int | Offsets) -> PayloadSpans:
        """Return the rest of each payload after ``lengths`` bytes."""
        return PayloadSpans(self.blocks, self.counts, self.starts + lengths, self.ends)

    def alone(self) -> PayloadSpans:
        """Copies of them in a block of their own, which keeps nothing else in memory."""
        ends = np.cumsum(self.lengths)
        return PayloadSpans.within(b"".join(self.to_list()), ends - self.lengths, ends)

    @property
    def weight(self) -> int:
        """Bytes that they keep in memory."""
        return sum(map(len, self.blocks))

    def heads(self, width: int) -> npt.NDArray[np.uint8]:
        """Return the first ``width`` bytes of each payload, padded with zeros."""
        return np.frombuffer(module().heads(self.places, width), np.uint8).reshape(-1, width)

    def array(self) -> pa.BinaryArray:
        """A copy of them."""
        return pa.array(self.to_list(), pa.binary())

    def to_list(self) -> list[bytes]:
        """A copy of each."""
        blocks = (block for block, count in zip(self.blocks, self.counts.tolist(), strict=True) for _ in range(count))
        places = zip(blocks, self.starts.tolist(), self.ends.tolist(), strict=True)
        return [block[start:end] for block, start, end in places]

    @property
    def places(self) -> tuple[Sequence[bytes], Offsets, Offsets, Offsets]:
        """The blocks and offsets for the native module."""
        return self.blocks, self.counts, self.starts, self.ends


# Columns of the payloads that are taken, in order, and the numbers of the others.
Decoded = tuple[list[pa.Array], list[int]]
Decode = Callable[[PayloadSpans], Decoded]
# What a decoder of the native module reads, as a batch of Arrow's IPC format, and whom it refused. Behind the column of
# payloads may be one for what that does not hold of objects.
Read = Callable[[Any], tuple[bytes, list[int]]]


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
    """The owner of each row of a column: its payload. Also the payloads with a refused value."""

    def __init__(self, numbers: npt.NDArray[np.int64], bad: npt.NDArray[np.bool_]) -> None:
        self.numbers = numbers
        self.bad = bad

    @classmethod
    def of(cls, rows: int) -> Owners:
        """Return the owners of a column with a row for each payload."""
        return cls(np.arange(rows), np.zeros(rows, np.bool_))

    def of_items(self, ends: npt.NDArray[np.int32]) -> Owners:
        """Return the owners of the items of lists, or of the values of maps."""
        return Owners(np.repeat(self.numbers, ends[1:] - ends[:-1]), self.bad)


# Makes an array of one that was read.
Make = Callable[[pa.Array, Owners], pa.Array]


@dataclass(frozen=True, slots=True)
class Reading:
    """The type as which a column is read, and its conversion, if any."""

    kind: pa.DataType
    make: Make | None = None


def decoder(read: Read, whole: Reading, *, members: bool, rest: bool = False) -> Decode:
    """Return the decoder of payloads into ``columns.payload``: the array of each member of a record, else one array.

    With ``rest`` the last array is that of ``columns.RESCUE``. The decoder raises one of ``arrays.MISFITS`` for a value
    that does not fit its column.
    """
    schema = pa.schema([pa.field("", whole.kind), *([_TEXT] if rest else [])])

    def decode(payloads: PayloadSpans) -> Decoded:
        # One call for all payloads: crossing over to the module once per payload would cost more than decoding.
        found, refused = read(payloads.places)
        column, *others = columns_of(found, schema)
        owners = Owners.of(len(column))
        made = column if whole.make is None else whole.make(column, owners)
        arrays = [*(made.flatten() if members else [made]), *others]
        if not owners.bad.any():
            return arrays, refused
        taken = np.delete(np.arange(len(payloads)), refused)
        # Rows are only of those payloads that the module took; the numbers of the others are known from ``refused``.
        kept = pa.array(np.flatnonzero(~owners.bad))
        return [array.take(kept) for array in arrays], sorted([*refused, *taken[owners.bad].tolist()])

    return decode


def columns_of(batch: bytes, schema: pa.Schema) -> list[pa.Array]:
    """The columns that the native module read. Nothing is copied: the arrays keep the bytes alive."""
    found: list[pa.Array] = pa.ipc.read_record_batch(batch, schema).columns
    return found


def structs(kind: pa.DataType, members: Sequence[Reading]) -> Reading:
    """A column of objects."""
    fields = [field.with_type(member.kind) for field, member in zip(kind, members, strict=True)]
    makes = [member.make for member in members]
    if not any(makes):
        return Reading(kind)

    def make(array: pa.Array, owners: Owners) -> pa.Array:
        parts = [array.field(number) for number in range(len(makes))]
        parts = [part if make is None else make(part, owners) for part, make in zip(parts, makes, strict=True)]
        return _like(array, kind, parts)

    return Reading(pa.struct(fields), make)


def lists(kind: pa.DataType, item: Reading) -> Reading:
    """A column of lists."""
    inner = item.make
    if inner is None:
        return Reading(kind)

    def make(array: pa.Array, owners: Owners) -> pa.Array:
        return _like(array, kind, [inner(array.values, owners.of_items(_ends(array)))])

    return Reading(pa.list_(kind.value_field.with_type(item.kind)), make)


def maps(kind: pa.DataType, value: Reading) -> Reading:
    """A column of maps."""
    inner = value.make
    if inner is None:
        return Reading(kind)
    entries = pa.struct([kind.key_field, kind.item_field])

    def make(array: pa.Array, owners: Owners) -> pa.Array:
        parts = [array.keys, inner(array.items, owners.of_items(_ends(array)))]
        return _like(array, kind, [pa.Array.from_buffers(entries, len(parts[0]), [None], 0, children=parts)])

    return Reading(pa.map_(kind.key_field, kind.item_field.with_type(value.kind)), make)


def guarded(check: Callable[[bytes], Any], build: Build | None) -> Reading:
    """A column of JSON text whose values have to pass ``check``, once for each that occurs.

    The column is made of what that gives by ``build``; without, it stays text.
    """

    def make(texts: pa.Array, owners: Owners) -> pa.Array:
        # Each distinct text is checked once: in a column of a stream most values recur.
        encoded = texts.dictionary_encode()
        values, sound = _checked(check, encoded.dictionary)
        if not sound.all():
            # The last is for rows without a value, which nothing can be wrong with.
            places = encoded.indices.fill_null(len(sound)).to_numpy()
            owners.bad[owners.numbers[~np.append(sound, True)[places]]] = True
        return texts if build is None else build(values, True).take(encoded.indices)

    return Reading(pa.string(), make)


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


def _ends(array: pa.Array) -> npt.NDArray[np.int32]:
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1)


def _like(array: pa.Array, kind: pa.DataType, children: list[pa.Array]) -> pa.Array:
    """An array with other children; it is one that was read, and so no slice."""
    buffers = array.buffers()[: 1 if pa.types.is_struct(kind) else 2]
    return pa.Array.from_buffers(kind, len(array), buffers, array.null_count, children=children)

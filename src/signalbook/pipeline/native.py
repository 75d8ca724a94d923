"""Load the native module, pass payloads to it, and convert the results of its decoders to Arrow arrays.

A decoder is made once for a schema, from a plan (``processing/decoding.py``). It reads the payloads of a batch into one
column, which is a column of records if the schema has members. A decoder may refuse any payload, and refuses doubtful
ones. It never accepts a payload that ``Schema.decode`` refuses, and its values are the same as those of
``Schema.decode``.
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
from signalbook.pipeline.arrays import MISFITS, Build, Offsets
from signalbook.pipeline.errors import PipelineError

# The same number is in native/src/lib.rs. A module that was built from other sources may misread plans.
INTERFACE: Final = 15
_INSTALL: Final = "run pip install ./native in a clone of this version"
_TEXT: Final = pa.field("", pa.string())


@dataclass(frozen=True, slots=True)
class PayloadSpans:
    """The positions of payloads in blocks of bytes, so that no payload is copied before it is decoded.

    ``counts`` says how many successive payloads are in each of the ``blocks``. ``starts`` and ``ends`` are the offsets
    of each payload in its block.
    """

    blocks: Sequence[bytes]
    counts: Offsets
    starts: Offsets
    ends: Offsets

    @classmethod
    def of(cls, values: pa.BinaryArray | pa.StringArray) -> PayloadSpans:
        """Return the spans of the values of an array. Null becomes an empty payload."""
        if not len(values):  # an empty array may have no buffers
            return cls.of_list([])
        offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
        block, first = values.buffers()[2], offsets[0]
        data = b"" if block is None else block.slice(first, offsets[-1] - first).to_pybytes()
        return cls.within(data, offsets[:-1] - first, offsets[1:] - first)

    @classmethod
    def of_list(cls, values: Sequence[bytes]) -> PayloadSpans:
        ends = np.fromiter(map(len, values), np.int64, len(values))
        return cls(values, np.ones_like(ends), np.zeros_like(ends), ends)

    @classmethod
    def within(cls, block: bytes, starts: Offsets, ends: Offsets) -> PayloadSpans:
        """Return the spans of payloads in one block, at these offsets."""
        return cls([block], np.array([len(starts)]), starts, ends)

    @classmethod
    def join(cls, parts: Sequence[PayloadSpans]) -> PayloadSpans:
        """Return the payloads of all ``parts``, in order, as one object."""
        return cls(
            [block for part in parts for block in part.blocks],
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.ends for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, number: int) -> bytes:
        """Return a copy of the payload with this number."""
        block = self.blocks[int(np.searchsorted(np.cumsum(self.counts), number, "right"))]
        return block[self.starts[number] : self.ends[number]]

    @property
    def lengths(self) -> Offsets:
        """The length of each payload in bytes."""
        return self.ends - self.starts

    def take(self, numbers: Offsets) -> PayloadSpans:
        """Return the spans with these numbers, which must be in ascending order."""
        limits = np.searchsorted(numbers, np.cumsum(self.counts))
        return PayloadSpans(self.blocks, np.diff(limits, prepend=0), self.starts[numbers], self.ends[numbers])

    def skip(self, lengths: int | Offsets) -> PayloadSpans:
        """Return the rest of each payload after ``lengths`` bytes."""
        return PayloadSpans(self.blocks, self.counts, self.starts + lengths, self.ends)

    def copy(self) -> PayloadSpans:
        """Copy the payloads to one new block, so that the old blocks need not stay in memory."""
        ends = np.cumsum(self.lengths)
        return PayloadSpans.within(b"".join(self.to_list()), ends - self.lengths, ends)

    @property
    def weight(self) -> int:
        """The number of bytes that the payloads keep in memory."""
        return sum(map(len, self.blocks))

    def read_heads(self, width: int) -> npt.NDArray[np.uint8]:
        """Return the first ``width`` bytes of each payload, padded with zeros."""
        return np.frombuffer(load_module().heads(self.places, width), np.uint8).reshape(-1, width)

    def to_array(self) -> pa.BinaryArray:
        """Copy the payloads to an array."""
        return pa.array(self.to_list(), pa.binary())

    def to_list(self) -> list[bytes]:
        """Copy the payloads to a list."""
        blocks = (block for block, count in zip(self.blocks, self.counts.tolist(), strict=True) for _ in range(count))
        places = zip(blocks, self.starts.tolist(), self.ends.tolist(), strict=True)
        return [block[start:end] for block, start, end in places]

    @property
    def places(self) -> tuple[Sequence[bytes], Offsets, Offsets, Offsets]:
        """The blocks and offsets for the native module."""
        return self.blocks, self.counts, self.starts, self.ends


# The columns of the accepted payloads, in order, and the numbers of the refused payloads.
Decoded = tuple[list[pa.Array], list[int]]
Decode = Callable[[PayloadSpans], Decoded]
# A native function. It returns a batch in Arrow's IPC format, and the numbers of refused payloads. The batch has the
# column of payloads, and may have a second column for the parts of objects that have no column.
Read = Callable[[Any], tuple[bytes, list[int]]]


class NoPlan(Exception):
    """The native module cannot decode payloads of a schema, so that they go the slow path."""


@cache
def load_module() -> Any:
    """Return ``signalbook_native``. Raises ``PipelineError`` if it is missing or has another interface."""
    try:
        extension = import_module("signalbook_native")
    except ImportError as error:
        raise PipelineError(f"the pipeline needs its native module, signalbook-native ({error}): {_INSTALL}") from error
    # A module of another version may misread a plan, and return wrong columns instead of an error.
    interface = getattr(extension, "INTERFACE", "none")
    if interface != INTERFACE:
        raise PipelineError(f"signalbook-native has interface {interface}, not {INTERFACE}: {_INSTALL}")
    return extension


def check_json_name(name: str) -> str:
    """Return ``name``. Raises ``NoPlan`` if it is a name that may need escapes in JSON."""
    if not name.isprintable() or '"' in name or "\\" in name:
        raise NoPlan
    return name


class Owners:
    """The payload of each row of a column, in ``numbers``. ``bad`` marks payloads with refused values."""

    def __init__(self, numbers: npt.NDArray[np.int64], bad: npt.NDArray[np.bool_]) -> None:
        self.numbers = numbers
        self.bad = bad

    @classmethod
    def of(cls, rows: int) -> Owners:
        """Return the owners of a column with a row for each payload."""
        return cls(np.arange(rows), np.zeros(rows, np.bool_))

    def of_items(self, ends: npt.NDArray[np.int32]) -> Owners:
        """Return the owners of the items of lists, or of the values of maps. ``ends`` are the offsets of the lists."""
        return Owners(np.repeat(self.numbers, ends[1:] - ends[:-1]), self.bad)


# A function that converts an array that the native module read.
Make = Callable[[pa.Array, Owners], pa.Array]


@dataclass(frozen=True, slots=True)
class Reading:
    """The type as which the native module reads a column, and the conversion ``make``; None: there is no conversion."""

    arrow_type: pa.DataType
    make: Make | None = None


def build_decoder(read: Read, whole: Reading, *, members: bool, with_rescue: bool = False) -> Decode:
    """Return the decoder of payloads into the columns of ``columns.build_payload``. ``read`` is the native function.

    ``whole`` is the reading of a payload. With ``members``, the result has an array for each of its members, else one
    array. With ``with_rescue``, the last array is the column ``columns.RESCUE``. The decoder raises one of
    ``arrays.MISFITS`` for a value that does not fit its column.
    """
    schema = pa.schema([pa.field("", whole.arrow_type), *([_TEXT] if with_rescue else [])])

    def decode(payloads: PayloadSpans) -> Decoded:
        # One call for all payloads, because one call per payload would take longer than decoding.
        batch, refused = read(payloads.places)
        column, *rescued = read_columns(batch, schema)
        owners = Owners.of(len(column))
        converted = column if whole.make is None else whole.make(column, owners)
        arrays = [*(converted.flatten() if members else [converted]), *rescued]
        if not owners.bad.any():
            return arrays, refused
        accepted = np.delete(np.arange(len(payloads)), refused)
        # The columns only have rows for payloads that the module accepted; ``refused`` are the numbers of the others.
        sound = pa.array(np.flatnonzero(~owners.bad))
        return [array.take(sound) for array in arrays], sorted([*refused, *accepted[owners.bad].tolist()])

    return decode


def refuse_all(payloads: PayloadSpans) -> Decoded:
    """Refuse all payloads: return no columns, and the numbers of all payloads."""
    return [], list(range(len(payloads)))


def decode_or_refuse(decode: Decode, payloads: PayloadSpans) -> Decoded:
    """Decode payloads. Refuse all of them if a value does not fit its column."""
    try:
        return decode(payloads)
    except MISFITS:
        return refuse_all(payloads)


def read_columns(batch: bytes, schema: pa.Schema) -> list[pa.Array]:
    """Return the columns that the native module read. Nothing is copied: the arrays keep the bytes alive."""
    arrays: list[pa.Array] = pa.ipc.read_record_batch(batch, schema).columns
    return arrays


def build_struct_reading(kind: pa.DataType, members: Sequence[Reading]) -> Reading:
    """Return the reading of a column of objects."""
    fields = [field.with_type(member.arrow_type) for field, member in zip(kind, members, strict=True)]
    makes = [member.make for member in members]
    if not any(makes):
        return Reading(kind)

    def make(array: pa.Array, owners: Owners) -> pa.Array:
        parts = [array.field(number) for number in range(len(makes))]
        parts = [part if make is None else make(part, owners) for part, make in zip(parts, makes, strict=True)]
        return _replace_children(array, kind, parts)

    return Reading(pa.struct(fields), make)


def build_list_reading(kind: pa.DataType, item: Reading) -> Reading:
    """Return the reading of a column of lists."""
    inner = item.make
    if inner is None:
        return Reading(kind)

    def make(array: pa.Array, owners: Owners) -> pa.Array:
        return _replace_children(array, kind, [inner(array.values, owners.of_items(_read_ends(array)))])

    return Reading(pa.list_(kind.value_field.with_type(item.arrow_type)), make)


def build_map_reading(kind: pa.DataType, value: Reading) -> Reading:
    """Return the reading of a column of maps whose values have the reading ``value``. Keys are not converted."""
    inner = value.make
    if inner is None:
        return Reading(kind)
    entries = pa.struct([kind.key_field, kind.item_field])

    def make(array: pa.Array, owners: Owners) -> pa.Array:
        parts = [array.keys, inner(array.items, owners.of_items(_read_ends(array)))]
        return _replace_children(
            array, kind, [pa.Array.from_buffers(entries, len(parts[0]), [None], 0, children=parts)]
        )

    return Reading(pa.map_(kind.key_field, kind.item_field.with_type(value.arrow_type)), make)


def build_guarded_reading(check: Callable[[bytes], Any], build: Build | None) -> Reading:
    """Return the reading of a column of JSON text, whose distinct values are each checked once.

    ``check`` returns the value of a text, or raises one of ``REFUSALS``. ``build`` makes the column of these values; if
    it is ``None``, the column stays text.
    """

    def make(texts: pa.Array, owners: Owners) -> pa.Array:
        # Each distinct text is checked once: in a column of a stream most values recur.
        encoded = texts.dictionary_encode()
        values, sound = _check_texts(check, encoded.dictionary)
        if not sound.all():
            # The appended entry is for rows without a value, which are always valid.
            places = encoded.indices.fill_null(len(sound)).to_numpy()
            owners.bad[owners.numbers[~np.append(sound, True)[places]]] = True
        return texts if build is None else build(values, True).take(encoded.indices)

    return Reading(pa.string(), make)


def _check_texts(check: Callable[[bytes], Any], texts: pa.Array) -> tuple[list[Any], npt.NDArray[np.bool_]]:
    values: list[Any] = []
    sound = np.ones(len(texts), np.bool_)
    for number, text in enumerate(texts.cast(pa.binary()).to_pylist()):
        try:
            values.append(check(text))
        except REFUSALS:
            values.append(None)
            sound[number] = False
    return values, sound


def _read_ends(array: pa.Array) -> npt.NDArray[np.int32]:
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1)


def _replace_children(array: pa.Array, kind: pa.DataType, children: list[pa.Array]) -> pa.Array:
    """Return an array with other children. The array must not be a slice."""
    buffers = array.buffers()[: 1 if pa.types.is_struct(kind) else 2]
    return pa.Array.from_buffers(kind, len(array), buffers, array.null_count, children=children)

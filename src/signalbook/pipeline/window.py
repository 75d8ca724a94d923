"""Events that wait for company: their attributes as columns, their data as it was sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from signalbook.pipeline import columns
from signalbook.pipeline.arrays import read_timestamps, text_maps, timestamps
from signalbook.pipeline.blocks import Block, Extension, text_codes
from signalbook.pipeline.envelopes import ATTRIBUTES
from signalbook.pipeline.numbering import dense, groups
from signalbook.pipeline.sources.base import MessageBatch, Offsets
from signalbook.pipeline.sources.records import addresses, delivered

# Input bytes of an event up to which a reader has as many of them at once as it likes.
_LIGHT: Final = 512
_MAP: Final = columns.TEXT_MAP


class Window:
    """The events of some blocks, numbered through."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        self._bounds = np.cumsum([0, *map(len, blocks)])
        self._codes: dict[str, tuple[Offsets, list[Any]]] = {}

    def __len__(self) -> int:
        return int(self._bounds[-1])

    @cached_property
    def _data(self) -> pa.BinaryArray:
        return pa.concat_arrays([block.data for block in self._blocks])

    def payloads(self, numbers: Offsets) -> pa.BinaryArray:
        """The data of these events."""
        return self._data.take(pa.array(numbers))

    def step(self, most: int) -> int:
        """How many payloads, ``most`` at most, to decode at once: as many bytes as fit a processor's cache."""
        weight = sum(len(block.frame.content) for block in self._blocks) // len(self)
        return min(max(most * _LIGHT // max(weight, 1), 1), most)

    @cached_property
    def attributes(self) -> dict[str, pa.Array]:
        """The core attributes that have columns, as text."""
        arrays = [pa.concat_arrays(parts) for parts in zip(*(block.arrays for block in self._blocks), strict=True)]
        return dict(zip(ATTRIBUTES, arrays, strict=True))

    @cached_property
    def times(self) -> pa.Array | None:
        """The times of all, unless one of them needs a closer look."""
        return read_timestamps(self.attributes["time"])

    @cached_property
    def extensions(self) -> dict[str, Extension]:
        """The extension attributes that any event has."""
        names = dict.fromkeys(name for block in self._blocks for name in block.extensions)
        return {name: Extension.joined((b.extensions.get(name), len(b)) for b in self._blocks) for name in names}

    @cached_property
    def addresses(self) -> tuple[Offsets, list[str]]:
        """For each event, all of records of Kafka, the number of its topic, and topics by number."""
        parts = [addresses(block.records()) for block in self._blocks]
        encoded = pa.concat_arrays(parts).dictionary_encode()
        return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()

    def codes(self, name: str) -> tuple[Offsets, list[Any]]:
        """For each event the number of its value of an attribute, and the values by number."""
        if name not in self._codes:
            extension = self.extensions.get(name)
            self._codes[name] = text_codes(self.attributes[name]) if extension is None else extension.codes()
        return self._codes[name]

    def kinds(self, names: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], Offsets]]:
        """The numbers of the events that share their values of some attributes, with those."""
        parts = [self.codes(name) for name in names]
        combined, count = np.zeros(len(self), np.int64), 1
        for codes, values in parts:
            combined, count = dense(combined * len(values) + codes, count * len(values))
        for events in groups(combined, count):
            yield tuple(values[codes[events[0]]] for codes, values in parts), events

    def attributes_of(self, number: int) -> dict[str, Any]:
        """All attributes of one event, for checks that look at events one by one."""
        core = {name: array[number].as_py() for name, array in self.attributes.items()}
        extensions = {name: column.value(number) for name, column in self.extensions.items()}
        return {name: value for name, value in (core | extensions).items() if value is not None}

    def envelope(self, numbers: Offsets) -> list[pa.Array]:
        """The arrays of ``columns.ENVELOPE`` for these events. Raises one of ``arrays.MISFITS``."""
        taken = pa.array(numbers)
        arrays = {name: array.take(taken) for name, array in self.attributes.items()}
        arrays["time"] = timestamps(arrays["time"]) if self.times is None else self.times.take(taken)
        extensions = {name: column.texts.take(taken) for name, column in self.extensions.items()}
        return [*arrays.values(), text_maps(extensions) if extensions else _nulls(numbers, _MAP)]

    def transport(self, numbers: Offsets) -> list[pa.Array]:
        """The arrays of ``columns.TRANSPORT``: a file says no more than where in it an event is."""
        paths = pa.array([block.frame.path for block in self._blocks], pa.string())
        places = [paths.take(pa.array(self._owners[numbers])), pa.array(self._positions[numbers])]
        if all(block.frame.records is None for block in self._blocks):
            return [*(_nulls(numbers, column.type) for column in list(columns.TRANSPORT)[:-2]), *places]
        return [*(array.take(pa.array(numbers)) for array in self._delivery), *places]

    def messages(self, numbers: Offsets) -> list[tuple[MessageBatch, list[int]]]:
        """The frames and indices of events."""
        found = []
        for number, block in enumerate(self._blocks):
            mine = numbers[(numbers >= self._bounds[number]) & (numbers < self._bounds[number + 1])]
            if len(mine):
                found.append((block.frame, block.indices[mine - self._bounds[number]].tolist()))
        return found

    @cached_property
    def _delivery(self) -> list[pa.Array]:
        """What the transport says of each event."""
        arrays = [delivered(block.records()) for block in self._blocks]
        return [pa.concat_arrays(columns) for columns in zip(*arrays, strict=True)]

    @cached_property
    def _owners(self) -> Offsets:
        return np.repeat(np.arange(len(self._blocks)), np.diff(self._bounds))

    @cached_property
    def _positions(self) -> npt.NDArray[np.int64]:
        return np.concatenate([block.frame.positions[block.indices] for block in self._blocks])


def _nulls(numbers: Offsets, type: pa.DataType) -> pa.Array:
    return pa.nulls(len(numbers), type)

"""Events of one frame, taken apart: attributes and data, each as a column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from signalbook.messages.cloudevents import Attribute, attribute_text
from signalbook.pipeline.sources.base import MessageBatch, Offsets

Kinds = npt.NDArray[np.uint8]
# From a text to the value that it is of, by kind.
_KINDS: Final[Mapping[type, int]] = {str: 0, bool: 1, int: 2}
_VALUES: Final[Sequence[Callable[[str], Attribute]]] = (str, "true".__eq__, int)


@dataclass(frozen=True, slots=True)
class Extension:
    """The values of an extension attribute as texts, null for events without it.

    ``kinds`` tell strings from booleans and integers, by the numbers of ``_KINDS``; without them all are strings.
    """

    texts: pa.StringArray
    kinds: Kinds | None = None

    @classmethod
    def of(cls, values: Sequence[Attribute | None]) -> Extension:
        """That of values."""
        texts = [None if value is None else attribute_text(value) for value in values]
        kinds = np.fromiter((_KINDS.get(value.__class__, 0) for value in values), np.uint8, len(values))
        return cls(pa.array(texts, pa.string()), kinds if kinds.any() else None)

    @classmethod
    def joined(cls, parts: Iterable[tuple[Extension | None, int]]) -> Extension:
        """One after the other; those that are ``None`` are of so many events without a value."""
        found = [(cls(pa.nulls(count, pa.string())) if part is None else part, count) for part, count in parts]
        texts = pa.concat_arrays([part.texts for part, _ in found])
        if all(part.kinds is None for part, _ in found):
            return cls(texts)
        kinds = [np.zeros(count, np.uint8) if part.kinds is None else part.kinds for part, count in found]
        return cls(texts, np.concatenate(kinds))

    def value(self, number: int) -> Attribute | None:
        """That of one event."""
        text = self.texts[number].as_py()
        return None if text is None else _VALUES[0 if self.kinds is None else int(self.kinds[number])](text)

    def codes(self) -> tuple[Offsets, list[Any]]:
        """For each event the number of its value, and the values by number; ``1`` and ``True`` are two."""
        codes, texts = text_codes(self.texts)
        if self.kinds is None:
            return codes, texts
        found, inverse = np.unique(codes * len(_VALUES) + self.kinds, return_inverse=True)
        pairs = [(texts[number // len(_VALUES)], number % len(_VALUES)) for number in found.tolist()]
        return inverse, [None if text is None else _VALUES[kind](text) for text, kind in pairs]


@dataclass(frozen=True, slots=True)
class Block:
    """Events of one frame: the attributes that have columns, extensions, data, and the index of each in the frame."""

    frame: MessageBatch
    arrays: list[pa.StringArray]
    extensions: dict[str, Extension]
    data: pa.BinaryArray
    indices: Offsets

    @classmethod
    def empty(cls, frame: MessageBatch, attributes: int) -> Block:
        """None of the frame's events, which would have so many attributes."""
        return cls(frame, [pa.nulls(0, pa.string())] * attributes, {}, pa.nulls(0, pa.binary()), np.arange(0))

    def __len__(self) -> int:
        return len(self.indices)

    def records(self) -> pa.RecordBatch:
        """The records that the events came in."""
        records = self.frame.records
        assert records is not None
        return records if len(records) == len(self) else records.take(pa.array(self.indices))


def text_codes(texts: pa.StringArray) -> tuple[Offsets, list[Any]]:
    """For each text its number, and texts by number; null is one of them."""
    encoded = texts.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()

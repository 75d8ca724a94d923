"""A batch of events as columns, on which the steps of the fast path work.

Attributes and extensions are Arrow arrays with an entry for each event. Data is not copied from the messages. Steps
identify events by their numbers in the batch. If a step handles each distinct value only once, these values are
numbered; the numbers are called codes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from signalbook.messages.cloudevents import REQUIRED, SPECVERSION, Attribute
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import (
    LOWERED,
    HeaderNames,
    Offsets,
    build_text_maps,
    parse_timestamps,
    read_timestamps,
    take_elements,
)
from signalbook.pipeline.columns import ATTRIBUTES
from signalbook.pipeline.native import PayloadSpans
from signalbook.pipeline.processing import properties
from signalbook.pipeline.sources.base import NOWHERE, MessageBatch, build_transport_arrays

Kinds = npt.NDArray[np.uint8]
# The limit of extension attributes, each of which is a column. Events with further names go the slow path.
MOST_EXTENSIONS: Final = 64
# The functions from text to value for the kinds of extension values: strings, booleans and integers.
_VALUES: Final[Sequence[Callable[[str], Attribute]]] = (str, "true".__eq__, int)


@dataclass(frozen=True, slots=True)
class ExtensionColumn:
    """The values of an extension attribute as texts, null for events without it.

    ``kinds`` are the types of the values, as indices of ``_VALUES``. If it is ``None``, all values are strings.
    """

    texts: pa.StringArray
    kinds: Kinds | None = None

    @classmethod
    def join(cls, parts: Iterable[tuple[ExtensionColumn | None, int]]) -> ExtensionColumn:
        """Join columns, each of which comes with its number of events. A column that is ``None`` has no values."""
        filled = [(cls(pa.nulls(count, pa.string())) if part is None else part, count) for part, count in parts]
        texts = pa.concat_arrays([part.texts for part, _ in filled])
        if all(part.kinds is None for part, _ in filled):
            return cls(texts)
        kinds = [np.zeros(count, np.uint8) if part.kinds is None else part.kinds for part, count in filled]
        return cls(texts, np.concatenate(kinds))

    def value(self, number: int) -> Attribute | None:
        """Return the value of the event with this number, or None if it does not have the attribute."""
        text = self.texts[number].as_py()
        return None if text is None else _VALUES[0 if self.kinds is None else int(self.kinds[number])](text)

    def encode(self) -> tuple[Offsets, list[Any]]:
        """Return the code of each event's value, and the values by code. ``1`` and ``True`` have different codes."""
        codes, texts = encode_texts(self.texts)
        if self.kinds is None:
            return codes, texts
        pair_codes, inverse = np.unique(codes * len(_VALUES) + self.kinds, return_inverse=True)
        pairs = [(texts[number // len(_VALUES)], number % len(_VALUES)) for number in pair_codes.tolist()]
        return inverse, [None if text is None else _VALUES[kind](text) for text, kind in pairs]


@dataclass(frozen=True, slots=True)
class EventColumns:
    """The events of one batch of messages as columns.

    ``arrays`` are the attributes named in ``columns.ATTRIBUTES``, ``indices`` are the events' indices in ``messages``.
    ``forms`` is the form of each event's data; ``None`` means that all have JSON. ``versions`` are the values of
    ``specversion``; ``None`` means that all have the supported version. ``order`` returns the names of the attributes
    of the message at an index, in the order of that message; it may return other names, too.
    """

    messages: MessageBatch
    arrays: list[pa.StringArray]
    extensions: dict[str, ExtensionColumn]
    data: PayloadSpans
    indices: Offsets
    order: Callable[[int], Iterable[str]]
    forms: Kinds | None = None
    versions: pa.StringArray | None = None

    @classmethod
    def empty(cls, messages: MessageBatch, attributes: int) -> EventColumns:
        """Return columns without events. ``attributes`` is the number of attributes that have a column."""
        nothing, none = pa.nulls(0, pa.string()), np.arange(0)
        return cls(messages, [nothing] * attributes, {}, PayloadSpans.within(b"", none, none), none, lambda _: ())

    def __len__(self) -> int:
        return len(self.indices)

    def take(self, places: Offsets) -> EventColumns:
        """Return the events at ``places``, which must be in ascending order."""
        numbers = pa.array(places)
        extensions = {
            name: ExtensionColumn(column.texts.take(numbers), None if column.kinds is None else column.kinds[places])
            for name, column in self.extensions.items()
        }
        return replace(
            self,
            arrays=[array.take(numbers) for array in self.arrays],
            extensions=extensions,
            data=self.data.take(places),
            indices=self.indices[places],
            forms=None if self.forms is None else self.forms[places],
            versions=None if self.versions is None else self.versions.take(numbers),
        )

    def select_records(self) -> pa.RecordBatch:
        """Return the records that the events came in, one for each event."""
        records = self.messages.records
        assert records is not None
        return records if len(records) == len(self) else records.take(pa.array(self.indices))

    def header_names(self, *, folded: bool) -> HeaderNames:
        """Return the names of the headers, in lower case if ``folded``."""
        if len(self.messages) == len(self):
            return self.messages.header_names(folded=folded)
        return HeaderNames.of(self.select_records().column("headers"), folded=folded)


def select_odd_versions(versions: pa.StringArray) -> pa.StringArray | None:
    """Return the values of ``specversion``, ``None`` if all are the supported version."""
    return None if pc.all(pc.equal(versions, SPECVERSION).fill_null(False)).as_py() else versions


def encode_texts(texts: pa.StringArray) -> tuple[Offsets, list[Any]]:
    """Return the code of each text, and the texts by code. Null has a code, too."""
    encoded = texts.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


# Numbers below this limit have 16 bits, and NumPy sorts them in linear time.
_MAX_SHORT_NUMBER: Final = 1 << 16


def make_dense(numbers: Offsets, bound: int) -> tuple[Offsets, int]:
    """Return ``numbers`` renumbered from 0 without gaps, in the same order, and the count of distinct numbers.

    All numbers must be below ``bound``.
    """
    # A table of all possible numbers is faster than sorting, unless it is much larger than ``numbers``.
    if bound > max(_MAX_SHORT_NUMBER, 4 * len(numbers)):
        distinct, places = np.unique(numbers, return_inverse=True)
        return places, len(distinct)
    present = np.zeros(bound, np.bool_)
    present[numbers] = True
    places = np.cumsum(present)
    return (places - 1)[numbers], int(places[-1]) if bound else 0


def combine(parts: Iterable[tuple[Offsets, Sized]], length: int) -> tuple[Offsets, int]:
    """Return a number for each event, equal for events with equal codes in all parts, and the count of numbers.

    Each part has the codes of ``length`` events, and the values by code.
    """
    # Made dense after every step: the product of the numbers of values would overflow.
    combined, count = np.zeros(length, np.int64), min(length, 1)
    for codes, values in parts:
        combined, count = make_dense(combined * len(values) + codes, count * len(values))
    return combined, count


def find_firsts(numbers: Offsets, count: int) -> Offsets:
    """Return the first position of each number below ``count``. Each of these numbers must occur."""
    positions = np.empty(count, np.int64)
    positions[numbers[::-1]] = np.arange(len(numbers))[::-1]  # the first position is written last, and stays
    return positions


def group_by_number(numbers: Offsets, bound: int) -> Iterator[Offsets]:
    """Yield the positions of equal numbers below ``bound``, in the order of the numbers."""
    places, count = make_dense(numbers, bound)
    # Stable, so that the events of a group stay in the order of their batch, and rows in the order of the source.
    order = np.argsort(places.astype(np.uint16) if count <= _MAX_SHORT_NUMBER else places, kind="stable")
    yield from np.split(order, np.cumsum(np.bincount(places, minlength=count))[:-1]) if count else ()


# The number of input bytes that wait before they become a batch: enough for several events of each type.
MIN_BATCH_BYTES: Final = 64 * 1024 * 1024
# The number of payloads that are decoded at once, and the size of events up to which this number fits a processor's
# cache. Of larger events, fewer are decoded at once.
_MAX_PAYLOADS: Final = 4096
_LIGHT_PAYLOAD_BYTES: Final = 512
# The forms of an event's data: JSON inside the envelope, bytes of the stated content type, or no data.
IN_JSON, AS_BYTES, NO_DATA = range(3)
SENT_AS: Final = "@data"
"""Stands for an attribute whose value is the content type of data in bytes, ``None`` for JSON, or ``NO_DATA``."""


class EventBatch:
    """The events of several batches of messages, numbered consecutively."""

    def __init__(self, parts: Sequence[EventColumns]) -> None:
        self._parts = parts
        self._bounds = np.cumsum([0, *map(len, parts)])
        self._codes: dict[str, tuple[Offsets, list[Any]]] = {}
        self._properties: dict[str, tuple[Offsets, list[Any]]] = {}

    def __len__(self) -> int:
        return int(self._bounds[-1])

    @cached_property
    def _data(self) -> PayloadSpans:
        return PayloadSpans.join([part.data for part in self._parts])

    def take_payloads(self, numbers: Offsets) -> PayloadSpans:
        """Return the data of these events, which must be in ascending order."""
        return self._data.take(numbers)

    def split(self, numbers: Offsets) -> Iterator[Offsets]:
        """Yield ``numbers`` in portions of events whose payloads fit a processor's cache."""
        step = self._portion
        return (numbers[start : start + step] for start in range(0, len(numbers), step))

    @cached_property
    def _portion(self) -> int:
        weight = sum(len(part.messages.content) for part in self._parts) // len(self)
        return min(max(_MAX_PAYLOADS * _LIGHT_PAYLOAD_BYTES // max(weight, 1), 1), _MAX_PAYLOADS)

    @cached_property
    def attributes(self) -> dict[str, pa.Array]:
        """The core attributes that have columns, as text."""
        arrays = [pa.concat_arrays(parts) for parts in zip(*(part.arrays for part in self._parts), strict=True)]
        return dict(zip(ATTRIBUTES, arrays, strict=True))

    @cached_property
    def times(self) -> pa.Array | None:
        """The times of all events as a column, or None if some time has to be parsed by itself."""
        return read_timestamps(self.attributes["time"])

    @cached_property
    def extensions(self) -> dict[str, ExtensionColumn]:
        """The extension attributes that any event has."""
        names = dict.fromkeys(name for part in self._parts for name in part.extensions)
        return {
            name: ExtensionColumn.join((part.extensions.get(name), len(part)) for part in self._parts) for name in names
        }

    @cached_property
    def forms(self) -> Kinds | None:
        """The forms of the events' data (``IN_JSON``, ``AS_BYTES``, ``NO_DATA``), or None if all have JSON."""
        forms = [part.forms for part in self._parts]
        if all(part is None for part in forms):
            return None
        return np.concatenate(
            [np.zeros(len(part), np.uint8) if part.forms is None else part.forms for part in self._parts]
        )

    @cached_property
    def versions(self) -> pa.StringArray | None:
        """The ``specversion`` of the events, or None if all have the supported version."""
        if all(part.versions is None for part in self._parts):
            return None
        usual = pa.scalar(SPECVERSION)
        return pa.concat_arrays(
            [pa.repeat(usual, len(part)) if part.versions is None else part.versions for part in self._parts]
        )

    @cached_property
    def missing(self) -> Offsets:
        """The required attributes that each event lacks, as bits in the order of ``REQUIRED``."""
        missing = np.zeros(len(self), np.int64)
        for place, name in enumerate(REQUIRED):
            array = self.attributes.get(name, self.versions)
            if array is not None and array.null_count:
                missing |= array.is_null().to_numpy(zero_copy_only=False).astype(np.int64) << place
        return missing

    def order(self, number: int) -> Iterable[str]:
        """Return the names of the attributes of one event, in the order of its message."""
        place = int(self._owners[number])
        part = self._parts[place]
        return part.order(int(part.indices[number - self._bounds[place]]))

    def encode_property(self, name: str) -> tuple[Offsets, list[Any]]:
        """Return the code of each event's value of a protocol property, and the values by code.

        ``properties.is_known`` must be True for the property.
        """
        if name not in self._properties:
            protocol = self._parts[0].messages.protocol
            sources = [(part.messages, part.select_records()) for part in self._parts]
            self._properties[name] = properties.encode_property(protocol, name, sources)
        return self._properties[name]

    def select_property_texts(self, name: str, numbers: Offsets) -> pa.StringArray:
        """Return the values of a property of these events, null where they are not texts."""
        codes, values = self.encode_property(name)
        texts = pa.array([value if isinstance(value, str) else None for value in values], pa.string())
        return texts.take(pa.array(codes[numbers]))

    def encode_attribute(self, name: str) -> tuple[Offsets, list[Any]]:
        """Return the code of each event's value of an attribute or ``SENT_AS``, and the values by code."""
        # Cached, because the checks of attributes, routes and contexts use codes of the same attributes.
        if name not in self._codes:
            if name == SENT_AS:
                self._codes[name] = self._encode_sent_as()
                return self._codes[name]
            extension = self.extensions.get(name)
            self._codes[name] = encode_texts(self.attributes[name]) if extension is None else extension.encode()
        return self._codes[name]

    def _encode_sent_as(self) -> tuple[Offsets, list[Any]]:
        if self.forms is None:
            return np.zeros(len(self), np.int64), [None]
        codes, stated = self.encode_attribute("datacontenttype")
        values = [*("" if content_type is None else content_type for content_type in stated), None, NO_DATA]
        other_codes = np.array([len(stated), 0, len(stated) + 1])[self.forms]
        return np.where(self.forms == AS_BYTES, codes, other_codes), values

    def group_by(self, names: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], Offsets]]:
        """Yield the values of some attributes, with the numbers of the events that share these values."""
        parts = [self.encode_attribute(name) for name in names]
        for events in group_by_number(*combine(parts, len(self))):
            yield tuple(values[codes[events[0]]] for codes, values in parts), events

    def collect_attributes(self, number: int, names: Collection[str]) -> dict[str, Any]:
        """Return the attributes among ``names`` of one event, for checks of single events."""
        core = {name: array[number].as_py() for name, array in self.attributes.items() if name in names}
        extensions = {name: column.value(number) for name, column in self.extensions.items() if name in names}
        return {name: value for name, value in (core | extensions).items() if value is not None}

    def build_envelope(self, numbers: Offsets) -> list[pa.Array]:
        """Return the arrays of ``columns.ENVELOPE`` for these events. Raises one of ``arrays.MISFITS``."""
        places = pa.array(numbers)
        arrays = {name: array.take(places) for name, array in self.attributes.items()}
        arrays["time"] = parse_timestamps(arrays["time"]) if self.times is None else self.times.take(places)
        extensions = {name: column.texts.take(places) for name, column in self.extensions.items()}
        maps = build_text_maps(extensions) if extensions else pa.nulls(len(numbers), columns.TEXT_MAP)
        return [*arrays.values(), maps]

    def build_transport(self, numbers: Offsets) -> list[pa.Array]:
        """Return the arrays of ``columns.TRANSPORT`` for these events. Events of files only have path and position."""
        paths = pa.array([part.messages.path or None for part in self._parts], pa.string())
        positions = self._positions[numbers]
        places = [paths.take(pa.array(self._owners[numbers])), pa.array(positions, mask=positions == NOWHERE)]
        if all(part.messages.records is None for part in self._parts):
            return [*(pa.nulls(len(numbers), column.type) for column in list(columns.TRANSPORT)[:-2]), *places]
        return [*(take_elements(array, numbers) for array in self._delivery), *places]

    def find_messages(self, numbers: Offsets) -> Iterator[tuple[MessageBatch, list[int], Offsets]]:
        """Yield each batch of messages that these events came from, their indices in it, and the events' numbers."""
        for number, part in enumerate(self._parts):
            mine = numbers[(numbers >= self._bounds[number]) & (numbers < self._bounds[number + 1])]
            if len(mine):
                yield part.messages, part.indices[mine - self._bounds[number]].tolist(), mine

    @cached_property
    def _delivery(self) -> list[pa.Array]:
        """The columns of transport data of all events, without path and position."""
        arrays = [
            build_transport_arrays(part.select_records(), part.header_names(folded=part.messages.protocol in LOWERED))
            for part in self._parts
        ]
        return [pa.concat_arrays(columns) for columns in zip(*arrays, strict=True)]

    @cached_property
    def _owners(self) -> Offsets:
        return np.repeat(np.arange(len(self._parts)), np.diff(self._bounds))

    @cached_property
    def _positions(self) -> npt.NDArray[np.int64]:
        return np.concatenate([part.messages.positions[part.indices] for part in self._parts])

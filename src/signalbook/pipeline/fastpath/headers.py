"""Headers of many records at once, by name, and the content encodings that they state."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from signalbook.messages.payloads.content import Unreadable, unpack_body
from signalbook.pipeline.arrays import HeaderNames, decode_utf8
from signalbook.pipeline.fastpath.batch import ExtensionColumn
from signalbook.pipeline.sources.base import ALONE, MessageBatch

ENCODING: Final = "content-encoding"
# Bytes of the payloads of a batch whose encodings were undone: what is more is for the slow path.
_MAX_DECODED_BYTES: Final = 64 * 1024 * 1024
# The number of bytes among types of attributes; the others are as ``ExtensionColumn`` has them.
_BINARY: Final = 3


def undo_encodings(values: list[bytes], encodings: pa.StringArray, refused: npt.NDArray[np.bool_]) -> None:
    """Undo the content encodings of values. Refuse values that are too large or not validly encoded."""
    room = _MAX_DECODED_BYTES
    for number in np.flatnonzero(encodings.is_valid().to_numpy(zero_copy_only=False) & ~refused).tolist():
        if values[number] is None:
            refused[number] = True
            continue
        try:
            values[number] = unpack_body(encodings[number].as_py(), values[number], min(ALONE, room))
            room -= len(values[number])
        except Unreadable:
            refused[number] = True


class Headers:
    """The headers of some records, by name. ``refused`` are records with headers that leave a doubt."""

    def __init__(self, records: pa.RecordBatch, names: HeaderNames) -> None:
        listed = records.column("headers")
        flat = listed.flatten()
        self._named = names
        self._values = pc.fill_null(flat.field("value"), b"")
        self._owners = pc.list_parent_indices(listed).to_numpy()
        self.refused: npt.NDArray[np.bool_] = np.zeros(len(records), np.bool_)

    @classmethod
    def of(cls, messages: MessageBatch, *, folded: bool) -> Headers:
        """Return the headers of the records of messages, their names in lower case if ``folded``."""
        assert messages.records is not None
        return cls(messages.records, messages.header_names(folded=folded))

    @property
    def names(self) -> Sequence[str]:
        """The distinct names of all headers."""
        return list(self._named.numbers)

    def forbid(self, names: Sequence[str]) -> None:
        """Refuse the records that have headers with these names."""
        self.refused[self._owners[self._named.find_places(names)]] = True

    def read_texts(self, name: str) -> pa.Array:
        """Return the values of a header, null without one.

        Repeated headers and values that are not text are refused.
        """
        return self._convert_to_text(self.read_values(name))

    def read_values(self, name: str) -> pa.Array:
        """Return the values of a header as bytes, null without one. Repeated headers are refused."""
        places = self._named.find_places([name])
        count = len(self.refused)
        if not len(places):
            return pa.nulls(count, pa.binary())
        owners = self._owners[places]
        repeated = owners[1:][owners[1:] == owners[:-1]]
        self.refused[repeated] = True
        # The usual case: each record has the header once, in order, so that nothing has to be lined up.
        if len(owners) == count and not len(repeated):
            return self._values.take(pa.array(places))
        value_places = np.full(count, -1, np.int64)
        value_places[owners] = places
        return self._values.take(pa.array(value_places, mask=value_places < 0))

    def read_typed(self, name: str, numbers: Sequence[int], types: bytes) -> ExtensionColumn:
        """The attribute in a header, which in the records with these numbers is no text; bytes are in Base64 (K-23)."""
        kinds = np.zeros(len(self.refused), np.uint8)
        kinds[numbers] = np.frombuffer(types, np.uint8)
        values = self.read_values(name).to_pylist()
        for number in np.flatnonzero(kinds == _BINARY).tolist():
            values[number] = b64encode(values[number])
        kinds[kinds == _BINARY] = 0
        return ExtensionColumn(self._convert_to_text(pa.array(values, pa.binary())), kinds if kinds.any() else None)

    def _convert_to_text(self, values: pa.Array) -> pa.Array:
        try:
            return values.cast(pa.string())
        except pa.ArrowInvalid:
            texts = list(map(decode_utf8, values.to_pylist()))
            converted = pa.array(texts, pa.string())
            self.refused |= pc.and_(converted.is_null(), values.is_valid()).to_numpy(zero_copy_only=False)
            return converted

"""Read headers of many records at once by name, and undo the content encodings that headers state."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from signalbook.messages.content import Unreadable, unpack_body
from signalbook.pipeline.arrays import HeaderNames, decode_utf8
from signalbook.pipeline.processing.batch import ExtensionColumn
from signalbook.pipeline.sources.base import ALONE, MessageBatch

ENCODING: Final = "content-encoding"
# The limit of bytes of the decoded payloads of a batch. Further payloads go the slow path.
_MAX_DECODED_BYTES: Final = 64 * 1024 * 1024
# The number of the type bytes among the types of attributes. The other numbers are those of ``ExtensionColumn``.
_BINARY: Final = 3


def undo_encodings(values: list[bytes], encodings: pa.StringArray, refused: npt.NDArray[np.bool_]) -> None:
    """Undo the content encodings of ``values``, in place.

    Values that are too large or not validly encoded are marked in ``refused``.
    """
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
    """The headers of some records, by name. ``refused`` marks records with doubtful headers."""

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
        """Mark the records that have headers with these names in ``refused``."""
        self.refused[self._owners[self._named.find_places(names)]] = True

    def read_texts(self, name: str) -> pa.Array:
        """Return the value of a header of each record as text, null for records without the header.

        Records that repeat the header, or whose value is not text, are marked in ``refused``.
        """
        return self._convert_to_text(self.read_values(name))

    def read_values(self, name: str) -> pa.Array:
        """Return the value of a header of each record as bytes, null for records without the header.

        Records that repeat the header are marked in ``refused``.
        """
        places = self._named.find_places([name])
        count = len(self.refused)
        if not len(places):
            return pa.nulls(count, pa.binary())
        owners = self._owners[places]
        repeated = owners[1:][owners[1:] == owners[:-1]]
        self.refused[repeated] = True
        # The usual case: each record has the header once, so that values need not be assigned to records.
        if len(owners) == count and not len(repeated):
            return self._values.take(pa.array(places))
        value_places = np.full(count, -1, np.int64)
        value_places[owners] = places
        return self._values.take(pa.array(value_places, mask=value_places < 0))

    def read_typed(self, name: str, numbers: Sequence[int], types: bytes) -> ExtensionColumn:
        """Return the attribute in the header ``name``.

        In the records ``numbers`` the value is not text, but has the type at the same position in ``types``. Bytes
        become Base64 text (K-23).
        """
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

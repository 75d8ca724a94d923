"""Attribute values of many events at once: which are beyond doubt (domain.md K-24).

This is the quick way only: what it finds sound is sound by ``messages.cloudevents`` too; the rest is not wrong, but
needs the thorough way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from signalbook.formats.base import is_json
from signalbook.messages.cloudevents import SPECVERSION, invalid_attributes
from signalbook.pipeline.arrays import read_timestamps
from signalbook.pipeline.window import Window

_MOST_KEPT: Final = 50_000
_EVENT: Final[dict[str, Any]] = {"specversion": SPECVERSION, "id": "i", "source": "s", "type": "t"}
_LENGTHS: Final = pa.array([None, 20, 24, 27, 30], pa.int32())
# The start of the year 1900 in microseconds; whatever is older gets a closer look.
_ANCIENT: Final = -2_208_988_800_000_000


class Vetting:
    """Remembers which values of an attribute are sound; with ``json`` the data of all events has to be JSON."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._sound: dict[str, set[Any]] = {}

    def faulty(self, window: Window) -> npt.NDArray[np.bool_]:
        """For each event whether an attribute of it needs the thorough way."""
        faulty = np.zeros(len(window), np.bool_)
        for name, array in window.attributes.items():
            if array.null_count == len(array) or (name in _PLAIN and _PLAIN[name](array)):
                continue
            codes, values = window.codes(name)
            faulty |= self._bad(name, values)[codes]
        for name, column in window.extensions.items():
            codes, values = column.codes()
            faulty |= self._bad(name, values)[codes]
        return faulty

    def _bad(self, name: str, values: list[Any]) -> npt.NDArray[np.bool_]:
        known = self._sound.setdefault(name, {None})
        known |= {value for value in set(values) - known if self._is_sound(name, value)}
        bad = np.fromiter((value not in known for value in values), np.bool_, len(values))
        if len(known) > _MOST_KEPT:
            self._sound[name] = {None}
        return bad

    def _is_sound(self, name: str, value: Any) -> bool:
        if invalid_attributes({**_EVENT, name: value}):
            return False
        return not self._json or name != "datacontenttype" or is_json(value)


def _plain_text(array: pa.Array) -> bool:
    """Whether all of an array are printable ASCII, and none is empty."""
    printable = pc.all(pc.ascii_is_printable(array), min_count=0).as_py()
    return bool(printable and pc.min(pc.binary_length(array)).as_py() != 0)


def _plain_times(array: pa.Array) -> bool:
    """Whether all of an array are like ``2026-01-02T03:04:05Z``, with 3, 6 or 9 digits more at most.

    Arrow reads a few spellings that are none in RFC 3339; with these lengths, T and Z in their places, none is left.
    """
    lengths = pc.is_in(pc.binary_length(array), _LENGTHS)
    shaped = pc.and_(pc.equal(pc.find_substring(array, "T"), 10), pc.ends_with(array, "Z"))
    if not pc.all(pc.and_(lengths, shaped), min_count=0).as_py():
        return False
    times = read_timestamps(array)
    return times is not None and bool(pc.min(times.cast(pa.int64())).as_py() > _ANCIENT)


# A look at a whole column that may settle it; what it does not is looked at value by value.
_PLAIN: Final[Mapping[str, Callable[[pa.Array], bool]]] = {
    "id": _plain_text,
    "subject": _plain_text,
    "time": _plain_times,
}

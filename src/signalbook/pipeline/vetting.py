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
from signalbook.pipeline.window import Window

_MOST_KEPT: Final = 50_000
_EVENT: Final[dict[str, Any]] = {"specversion": SPECVERSION, "id": "i", "source": "s", "type": "t"}
# Lengths of times, and that of the date in them.
_LENGTHS: Final = (20, 24, 27, 30)
_DATE: Final = 10
_PRINTABLE: Final = range(ord(" "), ord("~") + 1)
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
            if array.null_count == len(array) or (name in _PLAIN and _PLAIN[name](window)):
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


def _plain_text(texts: pa.StringArray) -> bool:
    """Whether all texts are printable ASCII, and none is empty."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, texts.offset * 4)
    if pc.min(pc.binary_length(texts)).as_py() == 0:
        return False
    found = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    return bool(found.min(initial=_PRINTABLE[0]) >= _PRINTABLE[0] and found.max(initial=0) <= _PRINTABLE[-1])


def _plain_times(window: Window) -> bool:
    """Whether all times are like ``2026-01-02T03:04:05Z``, with 3, 6 or 9 digits more at most.

    Arrow reads a few spellings that are none in RFC 3339; with these lengths, T and Z in their places, none is left.
    """
    texts, times = window.attributes["time"], window.times
    if times is None or pc.min(times.cast(pa.int64())).as_py() <= _ANCIENT:
        return False
    offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, texts.offset * 4)
    places, lengths = offsets[:-1], np.diff(offsets)
    if texts.null_count:
        there = texts.is_valid().to_numpy(zero_copy_only=False)
        places, lengths = places[there], lengths[there]
    if not np.isin(lengths, _LENGTHS).all():
        return False
    found = np.frombuffer(texts.buffers()[2], np.uint8)
    return bool((found[places + _DATE] == ord("T")).all() and (found[places + lengths - 1] == ord("Z")).all())


# A look at a whole column, which is not all null, that may settle it; what it does not is looked at value by value.
_PLAIN: Final[Mapping[str, Callable[[Window], bool]]] = {
    "id": lambda window: _plain_text(window.attributes["id"]),
    "subject": lambda window: _plain_text(window.attributes["subject"]),
    "time": _plain_times,
}

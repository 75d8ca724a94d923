"""Envelopes of structured JSON CloudEvents: decoded in one go, vetted column by column.

This is the quick way only: it never accepts an event that ``messages.cloudevents`` would not, and an event it does not
accept is not wrong, but goes the thorough way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from signalbook.formats.base import is_json
from signalbook.messages.cloudevents import CORE, SPECVERSION, attribute_text, invalid_attributes
from signalbook.pipeline.sources.base import Frame

OPTIONAL: Final = ("subject", "time", "datacontenttype", "dataschema")
_EXTENSION: Final = re.compile(r"[a-z0-9]{1,64}", re.ASCII)
# Members of a JSON event that are no context attributes.
_OTHERS: Final = frozenset({"data", "data_base64"})
_MOST_EXTENSIONS: Final = 64
# After a block that had to be decoded line by line, so many more go the same way at once.
_CAUTION: Final = 8
_MOST_VETTED: Final = 50_000
_SOUND: Final[dict[str, Any]] = {"specversion": SPECVERSION, "id": "i", "source": "s", "type": "t"}
# Values that need no closer look; what these leave is looked at one by one.
_PLAIN: Final = {
    "id": r"^[ -~]+$",
    "subject": r"^[ -~]+$",
    "time": (
        r"^(19|20)\d\d-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))"
        r"T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$"
    ),
}


class Envelopes:
    """Decodes events with the extension attributes met so far; new ones are learnt from events that are refused."""

    def __init__(self) -> None:
        self.extensions: tuple[str, ...] = ()
        self._caution = 0
        self._decoder = _decoder(())

    def decode(self, frame: Frame) -> tuple[list[Any], list[int], list[int]]:
        """The frame's events, the index of each, and the indices of messages that are not taken."""
        events = self._all_lines(frame)
        if events is not None:
            return events, list(range(len(events))), []
        return self._one_by_one(frame)

    def learn(self, attributes: Mapping[str, Any]) -> None:
        """Take note of the extension attributes of an event that came the thorough way."""
        new = [name for name in attributes if name not in CORE and name not in self.extensions and name not in _OTHERS]
        if new and len(self.extensions) + len(new) <= _MOST_EXTENSIONS and all(map(_EXTENSION.fullmatch, new)):
            self.extensions = (*self.extensions, *new)
            self._decoder = _decoder(self.extensions)

    def _all_lines(self, frame: Frame) -> list[Any] | None:
        """All events by one call, where each line is sure to be one value.

        A newline between two braces lies between two values, for inside of one there would be a comma. So if all
        newlines do, there are as many values as lines only if each line is one.
        """
        if self._caution:
            self._caution -= 1
            return None
        block, count = frame.block, len(frame)
        if not (frame.lines and block.startswith(b"{") and block.count(b"}\n{") == count - 1):
            return None
        try:
            events: list[Any] = self._decoder.decode_lines(block)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._caution = _CAUTION
            return None
        return events if len(events) == count else None

    def _one_by_one(self, frame: Frame) -> tuple[list[Any], list[int], list[int]]:
        decode = self._decoder.decode
        events, indices, refused = [], [], []
        for index, (start, end) in enumerate(zip(frame.starts.tolist(), frame.ends.tolist(), strict=True)):
            try:
                events.append(decode(frame.block[start:end]))
                indices.append(index)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                refused.append(index)
        return events, indices, refused


def _decoder(extensions: Iterable[str]) -> msgspec.json.Decoder[Any]:
    fields: list[Any] = [
        ("specversion", Literal["1.0"]),
        ("id", str),
        ("source", str),
        ("type", str),
        ("data", msgspec.Raw),
        *((name, str | None, None) for name in OPTIONAL),
        *((f"ext_{name}", str | int | bool | None, None) for name in extensions),
    ]
    renamed = {f"ext_{name}": name for name in extensions}
    envelope = msgspec.defstruct("Envelope", fields, forbid_unknown_fields=True, gc=False, rename=renamed)
    return msgspec.json.Decoder(envelope)


class Vetting:
    """Tells sound attribute values from others, and remembers the sound ones (domain.md K-24)."""

    def __init__(self) -> None:
        self._sound: dict[str, set[Any]] = {}

    def faulty_numbers(self, values: Mapping[str, list[Any]], arrays: Mapping[str, pa.Array]) -> set[int]:
        """The numbers of the events with an attribute that needs the thorough way.

        ``values`` has the attributes by name, ``arrays`` the same for those that are text columns already.
        """
        found: set[int] = set()
        for name, column in values.items():
            faulty = self._faulty(name, _questionable(name, column, arrays.get(name)))
            if faulty:
                found |= {number for number, value in enumerate(column) if value in faulty}
        return found

    def _faulty(self, name: str, values: Iterable[Any]) -> set[Any]:
        known = self._sound.setdefault(name, {None})
        unknown = set(values) - known
        faulty = {value for value in unknown if not _is_sound(name, value)}
        if len(known) > _MOST_VETTED:
            known.clear()
            known.add(None)
        known |= unknown - faulty
        return faulty


def _questionable(name: str, column: list[Any], array: pa.Array | None) -> list[Any]:
    """The values of ``column`` that a look at the whole of it does not settle."""
    if array is None or name not in _PLAIN:
        return column
    matches = pc.fill_null(pc.match_substring_regex(array, _PLAIN[name]), True)
    if pc.all(matches).as_py():
        return []
    strange: list[Any] = array.filter(pc.invert(matches)).to_pylist()
    return strange


def _is_sound(name: str, value: Any) -> bool:
    if invalid_attributes({**_SOUND, name: value}):
        return False
    return name != "datacontenttype" or is_json(value)


def extension_texts(values: Mapping[str, list[Any]]) -> list[list[tuple[str, str]] | None]:
    """The extension attributes of each event as text, out of all its attributes."""
    texts: list[list[tuple[str, str]]] = [[] for _ in values["id"]]
    for name, column in values.items():
        if name not in CORE:
            for entries, value in zip(texts, column, strict=True):
                if value is not None:
                    entries.append((name, attribute_text(value)))
    return [entries or None for entries in texts]

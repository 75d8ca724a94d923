"""Events in binary mode: their attributes out of the headers of many records at once, their payloads as they are.

This is the quick way only: a record it does not take is not wrong, and may be no event at all, but goes the thorough
way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from signalbook.messages import Mode
from signalbook.messages.bindings.incoming import structured_mode
from signalbook.messages.cloudevents import CORE, REQUIRED, SPECVERSION
from signalbook.pipeline.blocks import Block, Extension
from signalbook.pipeline.envelopes import ATTRIBUTES, MOST_EXTENSIONS
from signalbook.pipeline.sources.base import Frame

# Protocols whose headers hold attributes as plain text, by what goes before the names of attributes.
_PREFIXES: Final = {"KAFKA": "ce_"}
_TYPE: Final = "content-type"
_ENCODING: Final = "content-encoding"
_ASKED: Final = [name for name in dict.fromkeys((*REQUIRED, *ATTRIBUTES)) if name != "datacontenttype"]


def is_known(protocol: str) -> bool:
    """Whether headers of this protocol are read here."""
    return protocol in _PREFIXES


def taken_apart(frame: Frame, protocol: str, known: dict[str, None]) -> tuple[Block, list[int]]:
    """The frame's events with their attributes, and the indices of records that are not taken.

    ``known`` are the headers of extension attributes met so far: strangers may make up any number of names.
    """
    assert frame.records is not None
    values = frame.records.column("value").cast(pa.binary())
    headers = _Headers(frame.records)
    headers.strange |= ~values.is_valid().to_numpy(zero_copy_only=False)
    columns = _attributes(headers, _PREFIXES[protocol])
    extensions = _extensions(headers, _PREFIXES[protocol], known)
    strange = headers.strange
    if not strange.any():
        indices = np.arange(len(frame))
        found = {name: Extension(texts) for name, texts in extensions.items()}
        return Block(frame, columns, found, values, indices), []
    indices = np.flatnonzero(~strange)
    taken = pa.array(indices)
    found = {name: Extension(texts.take(taken)) for name, texts in extensions.items()}
    arrays = [array.take(taken) for array in columns]
    return Block(frame, arrays, found, values.take(taken), indices), np.flatnonzero(strange).tolist()


def _attributes(headers: _Headers, prefix: str) -> list[pa.Array]:
    """The attributes that have columns; a record that is not surely an event in binary mode becomes strange."""
    headers.forbid([_ENCODING, f"{prefix}datacontenttype"])
    found = {name: headers.texts(prefix + name) for name in _ASKED}
    for name in REQUIRED:
        headers.strange |= found[name].is_null().to_numpy(zero_copy_only=False)
    version = pc.equal(found.pop("specversion"), SPECVERSION).fill_null(False)
    headers.strange |= ~version.to_numpy(zero_copy_only=False)
    found["datacontenttype"] = _content_types(headers)
    return [found[name] for name in ATTRIBUTES]


def _content_types(headers: _Headers) -> pa.Array:
    """Content types of payloads: an empty one is none, one of an event says that this is another mode."""
    texts = headers.texts(_TYPE)
    encoded = texts.dictionary_encode()
    for name in encoded.dictionary.to_pylist():
        if not name:
            texts = pc.if_else(pc.equal(texts, name), None, texts)
        elif structured_mode(name) is not Mode.NONE:
            headers.strange |= pc.equal(texts, name).fill_null(False).to_numpy(zero_copy_only=False)
    return texts


def _extensions(headers: _Headers, prefix: str, known: dict[str, None]) -> dict[str, pa.Array]:
    names = [name for name in headers.names if name.startswith(prefix) and name[len(prefix) :] not in CORE]
    fresh = [name for name in names if name not in known]
    known.update(dict.fromkeys(fresh[: MOST_EXTENSIONS - len(known)]))
    headers.forbid([name for name in names if name not in known])
    return {name[len(prefix) :]: headers.texts(name) for name in names if name in known}


class _Headers:
    """The headers of some records, by name. ``strange`` are records with what no event has."""

    def __init__(self, records: pa.RecordBatch) -> None:
        listed = records.column("headers")
        flat = listed.flatten()
        names = pc.fill_null(flat.field("name"), "").dictionary_encode()
        self.names: list[str] = names.dictionary.to_pylist()
        self._numbers = {name: number for number, name in enumerate(self.names)}
        self._codes = names.indices.to_numpy()
        self._values = pc.fill_null(flat.field("value"), b"")
        self._owners = pc.list_parent_indices(listed).to_numpy()
        self.strange: npt.NDArray[np.bool_] = np.zeros(len(records), np.bool_)

    def forbid(self, names: Sequence[str]) -> None:
        """Records with such headers are strange."""
        forbidden = np.zeros(len(self.names), np.bool_)
        forbidden[[self._numbers[name] for name in names if name in self._numbers]] = True
        self.strange[self._owners[forbidden[self._codes]]] = True

    def texts(self, name: str) -> pa.Array:
        """What stands in a header, null where there is none; several of a name and what is no text are strange."""
        places = self._places(name)
        count = len(self.strange)
        if not len(places):
            return pa.nulls(count, pa.string())
        owners = self._owners[places]
        again = owners[1:][owners[1:] == owners[:-1]]
        self.strange[again] = True
        if len(owners) == count and not len(again):
            return self._as_text(self._values.take(pa.array(places)))
        found = np.full(count, -1, np.int64)
        found[owners] = places
        return self._as_text(self._values.take(pa.array(found, mask=found < 0)))

    def _places(self, name: str) -> npt.NDArray[np.intp]:
        number = self._numbers.get(name)
        return np.flatnonzero(self._codes == (-1 if number is None else number))

    def _as_text(self, values: pa.Array) -> pa.Array:
        try:
            return values.cast(pa.string())
        except pa.ArrowInvalid:
            texts = [_text(value) for value in values.to_pylist()]
            found = pa.array(texts, pa.string())
            self.strange |= pc.and_(found.is_null(), values.is_valid()).to_numpy(zero_copy_only=False)
            return found


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None

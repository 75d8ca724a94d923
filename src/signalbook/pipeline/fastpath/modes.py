"""Content modes of CloudEvents: how the events of a frame come apart, and how their payloads are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from signalbook.messages import CompiledDefinition, Message, Mode
from signalbook.messages.bindings.incoming import structured_mode
from signalbook.messages.cloudevents import CORE, REQUIRED, SPECVERSION
from signalbook.pipeline.columns import ATTRIBUTES
from signalbook.pipeline.fastpath import native, payloads
from signalbook.pipeline.fastpath.batch import Block, Extension, Kinds
from signalbook.pipeline.fastpath.objectenvelopes import ObjectEnvelopes
from signalbook.pipeline.fastpath.payloads import Reader
from signalbook.pipeline.landing.rows import Target
from signalbook.pipeline.sources.base import MessageBatch

_NEEDED: Final = 3
_EXTENSION: Final = re.compile(r"[a-z0-9]{1,64}", re.ASCII)
# Members of a JSON event that are no context attributes.
_OTHERS: Final = frozenset({"data", "data_base64"})
MOST_EXTENSIONS: Final = 64


class _Decoder(Protocol):
    def decode(self, frame: MessageBatch, /) -> tuple[Block, list[int]]:
        """The frame's events, and the indices of messages that are not taken."""
        ...


class Envelopes:
    """Decodes events with the extension attributes met so far; new ones are learnt from events that are refused."""

    def __init__(self) -> None:
        self._extensions: tuple[str, ...] = ()
        self._decoder = _decoder(())

    def decode(self, frame: MessageBatch) -> tuple[Block, list[int]]:
        """The frame's events, and the indices of messages that are not taken."""
        return self._decoder.decode(frame)

    def learn(self, attributes: Mapping[str, Any]) -> None:
        """Take note of the extension attributes of an event that came the thorough way."""
        known = self._extensions
        new = [name for name in attributes if name not in CORE and name not in known and name not in _OTHERS]
        if new and len(known) + len(new) <= MOST_EXTENSIONS and all(map(_EXTENSION.fullmatch, new)):
            self._extensions = (*known, *new)
            self._decoder = _decoder(self._extensions)


class NativeEnvelopes:
    """Takes events apart that have no other extension attributes than these."""

    def __init__(self, extensions: Sequence[str]) -> None:
        self._extensions = extensions
        self._envelopes = native.module().Envelopes(ATTRIBUTES, _NEEDED, extensions)

    def decode(self, frame: MessageBatch) -> tuple[Block, list[int]]:
        """The frame's events, and the indices of messages that are not taken."""
        bounds = map(np.ascontiguousarray, (frame.starts, frame.ends))
        try:
            refused, members = self._envelopes.read(frame.content, *bounds)
        except ValueError:  # something is wrong in there, or with the frame: not with the events
            return Block.empty(frame, len(ATTRIBUTES)), list(range(len(frame)))
        count = len(frame) - len(refused)
        found = [_array(pa.string() if place else pa.binary(), column) for place, (column, _) in enumerate(members)]
        last = 1 + len(ATTRIBUTES)
        extensions = zip(self._extensions, found[last:], members[last:], strict=True)
        return Block(
            frame,
            found[1:last],
            {
                name: Extension(texts, _kinds(kinds))
                for name, texts, (_, kinds) in extensions
                if texts.null_count < count
            },
            found[0],
            np.delete(np.arange(len(frame)), refused) if refused else np.arange(count),
        ), refused


def _array(type: pa.DataType, column: tuple[int, int, list[bytes | None], list[Any]]) -> pa.Array:
    count, nulls, buffers, _ = column
    return pa.Array.from_buffers(type, count, [None if part is None else pa.py_buffer(part) for part in buffers], nulls)


def _kinds(kinds: bytes | None) -> Kinds | None:
    return None if kinds is None else np.frombuffer(kinds, np.uint8)


def _decoder(extensions: Sequence[str]) -> _Decoder:
    return ObjectEnvelopes(ATTRIBUTES, _NEEDED, extensions) if native.module() is None else NativeEnvelopes(extensions)


# Protocols whose headers hold attributes as plain text, by what goes before the names of attributes.
_PREFIXES: Final = {"KAFKA": "ce_"}
_TYPE: Final = "content-type"
_ENCODING: Final = "content-encoding"
_ASKED: Final = [name for name in dict.fromkeys((*REQUIRED, *ATTRIBUTES)) if name != "datacontenttype"]


def is_known(protocol: str) -> bool:
    """Whether headers of this protocol are read here."""
    return protocol in _PREFIXES


def taken_apart(frame: MessageBatch, protocol: str, known: dict[str, None]) -> tuple[Block, list[int]]:
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


_NOTHING: Final = Message()


class Way(Protocol):
    """One content mode. ``kind`` are the attributes that payloads of one reader share, the type first."""

    kind: ClassVar[tuple[str, ...]]
    # whether payloads have to be JSON
    json: ClassVar[bool]

    def block(self, frame: MessageBatch, /) -> tuple[Block, list[int]]:
        """The events of a frame, and the indices of messages that are not taken."""
        ...

    def learn(self, attributes: Mapping[str, Any], /) -> None:
        """Take note of the attributes of an event that was not taken."""
        ...

    def settles(self, definition: CompiledDefinition, /) -> bool:
        """Whether a definition asks nothing of an event but its attributes and payload."""
        ...

    def reader(self, definition: CompiledDefinition, kind: tuple[Any, ...], target: Target, /) -> Reader | None:
        """What reads payloads of the definition's own schema, if anything does."""
        ...


class Structured:
    """Structured mode in JSON."""

    kind: ClassVar[tuple[str, ...]] = ("type",)
    json: ClassVar[bool] = True

    def __init__(self) -> None:
        self._envelopes = Envelopes()

    def block(self, frame: MessageBatch) -> tuple[Block, list[int]]:
        """By the decoder of envelopes."""
        return self._envelopes.decode(frame)

    def learn(self, attributes: Mapping[str, Any]) -> None:
        """Extension attributes have to be known to be taken."""
        self._envelopes.learn(attributes)

    def settles(self, definition: CompiledDefinition) -> bool:
        """Without demands on mode or format."""
        return definition.simple

    def reader(self, definition: CompiledDefinition, kind: tuple[Any, ...], target: Target) -> Reader | None:  # noqa: ARG002
        """Of JSON alone, which data is."""
        use = definition.schema_use
        return payloads.json_reader(use.schema, target) if use.schema is not None and use.of_values else None


class Binary:
    """Binary mode of one protocol."""

    kind: ClassVar[tuple[str, ...]] = ("type", "datacontenttype")
    json: ClassVar[bool] = False

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol
        self._extensions: dict[str, None] = {}

    def block(self, frame: MessageBatch) -> tuple[Block, list[int]]:
        """By columns of headers."""
        return taken_apart(frame, self._protocol, self._extensions)

    def learn(self, attributes: Mapping[str, Any]) -> None:
        """Nothing: all headers are looked at."""

    def settles(self, definition: CompiledDefinition) -> bool:
        """Where what it demands of mode and format is true of all events in this mode."""
        return all(check(_NOTHING, Mode.BINARY) is None for check in definition.message_checks)

    def reader(self, definition: CompiledDefinition, kind: tuple[Any, ...], target: Target) -> Reader | None:
        """Any payload."""
        schema = definition.schema_use.schema
        if schema is None:
            return None
        found = payloads.reader(schema, kind[1] or definition.payload_type, target)
        return found if definition.policy.wire_prefix == "none" else payloads.PrefixedReader(definition, found)

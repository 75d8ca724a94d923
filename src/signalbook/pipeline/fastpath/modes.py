"""Content modes of CloudEvents that the fast path takes: how events come apart into columns.

A mode takes what is beyond doubt an event in that mode. A message it does not take is not wrong, and may be no event at
all, but goes the slow path.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Final, Protocol, cast

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from signalbook.messages import CompiledDefinition, Message, Mode
from signalbook.messages.bindings.base import structured_mode
from signalbook.messages.cloudevents import CORE, REQUIRED, SPECVERSION
from signalbook.messages.payloads.content import SCHEMA_HEADER, TEXT_INDICATOR, Unreadable, decoded
from signalbook.pipeline import rescue
from signalbook.pipeline.arrays import HeaderNames, opaque_arrays
from signalbook.pipeline.columns import ATTRIBUTES
from signalbook.pipeline.fastpath import native, payloads
from signalbook.pipeline.fastpath.batch import AS_BYTES, NO_DATA, EventColumns, ExtensionColumn
from signalbook.pipeline.fastpath.native import Decode, Decoded, PayloadSpans
from signalbook.pipeline.sources.base import ALONE, ATTRIBUTE_PREFIX, CASELESS, MessageBatch
from signalbook.pipeline.sources.files import request_records

_EXTENSION: Final = re.compile(r"[a-z0-9]{1,64}", re.ASCII)
_ATTRIBUTE: Final = re.compile(r"[a-z0-9]+", re.ASCII)
# Members of a JSON event that are no context attributes.
_OTHERS: Final = frozenset({"data", "data_base64"})
# Each is a column of every batch; whoever makes up names goes the slow path.
MOST_EXTENSIONS: Final = 64
# Of the events of a batch that are not taken so many are looked at for new extension attributes, if not longer.
_SAMPLES: Final = 3
_LONGEST_SAMPLE: Final = 1 << 20
# Attributes that JSON which is no event hardly has two of.
_TELLING: Final = frozenset({"specversion", "source", "type"})
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])

_TYPE: Final = "content-type"
_ENCODING: Final = "content-encoding"
_ASKED: Final = [name for name in dict.fromkeys((*REQUIRED, *ATTRIBUTES)) if name != "datacontenttype"]
_NO_MESSAGE: Final = Message()
# Asked for each content type of each batch, which are mostly the same.
_structured_mode: Final = lru_cache(maxsize=256)(structured_mode)


class ContentMode(Protocol):
    """One content mode. ``all_events``: messages that lack an attribute that all events have are events as well."""

    all_events: ClassVar[bool]

    def columns(self, messages: MessageBatch, /) -> tuple[EventColumns, list[int]]:
        """The events among messages, and the indices of those that are not taken."""
        ...

    def is_decided(self, definition: CompiledDefinition, /) -> bool:
        """Whether a definition asks nothing of an event but its attributes and payload."""
        ...


class StructuredMode:
    """Structured mode in JSON. Takes events with the extension attributes that some event had, while there is room."""

    all_events: ClassVar[bool] = True

    def __init__(self) -> None:
        self._expect(())

    def columns(self, messages: MessageBatch) -> tuple[EventColumns, list[int]]:
        """By the native module, which looks at members of the envelope and leaves data as it is."""
        return self._encoded(messages) if messages.encoded else self._taken(messages)

    def _encoded(self, messages: MessageBatch) -> tuple[EventColumns, list[int]]:
        """Those with a content encoding are read without it, and stay the messages that they are."""
        headers = Headers.of(messages, folded=messages.protocol in CASELESS)
        stated = headers.texts(_ENCODING)
        values = [messages.raw(index) for index in range(len(messages))]
        _decode(values, stated, headers.refused)
        kept = np.flatnonzero(~headers.refused)
        values = [values[index] for index in kept.tolist()]
        ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
        clear = replace(
            messages,
            content=b"".join(values),
            starts=ends[:-1],
            ends=ends[1:],
            positions=messages.positions[kept],
            records=None,
        )
        events, others = self._taken(clear)
        # What messages become that are no events may be a thousand times as large as they are.
        data = events.data.alone() if others else events.data

        def order(index: int) -> Iterable[str]:
            return _names(decoded(stated[index].as_py(), messages.raw(index), ALONE))

        events = replace(events, messages=messages, indices=kept[events.indices], data=data, order=order)
        return events, np.setdiff1d(np.arange(len(messages)), events.indices, assume_unique=True).tolist()

    def _taken(self, messages: MessageBatch) -> tuple[EventColumns, list[int]]:
        found, refused = self._read(messages)
        # Extension attributes have to be known to be taken. No event needs to land for that: a producer may be wrong in
        # all of them.
        return self._read(messages) if refused and self._learn(messages, refused) else (found, refused)

    def _read(self, messages: MessageBatch) -> tuple[EventColumns, list[int]]:
        bounds = map(np.ascontiguousarray, (messages.starts, messages.ends))
        try:
            refused, found, kinds, data = self._envelopes.read(messages.content, *bounds)
        # The module refuses a whole batch only if its bounds make no sense; message by message each gets its own
        # verdict.
        except ValueError:  # something is wrong in there, or with the bounds: not with the events
            return EventColumns.empty(messages, len(ATTRIBUTES)), list(range(len(messages)))
        count, last = len(messages) - len(refused), len(ATTRIBUTES)
        arrays = native.columns_of(found, self._columns)
        starts, ends, own, forms = data
        versions = arrays.pop(0)
        extensions = zip(self._extensions, arrays[last:], kinds[1 + last :], strict=True)
        return EventColumns(
            messages,
            arrays[:last],
            {
                name: ExtensionColumn(texts, None if kinds is None else np.frombuffer(kinds, np.uint8))
                for name, texts, kinds in extensions
                if texts.null_count < count
            },
            PayloadSpans.within(
                messages.content if own is None else own,
                np.frombuffer(starts, np.int64),
                np.frombuffer(ends, np.int64),
            ),
            np.delete(np.arange(len(messages)), refused) if refused else np.arange(count),
            lambda index: _names(messages.raw(index)),
            None if forms is None else np.frombuffer(forms, np.uint8),
            _odd_versions(versions),
        ), refused

    def _learn(self, messages: MessageBatch, refused: Sequence[int]) -> bool:
        """Whether some of those that are not taken are events with extension attributes that are new."""
        before = self._extensions
        for raw in (messages.raw(index) for index in refused[:_SAMPLES]):
            try:
                members = _members.decode(raw) if len(raw) <= _LONGEST_SAMPLE else {}
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            known = self._extensions
            new = [name for name in members if name not in CORE and name not in known and name not in _OTHERS]
            room = len(known) + len(new) <= MOST_EXTENSIONS
            if len(_TELLING & members.keys()) > 1 and room and all(map(_EXTENSION.fullmatch, new)):
                self._expect((*known, *new))
        return self._extensions != before

    def is_decided(self, definition: CompiledDefinition) -> bool:
        """Without demands on mode or format."""
        return definition.simple

    def _expect(self, extensions: tuple[str, ...]) -> None:
        self._extensions = extensions
        attributes = ("specversion", *ATTRIBUTES)
        self._envelopes = native.module().Envelopes(attributes, extensions)
        self._columns = pa.schema([(name, pa.string()) for name in (*attributes, *extensions)])


def _names(event: bytes) -> Iterable[str]:
    """The members of an event in JSON."""
    return _members.decode(event)


def _odd_versions(found: pa.StringArray) -> pa.StringArray | None:
    """Values of ``specversion``, unless all are the one that there is."""
    return None if pc.all(pc.equal(found, SPECVERSION).fill_null(False)).as_py() else found


def in_json(definition: CompiledDefinition) -> Decode | None:
    """What decodes data in JSON that is part of an envelope, if anything does."""
    use = definition.schema_use
    if use.schema is None or not use.of_values:
        return None
    return payloads.decoder(use.schema, "application/json", typed=definition.policy.typed)


def without_schema(definition: CompiledDefinition, sent: str | int | None) -> Decode | None:
    """What makes payloads columns that no schema says anything of, data as in ``batch.SENT_AS``, if they may land."""
    if definition.schema_use.reason is not None or definition.policy.required_schema:
        return None

    def decode(payloads: PayloadSpans) -> Decoded:
        if sent == NO_DATA:
            return opaque_arrays([None] * len(payloads)), []
        sound = np.ones(len(payloads), np.bool_) if isinstance(sent, str) else are_json(payloads)
        return opaque_arrays(payloads.take(np.flatnonzero(sound)).to_list()), np.flatnonzero(~sound).tolist()

    return decode


def are_json(payloads: PayloadSpans) -> npt.NDArray[np.bool_]:
    """Which of these are JSON beyond doubt."""
    _, refused = native.module().JsonDecoder(("raw", False, False), rescue.ALL).read(payloads.places)
    sound = np.ones(len(payloads), np.bool_)
    sound[refused] = False
    return sound


def sent_as(definition: CompiledDefinition, content_type: str) -> Decode | None:
    """What decodes payloads of the definition's own schema as the bytes that were sent, if anything does."""
    schema = definition.schema_use.schema
    if schema is None:
        return None
    found = payloads.decoder(schema, content_type or definition.payload_type, typed=definition.policy.typed)
    if found is None or definition.policy.wire_prefix == "none":
        return found
    return payloads.prefixed(definition, found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How headers of a protocol hold attributes.

    ``prefix`` goes before their names. ``folded``: names have no case, and values may be quoted and percent-encoded.
    ``typed``: the content type of the data may stand among them. ``bare``: there are other headers with such names.
    ``strict``: what lacks one that all events have, and has no content type of events, is none. ``bodied``: all
    messages have a body, be it an empty one. ``other`` may be before all names instead of the prefix. ``native``:
    values have types that headers do not show, but keys of records.
    """

    prefix: str
    other: str = ""
    folded: bool = False
    typed: bool = False
    bare: bool = False
    strict: bool = False
    bodied: bool = False
    native: bool = False


# No protocol is that of rows with attributes in columns of their own.
_MANNERS: Final = {
    "KAFKA": Manner(prefix=ATTRIBUTE_PREFIX, strict=True),
    "": Manner(prefix=ATTRIBUTE_PREFIX),
    "HTTP": Manner(prefix="ce-", folded=True, strict=True),
    "NATS": Manner(prefix="ce-", folded=True, typed=True, bodied=True),
    "MQTT/5.0": Manner(prefix="", bare=True, bodied=True),
    "AMQP/1.0": Manner(prefix="cloudEvents_", other="cloudEvents:", strict=True, bodied=True, native=True),
}
# The number of bytes among types of attributes; the others are as ``ExtensionColumn`` has them.
_BINARY: Final = 3
# Which records have an attribute that is no text, and the type of each.
_Types = tuple[Sequence[int], bytes]
# Bytes of the payloads of a batch whose encodings were undone: what is more is for the slow path.
_MOST_DECODED: Final = 64 * 1024 * 1024
# What says of a packet of MQTT that its payload is UTF-8, which has to be true then.
_INDICATED: Final = TEXT_INDICATOR.encode()


class BinaryMode:
    """Binary mode of one protocol: attributes out of the headers of many records at once, payloads as they are."""

    all_events: ClassVar[bool] = False

    def __init__(self, protocol: str) -> None:
        self._manner = _MANNERS[protocol]
        # headers of extension attributes met so far: anybody may make up any number of names
        self._extensions: dict[str, None] = {}

    @staticmethod
    def is_known(protocol: str) -> bool:
        """Whether headers of a protocol are read here."""
        return protocol in _MANNERS

    def columns(self, messages: MessageBatch) -> tuple[EventColumns, list[int]]:
        """By columns of headers."""
        # Values of records, one after the other, are the content; a request is more than its payload.
        spans = (
            None if messages.records is None else PayloadSpans.within(messages.content, messages.starts, messages.ends)
        )
        if messages.records is None:
            messages = replace(messages, records=request_records(messages))
        records = messages.records
        assert records is not None
        values = records.column("value").cast(pa.binary())
        headers = Headers.of(messages, folded=self._manner.folded)
        if spans is None:
            nowhere = pc.equal(records.column("address").fill_null(""), "")  # as lines that are no requests
            headers.refused |= nowhere.to_numpy(zero_copy_only=False)
        forms = np.full(len(messages), AS_BYTES, np.uint8)
        if values.null_count:
            absent = values.is_null().to_numpy(zero_copy_only=False)
            if self._manner.bodied:
                headers.refused |= absent
            forms[absent] = NO_DATA
        if self._manner.bare:
            headers.refused |= _doubtful_text(records, values)
        prefix = _prefix(self._manner, headers)
        typed = _attribute_types(records, headers, prefix) if self._manner.native else {}
        arrays, versions = self._attributes(headers, prefix)
        clear = self._decoded(headers, values)
        events = EventColumns(
            messages,
            arrays,
            self._extension_columns(headers, prefix, typed),
            PayloadSpans.of(clear) if spans is None or clear is not values else spans,
            np.arange(len(messages)),
            lambda index: self._order(records.column("headers")[index], prefix),
            forms,
            versions,
        )
        if not headers.refused.any():
            return events, []
        taken = events.take(np.flatnonzero(~headers.refused))
        return replace(taken, data=taken.data.alone()), np.flatnonzero(headers.refused).tolist()

    def is_decided(self, definition: CompiledDefinition) -> bool:
        """Where what it demands of mode and format is true of all events in this mode."""
        return all(check(_NO_MESSAGE, Mode.BINARY) is None for check in definition.message_checks)

    def _order(self, headers: pa.ListScalar, prefix: str) -> Iterable[str]:
        """The names of attributes among those of some headers; the content type comes last."""
        names = [name or "" for name in headers.values.field("name").to_pylist()]
        found = [name.lower() for name in names] if self._manner.folded else names
        yield from (name[len(prefix) :] for name in found if name.startswith(prefix))
        yield "datacontenttype"

    def _attributes(self, headers: Headers, prefix: str) -> tuple[list[pa.Array], pa.Array | None]:
        """The attributes that have columns, and odd versions; a record that may be no event in this mode is refused.

        One that surely is none lacks an attribute that all events have.
        """
        # A second content type is a contradiction that has its own reason.
        headers.forbid([SCHEMA_HEADER])
        stated = f"{prefix}datacontenttype"
        if not self._manner.typed:
            headers.forbid([stated])
        found = {name: self._value(headers, prefix + name) for name in _ASKED}
        for name in REQUIRED if not self._manner.strict else ():
            headers.refused |= found[name].is_null().to_numpy(zero_copy_only=False)
        versions = _odd_versions(found["specversion"])
        found["datacontenttype"] = _content_types(headers, self._value(headers, stated) if self._manner.typed else None)
        return [found[name] for name in ATTRIBUTES], versions

    def _decoded(self, headers: Headers, values: pa.BinaryArray) -> pa.BinaryArray:
        """Payloads with their content encodings undone; what that makes too large, or is none, is refused."""
        if self._manner.bare:
            headers.forbid([_ENCODING])  # in MQTT a property like any other
            return values
        stated = self._value(headers, _ENCODING)
        if stated.null_count == len(stated):
            return values
        found = values.to_pylist()
        _decode(found, stated, headers.refused)
        return pa.array(found, pa.binary())

    def _value(self, headers: Headers, name: str) -> pa.Array:
        """The attribute in a header; what has to be decoded is refused."""
        texts = headers.texts(name)
        if self._manner.folded and texts.null_count < len(texts):
            trimmed = pc.not_equal(pc.utf8_trim_whitespace(texts), texts)
            odd = pc.or_(trimmed, pc.match_substring_regex(texts, '["%]'))
            headers.refused |= odd.fill_null(False).to_numpy(zero_copy_only=False)
        return texts

    def _extension_columns(
        self, headers: Headers, prefix: str, typed: Mapping[str, _Types]
    ) -> dict[str, ExtensionColumn]:
        start, known = len(prefix), self._extensions
        names = [name for name in headers.names if name.startswith(prefix) and name[start:] not in CORE]
        if self._manner.bare:
            names = [name for name in names if _ATTRIBUTE.fullmatch(name)]
        fresh = [name for name in names if name not in known]
        known.update(dict.fromkeys(fresh[: MOST_EXTENSIONS - len(known)]))
        headers.forbid([name for name in names if name not in known])
        return {
            name[start:]: headers.typed(name, *typed[name])
            if name in typed
            else ExtensionColumn(self._value(headers, name))
            for name in names
            if name in known
        }


def _decode(values: list[bytes], encodings: pa.StringArray, refused: npt.NDArray[np.bool_]) -> None:
    """Undo the encodings of values; what that makes too large, or is none, is refused."""
    room = _MOST_DECODED
    for number in np.flatnonzero(encodings.is_valid().to_numpy(zero_copy_only=False) & ~refused).tolist():
        if values[number] is None:
            refused[number] = True
            continue
        try:
            values[number] = decoded(encodings[number].as_py(), values[number], min(ALONE, room))
            room -= len(values[number])
        except Unreadable:
            refused[number] = True


def _attribute_types(records: pa.RecordBatch, headers: Headers, prefix: str) -> Mapping[str, _Types]:
    """The types of extension attributes of messages of AMQP that are no texts, by the names of their headers.

    Messages are refused that came without their sections, or have another such attribute.
    """
    sections = records.column("key").cast(pa.binary())
    found, refused = native.module().attribute_types(PayloadSpans.of(sections).places)
    headers.refused |= sections.is_null().to_numpy(zero_copy_only=False)
    headers.refused[refused] = True
    for name, (numbers, _) in found.items():
        if name.removeprefix(prefix) in CORE:
            headers.refused[numbers] = True
    return cast("Mapping[str, _Types]", found)


def _prefix(manner: Manner, headers: Headers) -> str:
    """What is before the names of attributes in all of some messages; those that have the other one are refused."""
    names = [name for name in headers.names if manner.other and name.startswith(manner.other)]
    if names and not any(name.startswith(manner.prefix) for name in headers.names):
        return manner.other
    headers.forbid(names)
    return manner.prefix


def _doubtful_text(records: pa.RecordBatch, values: pa.BinaryArray) -> npt.NDArray[np.bool_]:
    """Which packets promise UTF-8, where not all of them keep that."""
    found: npt.NDArray[np.bool_] = (
        pc.match_substring(records.column("key"), _INDICATED).fill_null(False).to_numpy(zero_copy_only=False)
    )
    if found.any():
        try:
            values.cast(pa.string())
        except pa.ArrowInvalid:
            return found
    return np.zeros(len(records), np.bool_)


def _content_types(headers: Headers, stated: pa.Array | None) -> pa.Array:
    """Content types of payloads: an empty one is none, one of an event says that this is another mode.

    They may be ``stated`` among the attributes instead; both is too much.
    """
    texts = headers.texts(_TYPE)
    if stated is not None:
        headers.refused |= pc.and_(texts.is_valid(), stated.is_valid()).to_numpy(zero_copy_only=False)
        texts = pc.coalesce(texts, stated)
    encoded = texts.dictionary_encode()
    for name in encoded.dictionary.to_pylist():
        if not name:
            # An empty content type states nothing, as for the slow path.
            texts = pc.if_else(pc.equal(texts, name), None, texts)
        elif _structured_mode(name) is not Mode.NONE:
            headers.refused |= pc.equal(texts, name).fill_null(False).to_numpy(zero_copy_only=False)
    return texts


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
        """Those of the records of messages, their names in lower case if ``folded``."""
        assert messages.records is not None
        return cls(messages.records, messages.header_names(folded=folded))

    @property
    def names(self) -> Sequence[str]:
        """All of them, each once."""
        return list(self._named.numbers)

    def forbid(self, names: Sequence[str]) -> None:
        """Records with such headers are refused."""
        self.refused[self._owners[self._named.places(names)]] = True

    def texts(self, name: str) -> pa.Array:
        """What stands in a header, null where there is none; several of a name and what is no text are refused."""
        return self._as_text(self.values(name))

    def values(self, name: str) -> pa.Array:
        """The same as bytes, which may be any."""
        places = self._named.places([name])
        count = len(self.refused)
        if not len(places):
            return pa.nulls(count, pa.binary())
        owners = self._owners[places]
        again = owners[1:][owners[1:] == owners[:-1]]
        self.refused[again] = True
        # The usual case: each record has the header once, in order, so that nothing has to be lined up.
        if len(owners) == count and not len(again):
            return self._values.take(pa.array(places))
        found = np.full(count, -1, np.int64)
        found[owners] = places
        return self._values.take(pa.array(found, mask=found < 0))

    def typed(self, name: str, numbers: Sequence[int], types: bytes) -> ExtensionColumn:
        """The attribute in a header, which in the records with these numbers is no text; bytes are in Base64 (K-23)."""
        kinds = np.zeros(len(self.refused), np.uint8)
        kinds[numbers] = np.frombuffer(types, np.uint8)
        values = self.values(name).to_pylist()
        for number in np.flatnonzero(kinds == _BINARY).tolist():
            values[number] = b64encode(values[number])
        kinds[kinds == _BINARY] = 0
        return ExtensionColumn(self._as_text(pa.array(values, pa.binary())), kinds if kinds.any() else None)

    def _as_text(self, values: pa.Array) -> pa.Array:
        try:
            return values.cast(pa.string())
        except pa.ArrowInvalid:
            texts = [_text(value) for value in values.to_pylist()]
            found = pa.array(texts, pa.string())
            self.refused |= pc.and_(found.is_null(), values.is_valid()).to_numpy(zero_copy_only=False)
            return found


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None

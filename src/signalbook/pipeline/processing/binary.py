"""Read events in binary mode as columns: attributes from headers of many records, by the rules of their protocol."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from signalbook.messages import CompiledDefinition, Message, Mode
from signalbook.messages.bindings.base import find_structured_mode
from signalbook.messages.cloudevents import ATTRIBUTE_NAME, CORE, REQUIRED
from signalbook.messages.content import SCHEMA_HEADER, TEXT_INDICATOR, Unreadable, unpack_body
from signalbook.pipeline import native
from signalbook.pipeline.arrays import HeaderNames, decode_utf8
from signalbook.pipeline.columns import ATTRIBUTES
from signalbook.pipeline.native import PayloadSpans
from signalbook.pipeline.processing.batch import (
    AS_BYTES,
    MOST_EXTENSIONS,
    NO_DATA,
    EventColumns,
    ExtensionColumn,
    select_odd_versions,
)
from signalbook.pipeline.sources.base import ALONE, ATTRIBUTE_PREFIX, MessageBatch
from signalbook.pipeline.sources.files import request_records

_TYPE: Final = "content-type"
ENCODING: Final = "content-encoding"
# The limit of bytes of the decoded payloads of a batch. Further payloads go the slow path.
_MAX_DECODED_BYTES: Final = 64 * 1024 * 1024
# The number of the type bytes among the types of attributes. The other numbers are those of ``ExtensionColumn``.
_BINARY: Final = 3
_ASKED: Final = [name for name in dict.fromkeys((*REQUIRED, *ATTRIBUTES)) if name != "datacontenttype"]
_NO_MESSAGE: Final = Message()
# Cached, because the content types of batches are mostly the same.
_structured_mode: Final = lru_cache(maxsize=256)(find_structured_mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """The rules by which headers of a protocol hold attributes.

    ``prefix`` precedes the names of attributes; ``other`` may precede all of them instead. The flags mean:

    - ``folded``: Names are case-insensitive, and values may be quoted and percent-encoded.
    - ``typed``: The content type of the data may be among the attributes.
    - ``bare``: Headers that are not attributes may have names like attributes.
    - ``strict``: A message that lacks a required attribute, and has no content type of events, is not an event.
    - ``bodied``: All messages have a body, which may be empty.
    - ``native``: Values have types, which are in the keys of records and not in headers.
    - ``guessed``: A message without headers is an event in structured mode if its body looks like one.
    """

    prefix: str
    other: str = ""
    folded: bool = False
    typed: bool = False
    bare: bool = False
    strict: bool = False
    bodied: bool = False
    native: bool = False
    guessed: bool = False


# The empty protocol is for rows that have attributes in columns.
_MANNERS: Final = {
    "KAFKA": Manner(prefix=ATTRIBUTE_PREFIX, strict=True),
    "": Manner(prefix=ATTRIBUTE_PREFIX),
    "HTTP": Manner(prefix="ce-", folded=True, strict=True),
    "NATS": Manner(prefix="ce-", folded=True, typed=True, strict=True, bodied=True, guessed=True),
    "MQTT/5.0": Manner(prefix="", bare=True, strict=True, bodied=True),
    "AMQP/1.0": Manner(prefix="cloudEvents_", other="cloudEvents:", strict=True, bodied=True, native=True),
}
# The records in which an attribute is not text, and its type in each of them.
_Types = tuple[Sequence[int], bytes]
# The text by which a packet of MQTT claims that its payload is UTF-8. The claim must be true.
_INDICATED: Final = TEXT_INDICATOR.encode()


class BinaryMode:
    """The binary mode of one protocol: attributes come from the headers of many records, payloads stay as they are."""

    all_events: ClassVar[bool] = False

    def __init__(self, protocol: str) -> None:
        self._manner = _MANNERS[protocol]
        self.reads_plain = self._manner.strict
        # headers of extension attributes seen so far; limited, because anybody may make up any number of names
        self._extensions: dict[str, None] = {}

    @staticmethod
    def is_known(protocol: str) -> bool:
        """Return True if this class can read the headers of ``protocol``."""
        return protocol in _MANNERS

    def read_events(self, messages: MessageBatch) -> tuple[EventColumns, list[int]]:
        """Return events as columns, and the indices of refused messages."""
        # The content of records is their values, one after the other. A request has more content than its payload.
        spans = None
        if messages.records is None:
            messages = replace(messages, records=request_records(messages))
        else:
            spans = PayloadSpans.within(messages.content, messages.starts, messages.ends)
        records = messages.records
        assert records is not None
        values = records.column("value").cast(pa.binary())
        headers = Headers.of(messages, folded=self._manner.folded)
        if spans is None:
            nowhere = pc.equal(records.column("address").fill_null(""), "")  # lines that are not requests
            headers.refused |= nowhere.to_numpy(zero_copy_only=False)
        forms = np.full(len(messages), AS_BYTES, np.uint8)
        if values.null_count:
            absent = values.is_null().to_numpy(zero_copy_only=False)
            if self._manner.bodied:
                headers.refused |= absent
            forms[absent] = NO_DATA
        if self._manner.bare:
            headers.refused |= _find_doubtful_text(records, values)
        if self._manner.guessed:
            headers.refused |= _may_look_like_event(records, values)
        prefix = _choose_prefix(self._manner, headers)
        typed = _read_attribute_types(records, headers, prefix) if self._manner.native else {}
        arrays, versions = self._read_attributes(headers, prefix)
        clear = self._decode_values(headers, values)
        events = EventColumns(
            messages,
            arrays,
            self._read_extensions(headers, prefix, typed),
            PayloadSpans.of(clear) if spans is None or clear is not values else spans,
            np.arange(len(messages)),
            lambda index: self._order(records.column("headers")[index], prefix),
            forms,
            versions,
        )
        if not headers.refused.any():
            return events, []
        accepted = events.take(np.flatnonzero(~headers.refused))
        return replace(accepted, data=accepted.data.copy()), np.flatnonzero(headers.refused).tolist()

    def is_decided(self, definition: CompiledDefinition) -> bool:
        """Return True if all events in this mode meet the definition's demands on mode and format."""
        return all(check(_NO_MESSAGE, Mode.BINARY) is None for check in definition.message_checks)

    def _order(self, headers: pa.ListScalar, prefix: str) -> Iterable[str]:
        """Yield the names of the attributes in ``headers``, in their order. The content type comes last."""
        names = [name or "" for name in headers.values.field("name").to_pylist()]
        spelled = [name.lower() for name in names] if self._manner.folded else names
        yield from (name[len(prefix) :] for name in spelled if name.startswith(prefix))
        yield "datacontenttype"

    def _read_attributes(self, headers: Headers, prefix: str) -> tuple[list[pa.Array], pa.Array | None]:
        """Return the attributes that have columns, and the versions (None if all have the supported version).

        Records that may not be events in this mode are refused. A record that certainly is not an event is kept, and
        lacks a required attribute.
        """
        # A second content type is a contradiction, for which the slow path has its own reason.
        stated = f"{prefix}datacontenttype"
        if not self._manner.typed:
            headers.forbid([stated])
        arrays = {name: self._read_value(headers, prefix + name) for name in _ASKED}
        lacking = np.zeros(len(headers.refused), np.bool_)
        for name in REQUIRED:
            lacking |= arrays[name].is_null().to_numpy(zero_copy_only=False)
        if not self._manner.strict:
            headers.refused |= lacking
        # Events with a header for the schema of their data go the slow path, which resolves the schema.
        headers.refused |= ~lacking & headers.read_values(SCHEMA_HEADER).is_valid().to_numpy(zero_copy_only=False)
        versions = select_odd_versions(arrays["specversion"])
        arrays["datacontenttype"] = _read_content_types(
            headers, self._read_value(headers, stated) if self._manner.typed else None
        )
        return [arrays[name] for name in ATTRIBUTES], versions

    def _decode_values(self, headers: Headers, values: pa.BinaryArray) -> pa.BinaryArray:
        """Return payloads with their content encodings undone. Payloads that are invalid or too large are refused."""
        if self._manner.bare:
            headers.forbid([ENCODING])  # in MQTT this is a property like any other
            return values
        stated = self._read_value(headers, ENCODING)
        if stated.null_count == len(stated):
            return values
        decoded = values.to_pylist()
        undo_encodings(decoded, stated, headers.refused)
        return pa.array(decoded, pa.binary())

    def _read_value(self, headers: Headers, name: str) -> pa.Array:
        """Return the values of the attribute in a header. Records whose value has to be decoded are refused."""
        texts = headers.read_texts(name)
        if self._manner.folded and texts.null_count < len(texts):
            trimmed = pc.not_equal(pc.utf8_trim_whitespace(texts), texts)
            odd = pc.or_(trimmed, pc.match_substring_regex(texts, '["%]'))
            headers.refused |= odd.fill_null(False).to_numpy(zero_copy_only=False)
        return texts

    def _read_extensions(
        self, headers: Headers, prefix: str, typed: Mapping[str, _Types]
    ) -> dict[str, ExtensionColumn]:
        start, extensions = len(prefix), self._extensions
        names = [name for name in headers.names if name.startswith(prefix) and name[start:] not in CORE]
        if self._manner.bare:
            names = [name for name in names if ATTRIBUTE_NAME.fullmatch(name)]
        fresh = [name for name in names if name not in extensions]
        extensions.update(dict.fromkeys(fresh[: MOST_EXTENSIONS - len(extensions)]))
        headers.forbid([name for name in names if name not in extensions])
        return {
            name[start:]: headers.read_typed(name, *typed[name])
            if name in typed
            else ExtensionColumn(self._read_value(headers, name))
            for name in names
            if name in extensions
        }


def _read_attribute_types(records: pa.RecordBatch, headers: Headers, prefix: str) -> Mapping[str, _Types]:
    """Return the types of extension attributes of AMQP messages that are not text, by the names of their headers.

    Messages without sections are refused, and messages in which another attribute is not text.
    """
    sections = records.column("key").cast(pa.binary())
    types, refused = native.load_module().attribute_types(PayloadSpans.of(sections).places)
    headers.refused |= sections.is_null().to_numpy(zero_copy_only=False)
    headers.refused[refused] = True
    for name, (numbers, _) in types.items():
        if name.removeprefix(prefix) in CORE:
            headers.refused[numbers] = True
    return cast("Mapping[str, _Types]", types)


def _choose_prefix(manner: Manner, headers: Headers) -> str:
    """Return the prefix of attribute names in these messages. If some have the other prefix, they are refused."""
    names = [name for name in headers.names if manner.other and name.startswith(manner.other)]
    if names and not any(name.startswith(manner.prefix) for name in headers.names):
        return manner.other
    headers.forbid(names)
    return manner.prefix


def _may_look_like_event(records: pa.RecordBatch, values: pa.BinaryArray) -> npt.NDArray[np.bool_]:
    """Return a mask: True for messages without headers that may be structured events (``options.detect_format``)."""
    bare = pc.equal(pc.list_value_length(records.column("headers")).fill_null(0), 0)
    looks: npt.NDArray[np.bool_] = (
        pc.and_(bare, pc.match_substring(values, '"specversion"')).fill_null(False).to_numpy(zero_copy_only=False)
    )
    return looks


def _find_doubtful_text(records: pa.RecordBatch, values: pa.BinaryArray) -> npt.NDArray[np.bool_]:
    """Return a mask: True for packets that claim to be UTF-8, if one of the claims is false; else all False."""
    claims: npt.NDArray[np.bool_] = (
        pc.match_substring(records.column("key"), _INDICATED).fill_null(False).to_numpy(zero_copy_only=False)
    )
    if claims.any():
        try:
            values.cast(pa.string())
        except pa.ArrowInvalid:
            return claims
    return np.zeros(len(records), np.bool_)


def _read_content_types(headers: Headers, stated: pa.Array | None) -> pa.Array:
    """Return the content types of payloads, null without one. Records with a content type of events are refused.

    ``stated`` are content types among the attributes, or None. Records with both are refused.
    """
    texts = headers.read_texts(_TYPE)
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

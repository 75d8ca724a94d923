"""From accepted messages of one definition to rows of its table, and from landed rows back to attributes and payloads.

Lost on the way are whether an optional member was absent or null, spellings of numbers and times, what is finer than a
microsecond, and, where a policy says so, members that no schema declared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from decimal import Decimal
from functools import cached_property, partial
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, structs

from signalbook.formats import Anything, ListOf, MapOf, Schema, Shape, Struct, as_sent, is_lossy
from signalbook.formats.avro.format import AvroSchema
from signalbook.formats.base import JsonValues, format_pointer, shorten
from signalbook.formats.jsonschema.format import JsonSchema
from signalbook.messages import Accepted, CompiledDefinition, Message, format_attribute
from signalbook.messages.cloudevents import CORE, SPECVERSION, Attribute
from signalbook.messages.message import DUPLICATE
from signalbook.pipeline import arrays, columns, exact, rescue
from signalbook.pipeline.arrays import MISFITS, ValueForm, opaque_arrays, payload_builder, text_map, timestamps
from signalbook.pipeline.columns import ATTRIBUTES
from signalbook.pipeline.fastpath import payloads
from signalbook.pipeline.fastpath.native import Decode, PayloadSpans
from signalbook.pipeline.landing.keys import KeyDecoder
from signalbook.pipeline.sources.base import MessageLocation
from signalbook.pipeline.tables.evolution import first_names, has_stated_members, rename_batch
from signalbook.pipeline.tables.naming import table_name
from signalbook.values import JSON, Finding, JSONError, format_timestamp, parse_json

_TIME: Final = ATTRIBUTES.index("time")
_TAG: Final = columns.TAGS.types[0]
_RESCUE: Final = columns.RESCUE.names[0]
_HUGE: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Bookkeeping:
    """The data of the run in each row. Rows outside tables have no batch and time."""

    fingerprint: str
    batch: str | None = None
    landed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedRow:
    """An accepted message that waits to become a row, with no more of it than that takes.

    ``data`` is the decoded payload; where the table can decode ``payload`` itself it is ``UNSET``, since decoded JSON
    takes several times the room. ``shared``: the message is accepted for other definitions too. ``duplicates``: an
    object in the payload has a name twice.
    """

    attributes: Mapping[str, Attribute]
    context: Mapping[str, str]
    message: Message
    payload: bytes | None
    data: JSON
    location: MessageLocation
    original: bytes
    shared: bool
    violations: Sequence[Finding]
    duplicates: bool = False


class RowBuilder:
    """The table of one definition: accepted messages in, rows out."""

    def __init__(self, definition: CompiledDefinition, bookkeeping: Bookkeeping) -> None:
        xid = definition.xid
        self.name = table_name(xid)
        self.xid = xid
        self._definition = definition
        self._schema = definition.schema_use.schema
        self._typed = definition.policy.typed
        self._layout = layout(definition)
        self._shape = self._layout.shape
        values = (xid, definition.version, bookkeeping.fingerprint, bookkeeping.batch, bookkeeping.landed_at)
        self._bookkeeping = [
            pa.array([value], kind) for value, kind in zip(values, columns.BOOKKEEPING.types, strict=True)
        ]

    def row(self, accepted: Accepted, original: bytes, location: MessageLocation, *, shared: bool) -> AcceptedRow:
        """Return what is kept of an accepted message until it has landed. ``original`` are its bytes as read."""
        message, event = accepted.message, accepted.event
        if message.body == original:  # the same bytes twice are once too many
            message = structs.replace(message, body=original)
        payload = accepted.payload()
        violations = [finding for finding in accepted.warnings if finding.severity == "error"]
        # Once more, straight to columns: JSON by the table's own schema. Not a huge one, which goes alone: what is
        # decoded is there already, and its bytes, as the columns are made of them, would be three times its size.
        again = self._decode is not None and accepted.schema is self._schema and len(original) < _HUGE
        decodes = payload is not None and not violations and again
        return AcceptedRow(
            attributes=event.attributes if event is not None else {},
            context=accepted.context,
            message=message,
            payload=payload if decodes or self._schema is None else None,
            data=UNSET if decodes else accepted.data,
            location=location,
            original=original,
            shared=shared,
            violations=violations,
            duplicates=any(finding.rule == DUPLICATE for finding in accepted.warnings),
        )

    def decoding(self, decode: Decode) -> Decode:
        """``decode``, which reads payloads into the columns that ``whole`` takes."""
        return decode

    def rows(self, rows: Sequence[AcceptedRow]) -> pa.RecordBatch:
        """Rows as they lie in the table. Raises one of ``arrays.MISFITS`` if a value does not fit its column."""
        return self._batch(
            [
                *_envelope([row.attributes for row in rows]),
                *self._with_rest(self._payloads(rows)),
                text_map([row.context.items() or None for row in rows]),
                *_transport(rows),
            ],
            pa.array([[violation_row(found) for found in row.violations] or None for row in rows], _TAG),
        )

    def column_violation(self, row: AcceptedRow, error: Exception) -> Finding:
        """Return the finding about the value of a row that causes this ``error`` of its table."""
        found = None if self._shape is None else arrays.unfitting_value(self._shape, self._data(row))
        if found is None:
            return Finding(path="", rule="column", message=shorten(f"a value does not fit its column: {error}"))
        path, shape, value = found
        shown, kind = shorten(exact.dump(value).decode()), columns.arrow_type(shape)
        conforms = "" if row.violations else " conforms, but"
        text = f"{shown}{conforms} does not fit its column, which is {kind}"
        return Finding(path=format_pointer(path), rule="column", message=shorten(text))

    def presumed(self, rows: Sequence[AcceptedRow], arrays: list[pa.Array]) -> pa.RecordBatch:
        """Rows whose payloads are columns already, as ``decoding`` gives them. Raises one of ``arrays.MISFITS``."""
        contexts = text_map([row.context.items() or None for row in rows])
        return self.whole(_envelope([row.attributes for row in rows]), arrays, [contexts, *_transport(rows)])

    def whole(self, envelope: list[pa.Array], payloads: list[pa.Array], transport: list[pa.Array]) -> pa.RecordBatch:
        """Rows of columns: those of ``columns.ENVELOPE``, of sound payloads, of ``CONTEXT`` and ``TRANSPORT``.

        Behind those of payloads may be the one of ``columns.RESCUE``.
        """
        return self._batch([*envelope, *self._with_rest(payloads), *transport], pa.nulls(len(envelope[0]), _TAG))

    def rescued(self, rows: pa.RecordBatch) -> Counter[str]:
        """Count the rows with values at each path that have no column. The path ``_key`` is that of undecoded keys."""
        found = self._layout.paths.count(rows.column(_RESCUE)) if self._layout.rescues else Counter()
        if self._layout.key is not None:
            undecoded = pc.and_(rows.column("_key").is_valid(), rows.column(columns.DECODED_KEY).is_null())
            found += Counter({"_key": pc.sum(undecoded).as_py() or 0})
        return found

    def _with_rest(self, payloads: list[pa.Array]) -> list[pa.Array]:
        """Columns of payloads, with that for what they do not hold, if the table has it."""
        if not self._layout.rescues:
            return payloads[: self._layout.width]
        return payloads if len(payloads) > self._layout.width else [*payloads, pa.nulls(len(payloads[0]), pa.string())]

    def _batch(self, arrays: list[pa.Array], tags: pa.Array) -> pa.RecordBatch:
        count = len(arrays[0])
        zeros = pa.array(np.zeros(count, np.int8))
        constants = [pa.DictionaryArray.from_arrays(zeros, value) for value in self._bookkeeping]
        keys = [] if self._layout.key is None else [self._keys.decode(arrays)]
        rows = pa.RecordBatch.from_arrays([*arrays, *constants, tags, *keys], schema=self._layout.built)
        return rows if self._layout.built is self._layout.columns else rename_batch(rows, self._layout.columns)

    def _payloads(self, rows: Sequence[AcceptedRow]) -> list[pa.Array]:
        if self._schema is None:
            return opaque_arrays([row.payload for row in rows])
        payloads = [row.payload for row in rows if row.payload is not None]
        if self._decode is None or len(payloads) < len(rows):
            return self._build([self._data(row) for row in rows])
        try:
            arrays, others = self._decode(PayloadSpans.of_list(payloads))
        except MISFITS:  # which may be a value that is kept beside its column
            return self._build([self._data(row) for row in rows])
        if not others:
            return arrays
        # They do conform, but the decoder takes only what it is sure of: a member given twice it is not.
        rest = self._build([self._data(rows[number]) for number in others])
        if len(others) == len(rows):
            return rest
        order = pa.array(np.argsort(np.concatenate([np.delete(np.arange(len(rows)), others), others])))
        return [pa.concat_arrays([array, more]).take(order) for array, more in zip(arrays, rest, strict=True)]

    def _data(self, row: AcceptedRow) -> JSON:
        """The decoded payload; of those that share a batch with others that come decoded too."""
        if row.payload is not None and self._schema is not None:
            return self._schema.decode(row.payload)
        return None if row.data is UNSET else row.data

    @cached_property
    def _keys(self) -> KeyDecoder:
        """The decoder of keys, if they have a schema."""
        assert self._layout.key is not None
        return KeyDecoder(self._definition, self._layout.key, self._layout.columns)

    @cached_property
    def _decode(self) -> Decode | None:
        if not isinstance(self._schema, JsonSchema):
            return None
        return payloads.find_decoder(self._schema, typed=self._typed)

    @cached_property
    def _build(self) -> Callable[[Sequence[Any]], list[pa.Array]]:
        """The function from decoded payloads to their columns, if they have a schema."""
        shape = self._shape
        assert shape is not None
        assert self._schema is not None
        build = payload_builder(shape, ValueForm.of(self._schema))
        return lambda values: [*build(values), rescue.rests(shape, values)]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The columns of a definition's table: of all of it, as they are held in memory, and how many are the payload's.

    ``shape`` is that of its payloads, ``None`` where it names no schema; ``key`` is that of the keys of records in the
    same way. With ``rescues`` the table has ``columns.RESCUE``: its columns may not hold all of a payload. ``built``
    are the columns as decoders build them, with the names that the newest version of the schema alone gives them. In
    ``columns`` they may have the names of earlier versions.
    """

    shape: Shape | None
    key: Shape | None
    rescues: bool
    width: int
    columns: pa.Schema
    built: pa.Schema

    @classmethod
    def of(cls, shape: Shape | None, *, rescues: bool, key: Shape | None = None) -> Layout:
        """Return the layout for payloads of a shape, and for keys of the shape ``key``."""
        held = columns.held(columns.landed(shape, rescue=rescues, key=key))
        width = len(columns.payload(shape))
        return cls(shape=shape, key=key, rescues=rescues, width=width, columns=held, built=held)

    @cached_property
    def states_members(self) -> bool:
        """True if the description of a column states its member, because the column's name does not show it."""
        return has_stated_members(self.built)

    @cached_property
    def paths(self) -> rescue.RescuedPaths:
        """The counter of paths without columns."""
        assert self.shape is not None
        return rescue.RescuedPaths(self.shape)


OPAQUE: Final = Layout.of(None, rescues=False)
# Made once for a schema, which many tasks of a process share, and gone with it: of hundreds of columns they take longer
# than the rows of a small batch.
_layouts: Final[WeakKeyDictionary[Schema, dict[tuple[object, ...], Layout]]] = WeakKeyDictionary()


def layout(definition: CompiledDefinition) -> Layout:
    """Return the layout of a definition's table, by its policy."""
    schema, policy = definition.schema_use.schema, definition.policy
    if schema is None:
        return OPAQUE
    known = _layouts.setdefault(schema, {})
    parts = definition.key_use.schema, policy.typed, policy.rescue == "keep", policy.on_schema_violation == "tag"
    if parts not in known:
        known[parts] = _laid_out(schema, *parts)
    own_layout = known[parts]
    if not own_layout.states_members:
        return own_layout
    # Members may compete for a column name, as those do whose names differ in case alone. Each keeps the name that it
    # had in the first version of the schema with this member.
    earlier = tuple(definition.schemas.earlier(definition.schema_use))
    if (parts, earlier) not in known:
        renamed = first_names((columns.payload(version.shape()) for version in earlier), own_layout.built)
        unchanged = renamed.equals(own_layout.built)
        known[parts, earlier] = own_layout if unchanged else replace(own_layout, columns=renamed)
    return known[parts, earlier]


def _laid_out(schema: Schema, keys: Schema | None, typed: bool, keep: bool, tag: bool) -> Layout:
    shape, key = _shape(schema, typed), None if keys is None else _shape(keys, typed)
    # Payloads that land against their schema may have members of no column even where it is closed.
    lossy = is_lossy(shape) or (tag and isinstance(schema, JsonValues) and rescue.plan(shape) != rescue.ALL)
    return Layout.of(shape, rescues=keep and lossy, key=key)


def _shape(schema: Schema, typed: bool) -> Shape:
    return schema.shape() if typed else as_sent(schema.shape())


def _envelope(attributes: Sequence[Mapping[str, Attribute]]) -> list[pa.Array]:
    texts = [{name: format_attribute(value) for name, value in values.items()} for values in attributes]
    arrays = [pa.array([each.get(name) for each in texts], pa.string()) for name in ATTRIBUTES]
    arrays[_TIME] = timestamps(arrays[_TIME])
    others = [[pair for pair in each.items() if pair[0] not in CORE] or None for each in texts]
    return [*arrays, text_map(others)]


def _transport(rows: Sequence[AcceptedRow]) -> list[pa.Array]:
    messages, locations = [row.message for row in rows], [row.location for row in rows]
    return [
        pa.array([message.protocol or None for message in messages], pa.string()),
        pa.array([address(message) for message in messages], pa.string()),
        pa.array([key(message) for message in messages], pa.binary()),
        *arrays.header_columns([(message.protocol, arrays.message_headers(message)) for message in messages]),
        pa.array([message.received_at for message in messages], columns.TIMESTAMP),
        pa.array([location.path or None for location in locations], pa.string()),
        pa.array([location.position for location in locations], pa.int64()),
    ]


def key(message: Message) -> bytes | None:
    """Return the key of a Kafka record."""
    found: bytes | None = message.sections.get("key") if message.protocol == arrays.KAFKA else None
    return found


def address(message: Message) -> str | None:
    """Return the address of a message: its HTTP path, topic, subject, or the address in its properties."""
    properties = message.sections.get("properties")
    locations = [message.sections.get(section) for section in ("path", "topic", "topic_name", "subject")]
    locations += [properties.get("to")] if isinstance(properties, Mapping) else []
    return next((location for location in locations if isinstance(location, str)), None)


def violation_row(finding: Finding) -> dict[str, str]:
    """A finding as its column has it."""
    # a hostile payload may have brought lone surrogates into it, which no column takes
    said = {name: getattr(finding, name) for name in ("path", "rule", "message")}
    return {name: text.encode("utf-8", "replace").decode() for name, text in said.items()}


_TEXT_FORMATS = ("jsonschema/", "jsonstructure/")
# From what a column has to what a payload has.
_Rebuild = Callable[[Any], JSON]


def attributes_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The context attributes of a landed event; extensions as text."""
    found = {name: row.get(f"ce_{name}") for name in ATTRIBUTES} | dict(row.get("ce_extensions") or ())
    stated = {name: _json_text(value) for name, value in found.items() if value is not None}
    return {"specversion": SPECVERSION, **stated}


def in_json(schema: Schema) -> bool:
    """Return True if payloads of a schema are JSON."""
    return schema.format.lower().startswith(_TEXT_FORMATS)


def payloads_of(schema: Schema) -> Callable[[Mapping[str, Any]], JSON]:
    """A function from landed rows to their payloads by the schema of their definition, as ``Schema.validate`` takes it.

    Made once for many rows, since finding out which column a member is in takes longer than reading it.
    """
    held, shape = _held_of(schema), schema.shape()

    def payload(row: Mapping[str, Any]) -> JSON:
        return rescue.whole(held(row), rescue.read(shape, row.get(_RESCUE)))

    # Protobuf and XML Schema take the names of numbers for these themselves.
    return (lambda row: schema.with_numbers(payload(row))) if isinstance(schema, AvroSchema) else payload


def _held_of(schema: Schema) -> Callable[[Mapping[str, Any]], JSON]:
    """The same of what columns hold of a payload."""
    shape, text = schema.shape(), in_json(schema)
    if isinstance(shape, Struct) and shape.fields:
        return _members(shape, columns.payload(shape).names, text)
    whole = _value(shape, text)
    return lambda row: whole(row.get(columns.PAYLOAD))


def opaque_of(row: Mapping[str, Any]) -> bytes | None:
    """The payload of a landed row whose definition names no schema, as it was sent."""
    text, binary = row.get(columns.OPAQUE.names[0]), row.get(columns.OPAQUE.names[1])
    return text.encode() if isinstance(text, str) else binary


def _members(shape: Struct, names: Sequence[str], in_json: bool) -> _Rebuild:
    parts = [
        (field.name, name, _value(field.shape, in_json), field.required and field.shape.nullable)
        for field, name in zip(shape.fields, names, strict=True)
    ]

    def members(row: Mapping[str, Any]) -> JSON:
        values = ((name, part, row.get(column), always) for name, column, part, always in parts)
        return {name: part(value) for name, part, value, always in values if value is not None or always}

    return members


def _value(shape: Shape, in_json: bool) -> _Rebuild:
    """Return the function for a column of the shape's own type. Values of older tables stay as they are."""
    kind, rebuild = _present(shape, in_json)

    def build(value: Any) -> JSON:
        if value is None:
            return None
        return rebuild(value) if isinstance(value, kind) else _older(value)

    return build


def _present(shape: Shape, in_json: bool) -> tuple[type, _Rebuild]:
    """Return the type of the column's values, and their conversion."""
    match shape:
        case Anything():
            return object, _parsed
        case ListOf():
            item = _value(shape.item, in_json)
            return list, lambda items: [item(each) for each in items]
        case MapOf():
            return list, _entries(_value(shape.value, in_json))
        case Struct() if shape.fields:
            return dict, _members(shape, [field.name for field in columns.arrow_type(shape)], in_json)
        case Struct():
            return object, lambda _: {}
    if shape.sent is not None:
        return object, partial(exact.sent, shape)
    if shape.kind == "uint64":
        return Decimal, int
    return object, _json_text if in_json else _same


def _entries(value: _Rebuild) -> _Rebuild:
    def build(entries: list[Any]) -> JSON:
        if not all(isinstance(entry, tuple) for entry in entries):
            return _older(entries)
        return {name: value(each) for name, each in entries}

    return build


def _same(value: Any) -> JSON:
    return value


def _older(value: Any) -> JSON:
    """A value by itself, as JSON has it."""
    if isinstance(value, dict):
        return {name: _older(each) for name, each in value.items()}
    return [_older(each) for each in value] if isinstance(value, (list, tuple)) else _json_text(value)


def _parsed(text: Any) -> JSON:
    """JSON out of its column; the column of an older table may have had a narrower type."""
    try:
        return parse_json(text, exact=True) if isinstance(text, str) else text
    except JSONError:
        return text


def _json_text(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, datetime):
        return format_timestamp(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    return exact.number(value) if isinstance(value, Decimal) else value

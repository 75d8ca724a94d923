"""The columns of landed tables and of dead letters.

A landed table has the context attributes of the CloudEvent as ``ce_*`` and the members of the payload under their own
names. Columns with a leading underscore hold what the pipeline adds: where the message came from, which definition it
conforms to, and the fingerprint of the snapshot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from signalbook.formats import Anything, Field, ListOf, MapOf, Scalar, Shape, Struct
from signalbook.pipeline import exact
from signalbook.values import JSONError, dump_json, parse_json

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
TEXT_MAP: Final = pa.map_(pa.string(), pa.string())
HEADER_LIST: Final = pa.list_(pa.field("element", pa.struct([("name", pa.string()), ("value", pa.binary())])))
MICROSECONDS: Final = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""The first and last microsecond since 1970 of the years 1 to 9999: Python and most table readers support no others."""
DAYS: Final = (-719_162, 2_932_896)
"""The first and last day since 1970 of the years 1 to 9999."""


def _build_column(name: str, type: pa.DataType, doc: str) -> pa.Field:
    return pa.field(name, type, metadata={"doc": doc})


ENVELOPE: Final = pa.schema(
    [
        _build_column("ce_id", pa.string(), "CloudEvents id"),
        _build_column("ce_source", pa.string(), "CloudEvents source"),
        _build_column("ce_type", pa.string(), "CloudEvents type"),
        _build_column("ce_subject", pa.string(), "CloudEvents subject"),
        _build_column("ce_time", TIMESTAMP, "CloudEvents time, in microseconds"),
        _build_column("ce_datacontenttype", pa.string(), "CloudEvents datacontenttype"),
        _build_column("ce_dataschema", pa.string(), "CloudEvents dataschema"),
        _build_column("ce_extensions", TEXT_MAP, "CloudEvents extension attributes, as text"),
    ]
)
# The names of the context attributes that have a column each.
ATTRIBUTES: Final = tuple(name.removeprefix("ce_") for name in ENVELOPE.names[:-1])
CONTEXT: Final = pa.schema(
    [_build_column("_context", TEXT_MAP, "Values that stood where the definition's templates have placeholders")]
)
TRANSPORT: Final = pa.schema(
    [
        _build_column("_protocol", pa.string(), "Protocol the message came by"),
        _build_column("_address", pa.string(), "HTTP path, topic or subject it was sent to"),
        _build_column("_key", pa.binary(), "Key of the Kafka record, as it was sent"),
        _build_column("_headers", TEXT_MAP, "Headers of the message as text, those of one name joined by commas"),
        _build_column(
            "_raw_headers", HEADER_LIST, "Headers as they were sent, where _headers does not hold them exactly"
        ),
        _build_column("_received_at", TIMESTAMP, "When the transport took it in, where that is known"),
        _build_column("_source", pa.string(), "File the message was read from"),
        _build_column(
            "_position", pa.int64(), "Where it begins in its source: byte offset of a line, index in a batch"
        ),
    ]
)
BOOKKEEPING: Final = pa.schema(
    [
        _build_column("_definition", pa.string(), "xid of the message definition it conforms to"),
        _build_column("_version", pa.string(), "Version of that definition"),
        _build_column("_fingerprint", pa.string(), "SHA-256 of the snapshot of definitions it was held to"),
        _build_column("_batch", pa.string(), "Id of the batch that landed it"),
        _build_column("_landed_at", TIMESTAMP, "When that batch was begun; the same in all of its rows"),
    ]
)
_VIOLATIONS: Final = pa.list_(pa.struct([("path", pa.string()), ("rule", pa.string()), ("message", pa.string())]))
TAGS: Final = pa.schema(
    [
        _build_column(
            "_violations", _VIOLATIONS, "What its schema has against the payload, landed all the same by a policy"
        )
    ]
)
RESCUE: Final = pa.schema(
    [_build_column("_rescue", pa.string(), "Members of the payload that no other column has, as JSON in their places")]
)
DEAD_LETTER: Final = pa.schema(
    [
        _build_column("reason", pa.string(), "Why it did not land"),
        _build_column("violations", _VIOLATIONS, "Everything found wrong with it, each with path and rule"),
        _build_column("candidates", pa.list_(pa.string()), "xids of the definitions it may have been meant for"),
        _build_column("original", pa.binary(), "The message's bytes as they were read, untouched"),
        _build_column("body", pa.binary(), "The message's body, where it is not all of those bytes"),
        _build_column(
            "message", pa.string(), "All of the message but its body, as JSON; null where the bytes are no message"
        ),
        _build_column("protocol", pa.string(), "Protocol the message came by"),
        _build_column("content_type", pa.string(), "Content type it was sent with"),
        _build_column("address", pa.string(), "HTTP path, topic or subject it was sent to"),
        _build_column("source", pa.string(), "File it was read from"),
        _build_column("position", pa.int64(), "Where it begins in its source: byte offset of a line, index in a batch"),
        _build_column("element", pa.int32(), "Which event of a batched message, from 0; null for a message of its own"),
        _build_column("received_at", TIMESTAMP, "When the transport took it in, where that is known"),
        _build_column("definition", pa.string(), "The definition it did not land for, where it landed for others"),
        _build_column("fingerprint", pa.string(), "SHA-256 of the snapshot of definitions it was held to"),
        _build_column("batch", pa.string(), "Id of the batch that sidelined it"),
        _build_column("sidelined_at", TIMESTAMP, "When that batch was begun; the same in all of its rows"),
    ]
)
# The column of the decoded Kafka key, in tables whose definitions have a schema for keys.
DECODED_KEY: Final = "_decoded_key"
# The payload's column if the payload is not an object, and the two columns of payloads without a schema (K-42).
PAYLOAD: Final = "data"
OPAQUE: Final = pa.schema(
    [
        _build_column("data", pa.string(), "The payload as it was sent, where it is text"),
        _build_column("data_binary", pa.binary(), "The payload as it was sent, where it is not"),
    ]
)

# The column with the time when the batch began: the same in all of its rows.
LANDED_AT: Final = "_landed_at"
# The day of ``LANDED_AT``, by which tables may be partitioned. It is no column of the files, but readers see one.
DAY: Final = "landed_on"

# The columns to write with dictionary encoding, because their values repeat. For payload columns this is unknown, and
# zstd compresses them as well.
REPETITIVE: Final = (
    *("ce_source", "ce_type", "ce_datacontenttype", "ce_dataschema", "_protocol", "_address", "_source"),
    *BOOKKEEPING.names,
    *("reason", "protocol", "content_type", "address", "source", "fingerprint", "batch"),
)

_LAST: Final = pa.schema([*CONTEXT, *TRANSPORT, *BOOKKEEPING, *TAGS])
# Names that no column of a payload member may have.
RESERVED: Final = frozenset({*ENVELOPE.names, *RESCUE.names, *_LAST.names, DECODED_KEY, DAY})
_SCALARS: Final[dict[str, pa.DataType]] = {
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint64": pa.decimal128(20, 0),  # table formats have no unsigned 64 bits
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "timestamp": TIMESTAMP,
    "date": pa.date32(),
    "time": pa.time64("us"),
    "uuid": pa.string(),
    "duration": pa.decimal128(*exact.DURATION),
}
MAX_PRECISION: Final = 38


def build_landed(shape: Shape | None, *, rescue: bool = False, key: Shape | None = None) -> pa.Schema:
    """Return the columns of a table whose payloads have ``shape`` and whose Kafka keys have the shape ``key``.

    ``None`` means that there is no schema for payloads or keys. ``rescue`` adds the column ``RESCUE``.
    """
    keys = []
    if key is not None:
        keys.append(_build_column(DECODED_KEY, find_arrow_type(key), "Key of the Kafka record, by its schema"))
    return pa.schema([*ENVELOPE, *build_payload(shape), *(RESCUE if rescue else ()), *_LAST, *keys])


def encode_constants(landed: pa.Schema) -> pa.Schema:
    """Return the columns ``landed`` for rows in memory.

    ``BOOKKEEPING`` columns become dictionaries, which store once the values that all rows of a batch share.
    """
    kinds = {column.name: pa.dictionary(pa.int8(), column.type) for column in BOOKKEEPING}
    return pa.schema([column.with_type(kinds.get(column.name, column.type)) for column in landed])


def decode_constants(held: pa.Schema) -> pa.Schema:
    """Return the columns for files with the rows of ``held``: dictionary types are replaced by their value types."""
    kinds = [column.type.value_type if pa.types.is_dictionary(column.type) else column.type for column in held]
    return pa.schema([column.with_type(kind) for column, kind in zip(held, kinds, strict=True)], held.metadata)


def build_payload(shape: Shape | None) -> pa.Schema:
    """Return the columns of the payload alone, in the order of the fields of ``shape``.

    Return ``OPAQUE`` if ``shape`` is ``None``, because the payload has no schema then.
    """
    if shape is None:
        return OPAQUE
    if isinstance(shape, Struct) and shape.fields:
        return pa.schema(_build_fields(shape.fields, reserved=RESERVED))
    return pa.schema([_build_column(PAYLOAD, find_arrow_type(shape), "The payload")])


def find_arrow_type(shape: Shape) -> pa.DataType:
    """Return the Arrow type of a column for values of ``shape``: text with JSON if no narrower type holds them all."""
    match shape:
        case Scalar():
            return _find_scalar_type(shape)
        case ListOf():
            return pa.list_(pa.field("element", find_arrow_type(shape.item)))
        case MapOf():
            return pa.map_(pa.string(), find_arrow_type(shape.value))
        case Struct() if shape.fields:
            return pa.struct(_build_fields(shape.fields))
        case Struct() | Anything():
            # Parquet has no structs without members: an object without declared members is stored as JSON text.
            return pa.string()


def _find_scalar_type(shape: Scalar) -> pa.DataType:
    if shape.kind == "decimal":
        fits = 0 < shape.precision <= MAX_PRECISION
        return pa.decimal128(shape.precision, shape.scale) if fits else pa.string()
    return _SCALARS[shape.kind]


def _build_fields(fields: Iterable[Field], reserved: Iterable[str] = ()) -> list[pa.Field]:
    fields = tuple(fields)
    names = assign_names([field.name for field in fields], reserved)
    pairs = zip(names, fields, strict=True)
    return [
        _build_column(name, find_arrow_type(field.shape), _describe(name, field.name, field.description))
        for name, field in pairs
    ]


_STATED: Final = re.compile(rb'\AMember ("(?:[^"\\]|\\.)*") of the payload\. ?', re.DOTALL)


def _describe(name: str, member: str, description: str) -> str:
    """Return the description of the column ``name``. If the name is ambiguous, the description states the ``member``.

    A column ``id_`` holds either the member ``id_`` or another spelling of ``id``, which depends on the other members,
    and these may change. All table formats store descriptions, so a table keeps the record of what its columns hold.
    """
    if not name.endswith("_"):
        return description
    return f"Member {dump_json(member).decode()} of the payload. {description}".rstrip()


def rename_column(field: pa.Field, name: str, member: str) -> pa.Field:
    """Return the column ``field``, which holds the payload's ``member``, under another ``name``.

    The description states the member if the new name is ambiguous.
    """
    doc = _STATED.sub(b"", (field.metadata or {}).get(b"doc", b""), count=1)
    return _build_column(name, field.type, _describe(name, member, doc.decode("utf-8", "replace")))


def read_stated_member(field: pa.Field) -> str | None:
    """Return the payload's member that the description of ``field`` states, or ``None`` if it states no member."""
    match = _STATED.match((field.metadata or {}).get(b"doc", b""))
    try:
        return None if match is None else str(parse_json(match[1]))
    except JSONError:
        return None


def assign_names(members: Sequence[str], reserved: Iterable[str] = ()) -> list[str]:
    """Return a column name for each of ``members``: the member's own name, or with ``_`` appended if that is taken.

    SQL ignores case, so names that differ only in case collide. The result does not depend on the order of members,
    which documents may lose: of ``userID`` and ``userId``, the last in sort order, ``userId``, keeps its name, and the
    other becomes ``userID_``. Names in ``reserved`` are never used.
    """
    used = {name.lower() for name in reserved}
    names_by_member: dict[str, str] = {}
    for member in sorted(set(members), reverse=True):
        if member and member.lower() not in used:
            names_by_member[member] = member
            used.add(member.lower())
    for member in sorted(set(members) - names_by_member.keys(), reverse=True):
        names_by_member[member] = _find_free_name(member, used)
    return [names_by_member[member] for member in members]


def _find_free_name(name: str, used: set[str]) -> str:
    name = name or "_"
    while name.lower() in used:
        name += "_"
    used.add(name.lower())
    return name

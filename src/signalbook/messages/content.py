"""Handle content types (F-14, F-33, K-20), content encodings, and wire prefixes of payloads.

Confluent's serializers put a prefix before a payload: a zero byte and the number of the schema that wrote it. The
Version of that schema has the number as a label. Serializers may also send the schema's guid in a header. A message
does not show whether it has a prefix, so the policy says it (``wire_prefix``).
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable
from functools import lru_cache, partial, wraps
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from signalbook.formats.base import is_json, parse_media_type
from signalbook.messages.message import Message, Reason
from signalbook.plugins import install
from signalbook.values import Finding

# Schema format, in lower case -> the content type its payloads have unless the definition says otherwise.
IMPLIED: Final = {
    "jsonschema": "application/json",
    "jsonstructure": "application/json",
    "xsd": "application/xml",
    "xmlschema": "application/xml",
    "avro": "application/avro",
    "protobuf": "application/protobuf",
}
# Formats with JSON as an additional encoding. The content type of a message shows which encoding it has.
_ALSO_IN_JSON: Final = ("application/json", "application/avro", "application/protobuf")
_ALIASES: Final = {
    "application/xml": frozenset({"text/xml"}),
    "application/avro": frozenset({"avro/binary", "application/vnd.apache.avro", "application/x-avro"}),
    "application/protobuf": frozenset(
        {"application/x-protobuf", "application/vnd.google.protobuf", "application/x-google-protobuf"}
    ),
}

_MAX_CACHED_CHARS: Final = 256


def implied_content_type(format: str) -> str:
    """Return the content type of payloads with a schema of ``format``, or ``""`` if it is unknown (F-33)."""
    return IMPLIED.get(format.partition("/")[0].strip().lower(), "")


def _cache_comparison(compare: Callable[[str, str], bool]) -> Callable[[str, str], bool]:
    """Return ``compare`` with a cache. Very long texts are not cached, because clients may send any number of them."""
    cached_compare = lru_cache(maxsize=4096)(compare)

    @wraps(compare)
    def compared(expected: str, actual: str) -> bool:
        return cached_compare(expected, actual) if len(actual) <= _MAX_CACHED_CHARS else compare(expected, actual)

    return compared


_TYPE_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}"
_WORD: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_CONTENT_TYPE: Final = re.compile(
    rf'{_TYPE_NAME}/{_TYPE_NAME}(?:[ \t]*;[ \t]*{_WORD}=(?:{_WORD}|"(?:[^"\\\r\n]|\\.)*"))*', re.ASCII
)


def is_content_type(text: str) -> bool:
    """Return True if ``text`` is a media type with its parameters (RFC 6838, 4.2; RFC 2045, 5.1)."""
    return _CONTENT_TYPE.fullmatch(text) is not None


@_cache_comparison
def same_content_type(declared: str, actual: str) -> bool:
    """Return True if ``actual`` is the declared type and has at least the declared parameters (K-20).

    Types and parameter names compare without case, and so do the values of ``charset``.
    """
    return parse_media_type(declared) == parse_media_type(actual) and _parse_parameters(declared) <= _parse_parameters(
        actual
    )


@_cache_comparison
def is_implied(implied: str, actual: str) -> bool:
    """Return True if ``actual`` is a name of an implied type (F-33), or the JSON encoding of the same format."""
    name = parse_media_type(actual)
    if implied in _ALSO_IN_JSON and is_json(name):
        return True
    if implied == "application/xml" and name.endswith("+xml"):
        return True
    return name == implied or name in aliases(implied)


def aliases(content_type: str) -> frozenset[str]:
    """Return other names of an implied type (F-33)."""
    return _ALIASES.get(content_type, frozenset())


def _parse_parameters(content_type: str) -> set[tuple[str, str]]:
    pairs = (part.partition("=") for part in content_type.split(";")[1:] if "=" in part)
    return {_normalise_parameter(name.strip().lower(), value.strip().strip('"')) for name, _, value in pairs}


def _normalise_parameter(name: str, value: str) -> tuple[str, str]:
    return name, value.lower() if name == "charset" else value


MAX_DECOMPRESSED: Final = 256 * 1024 * 1024
_MAX_LAYERS: Final = 4
_PIECE: Final = 4096
_IDENTITY: Final = ("", "identity")
TEXT_INDICATOR: Final = "payload_format_indicator"
_UTF_8: Final = 1


class Unreadable(Exception):
    """The error for a body that cannot be decoded as its metadata says. ``reason`` and ``finding`` explain it."""

    def __init__(self, reason: Reason, message: str, rule: str = "content_encoding") -> None:
        self.reason = reason
        self.finding = Finding(path="", rule=rule, message=message)
        super().__init__(message)


def unpack_message(message: Message) -> Message:
    """Return the message with its body decoded from its content encoding. Raises ``Unreadable``."""
    if not message.body or not _list_encodings(message.content_encoding):
        return message
    body = unpack_body(message.content_encoding, message.body, MAX_DECOMPRESSED)
    return msgspec.structs.replace(message, body=body, content_encoding="")


def unpack_body(content_encoding: str, body: bytes, limit: int) -> bytes:
    """Return ``body`` decoded from its content encoding. Raises ``Unreadable``, also for more than ``limit`` bytes."""
    names = _list_encodings(content_encoding) if body else []
    if len(names) > _MAX_LAYERS:
        raise Unreadable(Reason.UNSUPPORTED_FORMAT, f"packed {len(names)} times over; at most {_MAX_LAYERS} are undone")
    # The encoding named last was applied last, so it is decoded first (RFC 9110 8.4).
    for name in reversed(names):
        body = unpack(name, body, limit)
    return body


def pack_message(message: Message) -> Message:
    """Return the message with its plain body encoded by its content encoding. Raises ``Unreadable``."""
    body = message.body
    for name in _list_encodings(message.content_encoding) if body else ():
        writer = _WRITERS.get(name)
        if writer is None:
            text = f"no encoder for content encoding {name[:50]!r}; there are: {', '.join(_WRITERS)}"
            raise Unreadable(Reason.UNSUPPORTED_FORMAT, text)
        body = writer(body or b"")
    return msgspec.structs.replace(message, body=body)


def _list_encodings(text: str) -> list[str]:
    """Return the encodings of a body, in the order in which they were applied."""
    return [name for part in text.split(",") if (name := part.strip().lower()) not in _IDENTITY]


def check_text(message: Message) -> None:
    """Raise ``Unreadable`` if ``TEXT_INDICATOR`` (MQTT 5) marks the body as UTF-8, and it is not UTF-8."""
    if message.sections[TEXT_INDICATOR] == _UTF_8:
        try:
            (message.body or b"").decode()
        except UnicodeDecodeError as error:
            text = f"{TEXT_INDICATOR} 1 says that the payload is UTF-8 text, but byte {error.start} is not UTF-8"
            raise Unreadable(Reason.DECODE_ERROR, text, TEXT_INDICATOR) from None


def unpack(encoding: str, body: bytes, limit: int) -> bytes:
    """Return ``body`` decoded from one ``encoding``. Raises ``Unreadable``, also for more than ``limit`` bytes."""
    reader = _READERS.get(encoding)
    if reader is None:
        text = f"no decoder for content encoding {encoding[:50]!r}; there are: {', '.join(_READERS)}"
        raise Unreadable(Reason.UNSUPPORTED_FORMAT, text)
    try:
        content = reader(body, limit)
    except (zlib.error, EOFError, OSError) as error:
        raise Unreadable(Reason.DECODE_ERROR, f"the body is not {encoding}, or cut off: {error}") from None
    if len(content) > limit:
        raise Unreadable(Reason.DECODE_ERROR, f"the {encoding} body unpacks to more than {limit} bytes")
    return content


def _inflate(window: int, body: bytes, limit: int) -> bytes:
    """Inflate all members of a zlib or gzip stream, up to one byte more than ``limit``. ``window`` is zlib's ``wbits``.

    After each member zlib copies its remaining input. So it gets small pieces, because there may be millions of empty
    members. Raises ``EOFError`` if the stream ends early.
    """
    inflated, place = bytearray(), 0
    stream = zlib.decompressobj(window)
    while place < len(body) and len(inflated) <= limit:
        if stream.eof:
            stream = zlib.decompressobj(window)
        piece = body[place : place + _PIECE]
        inflated += stream.decompress(piece, limit + 1 - len(inflated))
        place += len(piece) - len(stream.unused_data)
    if len(inflated) <= limit and not stream.eof:
        raise EOFError("it ends early")
    return bytes(inflated)


def _decompress_by_arrow(codec: str, body: bytes, limit: int) -> bytes:
    """Decompress by a codec of Arrow, with the same limit as ``_inflate``."""
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        text = f"content encoding {codec} needs pyarrow: {install('pipeline')}"
        raise Unreadable(Reason.UNSUPPORTED_FORMAT, text) from None
    with pa.input_stream(pa.BufferReader(body), compression=codec) as stream:
        content: bytes = stream.read(limit + 1)
        return content


_READERS: Final[dict[str, Callable[[bytes, int], bytes]]] = {
    "gzip": partial(_inflate, 31),
    "x-gzip": partial(_inflate, 31),
    "deflate": partial(_inflate, 47),
    "br": partial(_decompress_by_arrow, "brotli"),
    "zstd": partial(_decompress_by_arrow, "zstd"),
}

_gzip: Final = partial(gzip.compress, mtime=0)  # without a time, so that equal input gives equal bytes
_WRITERS: Final[dict[str, Callable[[bytes], bytes]]] = {"gzip": _gzip, "x-gzip": _gzip, "deflate": zlib.compress}


# The label of a schema Version with the number that a registry with Confluent's API gave it.
NUMBER_LABEL: Final = "confluent.id"
SCHEMA_HEADER: Final = "__value_schema_id"
"""The header of Kafka records that names the schema of the value instead of a prefix."""
KEY_SCHEMA_HEADER: Final = "__key_schema_id"
"""The header of Kafka records that names the schema of the key instead of a prefix."""
_NUMBERED: Final = 0
_UNIQUE: Final = 1
_PREFIX_BYTES: Final = 5
_GUID_PREFIX_BYTES: Final = 17
_MAX_INDICES: Final = 64


class WriterSchema(NamedTuple):
    """The number or guid of the schema that wrote a payload, and the payload without prefix.

    ``indices`` are the path to the message type in a Protobuf schema: the index of a type in the document, then the
    index of a type nested in it, and so on.
    """

    id: int | str
    indices: tuple[int, ...]
    payload: bytes


def reference_of_number(resource: str, number: int | str) -> str:
    """Return the reference for looking up the Version of the schema ``resource`` with this number or guid."""
    return f"{resource}?{NUMBER_LABEL}={number}"


def has_schema_header(message: Message) -> bool:
    """Return True if a header of a message names the schema of its payload."""
    return message.protocol == "KAFKA" and any(name == SCHEMA_HEADER for name, _ in message.sections["headers"])


def read_writer_schema(message: Message, payload: bytes, format: str) -> WriterSchema:
    """Return the schema that wrote ``payload``. Raises ``ValueError`` if the message does not name one."""
    header = _find_schema_header(message)
    if header is None:
        writer, remainder = read_schema_id(payload, format)
        return writer._replace(payload=remainder)
    writer, remainder = read_schema_id(header, format)
    if remainder:
        raise ValueError(f"the header {SCHEMA_HEADER} has {len(remainder)} bytes behind its schema")
    return writer._replace(payload=payload)


def schema_id(message: Message, payload: bytes) -> int | str:
    """Return the number or guid of the schema that wrote ``payload``, without checking what follows it.

    Raises ``ValueError`` if the message does not name a schema.
    """
    header = _find_schema_header(message)
    return read_schema_id(payload if header is None else header, "")[0].id


def _find_schema_header(message: Message) -> bytes | None:
    if not has_schema_header(message):
        return None
    # Confluent's serializers add the header to those that a record has, and its deserializers read the last one.
    return [value for name, value in message.sections["headers"] if name == SCHEMA_HEADER][-1] or b""


def read_schema_id(data: bytes, format: str) -> tuple[WriterSchema, bytes]:
    """Read a schema id at the beginning of ``data``, and return it with the remaining bytes. Raises ``ValueError``.

    If ``format`` is Protobuf, the id is followed by the indices of the message type.
    """
    kind = data[0] if data else -1
    identifier: int | str
    if kind == _NUMBERED and len(data) >= _PREFIX_BYTES:
        identifier, place = int.from_bytes(data[1:_PREFIX_BYTES], "big"), _PREFIX_BYTES
    elif kind == _UNIQUE and len(data) >= _GUID_PREFIX_BYTES:
        identifier, place = str(UUID(bytes=data[1:_GUID_PREFIX_BYTES])), _GUID_PREFIX_BYTES
    else:
        raise ValueError("the payload does not begin with a zero byte and four bytes of a schema's number")
    indices: tuple[int, ...] = ()
    if format.lower().startswith("protobuf"):
        indices, place = _read_indices(data, place)
    return WriterSchema(identifier, indices, b""), data[place:]


def _read_indices(data: bytes, place: int) -> tuple[tuple[int, ...], int]:
    """Read the indices of a message type at ``place``, and return them with the position after them.

    The number of indices comes first. The number 0 stands for the single index 0.
    """
    count, place = _read_varint(data, place)
    if not 0 <= count <= _MAX_INDICES:
        raise ValueError(f"a path of {count} indices leads to no message type")
    indices = []
    for _ in range(count):
        index, place = _read_varint(data, place)
        indices.append(index)
    return tuple(indices) or (0,), place


def _read_varint(payload: bytes, place: int) -> tuple[int, int]:
    """Read a zigzag varint at ``place``, and return it with the position after it. Raises ``ValueError``."""
    value = 0
    for index, byte in enumerate(payload[place : place + _PREFIX_BYTES]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), place + index + 1
    raise ValueError("the indices of the message type are cut off")

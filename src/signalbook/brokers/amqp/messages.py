"""Encoding and decoding of AMQP 1.0 values and messages (parts 1 and 3).

The AMQP types null, boolean, long, double, uuid, string, binary, list and map are Python's own types. Other types that
can be encoded have a class here. Numbers of types that are only decoded become plain ``int`` and ``float``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import singledispatch
from typing import Any, Final
from uuid import UUID

from signalbook.brokers.connection import BrokerUnavailable

_DEEPEST: Final = 32
_MOST_EQUAL: Final = 65_536
_UNIX_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class AMQPError(BrokerUnavailable):
    """The error for data of a peer that are not valid AMQP 1.0, and for values that cannot be encoded."""


class Symbol(str):
    """A value of the AMQP type symbol: a name in ASCII."""

    __slots__ = ()


class Ubyte(int):
    """An unsigned integer of 8 bits."""


class Ushort(int):
    """An unsigned integer of 16 bits."""


class Uint(int):
    """An unsigned integer of 32 bits."""


class Ulong(int):
    """An unsigned integer of 64 bits."""


class Timestamp(int):
    """A value of the AMQP type timestamp: milliseconds since 1970 in UTC."""

    def moment(self) -> datetime | int:
        """Return the time as a ``datetime``, or the number if it is outside of the range of ``datetime``."""
        try:
            return _UNIX_EPOCH + timedelta(milliseconds=self)
        except OverflowError:
            return int(self)


@dataclass(frozen=True, slots=True)
class DescribedValue:
    """A value with a descriptor, a number or symbol that states the meaning of the value."""

    descriptor: Any
    value: Any


_LAYOUTS: Final = {Ubyte: ("B", 0x50), Ushort: ("H", 0x60), Timestamp: ("q", 0x83), float: ("d", 0x82)}
_SHORTENED: Final = {Uint: (b"\x43", 0x52, "I", 0x70), Ulong: (b"\x44", 0x53, "Q", 0x80)}


@singledispatch
def encode(value: Any) -> bytes:
    """Return the shortest encoding of ``value``. Raises ``AMQPError`` if no AMQP type can hold it."""
    raise AMQPError(f"there is no AMQP type for {type(value).__name__}")


def decode(data: bytes) -> list[Any]:
    """Return all values in ``data``. Raises ``AMQPError``."""
    return [value for value, _ in decode_each(data)]


def decode_each(data: bytes) -> Iterator[tuple[Any, int]]:
    """Yield each value in ``data`` with the offset of its end. Raises ``AMQPError``."""
    reader = _Reader(data)
    while reader.position < len(data):
        value = reader.read_value(0)
        yield value, reader.position


def decode_first(data: bytes) -> tuple[Any, int]:
    """Return the first value in ``data`` and the offset of its end. Raises ``AMQPError``."""
    reader = _Reader(data)
    return reader.read_value(0), reader.position


@encode.register
def _(value: None) -> bytes:  # noqa: ARG001 - the only value is None
    return b"\x40"


@encode.register
def _(value: bool) -> bytes:
    return b"\x41" if value else b"\x42"


@encode.register
def _(value: int) -> bytes:
    return _pack("b", 0x55, value) if -128 <= value < 128 else _pack("q", 0x81, value)


@encode.register(Ubyte)
@encode.register(Ushort)
@encode.register(Timestamp)
@encode.register(float)
def _(value: float) -> bytes:
    return _pack(*_LAYOUTS[type(value)], value)


@encode.register(Uint)
@encode.register(Ulong)
def _(value: int) -> bytes:
    zero, short, layout, code = _SHORTENED[type(value)]
    if value == 0:
        return zero
    return _pack("B", short, value) if value < 256 else _pack(layout, code, value)


@encode.register
def _(value: UUID) -> bytes:
    return b"\x98" + value.bytes


@encode.register
def _(value: bytes) -> bytes:
    return _encode_sized(0xA0, 0xB0, value)


@encode.register
def _(value: str) -> bytes:
    return _encode_sized(0xA1, 0xB1, _encode_text(value, "utf-8"))


@encode.register
def _(value: Symbol) -> bytes:
    return _encode_sized(0xA3, 0xB3, _encode_text(value, "ascii"))


@encode.register
def _(value: list) -> bytes:  # type: ignore[type-arg]  # ``singledispatch`` uses only the class
    return _encode_compound(0xC0, 0xD0, value) if value else b"\x45"


@encode.register
def _(value: dict) -> bytes:  # type: ignore[type-arg]
    return _encode_compound(0xC1, 0xD1, [part for item in value.items() for part in item])


@encode.register
def _(value: DescribedValue) -> bytes:
    return b"\x00" + encode(value.descriptor) + encode(value.value)


def _pack(format: str, code: int, value: float) -> bytes:
    try:
        return struct.pack(f"!B{format}", code, value)
    except struct.error:
        raise AMQPError(f"{value} is out of the range of its AMQP type") from None


def _encode_sized(short: int, long: int, content: bytes) -> bytes:
    if len(content) < 256:
        return bytes((short, len(content))) + content
    return struct.pack("!BI", long, len(content)) + content


def _encode_compound(short: int, long: int, parts: list[Any]) -> bytes:
    content = b"".join(encode(part) for part in parts)
    if len(content) < 255 and len(parts) < 256:
        return bytes((short, len(content) + 1, len(parts))) + content
    return struct.pack("!BII", long, len(content) + 4, len(parts)) + content


def _encode_text(value: str, encoding: str) -> bytes:
    try:
        return value.encode(encoding)
    except UnicodeEncodeError:
        raise AMQPError(f"{value!r} cannot be written in {encoding}") from None


_CONSTANTS: Final[dict[int, Any]] = {0x40: None, 0x41: True, 0x42: False, 0x43: Uint(0), 0x44: Ulong(0)}
_NUMBER_LAYOUTS: Final[dict[int, tuple[str, Callable[[Any], Any]]]] = {
    0x50: ("!B", Ubyte),
    0x51: ("!b", int),
    0x52: ("!B", Uint),
    0x53: ("!B", Ulong),
    0x54: ("!b", int),
    0x55: ("!b", int),
    0x56: ("!B", bool),
    0x60: ("!H", Ushort),
    0x61: ("!h", int),
    0x70: ("!I", Uint),
    0x71: ("!i", int),
    0x72: ("!f", float),
    0x80: ("!Q", Ulong),
    0x81: ("!q", int),
    0x82: ("!d", float),
    0x83: ("!q", Timestamp),
}
_FIXED: Final[dict[int, tuple[int, Callable[[bytes], Any]]]] = {
    0x73: (4, lambda raw: raw.decode("utf-32-be")),
    0x74: (4, bytes),
    0x84: (8, bytes),
    0x94: (16, bytes),
    0x98: (16, lambda raw: UUID(bytes=raw)),
}
_VARIABLE: Final[dict[int, Callable[[bytes], Any]]] = {
    0xA0: bytes,
    0xA1: lambda raw: raw.decode("utf-8"),
    0xA3: lambda raw: Symbol(raw.decode("ascii")),
}


class _Reader:
    """A decoder of values from bytes of a peer. It checks all claimed sizes, counts and depths."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def read_value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise AMQPError(f"AMQP values nest deeper than {_DEEPEST}")
        code = self._read_byte()
        if code == 0:
            return DescribedValue(self.read_value(depth + 1), self.read_value(depth + 1))
        return self._of(code, depth)

    def _of(self, code: int, depth: int) -> Any:
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        if code == 0x45:
            return []
        if code in _NUMBER_LAYOUTS:
            layout, make = _NUMBER_LAYOUTS[code]
            return make(struct.unpack(layout, self._take(struct.calcsize(layout)))[0])
        if code in _FIXED:
            size, read = _FIXED[code]
            return self._decode_text(read, self._take(size))
        kind = code & 0xEF  # the wide form of a type differs by this bit
        wide = bool(code & 0x10)
        if kind in _VARIABLE:
            return self._decode_text(_VARIABLE[kind], self._take(self._read_length(wide)))
        if kind in (0xC0, 0xC1, 0xE0):
            return self._read_compound(kind, wide, depth)
        raise AMQPError(f"0x{code:02x} is no AMQP type")

    def _read_compound(self, kind: int, wide: bool, depth: int) -> Any:
        end = self._read_length(wide)
        end += self.position
        count = self._read_length(wide)
        if end > len(self._data):
            raise AMQPError("an AMQP value is cut short")
        parts = self._read_array(count, depth) if kind == 0xE0 else self._read_parts(count, end, depth)
        if self.position != end:
            raise AMQPError("the size of an AMQP list, map or array is wrong")
        return _map(parts) if kind == 0xC1 else parts

    def _read_parts(self, count: int, end: int, depth: int) -> list[Any]:
        if count > end - self.position:
            raise AMQPError("an AMQP list or map is shorter than it says")
        return [self.read_value(depth + 1) for _ in range(count)]

    def _read_array(self, count: int, depth: int) -> list[Any]:
        code = self._read_byte()
        if code == 0:
            raise AMQPError("arrays of described values are not read")
        if count > _MOST_EQUAL:  # limit the count, because elements may take no bytes
            raise AMQPError(f"an AMQP array has more than {_MOST_EQUAL} elements")
        return [self._of(code, depth + 1) for _ in range(count)]

    def _read_length(self, wide: bool) -> int:
        return int.from_bytes(self._take(4)) if wide else self._read_byte()

    def _decode_text(self, read: Callable[[bytes], Any], raw: bytes) -> Any:
        try:
            return read(raw)
        except UnicodeDecodeError:
            raise AMQPError("an AMQP string is not in its encoding") from None

    def _read_byte(self) -> int:
        if self.position >= len(self._data):
            raise AMQPError("an AMQP value is cut short")
        self.position += 1
        return self._data[self.position - 1]

    def _take(self, size: int) -> bytes:
        data = self._data[self.position : self.position + size]
        if len(data) < size:
            raise AMQPError("an AMQP value is cut short")
        self.position += size
        return data


def _map(parts: list[Any]) -> dict[Any, Any]:
    if len(parts) % 2:
        raise AMQPError("an AMQP map has a key without a value")
    try:
        return dict(zip(parts[::2], parts[1::2], strict=True))
    except TypeError:
        raise AMQPError("a key of an AMQP map is no simple value") from None


_HEADER: Final = 0x70
_PROPERTIES: Final = 0x73
_APPLICATION_PROPERTIES: Final = 0x74
_DATA: Final = 0x75
_SEQUENCE: Final = 0x76
_VALUE_SECTION: Final = 0x77
_PROPERTY_NAMES: Final = (
    "message-id",
    "user-id",
    "to",
    "subject",
    "reply-to",
    "correlation-id",
    "content-type",
    "content-encoding",
    "absolute-expiry-time",
    "creation-time",
    "group-id",
    "group-sequence",
    "reply-to-group-id",
)
_LISTS: Final = {
    _HEADER: ("header", ("durable", "priority", "ttl", "first-acquirer", "delivery-count")),
    _PROPERTIES: ("properties", _PROPERTY_NAMES),
}
_MAPS: Final = {
    0x71: "delivery-annotations",
    0x72: "message-annotations",
    _APPLICATION_PROPERTIES: "application-properties",
    0x78: "footer",
}
_SYMBOLS: Final = ("content-type", "content-encoding")


@dataclass(frozen=True, slots=True, kw_only=True)
class AMQPMessage:
    """A message. ``body`` is the bytes of the data sections, or else the value or list of values of the body.

    The keys of ``properties`` are the names in the specification. ``durable`` asks the broker to store the message on
    disk.
    """

    body: Any = b""
    properties: Mapping[str, Any] = field(default_factory=dict)
    application_properties: Mapping[str, Any] = field(default_factory=dict)
    durable: bool = False


def to_bytes(message: AMQPMessage) -> bytes:
    """Return ``message`` encoded, with its body as one data section. Raises ``AMQPError``."""
    listed = [_make_property(name, message.properties.get(name)) for name in _PROPERTY_NAMES]
    sections: list[tuple[int, Any]] = [(_HEADER, [message.durable]), (_PROPERTIES, trim(listed))]
    if message.application_properties:
        sections.append((_APPLICATION_PROPERTIES, dict(message.application_properties)))
    sections.append((_DATA, message.body))
    return b"".join(encode(DescribedValue(Ulong(code), value)) for code, value in sections)


def split_body(data: bytes) -> tuple[bytes, Any]:
    """Return the bytes of all sections of a message except the body, and the body as in ``AMQPMessage.body``.

    Raises ``AMQPError``.
    """
    start, around, body = 0, bytearray(), dict[int, list[Any]]()
    for section, end in decode_each(data):
        if not isinstance(section, DescribedValue) or not isinstance(section.descriptor, int):
            raise AMQPError("a section of an AMQP message does not say what it is")
        if section.descriptor in (_DATA, _SEQUENCE, _VALUE_SECTION):
            body.setdefault(section.descriptor, []).append(section.value)
        else:
            around += data[start:end]
        start = end
    return bytes(around), _join_body(body)


def sections(around: bytes) -> dict[str, dict[Any, Any]]:
    """Return the fields of each section by the name of the section, without null fields.

    ``around`` are the bytes of all sections except the body, as ``split_body`` returns them. Raises ``AMQPError``.
    """
    fields_by_section: dict[str, dict[Any, Any]] = {}
    for section in decode(around):
        code = section.descriptor if isinstance(section, DescribedValue) else None
        if code in _LISTS and isinstance(section.value, list):
            name, names = _LISTS[code]
            fields = dict(zip(names, section.value, strict=False))
        elif code in _MAPS and isinstance(section.value, dict):
            name, fields = _MAPS[code], section.value
        else:
            raise AMQPError("a section of an AMQP message is none of those that there are")
        fields_by_section[name] = {key: value for key, value in fields.items() if value is not None}
    return fields_by_section


def body_bytes(body: Any) -> bytes:
    """Return ``body`` as bytes: bytes unchanged, text in UTF-8, other values in their AMQP encoding.

    None becomes empty bytes. Raises ``AMQPError`` for a value that cannot be encoded.
    """
    if body is None or isinstance(body, bytes):
        return body or b""
    return body.encode() if isinstance(body, str) else encode(body)


def trim(fields: list[Any]) -> list[Any]:
    """Remove nulls from the end of ``fields``, where they are equal to missing fields, and return ``fields``."""
    while fields and fields[-1] is None:
        fields.pop()
    return fields


def _make_property(name: str, value: Any) -> Any:
    return Symbol(value) if name in _SYMBOLS and value is not None else value


def _join_body(sections: Mapping[int, list[Any]]) -> Any:
    if _DATA in sections:
        if not all(isinstance(part, bytes) for part in sections[_DATA]):
            raise AMQPError("the data of an AMQP message is no binary")
        return b"".join(sections[_DATA])
    if _VALUE_SECTION in sections:
        return sections[_VALUE_SECTION][0]
    return sections.get(_SEQUENCE, [b""])[0]

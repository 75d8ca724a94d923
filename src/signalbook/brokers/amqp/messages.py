"""Messages of AMQP 1.0 in the default format (part 3, section 2): sections to bytes and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from signalbook.brokers.amqp.types import AMQPError, Described, Symbol, Ulong, decode, decode_each, encode

_HEADER: Final = 0x70
_PROPERTIES: Final = 0x73
_APPLICATION_PROPERTIES: Final = 0x74
_DATA: Final = 0x75
_SEQUENCE: Final = 0x76
_VALUE: Final = 0x77
_NAMES: Final = (
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
    _PROPERTIES: ("properties", _NAMES),
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
    """A message: ``body`` is bytes for data sections, else the value or the sequence of values that there is.

    ``properties`` are by the names of the specification; ``durable`` asks the broker to keep it on disk.
    """

    body: Any = b""
    properties: Mapping[str, Any] = field(default_factory=dict)
    application_properties: Mapping[str, Any] = field(default_factory=dict)
    durable: bool = False


def to_bytes(message: AMQPMessage) -> bytes:
    """The message with its body as one data section. Raises ``AMQPError``."""
    listed = [_property(name, message.properties.get(name)) for name in _NAMES]
    sections: list[tuple[int, Any]] = [(_HEADER, [message.durable]), (_PROPERTIES, trimmed(listed))]
    if message.application_properties:
        sections.append((_APPLICATION_PROPERTIES, dict(message.application_properties)))
    sections.append((_DATA, message.body))
    return b"".join(encode(Described(Ulong(code), value)) for code, value in sections)


def from_bytes(data: bytes) -> AMQPMessage:
    """The message that ``data`` holds; annotations and footers are passed over. Raises ``AMQPError``."""
    sections: dict[int, list[Any]] = {}
    for section in decode(data):
        if not isinstance(section, Described) or not isinstance(section.descriptor, int):
            raise AMQPError("a section of an AMQP message does not say what it is")
        sections.setdefault(section.descriptor, []).append(section.value)
    header = _first(sections, _HEADER, list)
    properties = dict(zip(_NAMES, _first(sections, _PROPERTIES, list), strict=False))
    return AMQPMessage(
        body=_body(sections),
        properties={name: value for name, value in properties.items() if value is not None},
        application_properties=_first(sections, _APPLICATION_PROPERTIES, dict),
        durable=bool(header and header[0]),
    )


def taken_apart(data: bytes) -> tuple[bytes, Any]:
    """All sections of a message but its body, as they were sent, and the body as ``AMQPMessage`` has it.

    Raises ``AMQPError``.
    """
    start, around, body = 0, bytearray(), dict[int, list[Any]]()
    for section, end in decode_each(data):
        if not isinstance(section, Described) or not isinstance(section.descriptor, int):
            raise AMQPError("a section of an AMQP message does not say what it is")
        if section.descriptor in (_DATA, _SEQUENCE, _VALUE):
            body.setdefault(section.descriptor, []).append(section.value)
        else:
            around += data[start:end]
        start = end
    return bytes(around), _body(body)


def sections(around: bytes) -> dict[str, dict[Any, Any]]:
    """The sections around a body by their names, fields by theirs without those that are null. Raises ``AMQPError``."""
    found: dict[str, dict[Any, Any]] = {}
    for section in decode(around):
        code = section.descriptor if isinstance(section, Described) else None
        if code in _LISTS and isinstance(section.value, list):
            name, names = _LISTS[code]
            fields = dict(zip(names, section.value, strict=False))
        elif code in _MAPS and isinstance(section.value, dict):
            name, fields = _MAPS[code], section.value
        else:
            raise AMQPError("a section of an AMQP message is none of those that there are")
        found[name] = {key: value for key, value in fields.items() if value is not None}
    return found


def trimmed(fields: list[Any]) -> list[Any]:
    """A list without the nulls at its end, which mean the same."""
    while fields and fields[-1] is None:
        fields.pop()
    return fields


def _property(name: str, value: Any) -> Any:
    return Symbol(value) if name in _SYMBOLS and value is not None else value


def _first(sections: Mapping[int, list[Any]], code: int, kind: type[Any]) -> Any:
    found = sections.get(code, [kind()])[0]
    if not isinstance(found, kind):
        raise AMQPError(f"section 0x{code:02x} of an AMQP message is no {kind.__name__}")
    return found


def _body(sections: Mapping[int, list[Any]]) -> Any:
    if _DATA in sections:
        if not all(isinstance(part, bytes) for part in sections[_DATA]):
            raise AMQPError("the data of an AMQP message is no binary")
        return b"".join(sections[_DATA])
    if _VALUE in sections:
        return sections[_VALUE][0]
    return sections.get(_SEQUENCE, [b""])[0]

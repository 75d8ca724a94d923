"""Represent a message as it was received, before it is matched with definitions (K-7)."""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

import msgspec


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """An inbound message of any protocol, not interpreted yet.

    ``protocol`` is the canonical name of its binding (``HTTP``, ``KAFKA``, ...), ``""`` for a message in a file.
    ``sections`` holds headers and other properties of the protocol, as its module in ``bindings/`` documents.
    ``body`` is ``None`` if there is no body, in protocols that distinguish this from an empty body. ``reference`` is a
    text for people that says where the message comes from.
    """

    protocol: str = ""
    content_type: str = ""
    content_encoding: str = ""
    body: bytes | None = None
    sections: Mapping[str, Any] = {}
    received_at: datetime | None = None
    reference: str = ""


class Reason(StrEnum):
    """The reason why a message is rejected (K-44)."""

    NO_MATCH = "no_match"
    UNKNOWN_KIND = "unknown_kind"
    AMBIGUOUS = "ambiguous"
    METADATA_VIOLATION = "metadata_violation"
    PLACEHOLDER_CONFLICT = "placeholder_conflict"
    NOT_CLOUDEVENT = "not_cloudevent"
    INVALID_CLOUDEVENT = "invalid_cloudevent"
    UNSUPPORTED_FORMAT = "unsupported_format"
    SCHEMA_NOT_FOUND = "schema_not_found"
    DECODE_ERROR = "decode_error"
    SCHEMA_VIOLATION = "schema_violation"
    MAPPING_ERROR = "mapping_error"
    CONTRACT_UNAVAILABLE = "contract_unavailable"


# The rule of findings about an object that has a name twice.
DUPLICATE: Final = "duplicate"
_ENCODE: Final = json.JSONEncoder(separators=(",", ":")).encode
_AS_THEY_ARE: Final = frozenset({str, int, bool, type(None)})
# Sections are cut off below this depth. No binding reads deeper values.
_DEEPEST: Final = 64
_CUT: Final = "…"
_TEXT_FIELDS: Final = ("protocol", "content_type", "content_encoding", "reference")


def find_address(message: Message) -> str | None:
    """Return the address of a message: its HTTP path, topic, subject, or ``to`` in its properties, if any."""
    properties = message.sections.get("properties")
    locations = [message.sections.get(section) for section in ("path", "topic", "topic_name", "subject")]
    locations += [properties.get("to")] if isinstance(properties, Mapping) else []
    return next((location for location in locations if isinstance(location, str)), None)


def to_record(message: Message) -> str:
    """Return everything of a message except its body as JSON. Empty members are left out."""
    record: dict[str, Any] = {name: getattr(message, name) for name in _TEXT_FIELDS if getattr(message, name)}
    if message.received_at is not None:
        record["received_at"] = message.received_at.isoformat()
    if message.body is None:
        record["body"] = None
    if message.sections:
        record["sections"] = _to_plain(message.sections, _DEEPEST)
    return _ENCODE(record)


def format_sections(sections: Mapping[str, Any]) -> str:
    """Return the sections of a message as JSON, in the form that ``to_record`` uses."""
    return _ENCODE(_to_plain(sections, _DEEPEST))


def parse_sections(text: str) -> dict[str, Any]:
    """Return the sections from the JSON that ``format_sections`` made."""
    sections: dict[str, Any] = _from_plain(json.loads(text))
    return sections


def of_record(record: str, body: bytes) -> Message:
    """Return the message with ``body`` and the other members from ``record``, which ``to_record`` made.

    Raises ``ValueError`` if ``record`` is invalid.
    """
    try:
        fields = json.loads(record)
        if not isinstance(fields.get("sections", {}), dict):
            raise TypeError("sections are no object")
        received_at = fields.get("received_at")
        return Message(
            **{name: str(fields[name]) for name in _TEXT_FIELDS if name in fields},
            body=None if "body" in fields else body,
            sections=_from_plain(fields["sections"]) if "sections" in fields else {},
            received_at=None if received_at is None else datetime.fromisoformat(received_at),
        )
    except (ArithmeticError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"not the record of a message: {error}") from None


def _to_plain(value: Any, depth: int) -> Any:
    """Return a value in a form that JSON can represent, so that ``_from_plain`` can restore it."""
    kind = type(value)
    if kind in _AS_THEY_ARE or isinstance(value, (str, int)):
        return value
    if depth == 0:
        return _CUT
    # Nearly all remaining values are headers: tuples of a name and bytes. So check for these types first.
    if kind is bytes:
        return {"$bytes": b2a_base64(value, newline=False).decode()}
    if kind is tuple:
        return [_to_plain(item, depth - 1) for item in value]
    match value:
        case float():
            return value if math.isfinite(value) else {"$float": str(value)}
        case tuple():
            return [_to_plain(item, depth - 1) for item in value]
        case list():
            return {"$list": [_to_plain(item, depth - 1) for item in value]}
        case Mapping():
            return _map(value, depth - 1)
    for kind, name, write in _WRITERS:
        if isinstance(value, kind):
            return {name: write(value)}
    return str(value)


def _map(value: Mapping[Any, Any], depth: int) -> Any:
    # Names that begin with a dollar mark special values. A map that has such a name is written as pairs.
    if all(isinstance(name, str) and not name.startswith("$") for name in value):
        return {name: _to_plain(item, depth) for name, item in value.items()}
    return {"$map": [[_to_plain(name, depth), _to_plain(item, depth)] for name, item in value.items()]}


def _from_plain(plain: Any) -> Any:
    """Restore a value from the JSON that ``_to_plain`` made of it."""
    if isinstance(plain, list):
        return tuple(map(_from_plain, plain))
    if not isinstance(plain, dict):
        return plain
    name = next(iter(plain), "")
    if name.startswith("$"):
        return _READERS[name](plain[name])
    return {name: _from_plain(item) for name, item in plain.items()}


_WRITERS: Final[tuple[tuple[Any, str, Callable[[Any], str]], ...]] = (
    ((bytes, bytearray, memoryview), "$bytes", lambda value: b64encode(bytes(value)).decode()),
    (datetime, "$time", datetime.isoformat),
    (UUID, "$uuid", str),
    (Decimal, "$decimal", str),
)
_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "$float": float,
    "$bytes": b64decode,
    "$time": datetime.fromisoformat,
    "$uuid": UUID,
    "$decimal": Decimal,
    "$list": lambda items: [_from_plain(item) for item in items],
    "$map": lambda pairs: {_from_plain(name): _from_plain(item) for name, item in pairs},
}

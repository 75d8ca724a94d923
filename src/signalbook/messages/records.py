"""Messages as text: everything but the body, with nothing lost, so that a message can be rebuilt years later.

The text is JSON, for people and queries to read. Its arrays are tuples; what JSON has no value for is an object with
one member, whose name begins with ``$``.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from signalbook.messages.message import Message

# What lies deeper than any binding reads is cut off.
_DEEPEST: Final = 64
_CUT: Final = "…"
_TEXTS: Final = ("protocol", "content_type", "content_encoding", "reference")


def to_record(message: Message) -> str:
    """All of a message but its body, as JSON; members that are empty are left out."""
    record: dict[str, Any] = {name: getattr(message, name) for name in _TEXTS if getattr(message, name)}
    if message.received_at is not None:
        record["received_at"] = message.received_at.isoformat()
    if message.body is None:
        record["body"] = None
    if message.sections:
        record["sections"] = _plain(message.sections, _DEEPEST)
    return json.dumps(record, separators=(",", ":"))


def of_record(record: str, body: bytes) -> Message:
    """The message that ``to_record`` made ``record`` of. Raises ``ValueError`` for a text that is no record."""
    try:
        found = json.loads(record)
        if not isinstance(found.get("sections", {}), dict):
            raise TypeError("sections are no object")
        received_at = found.get("received_at")
        return Message(
            **{name: str(found[name]) for name in _TEXTS if name in found},
            body=None if "body" in found else body,
            sections=_value(found["sections"]) if "sections" in found else {},
            received_at=None if received_at is None else datetime.fromisoformat(received_at),
        )
    except (ArithmeticError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"not the record of a message: {error}") from None


def _plain(value: Any, depth: int) -> Any:
    """A value as JSON has it."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if depth == 0:
        return _CUT
    match value:
        case float():
            return value if math.isfinite(value) else {"$float": str(value)}
        case tuple():
            return [_plain(item, depth - 1) for item in value]
        case list():
            return {"$list": [_plain(item, depth - 1) for item in value]}
        case Mapping():
            return _map(value, depth - 1)
    for kind, name, write in _WRITERS:
        if isinstance(value, kind):
            return {name: write(value)}
    return str(value)


def _map(value: Mapping[Any, Any], depth: int) -> Any:
    if all(isinstance(name, str) and not name.startswith("$") for name in value):
        return {name: _plain(item, depth) for name, item in value.items()}
    return {"$map": [[_plain(name, depth), _plain(item, depth)] for name, item in value.items()]}


def _value(plain: Any) -> Any:
    """What ``_plain`` made JSON of."""
    if isinstance(plain, list):
        return tuple(map(_value, plain))
    if not isinstance(plain, dict):
        return plain
    name = next(iter(plain), "")
    if name.startswith("$"):
        return _READERS[name](plain[name])
    return {name: _value(item) for name, item in plain.items()}


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
    "$list": lambda items: [_value(item) for item in items],
    "$map": lambda pairs: {_value(name): _value(item) for name, item in pairs},
}

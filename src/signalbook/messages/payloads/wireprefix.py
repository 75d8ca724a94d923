"""The prefix that Confluent's serializers put before a payload: a zero byte and the number of the schema that wrote it.

A label of a schema's Version holds its number. Nothing in a message says that there is such a prefix, so
a policy has to (``wire_prefix``).
"""

from __future__ import annotations

from typing import Final

# Label of a schema Version: the number that a schema registry of Confluent's kind gave it.
LABEL: Final = "confluent.id"
_MAGIC: Final = b"\x00"
_LENGTH: Final = 5
_MAX_DEPTH: Final = 64


def reference(resource: str, number: int | str) -> str:
    """How the Version of a schema Resource with that label is looked up."""
    return f"{resource}?{LABEL}={number}"


def stripped(payload: bytes, format: str) -> tuple[int, bytes]:
    """The number of the writer's schema, and the payload without its prefix. Raises ``ValueError`` if it has none.

    In a payload of Protobuf a path of indices to the message type follows the number; which type it is, the definition
    says.
    """
    if not payload.startswith(_MAGIC) or len(payload) < _LENGTH:
        raise ValueError("the payload does not begin with a zero byte and four bytes of a schema's number")
    number = int.from_bytes(payload[1:_LENGTH], "big")
    place = _behind_indices(payload) if format.lower().startswith("protobuf") else _LENGTH
    return number, payload[place:]


def _behind_indices(payload: bytes) -> int:
    """The place behind the indices: how many there are, then each; a single zero stands for one that is zero."""
    count, place = _number(payload, _LENGTH)
    if not 0 <= count <= _MAX_DEPTH:
        raise ValueError(f"a path of {count} indices leads to no message type")
    for _ in range(count):
        _, place = _number(payload, place)
    return place


def _number(payload: bytes, place: int) -> tuple[int, int]:
    """A zigzag varint, and the place behind it."""
    value = 0
    for index, byte in enumerate(payload[place : place + _LENGTH]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), place + index + 1
    raise ValueError("the indices of the message type are cut off")

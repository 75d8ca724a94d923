"""The faults seeded into the traffic: what each does to a message, and the reason it must be sidelined for."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from signalbook.values import JSONObject


class Fault(StrEnum):
    """A kind of seeded fault; the value is how it is shown to people."""

    WRONG_TYPE = "wrong type"
    MISSING_FIELD = "missing field"
    UNKNOWN_EVENT = "unknown event"
    BROKEN_JSON = "broken JSON"
    BAD_SOURCE = "bad source"


# The dead-letter reason (messages.Reason) every fault of a kind must end with.
REASONS: Final[dict[Fault, str]] = {
    Fault.WRONG_TYPE: "schema_violation",
    Fault.MISSING_FIELD: "schema_violation",
    Fault.UNKNOWN_EVENT: "no_match",
    Fault.BROKEN_JSON: "decode_error",
    Fault.BAD_SOURCE: "metadata_violation",
}


def wrong_types(value: JSONObject) -> Iterator[JSONObject]:
    """Copies of ``value``, each with one top-level member turned into a number that nobody declares there."""
    for name, member in value.items():
        if name != "action" and isinstance(member, (dict, list, str)):
            yield {**value, name: -0.5}


def missing_fields(value: JSONObject) -> Iterator[JSONObject]:
    """Copies of ``value``, each without one top-level member."""
    for name in value:
        if name != "action":
            yield {key: member for key, member in value.items() if key != name}


def broken(text: bytes) -> bytes:
    """JSON text cut off in the middle: no longer JSON."""
    return text[: max(1, len(text) // 2)]

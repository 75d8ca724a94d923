"""What messages carry, read: header values, and context attributes in them, as several bindings have them."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote

from signalbook.messages.cloudevents import JSON_FORMAT
from signalbook.messages.eventformats import EventError
from signalbook.messages.message import Reason
from signalbook.values import Finding


def readable(raw: bytes) -> str | bytes:
    """Bytes as the text they are, if they are."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def implied_format(body: bytes | None) -> str:
    """The JSON format where a protocol cannot say so and the body looks like an event, else ``""``.

    MQTT 3.1.1 and old NATS know events in structured mode only, and other messages too.
    """
    return JSON_FORMAT if body and body.lstrip()[:1] == b"{" and b'"specversion"' in body else ""


def grouped(pairs: Any, prefix: str, *, fold: bool) -> dict[str, tuple[str, ...]]:
    """Name-value pairs as tuples of values by property name; with ``fold`` names compare without case (K-20)."""
    values: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        key = prefix + (name.lower() if fold else name)
        values[key] = (*values[key], value) if key in values else (value,)
    return values


_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)


def header_attribute(name: str, occurrences: tuple[str, ...]) -> str:
    """The context attribute in a header: once, unquoted, percent-decoded once. Raises ``EventError``."""
    value = single_value(name, occurrences).strip()
    if '"' in value:
        value = _QUOTED.sub(lambda found: re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL), value)
    if "%" not in value:
        return value
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise invalid_binary(name, f"the header {name} is percent-encoded, but not as UTF-8") from None


def single_value(name: str, occurrences: tuple[str, ...]) -> str:
    """The one value of a header. Raises ``EventError`` if there are several."""
    if len(occurrences) > 1:
        raise invalid_binary(
            name, f"the header {name} occurs {len(occurrences)} times: an event has each attribute once"
        )
    return occurrences[0]


def invalid_binary(path: str, message: str) -> EventError:
    """That something is no CloudEvent."""
    return EventError(Reason.INVALID_CLOUDEVENT, [Finding(path=path, rule="cloudevents", message=message)])

"""Telling content modes by content type, which all bindings do alike (domain.md K-21, CloudEvents HTTP binding 3)."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote

from signalbook.formats.base import media_type
from signalbook.messages.cloudevents import BATCH_MEDIA_TYPE, JSON_FORMAT, MEDIA_TYPE, Mode
from signalbook.messages.eventformats import EventError, find_format
from signalbook.messages.eventformats.registry import EventFormat
from signalbook.messages.message import Reason
from signalbook.values import Finding

_LONGEST: Final = len(BATCH_MEDIA_TYPE)


def structured_mode(content_type: str) -> Mode:
    """Structured or batch by the prefix of the content type, in any case; ``NONE`` for a type of another kind."""
    if content_type == JSON_FORMAT:
        return Mode.STRUCTURED
    prefix = content_type[:_LONGEST].lower()
    if prefix.startswith(BATCH_MEDIA_TYPE):
        return Mode.BATCH
    return Mode.STRUCTURED if prefix.startswith(MEDIA_TYPE) else Mode.NONE


def json_only(format: str, carrier: str) -> EventFormat:
    """The JSON format for a ``carrier`` that cannot say which it is. Raises ``EventError`` for any other."""
    if media_type(format) != JSON_FORMAT:
        text = f"{carrier} has events in {JSON_FORMAT} only, not in {format!r}"
        raise EventError(Reason.UNSUPPORTED_FORMAT, [Finding(path="format", rule="format", message=text)])
    return find_format(JSON_FORMAT)


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

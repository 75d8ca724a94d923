"""Telling content modes by content type, which all bindings do alike (domain.md K-21, CloudEvents HTTP binding 3)."""

from __future__ import annotations

from typing import Final

from signalbook.formats.base import media_type
from signalbook.messages.cloudevents import BATCH_MEDIA_TYPE, JSON_FORMAT, MEDIA_TYPE, Mode
from signalbook.messages.eventformats import EventError, find_format
from signalbook.messages.eventformats.base import EventFormat
from signalbook.messages.reasons import Reason
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

"""Telling content modes by content type, which all bindings do alike (domain.md K-21, CloudEvents HTTP binding 3)."""

from __future__ import annotations

from typing import Final

from signalbook.messages.cloudevents import BATCH_MEDIA_TYPE, JSON_FORMAT, MEDIA_TYPE, Mode

_LONGEST: Final = len(BATCH_MEDIA_TYPE)


def structured_mode(content_type: str) -> Mode:
    """Structured or batch by the prefix of the content type, in any case; ``NONE`` for a type of another kind."""
    if content_type == JSON_FORMAT:
        return Mode.STRUCTURED
    prefix = content_type[:_LONGEST].lower()
    if prefix.startswith(BATCH_MEDIA_TYPE):
        return Mode.BATCH
    return Mode.STRUCTURED if prefix.startswith(MEDIA_TYPE) else Mode.NONE

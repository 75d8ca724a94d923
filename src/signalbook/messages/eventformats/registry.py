"""Which event formats there are, by media type."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final, Protocol

from signalbook.formats.base import media_type
from signalbook.messages.cloudevents import JSON_BATCH_FORMAT, JSON_FORMAT, CloudEvent, EventError
from signalbook.messages.eventformats.json import JSON_EVENTS
from signalbook.messages.message import Reason
from signalbook.values import Finding

AVRO_FORMAT: Final = "application/cloudevents+avro"
PROTOBUF_FORMAT: Final = "application/cloudevents+protobuf"
PROTOBUF_BATCH_FORMAT: Final = "application/cloudevents-batch+protobuf"


def find_format(content_type: str) -> EventFormat:
    """The format a content type names. Raises ``EventError`` (``unsupported_format``) if nothing reads it (K-21)."""
    found = _FORMATS.get(content_type) or _FORMATS.get(media_type(content_type))
    if found is None:
        text = f"no decoder for events of content type {content_type!r}; there are: {', '.join(_FORMATS)}"
        raise EventError(Reason.UNSUPPORTED_FORMAT, [Finding(path="", rule="content_type", message=text)])
    return found()


def _json() -> EventFormat:
    return JSON_EVENTS


@cache
def _avro() -> EventFormat:
    from signalbook.messages.eventformats.avro import AvroEventFormat

    return AvroEventFormat()


@cache
def _protobuf() -> EventFormat:
    from signalbook.messages.eventformats.protobuf import ProtobufEventFormat

    return ProtobufEventFormat()


# Those that need a library are made when the first such event comes.
_FORMATS: Final[dict[str, Callable[[], EventFormat]]] = {
    JSON_FORMAT: _json,
    JSON_BATCH_FORMAT: _json,
    AVRO_FORMAT: _avro,
    PROTOBUF_FORMAT: _protobuf,
    PROTOBUF_BATCH_FORMAT: _protobuf,
}


class EventFormat(Protocol):
    """One way to write an event as bytes."""

    def decode(self, body: bytes) -> CloudEvent:
        """The valid event in ``body``. Raises ``EventError``."""
        ...

    def encode(self, event: CloudEvent) -> bytes:
        """The event as bytes that ``decode`` reads back."""
        ...

    def split(self, body: bytes) -> list[bytes]:
        """The events of a batch, each as its own bytes. Raises ``EventError``."""
        ...

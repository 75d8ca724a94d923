"""Find event formats by media type, and implement the one that every registry and pipeline reads: JSON."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import cache
from typing import Final, Protocol

import msgspec

from signalbook.formats.base import is_json, parse_media_type
from signalbook.messages.cloudevents import (
    JSON_BATCH_FORMAT,
    JSON_FORMAT,
    CloudEvent,
    EventError,
    check_attributes,
    make_decode_error,
    make_event_error,
)
from signalbook.messages.message import DUPLICATE, Reason
from signalbook.values import (
    MAX_DEPTH,
    MAX_VALUES,
    Finding,
    JSONError,
    JSONObject,
    dump_json,
    parse_json,
    repeated_names,
    said_twice,
)


class JsonEventFormat:
    """The JSON event format."""

    def decode(self, body: bytes) -> CloudEvent:
        """Return the event in a JSON object. Attributes that are ``null`` count as unset; ``data`` may be ``null``.

        A member that occurs twice is refused ("Each context attribute MUST only appear at most once", CloudEvents
        1.0.2), also ``data``. Repeated names within the data are accepted here.
        """
        members = _parse_members(body)
        twice, repeated = repeated_names(body, members)
        if twice is not None:
            raise make_event_error(twice, DUPLICATE, said_twice(twice))
        value = members.pop("data", msgspec.UNSET)
        opaque = members.pop("data_base64", None)
        attributes = members
        if None in members.values():
            attributes = {name: attribute for name, attribute in members.items() if attribute is not None}
        check_attributes(attributes)
        if opaque is None:
            declared = attributes.get("datacontenttype")
            # Compare before parsing, because nearly all events have one of these two values.
            if declared in (None, "application/json") or value is msgspec.UNSET or is_json(declared):
                return CloudEvent(attributes=attributes, value=value, origin=body, repeated=repeated)
            return CloudEvent(attributes=attributes, body=_encode_text(value))
        if value is not msgspec.UNSET:
            raise make_event_error("data", "exclusive", "an event has either data or data_base64, not both")
        return CloudEvent(attributes=attributes, body=_decode_base64(opaque))

    def encode(self, event: CloudEvent) -> bytes:
        """Return a JSON object.

        Data as bytes becomes JSON or text in ``data`` if the content type allows that, else base64.
        """
        members: JSONObject = dict(event.attributes)
        if event.value is not msgspec.UNSET:
            members["data"] = event.value
        elif event.body is not None:
            members.update(_build_data_member(event.body, event.content_type))
        return dump_json(members)

    def split(self, body: bytes) -> list[bytes]:
        """Return the elements of a JSON array as they were written. The array may be empty."""
        try:
            return [bytes(raw) for raw in _batch.decode(body)]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise make_decode_error("json", f"not a JSON array of events: {error}") from None


_batch: Final = msgspec.json.Decoder(list[msgspec.Raw])
JSON_EVENTS: Final = JsonEventFormat()


def _parse_members(body: bytes) -> JSONObject:
    """Return the members of a JSON object. Its data may be nested as deeply as a separate document."""
    try:
        members = parse_json(body, max_depth=MAX_DEPTH + 1, max_values=MAX_VALUES, exact=True)
    except JSONError as error:
        raise make_decode_error("json", f"not JSON: {error}") from None
    if not isinstance(members, dict):
        raise make_event_error("", "type", "a CloudEvent in JSON is an object")
    return members


def _encode_text(data: object) -> bytes | None:
    """Return the bytes of data whose content type is not JSON. Raises ``EventError`` if it is not a string."""
    if data is None:
        return None
    if not isinstance(data, str):
        raise make_event_error("data", "type", "data must be a string, as datacontenttype is no JSON type")
    return data.encode("utf-8")


def _decode_base64(data: object) -> bytes:
    if not isinstance(data, str):
        raise make_event_error("data_base64", "type", "data_base64 must be a string")
    try:
        return b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise make_event_error("data_base64", "base64", f"data_base64 is not base64: {error}") from None


def _build_data_member(body: bytes, content_type: str) -> JSONObject:
    if content_type:
        try:
            if is_json(content_type):
                return {"data": msgspec.Raw(dump_json(parse_json(body, exact=True)))}
            if parse_media_type(content_type).startswith("text/"):
                return {"data": body.decode("utf-8")}
        except (JSONError, UnicodeDecodeError):
            pass
    return {"data_base64": b64encode(body).decode("ascii")}


AVRO_FORMAT: Final = "application/cloudevents+avro"
PROTOBUF_FORMAT: Final = "application/cloudevents+protobuf"
PROTOBUF_BATCH_FORMAT: Final = "application/cloudevents-batch+protobuf"


def find_format(content_type: str) -> EventFormat:
    """Return the format that a content type names. Raises ``EventError`` (``unsupported_format``) for others (K-21)."""
    loader = _LOADERS.get(content_type) or _LOADERS.get(parse_media_type(content_type))
    if loader is None:
        text = f"no decoder for events of content type {content_type!r}; there are: {', '.join(_LOADERS)}"
        raise EventError(Reason.UNSUPPORTED_FORMAT, [Finding(path="", rule="content_type", message=text)])
    return loader()


def _load_json() -> EventFormat:
    return JSON_EVENTS


@cache
def _load_avro() -> EventFormat:
    from signalbook.messages.eventformats.avro import AvroEventFormat

    return AvroEventFormat()


@cache
def _load_protobuf() -> EventFormat:
    from signalbook.messages.eventformats.protobuf import ProtobufEventFormat

    return ProtobufEventFormat()


# Formats that need a library are loaded when the first such event arrives.
_LOADERS: Final[dict[str, Callable[[], EventFormat]]] = {
    JSON_FORMAT: _load_json,
    JSON_BATCH_FORMAT: _load_json,
    AVRO_FORMAT: _load_avro,
    PROTOBUF_FORMAT: _load_protobuf,
    PROTOBUF_BATCH_FORMAT: _load_protobuf,
}


class EventFormat(Protocol):
    """A format for events as bytes."""

    def decode(self, body: bytes) -> CloudEvent:
        """Return the event in ``body``. Raises ``EventError``, also if the event is invalid."""
        ...

    def encode(self, event: CloudEvent) -> bytes:
        """Return the event as bytes that ``decode`` can read."""
        ...

    def split(self, body: bytes) -> list[bytes]:
        """Return the events of a batch, each as bytes. Raises ``EventError``."""
        ...

"""Event formats: CloudEvents as text, the JSON format and its batches (domain.md K-22, K-23).

A format reads one media type and is found in ``FORMATS``; others (Avro, Protobuf) come in by the same door.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from signalbook.errors import SignalbookError
from signalbook.formats.base import is_json, media_type
from signalbook.messages.cloudevents import JSON_BATCH_FORMAT, JSON_FORMAT, CloudEvent, invalid_attributes
from signalbook.messages.reasons import Reason
from signalbook.values import MAX_DEPTH, Finding, JSONError, JSONObject, dump_json, parse_json


class EventError(SignalbookError):
    """Bytes that hold no valid CloudEvent; ``reason`` and ``findings`` say why."""

    def __init__(self, reason: Reason, findings: list[Finding]) -> None:
        self.reason = reason
        self.findings = tuple(findings)
        super().__init__("; ".join(str(finding) for finding in findings))


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


class JsonFormat:
    """The JSON event format."""

    def decode(self, body: bytes) -> CloudEvent:
        """The event in a JSON object. Members that are ``null`` are unset attributes; ``data`` may be ``null``."""
        members = _members(body)
        value = members.pop("data", msgspec.UNSET)
        opaque = members.pop("data_base64", None)
        attributes = members
        if None in members.values():
            attributes = {name: each for name, each in members.items() if each is not None}
        findings = invalid_attributes(attributes)
        if findings:
            raise EventError(Reason.INVALID_CLOUDEVENT, findings)
        if opaque is None:
            declared = attributes.get("datacontenttype")
            if declared in (None, "application/json") or value is msgspec.UNSET or is_json(declared):
                return CloudEvent(attributes=attributes, value=value, origin=body)
            return CloudEvent(attributes=attributes, body=_text(value))
        if value is not msgspec.UNSET:
            raise _invalid("data", "exclusive", "an event has either data or data_base64, not both")
        return CloudEvent(attributes=attributes, body=_binary(opaque))

    def encode(self, event: CloudEvent) -> bytes:
        """A JSON object. Data as bytes goes into ``data`` as JSON or text where the content type says so."""
        members: JSONObject = dict(event.attributes)
        if event.value is not msgspec.UNSET:
            members["data"] = event.value
        elif event.body is not None:
            members.update(_data_member(event.body, event.content_type))
        return dump_json(members)

    def split(self, body: bytes) -> list[bytes]:
        """The elements of a JSON array, as they were written; it may be empty."""
        try:
            return [bytes(raw) for raw in _batch.decode(body)]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            finding = Finding(path="", rule="json", message=f"not a JSON array of events: {error}")
            raise EventError(Reason.DECODE_ERROR, [finding]) from None


_batch: Final = msgspec.json.Decoder(list[msgspec.Raw])
JSON: Final = JsonFormat()
FORMATS: Final[Mapping[str, EventFormat]] = {JSON_FORMAT: JSON, JSON_BATCH_FORMAT: JSON}


def find_format(content_type: str) -> EventFormat:
    """The format a content type names. Raises ``EventError`` (``unsupported_format``) if nothing reads it (K-21)."""
    found = FORMATS.get(content_type) or FORMATS.get(media_type(content_type))
    if found is None:
        text = f"no decoder for events of content type {content_type!r}; there are: {', '.join(FORMATS)}"
        raise EventError(Reason.UNSUPPORTED_FORMAT, [Finding(path="", rule="content_type", message=text)])
    return found


def _members(body: bytes) -> JSONObject:
    """The members of a JSON object; its data may be as deep as a document on its own."""
    try:
        members = parse_json(body, max_depth=MAX_DEPTH + 1)
    except JSONError as error:
        finding = Finding(path="", rule="json", message=f"not JSON: {error}")
        raise EventError(Reason.DECODE_ERROR, [finding]) from None
    if not isinstance(members, dict):
        raise _invalid("", "type", "a CloudEvent in JSON is an object")
    return members


def _invalid(path: str, rule: str, message: str) -> EventError:
    return EventError(Reason.INVALID_CLOUDEVENT, [Finding(path=path, rule=rule, message=message)])


def _text(data: object) -> bytes | None:
    """Data of a content type other than JSON: its text."""
    if data is None:
        return None
    if not isinstance(data, str):
        raise _invalid("data", "type", "data must be a string, as datacontenttype is no JSON type")
    return data.encode("utf-8")


def _binary(data: object) -> bytes:
    if not isinstance(data, str):
        raise _invalid("data_base64", "type", "data_base64 must be a string")
    try:
        return b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _invalid("data_base64", "base64", f"data_base64 is not base64: {error}") from None


def _data_member(body: bytes, content_type: str) -> JSONObject:
    if content_type:
        try:
            if is_json(content_type):
                return {"data": msgspec.Raw(dump_json(parse_json(body)))}
            if media_type(content_type).startswith("text/"):
                return {"data": body.decode("utf-8")}
        except (JSONError, UnicodeDecodeError):
            pass
    return {"data_base64": b64encode(body).decode("ascii")}

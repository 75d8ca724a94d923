"""Represent CloudEvents 1.0, and check them by the rules of the specification (K-21 to K-25)."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from signalbook.errors import SignalbookError
from signalbook.formats.base import shorten
from signalbook.messages.message import Reason
from signalbook.uris import is_uri, is_uri_reference
from signalbook.values import JSON, Finding, can_parse_timestamp, dump_json, format_scalar

_TIMESTAMP: Final = re.compile(
    r"(?!0000)\d{4}-(?:0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt](?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)"
    r"(?:\.\d{1,12})?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)


def is_timestamp(text: str) -> bool:
    """Return True if ``text`` is an RFC 3339 instant in the years 1 to 9999.

    Unlike the registry's timestamps it must have a zone.
    """
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return False
    # Every month has the days up to the 28th, and with years within these bounds no zone leads outside Python's range
    # of years. Only other timestamps have to be parsed.
    return (match[1] < "29" and "0002" < text[:4] < "9998") or can_parse_timestamp(text)


# Canonical strings, or the native types that JSON and AMQP have.
Attribute = str | int | bool

MEDIA_TYPE: Final = "application/cloudevents"
BATCH_MEDIA_TYPE: Final = "application/cloudevents-batch"
JSON_FORMAT: Final = "application/cloudevents+json"
JSON_BATCH_FORMAT: Final = "application/cloudevents-batch+json"
SPECVERSION: Final = "1.0"
REQUIRED: Final = ("specversion", "id", "source", "type")
_REQUIRED_NAMES: Final = frozenset(REQUIRED)
CORE: Final = frozenset((*REQUIRED, "subject", "time", "dataschema", "datacontenttype"))

ATTRIBUTE_NAME: Final = re.compile(r"[a-z0-9]+", re.ASCII)
_FORBIDDEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0x110000, 0x10000))
    + "]"
)
_MEDIA_TYPE: Final = re.compile(r"[!#$%&'*+.^_`|~\w-]+/[!#$%&'*+.^_`|~\w-]+\s*(?:;.*)?", re.ASCII)
_INT32: Final = range(-(2**31), 2**31)


class Mode(StrEnum):
    """The content mode in which a message carries a CloudEvent. ``NONE`` means that it carries no event."""

    STRUCTURED = "structured"
    BINARY = "binary"
    BATCH = "batch"
    NONE = "none"


class CloudEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event: its context attributes, and its data in one of two forms.

    ``value`` is the decoded data of an event in JSON format. ``body`` is the data of any other event as bytes. An event
    without data has neither: ``value`` is ``UNSET`` (a JSON ``null`` is ``None``) and ``body`` is ``None``.
    ``origin`` is the JSON text from which the event was decoded. ``repeated`` is a name that an object in the data has
    twice, or None.
    """

    attributes: Mapping[str, Attribute]
    value: JSON = msgspec.UNSET
    body: bytes | None = None
    origin: bytes = b""
    repeated: str | None = None

    @property
    def content_type(self) -> str:
        """The content type of the data, or ``""`` if it is unknown. Data of a JSON event is JSON by default."""
        declared = self.attributes.get("datacontenttype")
        return str(declared) if declared else "" if self.value is msgspec.UNSET else "application/json"

    def payload(self) -> bytes | None:
        """Return the data as bytes, or ``None`` if there is no data. JSON is returned exactly as it was sent."""
        if self.value is msgspec.UNSET:
            return self.body
        # Cut the data out of the original text: encoding the decoded value could change the spelling of numbers.
        return bytes(_data.decode(self.origin).data) if self.origin else dump_json(self.value)


class _Data(msgspec.Struct):
    data: msgspec.Raw


_data: Final = msgspec.json.Decoder(_Data)


def find_invalid_attributes(attributes: Mapping[str, object]) -> list[Finding]:
    """Return all findings about context attributes: names, types, missing attributes, and values of core attributes.

    Callers must remove attributes with JSON null first, because null means that an attribute is not set.
    """
    findings = [] if attributes.keys() >= _REQUIRED_NAMES else _find_missing(attributes)
    for name, value in attributes.items():
        if type(value) is str and value and value.isascii() and value.isprintable():
            # Nearly all values are printable ASCII. For these, only the rule of the attribute has to be checked.
            rule = _VALUE_RULES.get(name, _check_name)
            fault = "" if rule is None else rule(name, value)
        else:
            fault = _check_value(name, value)
        if fault:
            findings.append(Finding(path=name, rule="cloudevents", message=f"{name} {fault}"))
    return findings


def _find_missing(attributes: Mapping[str, object]) -> list[Finding]:
    return [
        Finding(path=name, rule="required", message=f"a CloudEvent must have {name!r}")
        for name in REQUIRED
        if name not in attributes
    ]


def _check_value(name: str, value: object) -> str:
    if isinstance(value, str):
        rule = _VALUE_RULES.get(name, _check_name)
        return _check_characters(name, value) or ("" if rule is None else rule(name, value))
    if name in CORE:
        return "must be a string"
    if isinstance(value, int):
        inside = isinstance(value, bool) or value in _INT32
        return _check_name(name, value) if inside else "is an integer beyond 32 bits"
    return "must be a string, a boolean or an integer"


def _check_characters(name: str, value: str) -> str:
    if not value and name in CORE:
        return "must not be empty"
    return "has a control character, a noncharacter or an unpaired surrogate" if _FORBIDDEN.search(value) else ""


def _check_name(name: str, _: object) -> str:
    if ATTRIBUTE_NAME.fullmatch(name) is None:
        return "is no attribute name: only lower-case letters and digits are"
    return "is no attribute name: it is reserved" if name == "data" else ""


def _check_specversion(_: str, value: str) -> str:
    return "" if value == SPECVERSION else f"must be {SPECVERSION!r}"


def _check_source(_: str, value: str) -> str:
    return "" if is_uri_reference(value) else "must be a URI reference"


def _check_dataschema(_: str, value: str) -> str:
    return "" if is_uri(value) else "must be an absolute URI"


def _check_time(_: str, value: str) -> str:
    return "" if is_timestamp(value) else "must be an RFC 3339 timestamp with a time zone"


def _check_datacontenttype(_: str, value: str) -> str:
    return "" if value == "application/json" or _MEDIA_TYPE.fullmatch(value) else "must be a media type"


# The rules for values of core attributes, in addition to being non-empty strings.
_VALUE_RULES: Final[dict[str, Callable[[str, str], str] | None]] = {
    "specversion": _check_specversion,
    "id": None,
    "type": None,
    "source": _check_source,
    "subject": None,
    "time": _check_time,
    "dataschema": _check_dataschema,
    "datacontenttype": _check_datacontenttype,
}


def format_attribute(value: Attribute) -> str:
    """Return the canonical string of an attribute (CloudEvents "Type System")."""
    return format_scalar(value)


class EventError(SignalbookError):
    """The error for bytes that are not a valid CloudEvent. ``reason`` and ``findings`` explain it."""

    def __init__(self, reason: Reason, findings: list[Finding]) -> None:
        self.reason = reason
        self.findings = tuple(findings)
        super().__init__()

    # The text is made on request, because it is read for few of thousands of rejected events.
    def __str__(self) -> str:
        return "; ".join(str(finding) for finding in self.findings)

    # Needed for pickling between Spark workers, because the constructor takes more than a text.
    def __reduce__(self) -> tuple[type[EventError], tuple[Reason, list[Finding]]]:
        return type(self), (self.reason, list(self.findings))


def make_decode_error(rule: str, message: str) -> EventError:
    """Return an error for bytes that cannot be decoded by the event format."""
    return EventError(Reason.DECODE_ERROR, [Finding(path="", rule=rule, message=shorten(message))])


def make_event_error(path: str, rule: str, message: str) -> EventError:
    """Return an error for bytes that can be decoded but are not a valid CloudEvent."""
    return EventError(Reason.INVALID_CLOUDEVENT, [Finding(path=path, rule=rule, message=message)])


def check_attributes(attributes: Mapping[str, Attribute]) -> None:
    """Raise ``EventError`` if the context attributes are not valid (K-24)."""
    findings = find_invalid_attributes(attributes)
    if findings:
        raise EventError(Reason.INVALID_CLOUDEVENT, findings)


def encode_binary(value: bytes) -> str:
    """Return a binary attribute as its canonical string, base64 (CloudEvents "Type System")."""
    return b64encode(value).decode("ascii")

"""Define the formats of groups, their metaschemas as tables, and the two spellings of definitions.

B-12 to B-16, C-5, C-25, C-26, J-11, J-13. Names are those of the drafts. ``place`` is the member of the message's
``protocoloptions`` (``envelopemetadata`` for CloudEvents). The first draft has fields as values, 0.1 as objects. All
other modules use the spelling of 0.1, which can express more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Final

from signalbook.cncf.messagecatalog.templates import ANY, BINARY, BOOLEAN, INTEGER, STRING, TIMESTAMP, plain
from signalbook.values import JSON, Finding, JSONObject

CLOUDEVENTS: Final = "CloudEvents"
AMQP: Final = "AMQP"
MQTT: Final = "MQTT"
NATS: Final = "NATS"

_TEXT_ATTRIBUTES: Final = ("specversion", "id", "type", "source", "subject", "datacontenttype", "dataschema")
_CLOUDEVENTS_NAME: Final = re.compile(r"[a-z0-9]+", re.ASCII)
_SYMBOL: Final = re.compile(r"[\x20-\x7e]+", re.ASCII)
_UTF8_NAME: Final = re.compile(r"[^\x00-\x1f]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaschemaField:
    """A field of a section.

    ``place`` is its name in xRegistry. ``constant`` means that xRegistry has only an exact value there, not a property
    definition. ``uri`` means that its type there is a URI template, ``modern`` that only MQTT 5.0 has the field.
    ``values`` are the allowed values, if they are limited.
    """

    name: str
    type: str = STRING
    place: str = ""
    constant: bool = False
    uri: bool = False
    modern: bool = False
    values: tuple[int | str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaschemaSection:
    """A section of a metaschema: an object of ``fields``, and of others if ``names`` describes their names.

    ``schema`` means that it has a member ``dataschema``, ``encoding`` that it has ``amqpencoding``. ``place`` is ``""``
    for the options themselves. ``listed`` means that xRegistry has a list where ``name`` is.
    """

    name: str
    place: str = ""
    fields: tuple[MetaschemaField, ...] = ()
    names: re.Pattern[str] | None = None
    schema: bool = False
    encoding: bool = False
    listed: bool = False

    def find_field(self, name: str) -> MetaschemaField | None:
        """Return the field ``name``, or None. An open section has any field."""
        declared = next((field for field in self.fields if field.name == name), None)
        return declared or (MetaschemaField(name=name, place=name, type=ANY) if self.names is not None else None)


def _build_amqp_map(name: str, place: str) -> MetaschemaSection:
    return MetaschemaSection(name=name, place=place, names=_SYMBOL)


_PAYLOAD: Final = MetaschemaSection(name="payload", schema=True)

METASCHEMAS: Final[dict[str, tuple[MetaschemaSection, ...]]] = {
    CLOUDEVENTS: (
        MetaschemaSection(
            name="attributes",
            names=_CLOUDEVENTS_NAME,
            schema=True,
            fields=(
                MetaschemaField(name="time", place="time", type=TIMESTAMP),
                *(MetaschemaField(name=name, place=name) for name in _TEXT_ATTRIBUTES),
            ),
        ),
    ),
    AMQP: (
        MetaschemaSection(
            name="header",
            place="header",
            fields=(
                MetaschemaField(name="durable", place="durable", type=BOOLEAN, constant=True),
                MetaschemaField(name="priority", place="priority", type=INTEGER, constant=True),
                MetaschemaField(name="ttl", place="ttl", type=INTEGER, constant=True),
            ),
        ),
        _build_amqp_map("deliveryannotations", "delivery-annotations"),
        _build_amqp_map("messageannotations", "message-annotations"),
        MetaschemaSection(
            name="properties",
            place="properties",
            fields=(
                MetaschemaField(name="messageid", place="message-id"),
                MetaschemaField(name="userid", place="user-id", type=BINARY),
                MetaschemaField(name="to", place="to"),
                MetaschemaField(name="subject", place="subject"),
                MetaschemaField(name="replyto", place="reply-to"),
                MetaschemaField(name="correlationid", place="correlation-id"),
                MetaschemaField(name="contenttype", place="content-type"),
                MetaschemaField(name="contentencoding", place="content-encoding"),
                MetaschemaField(name="absoluteexpirytime", place="absolute-expiry-time", type=TIMESTAMP),
                MetaschemaField(name="creationtime", place="creation-time", type=TIMESTAMP),
                MetaschemaField(name="groupid", place="group-id"),
                MetaschemaField(name="groupsequence", place="group-sequence"),
                MetaschemaField(name="replytogroupid", place="reply-to-group-id"),
            ),
        ),
        _build_amqp_map("applicationproperties", "application-properties"),
        MetaschemaSection(name="applicationdata", schema=True, encoding=True),
        _build_amqp_map("footer", "footer"),
    ),
    MQTT: (
        MetaschemaSection(
            name="publish",
            fields=(
                MetaschemaField(name="mqttversion", values=("3.1.1", "5.0")),
                MetaschemaField(name="qos", place="qos", type=INTEGER, constant=True, values=(0, 1, 2)),
                MetaschemaField(name="retain", place="retain", type=BOOLEAN, constant=True),
                MetaschemaField(name="topicname", place="topic_name", constant=True, uri=True),
                MetaschemaField(
                    name="payloadformat",
                    place="payload_format_indicator",
                    type=INTEGER,
                    constant=True,
                    modern=True,
                    values=(0, 1),
                ),
                MetaschemaField(
                    name="expiryinterval", place="message_expiry_interval", type=INTEGER, constant=True, modern=True
                ),
                MetaschemaField(name="responsetopic", place="response_topic", constant=True, uri=True, modern=True),
                MetaschemaField(
                    name="correlationdata", place="correlation_data", type=BINARY, constant=True, modern=True
                ),
                MetaschemaField(name="contenttype", place="content_type", constant=True, modern=True),
            ),
        ),
        MetaschemaSection(name="userproperty", place="user_properties", names=_UTF8_NAME, listed=True),
        _PAYLOAD,
    ),
    NATS: (
        MetaschemaSection(
            name="pub",
            fields=(
                MetaschemaField(name="subject", place="subject", constant=True, uri=True),
                MetaschemaField(name="replyto", place="reply-to", constant=True, uri=True),
            ),
        ),
        _PAYLOAD,
    ),
}
"""The metaschemas by format.

That of NATS is from 0.1, because the first draft names the format without a metaschema.
"""

PROTOCOL: Final = "protocol"
ENVELOPE: Final = "envelope"
PAYLOAD: Final = "payload"
"""Sections that no metaschema has. They hold what only a message of xRegistry can state (J-18)."""
_MORE: Final = {CLOUDEVENTS: (PROTOCOL, ENVELOPE)}


def list_section_names(format: str) -> frozenset[str]:
    """Return the names of the sections in definitions of a predefined ``format``."""
    return frozenset((*(section.name for section in METASCHEMAS[format]), *_MORE.get(format, ())))


def select_sections(format: str, document: JSONObject, beside: Set[str]) -> JSONObject:
    """Return the sections in a ``document`` of the first draft, without the members in ``beside``.

    A member that is neither an object nor has the name of a section is an extension attribute (B-4).
    """
    members = {name: value for name, value in document.items() if name not in beside}
    if format not in METASCHEMAS:
        return members
    names = list_section_names(format)
    return {name: value for name, value in members.items() if name in names or isinstance(value, dict)}


CONTENT_TYPES: Final = {
    CLOUDEVENTS: ("attributes", "datacontenttype"),
    AMQP: ("properties", "contenttype"),
    MQTT: ("publish", "contenttype"),
}
"""The section and field with the media type of the payload, by format."""

ENCODINGS: Final = ("Data", "Value", "Sequence")
MQTT_VERSION: Final = "5.0"
"""The version of MQTT if a definition states none (B-15)."""


def read_mqtt_version(definition: dict[str, object]) -> str:
    """Return the version of MQTT that a definition (spelt as in 0.1) is for."""
    publish = definition.get("publish")
    stated = publish.get("mqttversion") if isinstance(publish, dict) else None
    # Like the encoding, it may be written without an object around it.
    value = stated.get("value") if isinstance(stated, dict) else stated
    return value if isinstance(value, str) and value else MQTT_VERSION


HTTP: Final = "HTTP"
KAFKA: Final = "KAFKA"
XREGISTRY: Final = "xRegistry"
"""The format of groups without envelope and protocol. No draft has it; definitions are in the form of xRegistry."""

PREDEFINED: Final = tuple(METASCHEMAS)
ALIASES: Final = {"CloudsEvents": CLOUDEVENTS}
"""A misspelling in the drafts themselves (B-3, L-2)."""

_CLOUDEVENTS: Final = "CloudEvents/1.0"
_PROTOCOLS: Final = {AMQP: "AMQP/1.0", NATS: "NATS", HTTP: "HTTP", KAFKA: "KAFKA"}
_FAMILIES: Final = {AMQP.lower(): AMQP, MQTT.lower(): MQTT, NATS.lower(): NATS, "http": HTTP, "kafka": KAFKA}


def format_of(group: Mapping[str, JSON]) -> str:
    """Return the format of a group of xRegistry in the drafts: by its envelope, else its protocol, else ``format``."""
    envelope, protocol, stated = (group.get(name) for name in ("envelope", "protocol", "format"))
    # The envelope takes precedence over the protocol: a CloudEvent over MQTT is a CloudEvent.
    if isinstance(envelope, str) and envelope:
        return CLOUDEVENTS if family(envelope) == CLOUDEVENTS.lower() else envelope
    if isinstance(protocol, str) and protocol:
        return _FAMILIES.get(family(protocol), protocol)
    return stated if isinstance(stated, str) and stated else XREGISTRY


def format_attributes(format: str) -> JSONObject:
    """Return the attributes that state ``format`` in a group of xRegistry. None means absent.

    A group of format MQTT states no protocol, because each definition may be for either version (J-11).
    """
    if format == CLOUDEVENTS:
        return {"envelope": _CLOUDEVENTS, "protocol": None, "format": None}
    if format in _PROTOCOLS:
        return {"envelope": None, "protocol": _PROTOCOLS[format], "format": None}
    return {"envelope": None, "protocol": None, "format": format}


def choose_protocol(format: str, group: Mapping[str, JSON], mqtt: str) -> str | None:
    """Return the protocol of a message of ``format`` in ``group``. ``mqtt`` is its version of MQTT."""
    stated = group.get("protocol")
    if isinstance(stated, str) and stated:
        return stated
    return f"MQTT/{mqtt}" if format == MQTT else None


def family(name: str) -> str:
    """Return the name of an envelope or protocol without its version, in lower case."""
    return name.partition("/")[0].lower()


ENCODING = "amqpencoding"
SCHEMA = "dataschema"


def validate_spelling(format: str, definition: JSONObject) -> Iterator[Finding]:
    """Yield findings for fields of the first draft that are not strings, numbers or booleans (B-10, B-16)."""
    for name, section in _list_present_sections(format, definition):
        for field, value in section.items():
            if isinstance(value, dict | list):
                message = "it needs to be a value or a template in a string, not an object or an array"
                yield Finding(path=f"{name}.{field}", rule="spelling", message=message)


def to_newer_spelling(format: str, definition: JSONObject) -> JSONObject:
    """Return a definition of the first draft in the spelling of 0.1.

    A field that is ``null`` counts as absent (B-11).
    """
    lifted = dict(definition)
    for name, section in _list_present_sections(format, definition):
        lifted[name] = {
            field: value if field == ENCODING else {"value": value}
            for field, value in section.items()
            if value is not None
        }
    return lifted


def to_first_spelling(format: str, definition: JSONObject) -> JSONObject:
    """Return a definition of 0.1 in the spelling of the first draft.

    ``required``, descriptions and inline schemas are lost.
    """
    flat = dict(definition)
    for name, section in _list_present_sections(format, definition):
        flat[name] = {
            field: plain(value) if isinstance(value, dict) else value
            for field, value in section.items()
            if value is not None and not _is_only_inline(field, value)
        }
    # Drop a section that lost all its fields. Keep one that was empty before.
    return {name: section for name, section in flat.items() if section != {} or definition.get(name) == {}}


def _list_present_sections(format: str, definition: JSONObject) -> Iterator[tuple[str, JSONObject]]:
    """Yield the sections of the metaschema that are objects in ``definition``."""
    for section in METASCHEMAS.get(format, ()):
        value = definition.get(section.name)
        if isinstance(value, dict):
            yield section.name, value


def _is_only_inline(field: str, value: JSON) -> bool:
    """Return True if a data schema has no URI, so that the first draft cannot express it."""
    return field == SCHEMA and isinstance(value, dict) and not value.get("value")

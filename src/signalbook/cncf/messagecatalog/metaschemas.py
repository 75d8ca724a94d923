"""The metaschemas of the predefined formats as tables: sections, fields, and where a message of xRegistry has them.

domain.md B-12 to B-16, C-5, C-25, C-26, J-13. The names are those of the drafts; ``place`` is the member of the
message's ``protocoloptions`` (``envelopemetadata`` for CloudEvents).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from signalbook.cncf.messagecatalog.templates import ANY, BINARY, BOOLEAN, INTEGER, STRING, TIMESTAMP

CLOUDEVENTS: Final = "CloudEvents"
AMQP: Final = "AMQP"
MQTT: Final = "MQTT"
NATS: Final = "NATS"

_TEXTS: Final = ("specversion", "id", "type", "source", "subject", "datacontenttype", "dataschema")
_CLOUDEVENTS_NAME: Final = re.compile(r"[a-z0-9]+", re.ASCII)
_SYMBOL: Final = re.compile(r"[\x20-\x7e]+", re.ASCII)
_UTF8_NAME: Final = re.compile(r"[^\x00-\x1f]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a section.

    ``place`` is its name in xRegistry. ``constant`` tells that xRegistry has only an exact value there, no property
    definition; ``uri`` that its type there is a URI template; ``modern`` that only MQTT 5.0 has the field; ``values``
    are all there are, if they are few.
    """

    name: str
    type: str = STRING
    place: str = ""
    constant: bool = False
    uri: bool = False
    modern: bool = False
    values: tuple[int | str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section of a metaschema: an object of ``fields``, and of others if ``names`` says how these are called.

    ``schema`` tells that it has a member ``dataschema``, ``encoding`` that it has ``amqpencoding``. ``place`` is ``""``
    for the options themselves. ``listed`` tells that xRegistry has a list of what is called ``name`` there.
    """

    name: str
    place: str = ""
    fields: tuple[Field, ...] = ()
    names: re.Pattern[str] | None = None
    schema: bool = False
    encoding: bool = False
    listed: bool = False

    def field(self, name: str) -> Field | None:
        """The field called so; an open section has any."""
        found = next((field for field in self.fields if field.name == name), None)
        return found or (Field(name=name, place=name, type=ANY) if self.names is not None else None)


def _amqp_map(name: str, place: str) -> Section:
    return Section(name=name, place=place, names=_SYMBOL)


_PAYLOAD: Final = Section(name="payload", schema=True)

METASCHEMAS: Final[dict[str, tuple[Section, ...]]] = {
    CLOUDEVENTS: (
        Section(
            name="attributes",
            names=_CLOUDEVENTS_NAME,
            schema=True,
            fields=(
                Field(name="time", place="time", type=TIMESTAMP),
                *(Field(name=name, place=name) for name in _TEXTS),
            ),
        ),
    ),
    AMQP: (
        Section(
            name="header",
            place="header",
            fields=(
                Field(name="durable", place="durable", type=BOOLEAN, constant=True),
                Field(name="priority", place="priority", type=INTEGER, constant=True),
                Field(name="ttl", place="ttl", type=INTEGER, constant=True),
            ),
        ),
        _amqp_map("deliveryannotations", "delivery-annotations"),
        _amqp_map("messageannotations", "message-annotations"),
        Section(
            name="properties",
            place="properties",
            fields=(
                Field(name="messageid", place="message-id"),
                Field(name="userid", place="user-id", type=BINARY),
                Field(name="to", place="to"),
                Field(name="subject", place="subject"),
                Field(name="replyto", place="reply-to"),
                Field(name="correlationid", place="correlation-id"),
                Field(name="contenttype", place="content-type"),
                Field(name="contentencoding", place="content-encoding"),
                Field(name="absoluteexpirytime", place="absolute-expiry-time", type=TIMESTAMP),
                Field(name="creationtime", place="creation-time", type=TIMESTAMP),
                Field(name="groupid", place="group-id"),
                Field(name="groupsequence", place="group-sequence"),
                Field(name="replytogroupid", place="reply-to-group-id"),
            ),
        ),
        _amqp_map("applicationproperties", "application-properties"),
        Section(name="applicationdata", schema=True, encoding=True),
        _amqp_map("footer", "footer"),
    ),
    MQTT: (
        Section(
            name="publish",
            fields=(
                Field(name="mqttversion", values=("3.1.1", "5.0")),
                Field(name="qos", place="qos", type=INTEGER, constant=True, values=(0, 1, 2)),
                Field(name="retain", place="retain", type=BOOLEAN, constant=True),
                Field(name="topicname", place="topic_name", constant=True, uri=True),
                Field(
                    name="payloadformat",
                    place="payload_format_indicator",
                    type=INTEGER,
                    constant=True,
                    modern=True,
                    values=(0, 1),
                ),
                Field(name="expiryinterval", place="message_expiry_interval", type=INTEGER, constant=True, modern=True),
                Field(name="responsetopic", place="response_topic", constant=True, uri=True, modern=True),
                Field(name="correlationdata", place="correlation_data", type=BINARY, constant=True, modern=True),
                Field(name="contenttype", place="content_type", constant=True, modern=True),
            ),
        ),
        Section(name="userproperty", place="user_properties", names=_UTF8_NAME, listed=True),
        _PAYLOAD,
    ),
    NATS: (
        Section(
            name="pub",
            fields=(
                Field(name="subject", place="subject", constant=True, uri=True),
                Field(name="replyto", place="reply-to", constant=True, uri=True),
            ),
        ),
        _PAYLOAD,
    ),
}
"""By the name of the format. NATS is that of 0.1: the first draft names it and gives it none."""

CONTENT_TYPES: Final = {
    CLOUDEVENTS: ("attributes", "datacontenttype"),
    AMQP: ("properties", "contenttype"),
    MQTT: ("publish", "contenttype"),
}
"""Section and field that tell the media type of the payload."""

ENCODINGS: Final = ("Data", "Value", "Sequence")
MQTT_VERSION: Final = "5.0"
"""Where a definition tells none (B-15)."""


def section(format: str, name: str) -> Section | None:
    """The section of a format, None if it has none of that name."""
    return next((each for each in METASCHEMAS.get(format, ()) if each.name == name), None)


def mqtt_version(definition: dict[str, object]) -> str:
    """The version of MQTT that a definition (spelt as in 0.1) is for."""
    publish = definition.get("publish")
    stated = publish.get("mqttversion") if isinstance(publish, dict) else None
    value = stated.get("value") if isinstance(stated, dict) else stated
    return value if isinstance(value, str) and value else MQTT_VERSION

"""A definition as the attributes of a message of xRegistry (domain.md J-13 to J-17).

What has no place there, such as a template where xRegistry has a number, is left out: ``originals`` keeps it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from signalbook.cncf.messagecatalog import dataschemas
from signalbook.cncf.messagecatalog.formats import HTTP, KAFKA, XREGISTRY, message_protocol
from signalbook.cncf.messagecatalog.metaschemas import (
    CLOUDEVENTS,
    CONTENT_TYPES,
    METASCHEMAS,
    Field,
    Section,
    mqtt_version,
)
from signalbook.cncf.messagecatalog.spelling import ENCODING, SCHEMA
from signalbook.cncf.messagecatalog.templates import (
    BINARY,
    INTEGER,
    STRING,
    TIMESTAMP,
    has_expressions,
    is_simple,
    is_uri_template,
    literal,
    typed,
    undashed,
)
from signalbook.values import JSON, JSONObject

DEFINING: Final = (
    "envelope",
    "envelopemetadata",
    "envelopeoptions",
    "protocol",
    "protocoloptions",
    "dataschemaformat",
    "dataschema",
    "dataschemauri",
    "dataschemaxid",
    "datacontenttype",
)
"""The attributes of a message that a definition becomes."""
PROTOCOL: Final = "protocol"
ENVELOPE: Final = "envelope"
PAYLOAD: Final = "payload"
"""Sections of definitions here that no metaschema has: for what a message of xRegistry says more (J-18)."""
ALWAYS: Final = ("id", "source", "specversion", "type")
"""Attributes that every CloudEvent has (J-15)."""
HEADER: Final[JSONObject] = {"durable": False, "priority": 4, "first-acquirer": False, "delivery-count": 0}
"""An AMQP header's defaults, which xRegistry states and the drafts do not."""

_MOST: Final = 4000
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)
_KEY: Final = re.compile(r"[a-z0-9][a-z0-9:_.-]{0,62}", re.ASCII)
# Property definitions that are URI templates unless they say otherwise.
_TEMPLATED: Final = frozenset({"source", "subject", "to", "reply-to", "dataschema"})
# And the one of these names, in AMQP's properties, that is not.
_STRINGS: Final = {"properties": frozenset({"subject"})}
_UNTYPED: Final = frozenset({"time", "absolute-expiry-time", "creation-time", "group-sequence"})
# Formats of no draft, whose definitions are xRegistry's protocoloptions.
_OWN: Final = frozenset({HTTP, KAFKA})


def project(format: str, definition: JSONObject, group: Mapping[str, JSON]) -> JSONObject:
    """The ``DEFINING`` attributes of a message in ``group``; ``definition`` is spelt as in 0.1, and has no faults."""
    if format == XREGISTRY:
        return {name: definition[name] for name in DEFINING if definition.get(name) is not None}
    protocol = message_protocol(format, group, mqtt_version(definition))
    message: JSONObject = {"protocol": protocol} if protocol else {}
    if format in _OWN:
        options = {name: value for name, value in definition.items() if name != PAYLOAD}
        message["protocoloptions"] = options
        return message | _payload(definition, None)
    if format == CLOUDEVENTS:
        return message | _cloudevents(definition, group)
    if format in METASCHEMAS:
        message["protocoloptions"] = _options(format, definition)
        section, field = CONTENT_TYPES.get(format, ("", ""))
        return message | _payload(definition, literal((definition.get(section) or {}).get(field)))
    return message


def _cloudevents(definition: JSONObject, group: Mapping[str, JSON]) -> JSONObject:
    attributes = _object(definition, "attributes")
    fields = METASCHEMAS[CLOUDEVENTS][0]
    message: JSONObject = {"envelope": str(group.get("envelope") or "CloudEvents/1.0")}
    message["envelopemetadata"] = {
        name: _property(field, template, required=name in ALWAYS)
        for name, template in attributes.items()
        if (field := fields.field(name)) is not None and isinstance(template, dict) and _fits_metadata(name, template)
    }
    if isinstance(options := _object(definition, ENVELOPE).get("options"), dict):
        message["envelopeoptions"] = options
    protocol = _object(definition, PROTOCOL)
    if isinstance(name := protocol.get("name") or group.get("protocol"), str):
        message |= {"protocol": name, "protocoloptions": protocol.get("options") or {}}
    if isinstance(schema := attributes.get(SCHEMA), dict):
        message |= dataschemas.project(schema, literal(attributes.get("datacontenttype")))
    return message


def _fits_metadata(name: str, template: JSONObject) -> bool:
    value = template.get("value")
    if name == SCHEMA and isinstance(value, str) and not is_uri_template(value):
        return False
    if name == "specversion" and value not in (None, "", "1.0"):
        return False
    return _NAME.fullmatch(name) is not None and _short(template)


def _options(format: str, definition: JSONObject) -> JSONObject:
    """The ``protocoloptions``: every section in its place."""
    options: JSONObject = {}
    for section in METASCHEMAS[format]:
        body = definition.get(section.name)
        if not isinstance(body, dict):
            continue
        if section.listed:
            options[section.place] = [
                {"name": name, **_property(Field(name=name), template, required=False)}
                for name, template in body.items()
                if isinstance(template, dict) and _short(template)
            ]
            continue
        placed = dict(_placed(section, body))
        if section.encoding and body.get(ENCODING) is not None:
            options[ENCODING] = body[ENCODING]
        if section.name == "header":
            placed = HEADER | placed
        if section.place:
            options[section.place] = placed
        else:
            options |= placed
    return options


def _placed(section: Section, body: JSONObject) -> Iterator[tuple[str, JSON]]:
    """The fields of a section that xRegistry has a place for, with what it has there."""
    for name, template in body.items():
        field = section.field(name)
        if field is None or not field.place or not isinstance(template, dict) or not _short(template):
            continue
        if not field.constant:
            if section.names is None or _KEY.fullmatch(name):
                yield field.place, _property(field, template, required=False, within=section.name)
        elif (value := _constant(field, template)) is not None:
            yield field.place, value


def _constant(field: Field, template: JSONObject) -> JSON:
    """A value of MQTT, NATS or an AMQP header, as xRegistry has it; None if it cannot."""
    value = template.get("value")
    if field.uri:
        return undashed(value) if isinstance(value, str) and value and is_uri_template(value) else None
    if field.type in (STRING, BINARY):
        return value or None
    exact = typed(literal(template), field.type)
    return None if isinstance(exact, str) else exact


def _property(field: Field, template: JSONObject, *, required: bool, within: str = "") -> JSONObject:
    """A property definition."""
    value = template.get("value")
    found: JSONObject = {}
    if isinstance(value, bool):
        found = {"value": str(value).lower(), "type": "boolean"}
    elif isinstance(value, int):
        found = {"value": str(value), "type": "integer"}
    elif isinstance(value, str) and value:
        text = undashed(value)
        found = {"value": text, **_type(field, text, within)}
    if required or template.get("required"):
        found["required"] = True
    if template.get("description"):
        found["description"] = template["description"]
    return found


def _type(field: Field, value: str, within: str) -> JSONObject:
    """The type to state with a ``value``, if it is not the model's default for it (J-13, J-17)."""
    if field.type in (TIMESTAMP, INTEGER) or field.place in _UNTYPED:
        return {}
    templated = field.place in _TEMPLATED - _STRINGS.get(within, frozenset())
    if is_simple(value):
        return {} if templated else {"type": "uritemplate"}
    return {"type": "string"} if templated and has_expressions(value) else {}


def _payload(definition: JSONObject, contenttype: JSON) -> JSONObject:
    """The data schema of formats that have it in a section of its own."""
    for name in (PAYLOAD, "applicationdata"):
        schema = _object(definition, name).get(SCHEMA)
        if isinstance(schema, dict):
            return dataschemas.project(schema, contenttype)
    return {}


def _object(definition: JSONObject, name: str) -> JSONObject:
    value = definition.get(name)
    return value if isinstance(value, dict) else {}


def _short(template: JSONObject) -> bool:
    """Whether value and description are no longer than scalars of xRegistry may be."""
    return all(len(str(template.get(name) or "").encode()) <= _MOST for name in ("value", "description"))

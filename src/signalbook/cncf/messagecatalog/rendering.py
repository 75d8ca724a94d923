"""A message of xRegistry as a definition, spelt as in 0.1 (domain.md J-13 to J-18).

What the drafts cannot say is left out: property types and ``specurl``, and for the predefined formats whatever their
metaschemas have no section for, but for what the sections ``protocol``, ``envelope`` and ``payload`` take.
"""

from __future__ import annotations

from signalbook.cncf.messagecatalog import dataschemas
from signalbook.cncf.messagecatalog.formats import HTTP, KAFKA
from signalbook.cncf.messagecatalog.metaschemas import (
    CLOUDEVENTS,
    CONTENT_TYPES,
    METASCHEMAS,
    MQTT,
    MQTT_VERSION,
    Section,
)
from signalbook.cncf.messagecatalog.projection import ALWAYS, DEFINING, ENVELOPE, PAYLOAD, PROTOCOL
from signalbook.cncf.messagecatalog.spelling import ENCODING, SCHEMA
from signalbook.cncf.messagecatalog.templates import BOOLEAN, INTEGER, typed
from signalbook.values import JSON, JSONObject


def render(format: str, message: JSONObject) -> JSONObject:
    """The definition in ``message``, whose group has ``format``; all of xRegistry's for a format that is none."""
    if format == CLOUDEVENTS:
        return _cloudevents(message)
    if format in METASCHEMAS:
        return _sections(format, message)
    if format in (HTTP, KAFKA):
        return {**_object(message, "protocoloptions"), **_payload(message)}
    return {name: message[name] for name in DEFINING if message.get(name) is not None}


def _cloudevents(message: JSONObject) -> JSONObject:
    metadata = _object(message, "envelopemetadata")
    attributes = {name: _template(body, required=name in ALWAYS) for name, body in metadata.items()}
    schema = dataschemas.render(message)
    if schema:
        # The attribute's own value is what an event carries; the other is where the schema is.
        stated = {name: value for name, value in attributes.get(SCHEMA, {}).items() if value != ""}
        attributes[SCHEMA] = {"value": "", **schema, **stated}
    _add_content_type(CLOUDEVENTS, {"attributes": attributes}, message)
    definition: JSONObject = {"attributes": attributes}
    if message.get("protocol"):
        options = message.get("protocoloptions")
        definition[PROTOCOL] = {"name": message["protocol"], **({"options": options} if options else {})}
    if message.get("envelopeoptions"):
        definition[ENVELOPE] = {"options": message["envelopeoptions"]}
    return definition


def _sections(format: str, message: JSONObject) -> JSONObject:
    options = _object(message, "protocoloptions")
    definition: JSONObject = {}
    for section in METASCHEMAS[format]:
        body = _section(section, options)
        if section.schema and (schema := dataschemas.render(message)):
            body = {SCHEMA: schema, **(body or {})}
        if section.encoding and options.get(ENCODING) is not None:
            body = {**(body or {}), ENCODING: options[ENCODING]}
        if body is not None:
            definition[section.name] = body
    if format == MQTT:
        _add_mqtt_version(definition, message)
    _add_content_type(format, definition, message)
    return definition


def _section(section: Section, options: JSONObject) -> JSONObject | None:
    """What the options have for a section's fields, None if they lack its place."""
    if section.listed:
        listed = options.get(section.place)
        return None if not isinstance(listed, list) else {str(e.get("name")): _template(e) for e in listed}
    body = options.get(section.place) if section.place else options
    if not isinstance(body, dict):
        return None
    places = {field.place: field for field in section.fields}
    found: JSONObject = {}
    for place, value in body.items():
        field = places.get(place)
        if field is not None:
            found[field.name] = {"value": value} if field.constant else _template(value)
        elif section.names is not None and isinstance(value, dict):
            found[place] = _template(value)
    return found if found or section.place else None


def _template(body: JSON, *, required: bool = False) -> JSONObject:
    """A property definition as an attribute value template; ``""`` stands for any value."""
    body = body if isinstance(body, dict) else {}
    value = body.get("value")
    template: JSONObject = {"value": "" if value is None else typed(value, _typed(body.get("type")))}
    if required or body.get("required"):
        template["required"] = True
    if body.get("description"):
        template["description"] = body["description"]
    return template


def _typed(type: JSON) -> str:
    return type if type in (BOOLEAN, INTEGER) else ""


def _add_mqtt_version(definition: JSONObject, message: JSONObject) -> None:
    """Stated where it is not the default."""
    version = str(message.get("protocol") or "").partition("/")[2]
    if version and version != MQTT_VERSION:
        definition["publish"] = {"mqttversion": {"value": version}, **definition.get("publish", {})}


def _add_content_type(format: str, definition: JSONObject, message: JSONObject) -> None:
    """A payload's content type that xRegistry states beside the metadata, where the drafts have but one place."""
    stated = message.get("datacontenttype")
    if isinstance(stated, str) and format in CONTENT_TYPES:
        section, field = CONTENT_TYPES[format]
        definition.setdefault(section, {}).setdefault(field, {"value": stated})


def _payload(message: JSONObject) -> JSONObject:
    schema = dataschemas.render(message)
    return {PAYLOAD: {SCHEMA: schema}} if schema else {}


def _object(message: JSONObject, name: str) -> JSONObject:
    value = message.get(name)
    return value if isinstance(value, dict) else {}

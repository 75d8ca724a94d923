"""Convert definitions of the drafts to messages of xRegistry, and messages to definitions (J-13 to J-18).

Definitions have the spelling of 0.1. Values that xRegistry cannot represent, such as a template in place of a number,
are left out of the message, and ``originals`` keeps them. Members that the drafts cannot represent are left out of
definitions: property types and ``specurl``. Definitions of the predefined formats contain only the sections of their
metaschemas, and the sections ``protocol``, ``envelope`` and ``payload``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from signalbook.cncf.messagecatalog.metaschemas import (
    CLOUDEVENTS,
    CONTENT_TYPES,
    ENCODING,
    ENVELOPE,
    HTTP,
    KAFKA,
    METASCHEMAS,
    MQTT,
    MQTT_VERSION,
    PAYLOAD,
    PROTOCOL,
    SCHEMA,
    XREGISTRY,
    MetaschemaField,
    MetaschemaSection,
    choose_protocol,
    read_mqtt_version,
)
from signalbook.cncf.messagecatalog.templates import (
    BINARY,
    BOOLEAN,
    INTEGER,
    STRING,
    TIMESTAMP,
    convert_value,
    has_expressions,
    is_simple,
    is_uri_template,
    literal,
    replace_dashes,
)
from signalbook.cncf.schemaregistry import dialect
from signalbook.uris import is_uri_reference
from signalbook.values import JSON, Finding, JSONObject

_SCHEMA_TYPES: Final = {"avro": "Avro", "jsonschema": "JSON", "protobuf": "Protobuf"}
_FORMATS: Final = {"Avro": "Avro/1.11", "Protobuf": "Protobuf/3"}
_JSON_SCHEMA: Final = "JsonSchema/draft-07"
_BY_MEDIA_TYPE: Final = {"avro": "Avro/1.11", "json": _JSON_SCHEMA, "protobuf": "Protobuf/3", "xml": "XSD/1.0"}


def validate_dataschema(dataschema: JSON, path: str, *, uri: bool = True) -> Iterator[Finding]:
    """Yield findings about a Data Schema object. ``uri`` means that its value is a URI reference, not a template."""
    if not isinstance(dataschema, dict):
        yield _build_dataschema_finding(path, "it needs to be an object with value, schematype or schema")
        return
    value, kind, schema = (dataschema.get(name) for name in ("value", "schematype", "schema"))
    if uri and value not in (None, "") and not (isinstance(value, str) and is_uri_reference(value)):
        yield _build_dataschema_finding(f"{path}.value", "it needs to be a URI")
    if kind is not None and not (isinstance(kind, str) and kind):
        yield _build_dataschema_finding(f"{path}.schematype", "it needs to be a string")
    if schema is not None and not isinstance(schema, dict | str):
        yield _build_dataschema_finding(f"{path}.schema", "it needs to be a JSON object, or a string with the schema")
    if kind in ("Avro", "JSON") and isinstance(schema, str):
        yield _build_dataschema_finding(f"{path}.schema", f"a schema of type {kind} needs to be a JSON object")
    if kind == "Protobuf" and isinstance(schema, dict):
        yield _build_dataschema_finding(f"{path}.schema", "a schema of type Protobuf needs to be a string")


def build_dataschema_attributes(dataschema: JSONObject, contenttype: JSON) -> JSONObject:
    """Return the attributes of a message for a Data Schema object. An inline schema takes precedence over a URI (C-23).

    ``dataschemaformat`` is derived from the type, the schema itself or the content type. If there is none, the result
    is empty.
    """
    schema, value = dataschema.get("schema"), dataschema.get("value")
    schema_format = _format(dataschema.get("schematype"), schema, contenttype)
    if schema_format is None:
        return {}
    if schema is not None:
        return {"dataschemaformat": schema_format, "dataschema": schema}
    if isinstance(value, str) and value and not has_expressions(value) and is_uri_template(value):
        return {"dataschemaformat": schema_format, "dataschemauri": value}
    return {}


def render_dataschema(message: JSONObject) -> JSONObject:
    """Return the Data Schema object of a message; empty if it has no schema."""
    rendered: JSONObject = {}
    value = message.get("dataschemauri") or message.get("dataschemaxid")
    if isinstance(value, str):
        rendered["value"] = value
    if message.get("dataschemaformat") and (rendered or "dataschema" in message):
        rendered["schematype"] = _find_schema_type(str(message["dataschemaformat"]), message.get("dataschema"))
    if message.get("dataschema") is not None:
        rendered["schema"] = message["dataschema"]
    return rendered


def _format(kind: JSON, schema: JSON, contenttype: JSON) -> str | None:
    # The stated type takes precedence, then the schema itself, then the content type.
    if kind == "JSON" or (kind is None and isinstance(schema, dict) and "$schema" in schema):
        stated = schema.get("$schema") if isinstance(schema, dict) else None
        return dialect(stated) or _JSON_SCHEMA
    if isinstance(kind, str):
        return _FORMATS.get(kind) or (kind if "/" in kind else None)
    if isinstance(schema, dict):
        return "Avro/1.11" if schema.get("type") == "record" else _JSON_SCHEMA
    if isinstance(schema, str):
        return "XSD/1.0" if schema.lstrip().startswith("<") else "Protobuf/3"
    return _find_format_by_media_type(contenttype)


def _find_format_by_media_type(contenttype: JSON) -> str | None:
    if not isinstance(contenttype, str):
        return None
    kind = contenttype.partition(";")[0].strip().lower().rpartition("/")[2]
    return next((format_name for name, format_name in _BY_MEDIA_TYPE.items() if kind.endswith(name)), None)


def _find_schema_type(format: str, schema: JSON) -> str:
    """Return the well-known name of a format if that name leads back to exactly this format, else the format."""
    name = _SCHEMA_TYPES.get(format.partition("/")[0].lower(), format)
    return name if _format(name, schema, None) == format else format


def _build_dataschema_finding(path: str, message: str) -> Finding:
    return Finding(path=path, rule="dataschema", message=message)


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
"""The attributes of a message that are derived from a definition."""
ALWAYS: Final = ("id", "source", "specversion", "type")
"""Attributes that every CloudEvent has (J-15)."""
HEADER: Final[JSONObject] = {"durable": False, "priority": 4, "first-acquirer": False, "delivery-count": 0}
"""An AMQP header's defaults, which xRegistry states and the drafts do not."""

_MAX_SCALAR_BYTES: Final = 4000
_ATTRIBUTE_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)
_PROPERTY_KEY: Final = re.compile(r"[a-z0-9][a-z0-9:_.-]{0,62}", re.ASCII)
# Properties that are URI templates by default.
_TEMPLATED: Final = frozenset({"source", "subject", "to", "reply-to", "dataschema"})
# Of these, the one that is a string by default in AMQP's properties.
_STRINGS: Final = {"properties": frozenset({"subject"})}
_UNTYPED: Final = frozenset({"time", "absolute-expiry-time", "creation-time", "group-sequence"})
# Formats of no draft, whose definitions are xRegistry's protocoloptions.
_XREGISTRY_FORMATS: Final = frozenset({HTTP, KAFKA})


def definition_to_message(format: str, definition: JSONObject, group: Mapping[str, JSON]) -> JSONObject:
    """Return the ``DEFINING`` attributes of a message in ``group``.

    ``definition`` must be valid and have the spelling of 0.1.
    """
    if format == XREGISTRY:
        return {name: definition[name] for name in DEFINING if definition.get(name) is not None}
    protocol = choose_protocol(format, group, read_mqtt_version(definition))
    message: JSONObject = {"protocol": protocol} if protocol else {}
    if format in _XREGISTRY_FORMATS:
        options = {name: value for name, value in definition.items() if name != PAYLOAD}
        message["protocoloptions"] = options
        return message | _build_payload_attributes(definition, None)
    if format == CLOUDEVENTS:
        return message | _build_cloudevents_message(definition, group)
    if format in METASCHEMAS:
        message["protocoloptions"] = _build_protocol_options(format, definition)
        section, field = CONTENT_TYPES.get(format, ("", ""))
        return message | _build_payload_attributes(definition, literal((definition.get(section) or {}).get(field)))
    return message


def _build_cloudevents_message(definition: JSONObject, group: Mapping[str, JSON]) -> JSONObject:
    attributes = _read_object(definition, "attributes")
    fields = METASCHEMAS[CLOUDEVENTS][0]
    message: JSONObject = {"envelope": str(group.get("envelope") or "CloudEvents/1.0")}
    message["envelopemetadata"] = {
        name: _build_property(field, template, required=name in ALWAYS)
        for name, template in attributes.items()
        if (field := fields.find_field(name)) is not None
        and isinstance(template, dict)
        and _is_valid_metadata(name, template)
    }
    if isinstance(options := _read_object(definition, ENVELOPE).get("options"), dict):
        message["envelopeoptions"] = options
    protocol = _read_object(definition, PROTOCOL)
    if isinstance(name := protocol.get("name") or group.get("protocol"), str):
        message |= {"protocol": name, "protocoloptions": protocol.get("options") or {}}
    if isinstance(schema := attributes.get(SCHEMA), dict):
        message |= build_dataschema_attributes(schema, literal(attributes.get("datacontenttype")))
    return message


def _is_valid_metadata(name: str, template: JSONObject) -> bool:
    value = template.get("value")
    if name == SCHEMA and isinstance(value, str) and not is_uri_template(value):
        return False
    # xRegistry supports only CloudEvents 1.0.
    if name == "specversion" and value not in (None, "", "1.0"):
        return False
    return _ATTRIBUTE_NAME.fullmatch(name) is not None and _is_short(template)


def _build_protocol_options(format: str, definition: JSONObject) -> JSONObject:
    """Return the ``protocoloptions`` with all sections of a definition."""
    options: JSONObject = {}
    for section in METASCHEMAS[format]:
        body = definition.get(section.name)
        if not isinstance(body, dict):
            continue
        if section.listed:
            options[section.place] = [
                {"name": name, **_build_property(MetaschemaField(name=name), template, required=False)}
                for name, template in body.items()
                if isinstance(template, dict) and _is_short(template)
            ]
            continue
        placed = dict(_map_fields(section, body))
        if section.encoding and body.get(ENCODING) is not None:
            options[ENCODING] = body[ENCODING]
        if section.name == "header":
            placed = HEADER | placed
        if section.place:
            options[section.place] = placed
        else:
            options |= placed
    return options


def _map_fields(section: MetaschemaSection, body: JSONObject) -> Iterator[tuple[str, JSON]]:
    """Yield the fields of a section that xRegistry can represent, as name and value in xRegistry."""
    for name, template in body.items():
        field = section.find_field(name)
        if field is None or not field.place or not isinstance(template, dict) or not _is_short(template):
            continue
        if not field.constant:
            if section.names is None or _PROPERTY_KEY.fullmatch(name):
                yield field.place, _build_property(field, template, required=False, within=section.name)
        elif (value := _convert_constant(field, template)) is not None:
            yield field.place, value


def _convert_constant(field: MetaschemaField, template: JSONObject) -> JSON:
    """Return a value of MQTT, NATS or an AMQP header in the form of xRegistry, or None if that is impossible."""
    value = template.get("value")
    if field.uri:
        return replace_dashes(value) if isinstance(value, str) and value and is_uri_template(value) else None
    if field.type in (STRING, BINARY):
        return value or None
    exact = convert_value(literal(template), field.type)
    # A string is a template here, but xRegistry needs a number or a boolean.
    return None if isinstance(exact, str) else exact


def _build_property(field: MetaschemaField, template: JSONObject, *, required: bool, within: str = "") -> JSONObject:
    """Return the property definition for a field's ``template``."""
    value = template.get("value")
    definition: JSONObject = {}
    # Before int: in Python True is one.
    if isinstance(value, bool):
        definition = {"value": str(value).lower(), "type": "boolean"}
    elif isinstance(value, int):
        definition = {"value": str(value), "type": "integer"}
    elif isinstance(value, str) and value:
        text = replace_dashes(value)
        definition = {"value": text, **_choose_property_type(field, text, within)}
    if required or template.get("required"):
        definition["required"] = True
    if template.get("description"):
        definition["description"] = template["description"]
    return definition


def _choose_property_type(field: MetaschemaField, value: str, within: str) -> JSONObject:
    """Return the type to state for ``value``, or nothing if it is the model's default (J-13, J-17)."""
    if field.type in (TIMESTAMP, INTEGER) or field.place in _UNTYPED:
        return {}
    # Some properties are templates by default. State the type only if it differs from the default.
    templated = field.place in _TEMPLATED - _STRINGS.get(within, frozenset())
    if is_simple(value):
        return {} if templated else {"type": "uritemplate"}
    return {"type": "string"} if templated and has_expressions(value) else {}


def _build_payload_attributes(definition: JSONObject, contenttype: JSON) -> JSONObject:
    """Return the attributes for the data schema of formats with a separate section for it."""
    for name in (PAYLOAD, "applicationdata"):
        schema = _read_object(definition, name).get(SCHEMA)
        if isinstance(schema, dict):
            return build_dataschema_attributes(schema, contenttype)
    return {}


def _read_object(definition: JSONObject, name: str) -> JSONObject:
    value = definition.get(name)
    return value if isinstance(value, dict) else {}


def _is_short(template: JSONObject) -> bool:
    """Return True if value and description are short enough for scalars of xRegistry."""
    return all(len(str(template.get(name) or "").encode()) <= _MAX_SCALAR_BYTES for name in ("value", "description"))


def message_to_definition(format: str, message: JSONObject) -> JSONObject:
    """Return the definition in ``message``, whose group has ``format``.

    For an unknown format, it has all ``DEFINING`` attributes.
    """
    if format == CLOUDEVENTS:
        return _render_cloudevents_definition(message)
    if format in METASCHEMAS:
        return _render_sections(format, message)
    if format in (HTTP, KAFKA):
        return {**_read_object(message, "protocoloptions"), **_render_payload(message)}
    return {name: message[name] for name in DEFINING if message.get(name) is not None}


def _render_cloudevents_definition(message: JSONObject) -> JSONObject:
    metadata = _read_object(message, "envelopemetadata")
    attributes = {name: _render_template(body, required=name in ALWAYS) for name, body in metadata.items()}
    schema = render_dataschema(message)
    if schema:
        # The value of the attribute is sent in events, and takes precedence over the location of the schema.
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


def _render_sections(format: str, message: JSONObject) -> JSONObject:
    options = _read_object(message, "protocoloptions")
    definition: JSONObject = {}
    for section in METASCHEMAS[format]:
        body = _render_section(section, options)
        if section.schema and (schema := render_dataschema(message)):
            body = {SCHEMA: schema, **(body or {})}
        if section.encoding and options.get(ENCODING) is not None:
            body = {**(body or {}), ENCODING: options[ENCODING]}
        if body is not None:
            definition[section.name] = body
    if format == MQTT:
        _add_mqtt_version(definition, message)
    _add_content_type(format, definition, message)
    return definition


def _render_section(section: MetaschemaSection, options: JSONObject) -> JSONObject | None:
    """Return the fields of a section in the options, or None if they lack its place."""
    if section.listed:
        listed = options.get(section.place)
        return None if not isinstance(listed, list) else {str(e.get("name")): _render_template(e) for e in listed}
    body = options.get(section.place) if section.place else options
    if not isinstance(body, dict):
        return None
    places = {field.place: field for field in section.fields}
    fields: JSONObject = {}
    for place, value in body.items():
        field = places.get(place)
        if field is not None:
            fields[field.name] = {"value": value} if field.constant else _render_template(value)
        elif section.names is not None and isinstance(value, dict):
            fields[place] = _render_template(value)
    # If the options themselves are the section, all of them may belong to other sections.
    return fields if fields or section.place else None


def _render_template(body: JSON, *, required: bool = False) -> JSONObject:
    """Return a property definition as an attribute value template; ``""`` stands for any value."""
    body = body if isinstance(body, dict) else {}
    value = body.get("value")
    template: JSONObject = {
        "value": "" if value is None else convert_value(value, _choose_value_type(body.get("type")))
    }
    if required or body.get("required"):
        template["required"] = True
    if body.get("description"):
        template["description"] = body["description"]
    return template


def _choose_value_type(type: JSON) -> str:
    return type if type in (BOOLEAN, INTEGER) else ""


def _add_mqtt_version(definition: JSONObject, message: JSONObject) -> None:
    """Add the version of MQTT if it is not the default."""
    version = str(message.get("protocol") or "").partition("/")[2]
    if version and version != MQTT_VERSION:
        definition["publish"] = {"mqttversion": {"value": version}, **definition.get("publish", {})}


def _add_content_type(format: str, definition: JSONObject, message: JSONObject) -> None:
    """Add ``datacontenttype`` of a message to the definition. The drafts have a single place for it."""
    stated = message.get("datacontenttype")
    if isinstance(stated, str) and format in CONTENT_TYPES:
        section, field = CONTENT_TYPES[format]
        definition.setdefault(section, {}).setdefault(field, {"value": stated})


def _render_payload(message: JSONObject) -> JSONObject:
    schema = render_dataschema(message)
    return {PAYLOAD: {SCHEMA: schema}} if schema else {}

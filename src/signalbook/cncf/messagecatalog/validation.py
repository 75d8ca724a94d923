"""Check definitions by the metaschema of their format (B-12 to B-16, C-19 to C-26).

Definitions have the spelling of 0.1. Formats without a metaschema are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from signalbook.cncf.ids import same_id
from signalbook.cncf.messagecatalog import conversion, metaschemas
from signalbook.cncf.messagecatalog.metaschemas import (
    AMQP,
    CLOUDEVENTS,
    ENCODING,
    ENCODINGS,
    METASCHEMAS,
    MQTT,
    MQTT_VERSION,
    SCHEMA,
    MetaschemaField,
    MetaschemaSection,
    read_mqtt_version,
)
from signalbook.cncf.messagecatalog.templates import (
    INTEGER,
    convert_value,
    find_value_error,
    has_expressions,
    is_simple,
    literal,
    replace_dashes,
)
from signalbook.uris import is_uri, is_uri_reference
from signalbook.values import JSON, Finding, JSONObject

_MEDIA_TYPE: Final = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?:\s*;.*)?", re.ASCII)
_SIGNED: Final = "it must not be negative"


def validate_against_metaschema(format: str, id: str, definition: JSON) -> Iterator[Finding]:
    """Yield findings about the ``definition`` of the message ``id``. Paths begin with the section."""
    if not isinstance(definition, dict):
        yield _build_metaschema_finding("", "it needs to be a JSON object")
        return
    for section in METASCHEMAS.get(format, ()):
        if definition.get(section.name) is not None:
            yield from _validate_section(section, definition[section.name])
    if format in METASCHEMAS:
        names = metaschemas.list_section_names(format)
        for name in definition.keys() - names:
            yield _build_metaschema_finding(
                name, f"the format {format} has no such section; it has {', '.join(sorted(names))}"
            )
    if format == CLOUDEVENTS:
        yield from _validate_cloudevents(id, definition)
    if format == MQTT:
        yield from _validate_mqtt(definition)


def find_doubts(format: str, definition: JSONObject) -> Iterator[Finding]:
    """Yield warnings for templates that xRegistry cannot express, and therefore treats as plain text (C-21, J-17)."""
    for section in METASCHEMAS.get(format, ()):
        body = definition.get(section.name)
        for name, template in body.items() if isinstance(body, dict) else ():
            value = template.get("value") if isinstance(template, dict) else None
            if not isinstance(value, str) or not has_expressions(value) or is_simple(value):
                continue
            path = f"{section.name}.{name}.value"
            if is_simple(replace_dashes(value)):
                yield _build_doubt(path, "C-21", f"{value[:100]!r} has a dash in a name, for which xRegistry has _")
            else:
                yield _build_doubt(
                    path, "J-17", f"{value[:100]!r} is beyond level 1 of RFC6570, and text for xRegistry"
                )


def find_relatedvia_error(format: str, definition: JSONObject, relatedvia: str) -> str:
    """Return the reason why ``relatedvia`` in a definition of ``format`` is invalid (C-17), or ""."""
    head, _, field = relatedvia.partition(".")
    if format == CLOUDEVENTS:
        has_field = _has_field(definition, "attributes", relatedvia)
        return "" if has_field else "it needs to name an attribute of the defined event"
    if format == AMQP:
        right = relatedvia in ("properties.correlationid", "properties.groupid")
        right = right or (head == "applicationproperties" and _has_field(definition, head, field))
        expected = "properties.correlationid, properties.groupid or applicationproperties.NAME of a field there"
        return "" if right else f"it needs to be {expected}"
    if format == MQTT:
        if read_mqtt_version(definition) != MQTT_VERSION:
            return f"only a definition for MQTT {MQTT_VERSION} has it"
        right = relatedvia == "publish.correlationdata" or (
            head == "userproperty" and _has_field(definition, head, field)
        )
        return "" if right else "it needs to be publish.correlationdata or userproperty.NAME of a field there"
    return ""


def _has_field(definition: JSONObject, section: str, field: str) -> bool:
    """Return True if a field is present and not ``null`` (B-11)."""
    body = definition.get(section)
    return isinstance(body, dict) and body.get(field) is not None


def _validate_section(section: MetaschemaSection, body: JSON) -> Iterator[Finding]:
    if not isinstance(body, dict):
        yield _build_metaschema_finding(section.name, "it needs to be an object")
        return
    for name, template in body.items():
        path = f"{section.name}.{name}"
        if name == SCHEMA and section.schema:
            yield from _validate_schema(section, template, path)
        elif name == ENCODING and section.encoding:
            yield from _validate_encoding(template, path)
        elif (field := section.find_field(name)) is None:
            yield _build_metaschema_finding(path, f"{section.name} has no field {name!r}")
        elif section.names is not None and not section.names.fullmatch(name):
            yield _build_metaschema_finding(path, f"{name[:100]!r} is no name of such a field")
        elif template is not None:
            yield from _validate_field(field, template, path)


def _validate_field(field: MetaschemaField, template: JSON, path: str) -> Iterator[Finding]:
    if field.values and isinstance(template, str):  # mqttversion, written like the encoding
        template = {"value": template}
    if not isinstance(template, dict):
        yield _build_metaschema_finding(path, "it needs to be an object with value, required or description")
        return
    yield from _validate_template(template, path)
    wrong = find_value_error(template.get("value"), field.type)
    if wrong:
        yield _build_metaschema_finding(f"{path}.value", wrong)
    elif (value := convert_value(literal(template), field.type)) is not None:
        if field.values and value not in field.values:
            yield _build_metaschema_finding(
                f"{path}.value", f"it needs to be one of {', '.join(map(str, field.values))}"
            )
        elif field.type == INTEGER and isinstance(value, int) and value < 0:
            yield _build_metaschema_finding(f"{path}.value", _SIGNED)


def _validate_template(template: JSONObject, path: str) -> Iterator[Finding]:
    """Check the members next to the value (C-19)."""
    if not isinstance(template.get("required"), bool | None):
        yield _build_metaschema_finding(f"{path}.required", "it needs to be true or false")
    if not isinstance(template.get("description"), str | None):
        yield _build_metaschema_finding(f"{path}.description", "it needs to be a string")


def _validate_schema(section: MetaschemaSection, template: JSON, path: str) -> Iterator[Finding]:
    """Yield findings about a schema. As an attribute of a CloudEvent it is a field, so a template is allowed (C-24)."""
    if template is None:
        return
    attribute = section.name == "attributes"
    yield from conversion.validate_dataschema(template, path, uri=not attribute)
    if attribute and isinstance(template, dict):
        yield from _validate_field(MetaschemaField(name=SCHEMA), template, path)


def _validate_encoding(value: JSON, path: str) -> Iterator[Finding]:
    if value is not None and value not in ENCODINGS:
        yield _build_metaschema_finding(path, f"it needs to be one of {', '.join(ENCODINGS)}")


def _validate_cloudevents(id: str, definition: JSONObject) -> Iterator[Finding]:
    """Check that ``type`` is exact and equals the definition's id, and that core attributes obey CloudEvents (B-12)."""
    attributes = definition.get("attributes")
    attributes = attributes if isinstance(attributes, dict) else {}
    stated = literal(attributes.get("type"))
    if not isinstance(stated, str):
        yield _build_metaschema_finding("attributes.type", "a CloudEvents definition needs it, with an exact value")
    elif not same_id(id, stated):
        yield _build_metaschema_finding(
            "attributes.type.value", f"it is {stated[:200]!r}, and the id of the definition {id[:200]!r}"
        )
    if "data" in attributes:
        yield _build_metaschema_finding("attributes.data", "'data' is no name of an attribute")
    for name, message in _ATTRIBUTE_RULES.items():
        value = literal(attributes.get(name))
        if isinstance(value, str) and not _CHECKS[name](value):
            yield _build_metaschema_finding(f"attributes.{name}.value", message)


_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "specversion": lambda value: value == "1.0",
    "source": is_uri_reference,
    "dataschema": is_uri,
    "datacontenttype": lambda value: _MEDIA_TYPE.fullmatch(value) is not None,
}
_ATTRIBUTE_RULES: Final = {
    "specversion": 'it needs to be "1.0"',
    "source": "it needs to be a URI reference",
    "dataschema": "it needs to be an absolute URI",
    "datacontenttype": "it needs to be a media type",
}


def _validate_mqtt(definition: JSONObject) -> Iterator[Finding]:
    """Check that a definition for MQTT 3.1.1 has no fields that only MQTT 5.0 has (B-15)."""
    if read_mqtt_version(definition) != "3.1.1":
        return
    publish, properties = definition.get("publish"), definition.get("userproperty")
    for field in METASCHEMAS[MQTT][0].fields:
        if field.modern and isinstance(publish, dict) and publish.get(field.name) is not None:
            yield _build_metaschema_finding(f"publish.{field.name}", "MQTT 3.1.1 has no such field")
    if isinstance(properties, dict) and any(value is not None for value in properties.values()):
        yield _build_metaschema_finding("userproperty", "MQTT 3.1.1 has no user properties")


def _build_metaschema_finding(path: str, message: str) -> Finding:
    return Finding(path=path, rule="metaschema", message=message)


def _build_doubt(path: str, rule: str, message: str) -> Finding:
    return Finding(path=path, rule=rule, message=message, severity="warning")

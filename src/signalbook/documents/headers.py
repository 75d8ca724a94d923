"""Convert schemas of headers to attributes of CloudEvents, and to the headers of protocols."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from signalbook.documents.references import DocumentReader, below
from signalbook.values import JSON, JSONObject

CLOUDEVENTS: Final = "CloudEvents/1.0"
_PREFIXES: Final = ("ce_", "ce-", "cloudEvents:", "cloudEvents_", "")
_REQUIRED_ATTRIBUTES: Final = ("id", "source", "type")
_ATTRIBUTE_NAME: Final = re.compile(r"[a-z0-9]+", re.ASCII)
_FORMAT_TYPES: Final = {
    "date-time": "timestamp", "uri": "uri", "uri-reference": "urireference", "uuid": "uuid", "duration": "duration",
}  # fmt: skip
_SCALAR_TYPES: Final = frozenset({"string", "integer", "number", "boolean"})
_KEYWORDS: Final = frozenset({"type", "const", "enum", "description", "title", "format", "x-uritemplate"})
_MAX_NESTED: Final = 32
# How a protocol has headers: the option, and whether it is a map.
_HEADER_OPTIONS: Final = {
    "HTTP": ("headers", False),
    "KAFKA": ("headers", True),
    "MQTT/5.0": ("user_properties", False),
    "NATS": ("headers", False),
    "AMQP/1.0": ("application-properties", True),
}
_HEADER_KEY: Final = re.compile(r"[a-z0-9][a-z0-9_.:-]{0,62}", re.ASCII)


@dataclass(slots=True)
class SchemaMembers:
    """The members of an object according to its schema, including those of ``allOf``, each with its place."""

    schemas: dict[str, tuple[JSONObject, str]] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)


def collect_members(reader: DocumentReader, schema: JSON, path: str) -> SchemaMembers:
    """Return the members of a schema by name."""
    members = SchemaMembers()
    pending = [(schema, path, 0)]
    while pending:
        value, place, depth = pending.pop()
        followed = reader.follow(value, place)
        if followed is None or followed[0] is None or isinstance(followed[0], bool):
            continue
        body, place = reader.object(*followed), followed[1]
        for name, schema_of_name in reader.object(body.get("properties"), below(place, "properties")).items():
            member = reader.follow(schema_of_name, below(place, "properties", name))
            if member is not None and isinstance(member[0], dict):
                reader.count_copied(name)
                members.schemas.setdefault(name, (member[0], member[1]))
        members.required |= {name for name, _ in reader.items(body, "required", place) if isinstance(name, str)}
        # Deeper ``allOf`` is not written by hand; the limit also ends cycles.
        if depth < _MAX_NESTED:
            reader.count_copied(body.get("allOf"))
            pending += [(branch, where, depth + 1) for branch, where in reader.items(body, "allOf", place)]
    return members


def find_attribute_prefix(members: SchemaMembers) -> str | None:
    """Return the prefix of a CloudEvent's attributes, or None if the members are not those of an event."""
    for prefix in _PREFIXES:
        if all(prefix + name in members.schemas for name in ("specversion", "type") if prefix) and (
            prefix or all(name in members.schemas for name in ("specversion", *_REQUIRED_ATTRIBUTES))
        ):
            return prefix
    return None


def build_attributes(reader: DocumentReader, members: SchemaMembers, prefix: str) -> JSONObject:
    """Return ``envelopemetadata``: the members with this prefix that say more than CloudEvents does."""
    metadata: JSONObject = {}
    for name, (schema, path) in members.schemas.items():
        attribute = name.removeprefix(prefix)
        if attribute == "specversion" or not name.startswith(prefix) or not _ATTRIBUTE_NAME.fullmatch(attribute):
            continue
        definition = _build_property(reader, schema, path, attribute)
        if name in members.required and attribute not in _REQUIRED_ATTRIBUTES:
            definition["required"] = True
        if attribute == "time" and definition.get("type") == "timestamp":
            del definition["type"]  # always is one
        if definition or attribute not in _REQUIRED_ATTRIBUTES:
            metadata[attribute] = definition
    return metadata


def is_structured(content_type: str) -> bool:
    """Return True if a message with this content type is an event in structured mode."""
    return content_type.lower().startswith("application/cloudevents+")


def read_structured_event(
    reader: DocumentReader, schema: JSON, path: str, content_type: str
) -> tuple[JSONObject, tuple[JSONObject, str] | None]:
    """Return the definition that the schema of an event gives, and the schema of its ``data`` with its place."""
    members = collect_members(reader, schema, path)
    data = members.schemas.pop("data", None)
    members.required.discard("data")
    stated = members.schemas.pop("datacontenttype", ({}, ""))[0]
    options = {"mode": "structured", "format": content_type}
    metadata = build_attributes(reader, members, "")
    event: JSONObject = {"envelope": CLOUDEVENTS, "envelopeoptions": options, "envelopemetadata": metadata}
    if (value := find_constant(stated)) is not None:
        event["datacontenttype"] = str(value)
    if data is None:
        reader.report(path, "the event has no schema: its payload says nothing of data", 6)
    return event, data


def build_protocol_headers(
    reader: DocumentReader, members: SchemaMembers, protocol: str, skipped: str | None, path: str
) -> JSONObject:
    """Return the protocol option for the headers, without attributes of an event (``skipped`` is their prefix)."""
    plain_headers = {
        name: member
        for name, member in members.schemas.items()
        if name.lower() != "content-type"
        and not (skipped is not None and name.startswith(skipped) and _ATTRIBUTE_NAME.fullmatch(name[len(skipped) :]))
    }
    if not plain_headers:
        return {}
    if protocol not in _HEADER_OPTIONS:
        reason = f"{protocol} has no headers" if protocol else "no protocol is known"
        reader.report(path, f"left out the headers {', '.join(sorted(plain_headers))}: {reason}", 2)
        return {}
    option, is_map = _HEADER_OPTIONS[protocol]
    listed: list[tuple[str, JSONObject]] = []
    for name, (schema, place) in plain_headers.items():
        key = name.lower() if protocol == "KAFKA" else name
        if is_map and not _HEADER_KEY.fullmatch(key.lower()):
            reader.report(place, f"left out the header {name}: its name is none of a registry", 5)
            continue
        definition = _build_property(reader, schema, place, name)
        definition |= {"required": True} if name in members.required else {}
        listed.append((key, definition if protocol == "AMQP/1.0" else {"name": name, **definition}))
    return {option: dict(listed) if is_map else [definition for _, definition in listed]} if listed else {}


def _build_property(reader: DocumentReader, schema: JSONObject, path: str, name: str) -> JSONObject:
    """Return the property definition for the schema of a header. Constraints that it cannot express are noted."""
    definition: JSONObject = {}
    stated = schema.get("type")
    if (kind := _FORMAT_TYPES.get(str(schema.get("format")))) is not None:
        definition["type"] = kind
    elif isinstance(stated, str) and stated in _SCALAR_TYPES - {"string"}:
        definition["type"] = stated
    if schema.get("description") and isinstance(schema["description"], str):
        definition["description"] = schema["description"]
    if (value := find_constant(schema)) is not None:
        definition["value"] = value
    if isinstance(schema.get("x-uritemplate"), str):
        # Its description is the template in words.
        definition = {"type": "uritemplate", "value": schema["x-uritemplate"]}
    lost = sorted(_find_lost_keywords(schema))
    if lost:
        reader.report(path, f"left out {', '.join(lost)} of {name}: a header has a type and one value at most", 3)
    return definition


def _find_lost_keywords(schema: JSONObject) -> Iterator[str]:
    yield from (name for name in schema if name not in _KEYWORDS)
    if "type" in schema and str(schema["type"]) not in _SCALAR_TYPES:
        yield "type"
    if "enum" in schema and find_constant(schema) is None:
        yield "enum"
    if "format" in schema and str(schema["format"]) not in _FORMAT_TYPES:
        yield "format"


def find_constant(schema: JSON) -> str | int | float | bool | None:
    """Return the only value that a schema allows, if that is a scalar."""
    if not isinstance(schema, dict):
        return None
    enum = schema.get("enum")
    value = schema.get("const", enum[0] if isinstance(enum, list) and len(enum) == 1 else None)
    return value if isinstance(value, str | int | float | bool) else None

"""Build messages from definitions: set constants, expand templates, and add given values (K-50)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal
from uuid import uuid4

import msgspec

from signalbook.errors import SignalbookError
from signalbook.formats import PayloadError
from signalbook.formats.base import parse_media_type
from signalbook.messages.cloudevents import MEDIA_TYPE, SPECVERSION, Attribute, CloudEvent, find_invalid_attributes
from signalbook.messages.definitions.definition import CompiledDefinition, declare_attributes, declare_options
from signalbook.messages.definitions.schemas import NONE, SchemaUse
from signalbook.messages.payload import UNSET, encode_payload
from signalbook.messages.producing.values import (
    ENVELOPE,
    OPTIONS,
    Valuation,
    build_option_values,
    by_path,
    declare_undeclared,
    is_schema_xid,
    shorten_name,
    simple,
)
from signalbook.messages.properties import LEGACY_NOW, NOW, Property
from signalbook.uris import is_uri
from signalbook.values import JSON, Finding, format_timestamp, now

# Attributes for which ``build`` finds a value if the definition leaves them open.
_GENERATED: Final = frozenset({"id", "type", "time", "datacontenttype"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """An input for building a message.

    It is a placeholder (``source`` is ``template``), or a property whose value the definition leaves open. ``name`` is
    its key in ``context`` or ``overrides`` of ``build``, ``type`` is a property type (F-24), and ``paths`` are the
    properties of the definition that use it.
    """

    name: str
    type: str
    source: Literal["template", "property"]
    required: bool
    paths: tuple[str, ...]


def required_inputs(definition: CompiledDefinition) -> list[Param]:
    """Return all inputs of a definition, optional ones too: placeholders first, in order of occurrence."""
    placeholders: dict[str, Param] = {}
    properties: list[Param] = []
    for declared in declare_properties(definition):
        template = declared.template()
        if template is not None:
            for name in template.names:
                _add(placeholders, name, declared)
        elif is_open(declared):
            name, required = shorten_name(declared), declared.required and shorten_name(declared) not in _GENERATED
            param = Param(name=name, type=declared.type, source="property", required=required, paths=(declared.path,))
            properties.append(param)
    return [*placeholders.values(), *properties]


def declare_properties(definition: CompiledDefinition) -> list[Property]:
    """Return the declared properties, and ``source``, which every event needs even if undeclared."""
    attributes = declare_attributes(definition.definition)
    if definition.is_event and all(declared.name != "source" for declared in attributes):
        path = "envelopemetadata.source"
        attributes.append(Property(name="source", path=path, type="urireference", required=True))
    return [*attributes, *declare_options(definition.protocol, definition.definition.get("protocoloptions"))]


def is_open(declared: Property) -> bool:
    """Return True if the definition does not fix the value. A ``dataschema`` that is an xid leaves the host open."""
    return declared.value is None or is_schema_xid(declared)


def _add(placeholders: dict[str, Param], name: str, declared: Property) -> None:
    existing = placeholders.get(name)
    if existing is None:
        placeholders[name] = Param(
            name=name, type="string", source="template", required=declared.required, paths=(declared.path,)
        )
    elif declared.path not in existing.paths:
        required = existing.required or declared.required
        placeholders[name] = replace(existing, required=required, paths=(*existing.paths, declared.path))


class OutboundError(SignalbookError):
    """The error for a message that its definition or endpoint does not allow. ``findings`` are all its problems."""

    def __init__(self, xid: str, findings: Iterable[Finding]) -> None:
        self.xid = xid
        self.findings = tuple(findings)
        super().__init__(f"{xid}: " + "; ".join(str(finding) for finding in self.findings))


class Outbound(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was built from ``definition`` and can be sent.

    ``context`` has the values of the placeholders. ``event`` is None if the envelope is not CloudEvents. ``options``
    are the values of protocol properties by name, as ``Binding.carrying`` takes them. ``body`` is the encoded payload,
    and ``content_type`` its content type.
    """

    definition: CompiledDefinition
    context: Mapping[str, str]
    event: CloudEvent | None
    options: Mapping[str, Any]
    body: bytes | None
    content_type: str


_HEAD: Final = ("specversion", "id", "source", "type")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The sources of the current time and of unique ids for messages. Tests replace them."""

    clock: Callable[[], datetime] = now
    new_id: Callable[[], str] = lambda: str(uuid4())


HERE: Final = Surroundings()


def build(
    definition: CompiledDefinition,
    context: Mapping[str, str] | None = None,
    data: JSON = UNSET,
    overrides: Mapping[str, Any] | None = None,
    *,
    surroundings: Surroundings = HERE,
    is_draft: bool = False,
) -> Outbound:
    """Build a message of ``definition`` with ``context`` as the values of placeholders and ``data`` as the payload.

    ``overrides`` are values of properties that the definition leaves open or does not declare. Their keys are names of
    attributes (``subject``) or paths of properties (``protocoloptions.headers.X-Kind``). ``None`` leaves out an
    optional property. A constant cannot be overridden. By default an event gets a new id, the message's id as its type,
    and the current time if the definition declares ``time``. ``data`` has the form that ``encode_payload`` takes.

    If ``is_draft`` is True, the payload is not checked by the schema, and can only be JSON or text.

    Raises ``OutboundError`` with all findings.
    """
    properties = declare_properties(definition)
    overrides_by_path, findings = by_path(properties, overrides or {}, definition)
    # ``by_path`` has refused properties that the message cannot have. Other undeclared properties may be sent.
    properties += declare_undeclared(properties, overrides_by_path)
    valuation = Valuation(context or {}, partial(_find_default, definition, surroundings))
    values = valuation.of_all(properties, overrides_by_path)
    findings += [*valuation.findings, *_report_unused(valuation, properties)]
    attributes = _build_attributes(properties, values, definition, surroundings) if definition.is_event else {}
    content_type = str(attributes.get("datacontenttype") or _choose_content_type(properties, values, definition, data))
    body, faults = _write_payload(NONE if is_draft else definition.schema_use, data, content_type)
    findings += faults
    content_type = "" if body is None else content_type
    if definition.is_event:
        attributes |= {"datacontenttype": content_type} if content_type else {}
        # Check attributes only if there are no findings yet. Otherwise a missing value would be reported twice.
        findings = findings or find_invalid_attributes(attributes)
    if findings:
        raise OutboundError(definition.xid, findings)
    return Outbound(
        definition=definition,
        context=valuation.context,
        event=CloudEvent(attributes=attributes, body=body) if definition.is_event else None,
        options=build_option_values(properties, values, definition.protocol),
        body=body,
        content_type=content_type,
    )


def _find_default(definition: CompiledDefinition, surroundings: Surroundings, entry: Property) -> Any:
    """Return the default value of a property for which no value was declared or given, or None."""
    match entry.path.removeprefix(ENVELOPE):
        case "id":
            return surroundings.new_id()
        case "type":
            return definition.message_id
        case "time":
            return format_timestamp(surroundings.clock())
        case "datacontenttype":
            return definition.payload_type if entry.required and definition.payload_type else None
        case "dataschema":
            return _find_schema_uri(definition)
    return format_timestamp(surroundings.clock()) if entry.value in (NOW, LEGACY_NOW) else None


def _find_schema_uri(definition: CompiledDefinition) -> str | None:
    """Return the URI of the schema if it is absolute, so that events may name it, or None (F-32)."""
    uri = definition.definition.get("dataschemauri")
    return uri if isinstance(uri, str) and is_uri(uri) else None


def _build_attributes(
    properties: Iterable[Property],
    values_by_path: Mapping[str, Any],
    definition: CompiledDefinition,
    surroundings: Surroundings,
) -> dict[str, Attribute]:
    """Return the context attributes for which there are values, beginning with the required ones."""
    values: dict[str, Attribute] = {
        entry.path.removeprefix(ENVELOPE): _convert_attribute(entry.type, values_by_path[entry.path])
        for entry in properties
        if entry.path.startswith(ENVELOPE) and entry.path in values_by_path
    }
    values = {"specversion": SPECVERSION, "type": definition.message_id, **values}
    if "id" not in values:
        values["id"] = surroundings.new_id()
    schema = _find_schema_uri(definition)
    if schema is not None:
        values.setdefault("dataschema", schema)
    return {**{name: values[name] for name in _HEAD if name in values}, **values}


def _convert_attribute(type: str, value: Any) -> Attribute:
    if isinstance(value, datetime):
        return format_timestamp(value)
    converted: Attribute = value if type == "ulong" else simple(type, value)
    return converted


def _choose_content_type(
    properties: Iterable[Property], values_by_path: Mapping[str, Any], definition: CompiledDefinition, data: JSON
) -> str:
    """Return the payload's type from a protocol option or the definition; JSON for values without schema."""
    for entry in properties:
        if entry.comparison == "content_type" and entry.path.startswith(OPTIONS) and entry.path in values_by_path:
            stated = str(values_by_path[entry.path])
            if not parse_media_type(stated).startswith(MEDIA_TYPE):
                return stated
    opaque = data is UNSET or isinstance(data, bytes)
    return definition.payload_type or ("" if opaque else "application/json")


def _write_payload(use: SchemaUse, data: JSON, content_type: str) -> tuple[bytes | None, list[Finding]]:
    """Return the encoded payload, or None, and the findings about it. Their paths begin with ``data``."""
    try:
        return encode_payload(use, data, content_type), []
    except PayloadError as error:
        faults = error.findings
    return None, [Finding(path=f"data{fault.path}", rule=fault.rule, message=fault.message) for fault in faults]


def _report_unused(valuation: Valuation, properties: Iterable[Property]) -> Iterator[Finding]:
    """Yield a finding for each name in the context that no value of the message uses."""
    names = {name for entry in properties if (template := entry.template()) for name in template.names}
    for name in valuation.unused():
        if name in names:
            text = f"{name} is given, but not what stands beside it: nothing would carry it"
        else:
            text = f"there is no placeholder {name}; there are: {', '.join(sorted(names)) or 'none'}"
        yield Finding(path=f"{{{name}}}", rule="context", message=text)

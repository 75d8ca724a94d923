"""Making CloudEvents of messages that carry none, as their definitions say (domain.md K-35, K-36)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import uuid4

from signalbook.errors import SignalbookError
from signalbook.messages.bindings.base import Binding
from signalbook.messages.cloudevents import SPECVERSION, Attribute, CloudEvent, invalid_attributes
from signalbook.messages.declared import declared_attributes
from signalbook.messages.definition import CompiledDefinition
from signalbook.messages.matching import Subject
from signalbook.messages.properties import Property
from signalbook.messages.timestamps import LEGACY_NOW, NOW
from signalbook.messages.uritemplates import TemplateError
from signalbook.uris import is_uri
from signalbook.values import Finding, format_timestamp, now

_REQUIRED: Final = ("id", "source", "type")


class MappingError(SignalbookError):
    """A message that yields no valid event; ``findings`` says which attributes cannot be had."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("; ".join(str(finding) for finding in self.findings))


def to_cloudevent(
    subject: Subject, definition: CompiledDefinition, context: Mapping[str, str], binding: Binding
) -> CloudEvent:
    """The event: declared constants, templates filled from ``context``, the rest from the transport.

    Raises ``MappingError`` where a required attribute has no value, or the outcome is no valid event.
    """
    metadata: dict[str, Any] = definition.definition.get("envelopemetadata") or {}
    attributes: dict[str, Attribute] = {"specversion": SPECVERSION}
    findings: list[Finding] = []
    declared = {entry.name: entry for entry in declared_attributes(definition.definition)}
    for name in dict.fromkeys((*_REQUIRED, *metadata)):
        entry = declared.get(name)
        required = name in _REQUIRED or (entry is not None and entry.required)
        try:
            value = _declared(entry, context) or _given(name, required, subject, definition, binding)
        except TemplateError as error:
            value = None
            if not required:
                continue
            findings.append(Finding(path=name, rule="mapping", message=str(error)))
            continue
        if value:
            attributes[name] = value
        elif required:
            findings.append(Finding(path=name, rule="mapping", message=f"nothing in the message says its {name}"))
    _describe_data(attributes, subject, definition)
    findings = findings or invalid_attributes(attributes)
    if findings:
        raise MappingError(findings)
    return CloudEvent(attributes=attributes, body=subject.message.body)


def _declared(entry: Property | None, context: Mapping[str, str]) -> str:
    """A constant, or a template expanded; ``""`` for none. Raises ``TemplateError`` where a value is missing."""
    if entry is None or entry.value is None or entry.value in (NOW, LEGACY_NOW):
        return ""
    template = entry.template()
    return str(entry.value) if template is None else template.expand(context)


def _given(name: str, required: bool, subject: Subject, definition: CompiledDefinition, binding: Binding) -> str:
    """What the transport says of an attribute the definition gives no value for."""
    if name == "id":
        return binding.identity(subject.message, subject.values) or str(uuid4())
    if name == "type":
        return definition.message_id
    sentinel = ((definition.definition.get("envelopemetadata") or {}).get("time") or {}).get("value")
    if name == "time" and (required or sentinel):
        return format_timestamp(subject.message.received_at or now())
    return ""


def _describe_data(attributes: dict[str, Attribute], subject: Subject, definition: CompiledDefinition) -> None:
    content_type = subject.message.content_type or definition.payload_type
    if content_type and subject.message.body is not None:
        attributes["datacontenttype"] = content_type
    schema = definition.definition.get("dataschemauri")
    if "dataschema" not in attributes and isinstance(schema, str) and is_uri(schema):
        attributes["dataschema"] = schema

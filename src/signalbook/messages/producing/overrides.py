"""Values that are given by name, and the properties that they are for (domain.md K-50)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from signalbook.messages.bindings.base import Binding, Uncarriable
from signalbook.messages.definition import CompiledDefinition
from signalbook.messages.message import Message
from signalbook.messages.producing.inputs import ENVELOPE, OPTIONS, short_name
from signalbook.messages.producing.outbound import OutboundError
from signalbook.messages.producing.valuation import native, simple
from signalbook.messages.properties import Property
from signalbook.values import Finding

_ATTRIBUTE: Final = re.compile(r"[a-z0-9]+", re.ASCII)


def by_path(
    properties: Iterable[Property], overrides: Mapping[str, Any], definition: CompiledDefinition
) -> tuple[dict[str, Any], list[Finding]]:
    """Overrides by the path of their property, and what names none.

    A name without a path is that of an attribute. Attributes and options that are not declared have a path, too.
    """
    declared = list(properties)
    paths = {entry.path: entry.path for entry in declared}
    paths |= {OPTIONS + entry.name: entry.path for entry in declared if entry.path.startswith(OPTIONS)}
    found: dict[str, Any] = {}
    findings = []
    for name, value in overrides.items():
        path = name if name.startswith((ENVELOPE, OPTIONS)) else ENVELOPE + name
        if path in paths or _may_be(path, definition):
            found[paths.get(path, path)] = value
        else:
            there = ", ".join(map(short_name, declared)) or "none"
            text = f"there is no property {name}; there are: {there}"
            findings.append(Finding(path=name, rule="unknown", message=text))
    return found, findings


def undeclared(properties: Iterable[Property], given: Mapping[str, Any]) -> list[Property]:
    """Properties that are given and not declared: other attributes of an event, other headers."""
    declared = {entry.path for entry in properties}
    return [Property(name=path.partition(".")[2], path=path, type="any") for path in given if path not in declared]


def option_values(properties: Iterable[Property], found: Mapping[str, Any], protocol: str) -> dict[str, Any]:
    """Values of the protocol's properties by name, as its binding takes them; only AMQP has values of many types."""
    convert = native if protocol == "AMQP/1.0" else simple
    return {
        entry.path.removeprefix(OPTIONS): convert(entry.type, found[entry.path])
        for entry in properties
        if entry.path.startswith(OPTIONS) and entry.path in found
    }


def carry(binding: Binding, message: Message, values: Mapping[str, Any], xid: str) -> Message:
    """The message with these values. Raises ``OutboundError``."""
    try:
        return binding.carrying(message, values)
    except Uncarriable as error:
        raise OutboundError(xid, error.findings) from None


def _may_be(path: str, definition: CompiledDefinition) -> bool:
    """Whether a message of the definition may have a property that is not declared."""
    if path.startswith(OPTIONS):
        return bool(definition.protocol)
    return definition.is_event and _ATTRIBUTE.fullmatch(path.removeprefix(ENVELOPE)) is not None

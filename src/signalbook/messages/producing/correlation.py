"""Messages that belong together, as their definitions say (domain.md C-15 to C-18, K-49)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from signalbook.messages.bindings.base import find_binding
from signalbook.messages.matching.outcome import Accepted

# ``relatedvia`` of the drafts -> the property it means here, and the property of the related message with that value.
_FIELDS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "AMQP/1.0": {
        "properties.correlationid": ("properties.correlation-id", "properties.message-id"),
        "properties.groupid": ("properties.group-id", "properties.group-id"),
    },
    "MQTT/5.0": {"publish.correlationdata": ("correlation_data", "correlation_data")},
}
_SECTIONS: Final[Mapping[str, tuple[str, str, str]]] = {
    "AMQP/1.0": ("applicationproperties.", "application-properties.", "properties.message-id"),
    "MQTT/5.0": ("userproperty.", "user_properties.", "correlation_data"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """What a message is about another one.

    The other one is of the definition ``related`` (an xid) and has ``key`` as its ``field``: an attribute of the event,
    or a property by name. ``relation`` is ``reply``, ``followup``, ``end``, ``report``, another word, or ``""``.
    """

    key: str
    field: str
    related: str
    relation: str


def correlate(accepted: Accepted) -> Correlation | None:
    """Which message an accepted one belongs to; ``None`` if its definition has no relation, or the message no key."""
    definition = accepted.definition.definition
    related, via = definition.get("relatedto"), definition.get("relatedvia")
    if not isinstance(related, str) or not isinstance(via, str):
        return None
    values, own, other = _fields(accepted, via)
    key = values.get(own)
    if isinstance(key, tuple):
        key = key[0] if key else None
    if key is None:
        return None
    group = accepted.definition.xid.partition("/versions/")[0].rpartition("/")[0]
    return Correlation(
        key=str(key), field=other, related=f"{group}/{related}", relation=str(definition.get("relation") or "")
    )


def _fields(accepted: Accepted, via: str) -> tuple[Mapping[str, Any], str, str]:
    """The values to look in, the name to look for, and the name in the related message."""
    if accepted.event is not None:
        return accepted.event.attributes, via, "id"
    protocol = accepted.message.protocol
    binding = find_binding(protocol)
    values = {} if binding is None else binding.values(accepted.message)
    if via in _FIELDS.get(protocol, {}):
        return values, *_FIELDS[protocol][via]
    section, own, other = _SECTIONS.get(protocol, ("", "", ""))
    if section and via.startswith(section):
        return values, own + via[len(section) :], other
    return {}, "", ""

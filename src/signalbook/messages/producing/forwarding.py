"""Events as messages of protocols that carry none (domain.md K-37)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signalbook.messages.bindings.registry import find_binding
from signalbook.messages.cloudevents import CloudEvent
from signalbook.messages.declared import declared_options
from signalbook.messages.definition import CompiledDefinition
from signalbook.messages.message import Message
from signalbook.messages.producing.outbound import OutboundError
from signalbook.messages.producing.overrides import by_path, carry, option_values, undeclared
from signalbook.messages.producing.valuation import Valuation, clash
from signalbook.values import Finding


def from_cloudevent(
    event: CloudEvent,
    definition: CompiledDefinition,
    context: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Message:
    """The message of the definition's protocol, itself no event, that stands for ``event``: ``to_cloudevent`` reversed.

    ``context`` is for placeholders of the protocol's options that are in no attribute of the event, ``overrides`` as
    for ``build``. The payload stays as it is. Raises ``OutboundError``, also for an event that is not of the
    definition.
    """
    binding = find_binding(definition.protocol) if definition.protocol else None
    if binding is None:
        text = "the definition is for no protocol that there is a binding for: nothing says how to send it"
        raise OutboundError(definition.xid, [Finding(path="protocol", rule="protocol", message=text)])
    known: dict[str, str] = {}
    findings = [*definition.check_event(event.attributes, known), *clash(known, context or {})]
    properties = declared_options(definition.protocol, definition.definition.get("protocoloptions"))
    given, unknown = by_path(properties, overrides or {}, definition)
    properties += undeclared(properties, given)
    valuation = Valuation(known, lambda _: None)
    found = valuation.of_all(properties, given)
    findings += [*unknown, *valuation.findings]
    if findings:
        raise OutboundError(definition.xid, findings)
    message = binding.native(event.payload(), event.content_type)
    return carry(binding, message, option_values(properties, found, definition.protocol), definition.xid)

"""From a message to what an endpoint's protocol carries: content mode, event format, place (domain.md K-53)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from signalbook.messages.bindings.base import Binding, Uncarriable, find_binding, protocols
from signalbook.messages.cloudevents import JSON_FORMAT, MEDIA_TYPE, CloudEvent, Mode
from signalbook.messages.definitions.definition import CompiledDefinition, declared_options
from signalbook.messages.definitions.lint import lint_inline
from signalbook.messages.definitions.normalise import canonical_protocol
from signalbook.messages.definitions.properties import PropertyError
from signalbook.messages.eventformats import EventError
from signalbook.messages.matching.contract import Contract
from signalbook.messages.matching.outcome import Accepted, Outcome, Rejected
from signalbook.messages.message import Message, Reason
from signalbook.messages.payloads.content import Unreadable, packed
from signalbook.messages.producing.building import Outbound, OutboundError
from signalbook.messages.producing.values import Valuation, by_path, clash, option_values, undeclared
from signalbook.values import JSON, Finding, JSONObject

_NONE: Final[Mapping[str, JSON]] = {}
# An endpoint's options that say something of each message, by the names that definitions have for them (H-16 to H-20).
_SAME: Final[Mapping[str, Mapping[str, str]]] = {
    "HTTP": {"method": "method", "headers": "headers", "query": "query"},
    "KAFKA": {"topic": "topic", "key": "key", "partition": "partition", "headers": "headers"},
    "MQTT/3.1.1": {"topic": "topic_name", "qos": "qos", "retain": "retain"},
    "MQTT/5.0": {"topic": "topic_name", "qos": "qos", "retain": "retain"},
    "NATS": {"subject": "subject"},
}
_PLACES: Final = {"KAFKA": "topic", "MQTT/3.1.1": "topic_name", "MQTT/5.0": "topic_name", "NATS": "subject"}


def bind(
    outbound: Outbound, endpoint: Mapping[str, JSON] | None = None, context: Mapping[str, str] | None = None
) -> Message:
    """The message as the protocol of its definition, or of ``endpoint``, carries it; without either a line of a file.

    What the endpoint says of content mode, event format, topic, subject, path, key and headers counts where the
    definition says nothing. ``context`` is for placeholders of the endpoint that the message does not have (H-14). An
    event goes in binary mode where nobody says otherwise and the protocol has it.

    Raises ``OutboundError`` with what is wrong, also where the endpoint does not take such messages (H-6, H-8).
    """
    endpoint = _NONE if endpoint is None else endpoint
    definition, xid = outbound.definition, outbound.definition.xid
    findings = lint_inline(endpoint, definition.definition)
    if findings:
        raise OutboundError(xid, findings)
    protocol = definition.protocol or canonical_protocol(str(endpoint.get("protocol") or ""))
    binding = find_binding(protocol)
    if binding is None:
        there = ", ".join(name for name in protocols() if name)
        raise _error(xid, "protocol", "protocol", f"there is no binding for {protocol}; there are: {there}")
    values = {**_of_endpoint(outbound, protocol, endpoint, context or {}), **outbound.options}
    place = _PLACES.get(protocol)
    if place is not None and endpoint.get("protocoloptions") and place not in values:
        text = f"neither the definition nor the endpoint says the {place}: give protocoloptions.{place}"
        raise _error(xid, f"protocoloptions.{place}", "required", text)
    return _encoded(outbound, binding, endpoint, values)


def _of_endpoint(
    outbound: Outbound, protocol: str, endpoint: Mapping[str, JSON], more: Mapping[str, str]
) -> dict[str, Any]:
    """Return the endpoint's values for properties that the message does not have."""
    xid = outbound.definition.xid
    context = dict(outbound.context)
    findings = list(clash(context, more))
    try:
        declared = declared_options(protocol, _as_message(protocol, endpoint.get("protocoloptions")))
    except PropertyError as error:
        raise _error(xid, "protocoloptions", "structure", f"of the endpoint: {error}") from None
    taken = {name.lower() for name in outbound.options}
    left = [entry for entry in declared if entry.path.removeprefix("protocoloptions.").lower() not in taken]
    wanted = [replace(entry, required=True) for entry in left]
    valuation = Valuation(context, lambda _: None)
    found = valuation.of_all(wanted, {})
    for name in valuation.unused():
        if name not in outbound.context:
            valuation.report(f"{{{name}}}", "context", f"neither message nor endpoint has a placeholder {name}")
    findings += valuation.findings
    if findings:
        raise OutboundError(xid, findings)
    return option_values(wanted, found, protocol)


def _as_message(protocol: str, options: JSON) -> JSONObject:
    """The options of an endpoint as those of a message for it."""
    if not isinstance(options, dict):
        return {}
    found = {own: options[name] for name, own in _SAME.get(protocol, {}).items() if options.get(name) is not None}
    if protocol == "HTTP" and (path := _path(options.get("endpoints"))):
        found["path"] = path
    if protocol == "AMQP/1.0":
        node = options.get("node") or _path(options.get("endpoints")).removeprefix("/")
        if node:
            found["properties"] = {"to": {"type": "uritemplate", "value": str(node)}}
        if isinstance(options.get("durable"), bool):
            found["header"] = {"durable": options["durable"]}
    return found


def _path(addresses: JSON) -> str:
    """The path of the first address, which is the preferred one (H-9)."""
    first = addresses[0] if isinstance(addresses, list) and addresses else None
    uri = first.get("uri") if isinstance(first, dict) else None
    try:
        return urlsplit(uri).path if isinstance(uri, str) else ""
    except ValueError:
        return ""


def _encoded(outbound: Outbound, binding: Binding, endpoint: Mapping[str, JSON], values: Mapping[str, Any]) -> Message:
    xid = outbound.definition.xid
    if outbound.event is None:
        return carry(binding, binding.native(outbound.body, outbound.content_type), values, xid)
    mode, form = _mode(outbound, endpoint, values)
    try:
        message = binding.encode(outbound.event, mode, form)
    except EventError as error:
        raise OutboundError(xid, error.findings) from None
    message = carry(binding, message, values, xid)
    # Read as a consumer would: headers that were given beside the event may make another mode of it.
    found = binding.mode(message, binding.values(message))
    if found is not mode and (_said(outbound, endpoint, "mode") or found is Mode.NONE):
        text = f"an event cannot be sent in {mode} mode like this; it would be read as {found}"
        raise _error(xid, "envelopeoptions.mode", "mode", text)
    return message


def _mode(
    outbound: Outbound, endpoint: Mapping[str, JSON], values: Mapping[str, Any]
) -> tuple[Literal[Mode.STRUCTURED, Mode.BINARY], str]:
    """Content mode and event format: what the definition says, else the endpoint (F-14, F-34)."""
    definition = outbound.definition.definition
    typed = [name for name in values if name.lower().rpartition(".")[2] in ("content-type", "content_type")]
    stated = [definition.get("datacontenttype"), *(values[name] for name in typed)]
    form = next((str(each) for each in stated if str(each).lower().startswith(MEDIA_TYPE)), "")
    form = form or _said(outbound, endpoint, "format")
    mode = _said(outbound, endpoint, "mode")
    if mode == Mode.STRUCTURED or (form and mode != Mode.BINARY):
        return Mode.STRUCTURED, form or JSON_FORMAT
    return Mode.BINARY, JSON_FORMAT


def _said(outbound: Outbound, endpoint: Mapping[str, JSON], name: str) -> str:
    """An envelope option: the definition's, else the endpoint's, ``""`` for none."""
    for source in (outbound.definition.definition, endpoint):
        options = source.get("envelopeoptions")
        if isinstance(options, dict) and options.get(name):
            return str(options[name])
    return ""


def _error(xid: str, path: str, rule: str, message: str) -> OutboundError:
    return OutboundError(xid, [Finding(path=path, rule=rule, message=message)])


def carry(binding: Binding, message: Message, values: Mapping[str, Any], xid: str) -> Message:
    """The message with these values, its body encoded as they say. Raises ``OutboundError``."""
    try:
        return packed(binding.carrying(message, values))
    except Uncarriable as error:
        raise OutboundError(xid, error.findings) from None
    except Unreadable as error:
        raise OutboundError(xid, [error.finding]) from None


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


def validate_outbound(
    message: Message, contract: Contract, endpoint: Mapping[str, JSON] | None = None
) -> tuple[Rejected, ...]:
    """Return why ``message`` may not be sent to ``endpoint``, whose definitions ``contract`` has; empty if it may.

    Each event of a batch has to conform. Payloads that the contract's policy would only tag, and messages that no
    definition fits, are rejected here.
    """
    protocol = canonical_protocol(str((endpoint or {}).get("protocol") or ""))
    if protocol and message.protocol != protocol:
        text = f"the endpoint is for {protocol}, the message for {message.protocol or 'no protocol'}"
        finding = Finding(path="protocol", rule="protocol", message=text)
        return (Rejected(message=message, reason=Reason.METADATA_VIOLATION, violations=(finding,)),)
    refusals = (_refusal(outcome) for outcome in contract.process(message))
    return tuple(refusal for refusal in refusals if refusal is not None)


def _refusal(outcome: Outcome) -> Rejected | None:
    if isinstance(outcome, Rejected) and outcome.violations:
        return outcome
    if not isinstance(outcome, Accepted):
        reason = outcome.reason if isinstance(outcome, Rejected) else Reason.NO_MATCH
        finding = Finding(path="", rule=reason.value, message="no definition fits, so nobody expects this message")
        return Rejected(message=outcome.message, reason=reason, violations=(finding,))
    faults = tuple(finding for finding in outcome.warnings if finding.severity == "error")
    if not faults:
        return None
    removed = any(finding.rule == "removed" for finding in faults)
    reason = Reason.METADATA_VIOLATION if removed else Reason.SCHEMA_VIOLATION
    return Rejected(message=outcome.message, reason=reason, violations=faults, candidates=(outcome.definition.xid,))

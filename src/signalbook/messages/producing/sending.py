"""Convert a built message to a message of an endpoint's protocol: content mode, event format, address (K-53)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from signalbook.messages.bindings.base import Binding, Uncarriable, find_binding, protocols
from signalbook.messages.cloudevents import JSON_FORMAT, MEDIA_TYPE, CloudEvent, Mode
from signalbook.messages.content import TEXT_INDICATOR, Unreadable, check_text, pack_message
from signalbook.messages.definitions.definition import CompiledDefinition, declare_options
from signalbook.messages.definitions.lint import lint_inline
from signalbook.messages.definitions.normalise import canonical_protocol
from signalbook.messages.eventformats import EventError
from signalbook.messages.matching.contract import Contract
from signalbook.messages.matching.outcome import Accepted, Outcome, Rejected
from signalbook.messages.message import Message, Reason
from signalbook.messages.producing.building import Outbound, OutboundError
from signalbook.messages.producing.values import (
    Valuation,
    build_option_values,
    by_path,
    declare_undeclared,
    merge_context,
)
from signalbook.messages.properties import PropertyError
from signalbook.values import JSON, Finding, JSONObject

_NO_ENDPOINT: Final[Mapping[str, JSON]] = {}
# Options of an endpoint that apply to each message -> the names of these options in definitions (H-16 to H-20).
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
    """Return the message for the protocol of its definition or ``endpoint``; without a protocol, for a line of a file.

    The endpoint's options (content mode, event format, topic, key, headers and so on) apply where the definition has
    none. ``context`` has values for placeholders of the endpoint that the message does not have (H-14). By default an
    event is sent in binary mode if the protocol supports it.

    Raises ``OutboundError`` with the findings, also if the endpoint does not accept such messages (H-6, H-8).
    """
    endpoint = _NO_ENDPOINT if endpoint is None else endpoint
    definition, xid = outbound.definition, outbound.definition.xid
    findings = lint_inline(endpoint, definition.definition)
    if findings:
        raise OutboundError(xid, findings)
    protocol = definition.protocol or canonical_protocol(str(endpoint.get("protocol") or ""))
    binding = find_binding(protocol)
    if binding is None:
        there = ", ".join(name for name in protocols() if name)
        raise _make_error(xid, "protocol", "protocol", f"there is no binding for {protocol}; there are: {there}")
    values = {**_find_endpoint_values(outbound, protocol, endpoint, context or {}), **outbound.options}
    place = _PLACES.get(protocol)
    if place is not None and endpoint.get("protocoloptions") and place not in values:
        text = f"neither the definition nor the endpoint says the {place}: give protocoloptions.{place}"
        raise _make_error(xid, f"protocoloptions.{place}", "required", text)
    return _encode(outbound, binding, endpoint, values)


def _find_endpoint_values(
    outbound: Outbound, protocol: str, endpoint: Mapping[str, JSON], more: Mapping[str, str]
) -> dict[str, Any]:
    """Return the endpoint's values for properties that the message does not have."""
    xid = outbound.definition.xid
    context = dict(outbound.context)
    findings = list(merge_context(context, more))
    try:
        declared = declare_options(protocol, _as_message(protocol, endpoint.get("protocoloptions")))
    except PropertyError as error:
        raise _make_error(xid, "protocoloptions", "structure", f"of the endpoint: {error}") from None
    stated_names = {name.lower() for name in outbound.options}
    open_options = [
        entry for entry in declared if entry.path.removeprefix("protocoloptions.").lower() not in stated_names
    ]
    required_options = [replace(entry, required=True) for entry in open_options]
    valuation = Valuation(context, lambda _: None)
    values = valuation.of_all(required_options, {})
    for name in valuation.unused():
        if name not in outbound.context:
            valuation.report(f"{{{name}}}", "context", f"neither message nor endpoint has a placeholder {name}")
    findings += valuation.findings
    if findings:
        raise OutboundError(xid, findings)
    return build_option_values(required_options, values, protocol)


def _as_message(protocol: str, options: JSON) -> JSONObject:
    """Return the options of an endpoint that apply to each message, in the form of a definition's options."""
    if not isinstance(options, dict):
        return {}
    message_options = {
        message_name: options[name]
        for name, message_name in _SAME.get(protocol, {}).items()
        if options.get(name) is not None
    }
    if protocol == "HTTP" and (path := _find_path(options.get("endpoints"))):
        message_options["path"] = path
    if protocol == "AMQP/1.0":
        node = options.get("node") or _find_path(options.get("endpoints")).removeprefix("/")
        if node:
            message_options["properties"] = {"to": {"type": "uritemplate", "value": str(node)}}
        if isinstance(options.get("durable"), bool):
            message_options["header"] = {"durable": options["durable"]}
    return message_options


def _find_path(addresses: JSON) -> str:
    """Return the path of the first address, which is the preferred one (H-9)."""
    first = addresses[0] if isinstance(addresses, list) and addresses else None
    uri = first.get("uri") if isinstance(first, dict) else None
    try:
        return urlsplit(uri).path if isinstance(uri, str) else ""
    except ValueError:
        return ""


def _encode(outbound: Outbound, binding: Binding, endpoint: Mapping[str, JSON], values: Mapping[str, Any]) -> Message:
    xid = outbound.definition.xid
    if outbound.event is None:
        return carry(binding, binding.native(outbound.body, outbound.content_type), values, xid)
    mode, form = _choose_mode(outbound, endpoint, values)
    try:
        message = binding.encode(outbound.event, mode, form)
    except EventError as error:
        raise OutboundError(xid, error.findings) from None
    message = carry(binding, message, values, xid)
    # Read the message as a consumer would, because headers that were given may change its content mode.
    actual_mode = binding.mode(message, binding.values(message))
    if actual_mode is not mode and (_find_envelope_option(outbound, endpoint, "mode") or actual_mode is Mode.NONE):
        text = f"an event cannot be sent in {mode} mode like this; it would be read as {actual_mode}"
        raise _make_error(xid, "envelopeoptions.mode", "mode", text)
    return message


def _choose_mode(
    outbound: Outbound, endpoint: Mapping[str, JSON], values: Mapping[str, Any]
) -> tuple[Literal[Mode.STRUCTURED, Mode.BINARY], str]:
    """Return content mode and event format: what the definition says, else the endpoint (F-14, F-34)."""
    definition = outbound.definition.definition
    typed = [name for name in values if name.lower().rpartition(".")[2] in ("content-type", "content_type")]
    stated = [definition.get("datacontenttype"), *(values[name] for name in typed)]
    form = next((str(content_type) for content_type in stated if str(content_type).lower().startswith(MEDIA_TYPE)), "")
    form = form or _find_envelope_option(outbound, endpoint, "format")
    mode = _find_envelope_option(outbound, endpoint, "mode")
    if mode == Mode.STRUCTURED or (form and mode != Mode.BINARY):
        return Mode.STRUCTURED, form or JSON_FORMAT
    return Mode.BINARY, JSON_FORMAT


def _find_envelope_option(outbound: Outbound, endpoint: Mapping[str, JSON], name: str) -> str:
    """Return an envelope option of the definition or, if it has none, of the endpoint, or ``""``."""
    for source in (outbound.definition.definition, endpoint):
        options = source.get("envelopeoptions")
        if isinstance(options, dict) and options.get(name):
            return str(options[name])
    return ""


def _make_error(xid: str, path: str, rule: str, message: str) -> OutboundError:
    return OutboundError(xid, [Finding(path=path, rule=rule, message=message)])


def carry(binding: Binding, message: Message, values: Mapping[str, Any], xid: str) -> Message:
    """Add property ``values`` to the message, and encode its body by its content encoding. Raises ``OutboundError``."""
    try:
        packed = pack_message(binding.carrying(message, values))
    except Uncarriable as error:
        raise OutboundError(xid, error.findings) from None
    except Unreadable as error:
        raise OutboundError(xid, [error.finding]) from None
    if TEXT_INDICATOR in packed.sections:
        try:
            check_text(packed)
        except Unreadable as error:
            text = f"{error}: for binary payloads {TEXT_INDICATOR} must be 0 or left out"
            raise _make_error(xid, f"protocoloptions.{TEXT_INDICATOR}", "text", text) from None
    return packed


def from_cloudevent(
    event: CloudEvent,
    definition: CompiledDefinition,
    context: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Message:
    """Convert ``event`` to a native message of the definition's protocol. This reverses ``to_cloudevent``.

    ``context`` has values for placeholders of protocol options that no attribute of the event contains. ``overrides``
    are those of ``build``. The payload is not changed. Raises ``OutboundError``, also for an event that does not
    conform to the definition.
    """
    binding = find_binding(definition.protocol) if definition.protocol else None
    if binding is None:
        text = "the definition is for no protocol that there is a binding for: nothing says how to send it"
        raise OutboundError(definition.xid, [Finding(path="protocol", rule="protocol", message=text)])
    captured: dict[str, str] = {}
    findings = [*definition.check_event(event.attributes, captured), *merge_context(captured, context or {})]
    properties = declare_options(definition.protocol, definition.definition.get("protocoloptions"))
    overrides_by_path, unknown = by_path(properties, overrides or {}, definition)
    properties += declare_undeclared(properties, overrides_by_path)
    valuation = Valuation(captured, lambda _: None)
    values = valuation.of_all(properties, overrides_by_path)
    findings += [*unknown, *valuation.findings]
    if findings:
        raise OutboundError(definition.xid, findings)
    message = binding.native(event.payload(), event.content_type)
    return carry(binding, message, build_option_values(properties, values, definition.protocol), definition.xid)


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
    refusals = (_explain_refusal(outcome) for outcome in contract.process(message))
    return tuple(refusal for refusal in refusals if refusal is not None)


def _explain_refusal(outcome: Outcome) -> Rejected | None:
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

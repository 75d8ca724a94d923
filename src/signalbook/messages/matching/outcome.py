"""Decide the outcome of a message: accepted with a definition, rejected for a reason, passed or dropped (K-47).

This module also finds the message that an accepted message is related to (C-15 to C-18, K-49).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import msgspec

from signalbook.errors import SignalbookError
from signalbook.formats import Schema
from signalbook.messages.bindings.base import Binding, find_binding
from signalbook.messages.cloudevents import SPECVERSION, Attribute, CloudEvent, find_invalid_attributes
from signalbook.messages.definitions.definition import CompiledDefinition, declare_attributes
from signalbook.messages.matching.fits import MAX_FINDINGS, Fit, MatchSubject, merge_findings, select_by_protocol
from signalbook.messages.matching.index import allows
from signalbook.messages.message import Message, Reason
from signalbook.messages.payload import Payload, PayloadResult
from signalbook.messages.properties import LEGACY_NOW, NOW, Property
from signalbook.messages.uritemplates import TemplateError
from signalbook.uris import is_uri
from signalbook.values import JSON, Finding, format_timestamp, now


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A message that conforms to ``definition``.

    ``event`` is the CloudEvent that the message carries or was converted to, or None. ``context`` has the values of the
    placeholders. ``data`` is the decoded payload, validated by ``schema``, or ``UNSET`` without payload or schema.
    ``bare`` is the payload without wire prefix and content encoding, or None if it had neither.
    """

    message: Message
    definition: CompiledDefinition
    event: CloudEvent | None
    context: Mapping[str, str]
    data: JSON = msgspec.UNSET
    schema: Schema | None = None
    warnings: tuple[Finding, ...] = ()
    bare: bytes | None = None

    def payload(self) -> bytes | None:
        """Return the bytes of the payload without wire prefix and encoding, or ``None`` if there is no payload."""
        if self.bare is not None:
            return self.bare
        return self.message.body if self.event is None else self.event.payload()


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """A message for the dead-letter table, with its violations. ``candidates`` are the definitions it may belong to."""

    message: Message
    reason: Reason
    violations: tuple[Finding, ...]
    candidates: tuple[str, ...] = ()


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """A message that fits no definition, and is passed on unchanged because of the policy."""

    message: Message


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is dropped because of the policy."""

    message: Message


Outcome = Accepted | Rejected | Passed | Dropped


_REQUIRED_ATTRIBUTES: Final = ("id", "source", "type")


class MappingError(SignalbookError):
    """The error for a message that cannot be converted to a valid event. ``findings`` name the attributes."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("; ".join(str(finding) for finding in self.findings))


def to_cloudevent(
    subject: MatchSubject, definition: CompiledDefinition, context: Mapping[str, str], binding: Binding
) -> CloudEvent:
    """Convert a message to the event of ``definition``.

    Attributes have the declared constants, templates expanded with ``context``, or values of the protocol. Raises
    ``MappingError`` if a required attribute has no value, or the event is not valid.
    """
    metadata: dict[str, Any] = definition.definition.get("envelopemetadata") or {}
    attributes: dict[str, Attribute] = {"specversion": SPECVERSION}
    findings: list[Finding] = []
    declared = {entry.name: entry for entry in declare_attributes(definition.definition)}
    for name in dict.fromkeys((*_REQUIRED_ATTRIBUTES, *metadata)):
        entry = declared.get(name)
        required = name in _REQUIRED_ATTRIBUTES or (entry is not None and entry.required)
        try:
            # Values declared by the definition take precedence over values of the transport.
            value = _expand_declared(entry, context) or _find_transport_value(
                name, required, subject, definition, binding
            )
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
    findings = findings or find_invalid_attributes(attributes)
    if findings:
        raise MappingError(findings)
    return CloudEvent(attributes=attributes, body=subject.message.body)


def _expand_declared(entry: Property | None, context: Mapping[str, str]) -> str:
    """Return the declared constant or expanded template of an attribute, or ``""`` if none is declared.

    Raises ``TemplateError`` if a value for the template is missing.
    """
    if entry is None or entry.value is None or entry.value in (NOW, LEGACY_NOW):
        return ""
    template = entry.template()
    return str(entry.value) if template is None else template.expand(context)


def _find_transport_value(
    name: str, required: bool, subject: MatchSubject, definition: CompiledDefinition, binding: Binding
) -> str:
    """Return the value of an attribute that the definition leaves open, or ``""`` if there is no value."""
    if name == "id":
        return binding.identity(subject.message, subject.values) or str(uuid4())
    if name == "type":
        return definition.message_id
    sentinel = ((definition.definition.get("envelopemetadata") or {}).get("time") or {}).get("value")
    if name == "time" and (required or sentinel):
        return format_timestamp(subject.message.received_at or now())
    return ""


def _describe_data(attributes: dict[str, Attribute], subject: MatchSubject, definition: CompiledDefinition) -> None:
    content_type = subject.message.content_type or definition.payload_type
    if content_type and subject.message.body is not None:
        attributes["datacontenttype"] = content_type
    schema = definition.definition.get("dataschemauri")
    if "dataschema" not in attributes and isinstance(schema, str) and is_uri(schema):
        attributes["dataschema"] = schema


_NO_SCHEMA: Final = PayloadResult(
    reason=Reason.SCHEMA_NOT_FOUND,
    findings=(Finding(path="", rule="schema", message="the definition names no schema, but the policy asks for one"),),
)
# If several definitions reject a payload for different reasons, the first of these reasons is reported.
_PRECEDENCE: Final = (
    Reason.SCHEMA_VIOLATION,
    Reason.DECODE_ERROR,
    Reason.UNSUPPORTED_FORMAT,
    Reason.CONTRACT_UNAVAILABLE,
    Reason.SCHEMA_NOT_FOUND,
)


def decide(
    message: Message, subject: MatchSubject, fits: Sequence[Fit], payload: Payload, binding: Binding
) -> tuple[Outcome, ...]:
    """Return the outcome of a message whose metadata fits the definitions ``fits``.

    There are several outcomes only if the message is accepted for several definitions.
    """
    if message.body is None and _is_dropped(subject, fits):
        return (Dropped(message=message),)
    checked: Sequence[tuple[Fit, PayloadResult]]
    # Nearly all messages fit one definition and conform to it. This is the fast case.
    if len(fits) == 1:
        result = _check_payload(fits[0].definition, payload)
        if result.reason is None:
            return (_accept(message, subject, fits[0], result, binding),)
        checked = [(fits[0], result)]
    else:
        written_for = [fit for fit in fits if payload.is_written_for(fit.definition)]
        if not written_for:
            return (_reject_without_schema(message, fits),)
        fits = written_for
        specific = all(fit.definition.policy.prefer_specific for fit in fits)
        checked = _check_payloads(_select_most_specific(fits, subject) if specific else fits, payload)
        checked = select_by_protocol(checked, subject.message.protocol, lambda pair: pair[0].definition)
    passed = [(fit, result) for fit, result in checked if result.reason is None]
    # Violations are tolerated (``tag``) only where no definition accepts the payload as it is.
    passed = passed or [pair for pair in checked if _is_tagged(*pair)][:1]
    if not passed:
        return (_reject_payload(message, _select_by_constants(checked, payload)),)
    if len(passed) > 1:
        # If the definitions have different settings, reject the message, so that a person decides.
        choices = {fit.definition.policy.on_ambiguous for fit, _ in passed}
        choice = choices.pop() if len(choices) == 1 else "dead_letter"
        if choice == "best":
            best = _select_most_specific([fit for fit, _ in passed], subject)
            passed = [pair for pair in passed if pair[0] in best]
        if len(passed) > 1 and choice != "all":
            return (_reject_ambiguous(message, [fit.definition for fit, _ in passed]),)
    return tuple(_accept(message, subject, fit, result, binding) for fit, result in passed)


def rejected_payload(message: Message, event: CloudEvent | None, definition: CompiledDefinition) -> Rejected | None:
    """Return the rejection of a message that fits ``definition``, or None if its payload is accepted."""
    checked = Fit(definition=definition, context={}), _check_payload(definition, Payload(message, event))
    if checked[1].reason is None or _is_tagged(*checked):
        return None
    return _reject_payload(message, [checked])


def _is_dropped(subject: MatchSubject, fits: Sequence[Fit]) -> bool:
    """Return True if a message without body is a Kafka tombstone, and the policies of all ``fits`` drop tombstones."""
    keyed = subject.message.protocol == "KAFKA" and subject.message.sections.get("key") is not None
    return keyed and subject.event is None and all(fit.definition.policy.on_tombstone == "drop" for fit in fits)


def _check_payloads(fits: Sequence[Fit], payload: Payload) -> list[tuple[Fit, PayloadResult]]:
    """Return the fits whose definitions accept the payload or, if there are none, all fits with their violations."""
    # Check all definitions even after one has accepted the payload, because a message that conforms to several is
    # ambiguous. List violations only if no definition accepts the payload, because listing them is slow.
    results = [
        (fit, None if payload.violates(fit.definition) else _check_payload(fit.definition, payload)) for fit in fits
    ]
    passed = [(fit, result) for fit, result in results if result is not None and result.reason is None]
    return passed or [(fit, result or _check_payload(fit.definition, payload)) for fit, result in results]


def _check_payload(definition: CompiledDefinition, payload: Payload) -> PayloadResult:
    result = payload.check(definition)
    if definition.policy.required_schema and result.schema is None and result.reason is None:
        return _NO_SCHEMA
    return result


def _select_most_specific(fits: Sequence[Fit], subject: MatchSubject) -> Sequence[Fit]:
    """Return the fit with the highest score if only one has it, else all fits (K-29)."""
    scores = [_sum_scores(fit.definition, subject) for fit in fits]
    leaders = [fit for fit, score in zip(fits, scores, strict=True) if score == max(scores)]
    return leaders if len(leaders) == 1 else fits


def _sum_scores(definition: CompiledDefinition, subject: MatchSubject) -> tuple[int, ...]:
    """Return the score of a definition for a message.

    Only the parts that apply to the message count: attributes if it is an event, and options of its own protocol.
    """
    event = definition.event_score if subject.event is not None else (0, 0, 0)
    options = definition.protocol_score if definition.protocol == subject.message.protocol else (0, 0, 0)
    return tuple(map(sum, zip(event, options, strict=True)))


def _is_tagged(fit: Fit, result: PayloadResult) -> bool:
    return result.reason is Reason.SCHEMA_VIOLATION and fit.definition.policy.on_schema_violation == "tag"


def _select_by_constants(
    checked: Sequence[tuple[Fit, PayloadResult]], payload: Payload
) -> Sequence[tuple[Fit, PayloadResult]]:
    """Return the entries whose schemas have the same constants as the payload, or all entries if there are none.

    The payload was probably written for one of these definitions (K-28, K-30).
    """
    value = payload.value
    if len(checked) == 1 or not isinstance(value, dict):
        return checked
    return [pair for pair in checked if pair[0].definition.constants and allows(pair[0].definition, value)] or checked


def _reject_payload(message: Message, checked: Sequence[tuple[Fit, PayloadResult]]) -> Rejected:
    if len(checked) == 1:  # the most frequent case, for which this is 20 % faster
        ((fit, result),) = checked
        assert result.reason is not None
        return Rejected(
            message=message,
            reason=result.reason,
            violations=result.findings[:MAX_FINDINGS],
            candidates=(fit.definition.xid,),
        )
    reasons = {result.reason for _, result in checked}
    first = checked[0][1].findings
    # A finding that is the same for all definitions, such as text that is not JSON, concerns none in particular.
    is_same = all(result.findings == first for _, result in checked)
    violations = (
        first[:MAX_FINDINGS]
        if is_same
        else merge_findings((fit.definition, result.findings) for fit, result in checked)
    )
    return Rejected(
        message=message,
        reason=next(reason for reason in _PRECEDENCE if reason in reasons),
        violations=violations,
        candidates=tuple(fit.definition.xid for fit, _ in checked),
    )


def _reject_without_schema(message: Message, fits: Sequence[Fit]) -> Rejected:
    """Reject a message whose payload was written with a schema of none of the definitions it fits."""
    text = f"none of {len(fits)} definitions has the schema that wrote this payload"
    return Rejected(
        message=message,
        reason=Reason.SCHEMA_NOT_FOUND,
        violations=(Finding(path="wire_prefix", rule=Reason.SCHEMA_NOT_FOUND.value, message=text),),
    )


def _reject_ambiguous(message: Message, definitions: Sequence[CompiledDefinition]) -> Rejected:
    xids = tuple(definition.xid for definition in definitions)
    choices = "all" if all(definition.policy.on_ambiguous == "best" for definition in definitions) else "best or all"
    text = (
        f"the message conforms to {len(xids)} definitions: {', '.join(xids[:10])}. Choose message groups, set the "
        f"policy on_ambiguous to {choices}, or make types, constants or schemas of the definitions differ"
    )
    return Rejected(
        message=message,
        reason=Reason.AMBIGUOUS,
        violations=(Finding(path="", rule="ambiguous", message=text),),
        candidates=xids,
    )


def _accept(message: Message, subject: MatchSubject, fit: Fit, result: PayloadResult, binding: Binding) -> Outcome:
    definition, event, bare = fit.definition, subject.event, result.bare
    if bare is None and event is None and subject.message is not message:  # the body had a content encoding
        bare = subject.message.body
    warnings = definition.warnings + result.findings
    if definition.removal is not None and definition.removal <= (message.received_at or now()):
        finding = Finding(path="deprecated", rule="removed", message=f"the definition was removed {definition.removal}")
        if definition.policy.on_removed == "dead_letter":
            return _reject(message, Reason.METADATA_VIOLATION, definition, finding)
        warnings = (*warnings, finding)
    # A native message that fits an event's definition by its protocol options is made that event (K-35).
    if event is None and definition.is_event:
        try:
            event = to_cloudevent(subject, definition, fit.context, binding)
        except MappingError as error:
            return _reject(message, Reason.MAPPING_ERROR, definition, *error.findings)
    return Accepted(
        message=message,
        definition=definition,
        event=event,
        context=fit.context,
        data=result.data,
        schema=result.schema,
        warnings=warnings,
        bare=bare,
    )


def _reject(message: Message, reason: Reason, definition: CompiledDefinition, *findings: Finding) -> Rejected:
    return Rejected(message=message, reason=reason, violations=findings, candidates=(definition.xid,))


# Value of ``relatedvia`` -> the property of this message, and the property of the related message with the same value.
_CORRELATION_FIELDS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "AMQP/1.0": {
        "properties.correlationid": ("properties.correlation-id", "properties.message-id"),
        "properties.groupid": ("properties.group-id", "properties.group-id"),
    },
    "MQTT/5.0": {"publish.correlationdata": ("correlation_data", "correlation_data")},
}
_CORRELATION_SECTIONS: Final[Mapping[str, tuple[str, str, str]]] = {
    "AMQP/1.0": ("applicationproperties.", "application-properties.", "properties.message-id"),
    "MQTT/5.0": ("userproperty.", "user_properties.", "correlation_data"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """The relation of a message to another message.

    The other message has the definition ``related`` (an xid), and ``key`` as the value of its ``field``, which is an
    attribute of an event or a property. ``relation`` is ``reply``, ``followup``, ``end``, ``report``, another word, or
    ``""``.
    """

    key: str
    field: str
    related: str
    relation: str


def correlate(accepted: Accepted) -> Correlation | None:
    """Return the relation of an accepted message to another message, or ``None`` if it has no relation or key."""
    definition = accepted.definition.definition
    related, via = definition.get("relatedto"), definition.get("relatedvia")
    if not isinstance(related, str) or not isinstance(via, str):
        return None
    values, name, related_name = _find_fields(accepted, via)
    key = values.get(name)
    if isinstance(key, tuple):
        key = key[0] if key else None
    if key is None:
        return None
    group = accepted.definition.xid.partition("/versions/")[0].rpartition("/")[0]
    return Correlation(
        key=str(key), field=related_name, related=f"{group}/{related}", relation=str(definition.get("relation") or "")
    )


def _find_fields(accepted: Accepted, via: str) -> tuple[Mapping[str, Any], str, str]:
    """Return the values of the message, the name of the value that is the key, and its name in the related message."""
    if accepted.event is not None:
        return accepted.event.attributes, via, "id"
    protocol = accepted.message.protocol
    binding = find_binding(protocol)
    values = {} if binding is None else binding.values(accepted.message)
    if via in _CORRELATION_FIELDS.get(protocol, {}):
        return values, *_CORRELATION_FIELDS[protocol][via]
    section, own_prefix, other = _CORRELATION_SECTIONS.get(protocol, ("", "", ""))
    if section and via.startswith(section):
        return values, own_prefix + via[len(section) :], other
    return {}, "", ""

"""From fitting definitions to an outcome: the payload decides among several, and is held to the one (K-29 to K-36)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from signalbook.messages.bindings.base import Binding
from signalbook.messages.definition import CompiledDefinition
from signalbook.messages.index import allows
from signalbook.messages.mapping import MappingError, to_cloudevent
from signalbook.messages.matching import Fit, Subject, attributed
from signalbook.messages.message import Message
from signalbook.messages.outcome import Accepted, Outcome, Rejected
from signalbook.messages.payloads import Payload, Verdict
from signalbook.messages.reasons import Reason
from signalbook.values import Finding, now

_NO_SCHEMA: Final = Verdict(
    reason=Reason.SCHEMA_NOT_FOUND,
    findings=(Finding(path="", rule="schema", message="the definition names no schema, but the policy asks for one"),),
)
# The reason given when several definitions turn a payload down for different ones: the first of these.
_PRECEDENCE: Final = (
    Reason.SCHEMA_VIOLATION,
    Reason.DECODE_ERROR,
    Reason.UNSUPPORTED_FORMAT,
    Reason.CONTRACT_UNAVAILABLE,
    Reason.SCHEMA_NOT_FOUND,
)


def decide(
    message: Message, subject: Subject, fits: Sequence[Fit], payload: Payload, binding: Binding
) -> tuple[Outcome, ...]:
    """The outcome for a message whose metadata ``fits`` one or more definitions."""
    if len(fits) == 1:
        verdict = _judge(fits[0].definition, payload)
        if verdict.reason is None:
            return (_accept(message, subject, fits[0], verdict, binding),)
    elif all(fit.definition.policy.prefer_specific for fit in fits):
        fits = _most_specific(fits)
    judged = [(fit, _judge(fit.definition, payload)) for fit in fits]
    passed = [(fit, verdict) for fit, verdict in judged if verdict.reason is None]
    passed = passed or [pair for pair in judged if _is_tagged(*pair)][:1]
    if not passed:
        return (_turned_down(message, _singled_out(judged, payload)),)
    if len(passed) > 1:
        choice = _on_ambiguous(passed)
        passed = _most_specific_passed(passed) if choice == "best" else passed
        if len(passed) > 1 and choice != "all":
            return (_ambiguous(message, [fit.definition for fit, _ in passed]),)
    return tuple(_accept(message, subject, fit, verdict, binding) for fit, verdict in passed)


def _judge(definition: CompiledDefinition, payload: Payload) -> Verdict:
    verdict = payload.judge(definition)
    if definition.policy.required_schema and verdict.schema is None and verdict.reason is None:
        return _NO_SCHEMA
    return verdict


def _most_specific(fits: Sequence[Fit]) -> Sequence[Fit]:
    """The one fit that scores strictly best, else all of them (K-29)."""
    best = max(fit.definition.score for fit in fits)
    leaders = [fit for fit in fits if fit.definition.score == best]
    return leaders if len(leaders) == 1 else fits


def _is_tagged(fit: Fit, verdict: Verdict) -> bool:
    return verdict.reason is Reason.SCHEMA_VIOLATION and fit.definition.policy.on_schema_violation == "tag"


def _on_ambiguous(passed: Sequence[tuple[Fit, Verdict]]) -> str:
    """What the definitions agree on; what they do not agree on is for a person to see."""
    choices = {fit.definition.policy.on_ambiguous for fit, _ in passed}
    return choices.pop() if len(choices) == 1 else "dead_letter"


def _most_specific_passed(passed: list[tuple[Fit, Verdict]]) -> list[tuple[Fit, Verdict]]:
    best = _most_specific([fit for fit, _ in passed])
    return [pair for pair in passed if pair[0] in best]


def _singled_out(judged: Sequence[tuple[Fit, Verdict]], payload: Payload) -> Sequence[tuple[Fit, Verdict]]:
    """The definitions whose constants the payload has, if there are any: it was meant for one of these (K-28, K-30)."""
    value = payload.value
    if len(judged) == 1 or not isinstance(value, dict):
        return judged
    return [pair for pair in judged if pair[0].definition.constants and allows(pair[0].definition, value)] or judged


def _turned_down(message: Message, judged: Sequence[tuple[Fit, Verdict]]) -> Rejected:
    reasons = {verdict.reason for _, verdict in judged}
    return Rejected(
        message=message,
        reason=next(reason for reason in _PRECEDENCE if reason in reasons),
        violations=attributed((fit.definition, verdict.findings) for fit, verdict in judged),
        candidates=tuple(fit.definition.xid for fit, _ in judged),
    )


def _ambiguous(message: Message, definitions: Sequence[CompiledDefinition]) -> Rejected:
    xids = tuple(definition.xid for definition in definitions)
    text = f"the message conforms to {len(xids)} definitions: {', '.join(xids[:10])}"
    return Rejected(
        message=message,
        reason=Reason.AMBIGUOUS,
        violations=(Finding(path="", rule="ambiguous", message=text),),
        candidates=xids,
    )


def _accept(message: Message, subject: Subject, fit: Fit, verdict: Verdict, binding: Binding) -> Outcome:
    definition, event = fit.definition, subject.event
    warnings = definition.warnings + verdict.findings
    if definition.removal is not None and _is_past(definition, message):
        finding = Finding(path="deprecated", rule="removed", message=f"the definition was removed {definition.removal}")
        if definition.policy.on_removed == "dead_letter":
            return _rejected(message, Reason.METADATA_VIOLATION, definition, finding)
        warnings = (*warnings, finding)
    if event is None and definition.is_event:
        try:
            event = to_cloudevent(subject, definition, fit.context, binding)
        except MappingError as error:
            return _rejected(message, Reason.MAPPING_ERROR, definition, *error.findings)
    return Accepted(
        message=message,
        definition=definition,
        event=event,
        context=fit.context,
        data=verdict.data,
        schema=verdict.schema,
        warnings=warnings,
        bare=verdict.bare,
    )


def _is_past(definition: CompiledDefinition, message: Message) -> bool:
    return definition.removal is not None and definition.removal <= (message.received_at or now())


def _rejected(message: Message, reason: Reason, definition: CompiledDefinition, *findings: Finding) -> Rejected:
    return Rejected(message=message, reason=reason, violations=findings, candidates=(definition.xid,))

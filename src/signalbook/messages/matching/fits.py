"""Compare candidate definitions with a message, and explain why they do not fit (K-26 to K-29)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from signalbook.messages.cloudevents import CloudEvent, Mode
from signalbook.messages.definitions.definition import CompiledDefinition
from signalbook.messages.message import Message, Reason
from signalbook.messages.properties import CONFLICT, Context
from signalbook.values import Finding

MAX_FINDINGS = 100
E = TypeVar("E")


class MatchSubject(msgspec.Struct, frozen=True, kw_only=True):
    """The input of matching: a message, its content mode, the event it carries, and the values of its properties."""

    message: Message
    mode: Mode
    event: CloudEvent | None
    values: Mapping[str, Any]


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """A definition that the metadata of a message fits, with the values of its placeholders (K-34)."""

    definition: CompiledDefinition
    context: Context


@dataclass(frozen=True, slots=True, kw_only=True)
class MismatchExplanation:
    """The reason why no definition fits a message.

    ``near`` is True if the message is of a known kind, but violates its definition (K-28). ``reason`` is set for such a
    violation or an unknown kind. If it is None, the contract chooses the reason.
    """

    near: bool = False
    reason: Reason | None = None
    findings: tuple[Finding, ...] = ()
    candidates: tuple[str, ...] = ()


def fit_all(candidates: Iterable[CompiledDefinition], subject: MatchSubject) -> list[Fit]:
    """Return the candidates that the message fits, with the values of their placeholders."""
    fits = []
    for definition in candidates:
        context: Context = {}
        if not violations(definition, subject, context):
            fits.append(Fit(definition=definition, context=context))
    return fits


def select_by_protocol(
    entries: Sequence[E], protocol: str, definition_of: Callable[[E], CompiledDefinition]
) -> Sequence[E]:
    """Return the entries whose definitions are for the protocol of a message, or all entries if there are none.

    Definitions for the message's own protocol take precedence over definitions for any protocol. A message from a file
    has no protocol (``""``), so definitions without a protocol take precedence.
    """
    return [entry for entry in entries if definition_of(entry).protocol == protocol] or entries


def violations(definition: CompiledDefinition, subject: MatchSubject, context: Context) -> list[Finding]:
    """Return all violations of ``definition`` by the metadata of a message (K-26).

    The values of placeholders are added to ``context``.
    """
    protocol = subject.message.protocol
    # Check the protocol first: values of one protocol mean nothing for a definition of another protocol.
    if (
        definition.protocol
        and definition.protocol != protocol
        and (gate := _check_protocol(definition, subject)) is not None
    ):
        return [gate]
    findings: list[Finding] = []
    if subject.event is not None and definition.event_checks:
        findings = definition.check_event(subject.event.attributes, context)
    if definition.protocol_checks and definition.protocol == protocol:
        values = subject.values
        findings += [f for check in definition.protocol_checks if (f := check(values, context)) is not None]
    if definition.message_checks:
        message, mode = subject.message, subject.mode
        findings += [f for test in definition.message_checks if (f := test(message, mode)) is not None]
    return findings


def _check_protocol(definition: CompiledDefinition, subject: MatchSubject) -> Finding | None:
    """Return a finding, because the message came by another protocol than the definition's.

    Return None for a message from a file if the definition is of an event, unless the policy is strict.
    """
    protocol = subject.message.protocol
    if protocol == "" and definition.is_event and not definition.policy.strict_delivery:
        return None
    text = f"the definition is for {definition.protocol}, the message came by {protocol or 'no protocol'}"
    return Finding(path="protocol", rule="protocol", message=text)


def explain(candidates: Iterable[CompiledDefinition], subject: MatchSubject) -> MismatchExplanation:
    """Explain why none of the candidates fits.

    If the message is of the kind of some candidates, only their violations are reported, else those of all (K-28).
    """
    misses = [(definition, violations(definition, subject, {})) for definition in candidates]
    near = [miss for miss in misses if _is_near(*miss, subject)]
    chosen = select_by_protocol(near, subject.message.protocol, lambda miss: miss[0]) or misses
    return MismatchExplanation(
        near=bool(near),
        reason=breach_reason(finding for _, findings in chosen for finding in findings) if near else None,
        findings=merge_findings(chosen),
        candidates=tuple(definition.xid for definition, _ in chosen),
    )


def breach_reason(findings: Iterable[Finding]) -> Reason:
    """Return the reason for rejecting a message of a known kind that breaks its definition."""
    rules = {finding.rule for finding in findings}
    return Reason.PLACEHOLDER_CONFLICT if rules == {CONFLICT} else Reason.METADATA_VIOLATION


def merge_findings(results: Iterable[tuple[CompiledDefinition, Iterable[Finding]]]) -> tuple[Finding, ...]:
    """Return findings of several definitions, each naming its definition if there is more than one."""
    pairs = [(definition, tuple(findings)) for definition, findings in results]
    if len(pairs) == 1:
        return pairs[0][1][:MAX_FINDINGS]
    prefixed = (
        Finding(path=finding.path, rule=finding.rule, message=f"{definition.xid}: {finding.message}")
        for definition, findings in pairs
        for finding in findings
    )
    return tuple(finding for finding, _ in zip(prefixed, range(MAX_FINDINGS), strict=False))


def _is_near(definition: CompiledDefinition, findings: list[Finding], subject: MatchSubject) -> bool:
    """Return True if the message has at least one discriminator of the definition, and all of them agree.

    Then the message is of the definition's kind, and ``findings`` are violations.
    """
    failed = {finding.path for finding in findings}
    if "protocol" in failed and any(finding.rule == "protocol" for finding in findings):
        return False
    if definition.is_event and subject.event is not None:
        names = {key.name for key in definition.event_keys if key.tier == 0}
        # A definition without a type is known by the other constants it demands.
        names = names or {key.name for key in definition.event_keys}
        return bool(names) and not names & failed and _carries(names, subject.event.attributes)
    return not definition.discriminators & failed and _carries(definition.discriminators, subject.values)


def _carries(names: Iterable[str], values: Mapping[str, Any]) -> bool:
    return any(name in values for name in names)

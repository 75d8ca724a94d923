"""What may be sent: messages that match a definition, with payloads that conform (domain.md K-3, K-6, K-54)."""

from __future__ import annotations

from collections.abc import Mapping

from signalbook.messages.contract import Contract
from signalbook.messages.message import Message
from signalbook.messages.outcome import Accepted, Outcome, Rejected
from signalbook.messages.protocols import canonical_protocol
from signalbook.messages.reasons import Reason
from signalbook.values import JSON, Finding


def validate_outbound(
    message: Message, contract: Contract, endpoint: Mapping[str, JSON] | None = None
) -> tuple[Rejected, ...]:
    """Why ``message`` may not be sent to ``endpoint``, whose definitions ``contract`` has; empty if it may.

    Of a batch each event has to conform. What the contract's policy would let pass when it is received is refused:
    payloads that are only tagged, messages that no definition fits.
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

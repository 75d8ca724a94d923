"""What message definitions mean: bytes and values in, outcomes and findings out."""

from signalbook.messages.cloudevents import CloudEvent, Mode, attribute_text, dedupe_key
from signalbook.messages.contract import Contract
from signalbook.messages.definition import CompiledDefinition, DefinitionError
from signalbook.messages.lint import lint
from signalbook.messages.materialise import Materialised, materialise
from signalbook.messages.message import Message
from signalbook.messages.normalise import normalise
from signalbook.messages.outcome import Accepted, Dropped, Outcome, Passed, Rejected
from signalbook.messages.policy import Override, Policy, PolicyError, flag_settings, parse_flags, parse_policy
from signalbook.messages.reasons import Reason
from signalbook.messages.records import of_record, to_record
from signalbook.messages.schemas import SchemaDocument

__all__ = [
    "Accepted",
    "CloudEvent",
    "CompiledDefinition",
    "Contract",
    "DefinitionError",
    "Dropped",
    "Materialised",
    "Message",
    "Mode",
    "Outcome",
    "Override",
    "Passed",
    "Policy",
    "PolicyError",
    "Reason",
    "Rejected",
    "SchemaDocument",
    "attribute_text",
    "dedupe_key",
    "flag_settings",
    "lint",
    "materialise",
    "normalise",
    "of_record",
    "parse_flags",
    "parse_policy",
    "to_record",
]

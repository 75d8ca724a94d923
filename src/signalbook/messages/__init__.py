"""Check messages against message definitions, and build messages from definitions."""

from signalbook.messages.cloudevents import CloudEvent, Mode, format_attribute
from signalbook.messages.definitions.definition import CompiledDefinition, DefinitionError
from signalbook.messages.definitions.lint import lint
from signalbook.messages.definitions.normalise import Materialised, materialise, normalise
from signalbook.messages.definitions.schemas import SchemaDocument
from signalbook.messages.matching.contract import Contract
from signalbook.messages.matching.outcome import Accepted, Correlation, Dropped, Outcome, Passed, Rejected, correlate
from signalbook.messages.message import Message, Reason, format_sections, of_record, parse_sections, to_record
from signalbook.messages.payload import encode_payload
from signalbook.messages.policy import Override, Policy, PolicyError, flag_settings, parse_flags, parse_policy
from signalbook.messages.producing.building import Outbound, OutboundError, Param, Surroundings, build, required_inputs
from signalbook.messages.producing.sending import bind, from_cloudevent, validate_outbound

__all__ = [
    "Accepted",
    "CloudEvent",
    "CompiledDefinition",
    "Contract",
    "Correlation",
    "DefinitionError",
    "Dropped",
    "Materialised",
    "Message",
    "Mode",
    "Outbound",
    "OutboundError",
    "Outcome",
    "Override",
    "Param",
    "Passed",
    "Policy",
    "PolicyError",
    "Reason",
    "Rejected",
    "SchemaDocument",
    "Surroundings",
    "bind",
    "build",
    "correlate",
    "encode_payload",
    "flag_settings",
    "format_attribute",
    "format_sections",
    "from_cloudevent",
    "lint",
    "materialise",
    "normalise",
    "of_record",
    "parse_flags",
    "parse_policy",
    "parse_sections",
    "required_inputs",
    "to_record",
    "validate_outbound",
]

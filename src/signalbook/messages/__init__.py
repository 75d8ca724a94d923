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
from signalbook.messages.producing.building import Surroundings, build
from signalbook.messages.producing.correlation import Correlation, correlate
from signalbook.messages.producing.forwarding import from_cloudevent
from signalbook.messages.producing.gateway import validate_outbound
from signalbook.messages.producing.inputs import Param, required_inputs
from signalbook.messages.producing.outbound import Outbound, OutboundError
from signalbook.messages.producing.payloads import encode_payload
from signalbook.messages.producing.sending import bind
from signalbook.messages.reasons import Reason
from signalbook.messages.records import of_record, to_record
from signalbook.messages.schemas import SchemaDocument

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
    "attribute_text",
    "bind",
    "build",
    "correlate",
    "dedupe_key",
    "encode_payload",
    "flag_settings",
    "from_cloudevent",
    "lint",
    "materialise",
    "normalise",
    "of_record",
    "parse_flags",
    "parse_policy",
    "required_inputs",
    "to_record",
    "validate_outbound",
]

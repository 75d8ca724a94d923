"""Signalbook: a registry for message definitions and schemas, and a Spark pipeline that checks messages with them.

The public names are those of ``__all__`` here and in ``signalbook.pipeline``. All other modules may change.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from signalbook.version import __version__

if TYPE_CHECKING:
    from signalbook.client.client import Client
    from signalbook.client.responses import BadResponse, ClientError, Document, Events, NotFound, Refused, Unreachable
    from signalbook.codegen.aiokafka import AsyncTypedProducer, AsyncTypedReceiver
    from signalbook.codegen.amqp import TypedAmqpReceiver, TypedAmqpSender
    from signalbook.codegen.base import Generated, GeneratedFile, Generator, GeneratorInput
    from signalbook.codegen.http import TypedHttpClient, build_http_arguments, read_http_request
    from signalbook.codegen.kafka import ConsumeFailed, ProduceFailed, TypedConsumer, TypedProducer
    from signalbook.codegen.mqtt import PublishFailed, TypedMqttPublisher, TypedMqttReceiver
    from signalbook.codegen.nats import TypedNatsPublisher, TypedNatsReceiver
    from signalbook.codegen.runtime import UnexpectedMessage
    from signalbook.messages.eventformats.avro import CLOUDEVENTS_SCHEMA
    from signalbook.messages.matching.outcome import correlate
    from signalbook.messages.message import Message
    from signalbook.messages.payload import encode_payload
    from signalbook.messages.policy import Policy
    from signalbook.messages.producing.building import Outbound, OutboundError, build, required_inputs
    from signalbook.messages.producing.sending import bind, from_cloudevent, validate_outbound

__all__ = [
    "CLOUDEVENTS_SCHEMA",
    "AsyncTypedProducer",
    "AsyncTypedReceiver",
    "BadResponse",
    "Client",
    "ClientError",
    "ConsumeFailed",
    "Document",
    "Events",
    "Generated",
    "GeneratedFile",
    "Generator",
    "GeneratorInput",
    "Message",
    "NotFound",
    "Outbound",
    "OutboundError",
    "Policy",
    "ProduceFailed",
    "PublishFailed",
    "Refused",
    "TypedAmqpReceiver",
    "TypedAmqpSender",
    "TypedConsumer",
    "TypedHttpClient",
    "TypedMqttPublisher",
    "TypedMqttReceiver",
    "TypedNatsPublisher",
    "TypedNatsReceiver",
    "TypedProducer",
    "UnexpectedMessage",
    "Unreachable",
    "__version__",
    "bind",
    "build",
    "build_http_arguments",
    "correlate",
    "encode_payload",
    "from_cloudevent",
    "read_http_request",
    "required_inputs",
    "validate_outbound",
]

# Each module is imported when one of its names is used first, because the command line needs few of them.
_NAMES: Final = {
    "client": ("BadResponse", "Client", "ClientError", "Document", "Events", "NotFound", "Refused", "Unreachable"),
    "codegen.aiokafka": ("AsyncTypedProducer", "AsyncTypedReceiver"),
    "codegen.amqp": ("TypedAmqpReceiver", "TypedAmqpSender"),
    "codegen.base": ("Generated", "GeneratedFile", "Generator", "GeneratorInput"),
    "codegen.http": ("TypedHttpClient", "build_http_arguments", "read_http_request"),
    "codegen.kafka": ("ConsumeFailed", "ProduceFailed", "TypedConsumer", "TypedProducer"),
    "codegen.mqtt": ("PublishFailed", "TypedMqttPublisher", "TypedMqttReceiver"),
    "codegen.nats": ("TypedNatsPublisher", "TypedNatsReceiver"),
    "codegen.runtime": ("UnexpectedMessage",),
    "messages": (
        *("Message", "Outbound", "OutboundError", "Policy", "bind", "build", "correlate", "encode_payload"),
        *("from_cloudevent", "required_inputs", "validate_outbound"),
    ),
    "messages.eventformats.avro": ("CLOUDEVENTS_SCHEMA",),
}
_MODULES: Final = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import and return the member ``name`` of ``__all__``. Raises ``AttributeError`` for an unknown name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)

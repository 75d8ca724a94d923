"""Generated messages to and from MQTT, by the client of paho-mqtt that a program has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from signalbook.codegen.runtime import MessageHandlers, OnUnexpected
from signalbook.errors import SignalbookError
from signalbook.messages import Message, Outbound, bind
from signalbook.messages.bindings.mqtt import V3, V5, publish
from signalbook.values import JSON

# Our sections as properties of paho.
_PROPERTIES: Final = {
    "payload_format_indicator": "PayloadFormatIndicator",
    "message_expiry_interval": "MessageExpiryInterval",
    "response_topic": "ResponseTopic",
    "correlation_data": "CorrelationData",
    "content_type": "ContentType",
    "user_properties": "UserProperty",
}


class PublishFailed(SignalbookError):
    """A message that the client did not take."""


class PahoClient(Protocol):
    """The needed part of ``paho.mqtt.client.Client``."""

    def publish(self, topic: str, *args: Any, **kwargs: Any) -> Any:
        """Send a message, or put it in the queue."""


class TypedMqttPublisher:
    """A publisher for built messages. ``endpoint`` has what their definitions leave open, such as the topic."""

    def __init__(self, client: PahoClient, endpoint: Mapping[str, JSON] | None = None) -> None:
        self._client = client
        self._endpoint = endpoint or {"protocol": V5}

    def send(self, outbound: Outbound, context: Mapping[str, str] | None = None) -> Any:
        """Send a message, and return its ``MQTTMessageInfo``.

        Raises ``OutboundError``, and ``PublishFailed`` without a connection.

        ``context`` is for placeholders of the endpoint that the message does not have.
        """
        message = bind(outbound, self._endpoint, context)
        sections = message.sections
        more = {"properties": _build_properties(sections)} if message.protocol == V5 else {}
        info = self._client.publish(
            sections["topic_name"],
            message.body or b"",
            qos=int(sections.get("qos") or 0),
            retain=bool(sections.get("retain")),
            **more,
        )
        if info.rc:
            raise PublishFailed(f"{sections['topic_name']}: the client did not take the message (code {int(info.rc)})")
        return info


class TypedMqttReceiver:
    """A receiver that calls handlers with messages. Set it as the client's ``on_message``.

    What is of no definition goes to ``on_unexpected``; without that it is raised.
    """

    def __init__(
        self, handlers: MessageHandlers, on_unexpected: OnUnexpected | None = None, *, protocol: str = V5
    ) -> None:
        self._handlers = handlers
        self._on_unexpected = on_unexpected
        self._protocol = protocol

    def __call__(self, _client: Any, _userdata: Any, found: Any) -> None:
        """Take a ``paho.mqtt.client.MQTTMessage``. Raises ``UnexpectedMessage``, and what handlers raise."""
        self._handlers.receive(received(found, self._protocol), self._on_unexpected)


def received(message: Any, protocol: str = V5) -> Message:
    """A ``paho.mqtt.client.MQTTMessage`` as ``parse`` takes it."""
    sections: dict[str, Any] = {"topic_name": message.topic, "qos": message.qos, "retain": message.retain}
    properties = getattr(message, "properties", None)
    if protocol != V3 and properties is not None:
        values = {ours: getattr(properties, theirs, None) for ours, theirs in _PROPERTIES.items()}
        sections |= {name: value for name, value in values.items() if value is not None}
        if "user_properties" in sections:
            sections["user_properties"] = tuple(sections["user_properties"])
    return publish(protocol, message.payload, sections)


def _build_properties(sections: Mapping[str, Any]) -> Any:
    # The client is the program's: only who sends needs it.
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    properties: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    for ours, theirs in _PROPERTIES.items():
        value = sections.get(ours)
        if value is None or value in ((), ""):
            continue
        if ours == "correlation_data" and isinstance(value, str):
            value = value.encode()
        setattr(properties, theirs, list(value) if ours == "user_properties" else value)
    return properties

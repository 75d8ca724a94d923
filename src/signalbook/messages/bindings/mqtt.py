"""Read and write MQTT messages of versions 3.1.1 and 5.0 (F.7, K.5, K-7; CloudEvents MQTT protocol binding).

Sections of a message: ``topic_name``, ``qos``, ``retain``, and for version 5.0 ``payload_format_indicator``,
``message_expiry_interval``, ``response_topic``, ``correlation_data`` (bytes), ``content_type`` and ``user_properties``
(pairs of name and value). Values by property name: the same, but ``user_properties.<name>``. Names are case-sensitive
(K-20).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from signalbook.messages.bindings import outgoing
from signalbook.messages.bindings.base import Binding
from signalbook.messages.bindings.options import (
    declare_flag,
    declare_header,
    declare_number,
    declare_place,
    declare_text,
    decode_text,
    detect_format,
    group_values,
    parse_named_section,
    require_single_value,
)
from signalbook.messages.bindings.outgoing import regroup
from signalbook.messages.cloudevents import ATTRIBUTE_NAME, REQUIRED, Attribute, CloudEvent, format_attribute
from signalbook.messages.message import Message
from signalbook.messages.properties import Property, PropertyError
from signalbook.values import Finding, JSONObject

V3: Final = "MQTT/3.1.1"
V5: Final = "MQTT/5.0"
_ATTRIBUTE_PREFIX: Final = "user_properties."
_RULES_3: Final = {"topic_name": outgoing.topic, "qos": outgoing.number, "retain": outgoing.truth}
_RULES_5: Final = {
    **_RULES_3, "payload_format_indicator": outgoing.number, "message_expiry_interval": outgoing.number,
    "response_topic": outgoing.topic, "correlation_data": outgoing.plain, "content_type": outgoing.sized,
    "user_properties.": outgoing.sized,
}  # fmt: skip
_ALIASES: Final = {"payload_format": "payload_format_indicator", "user-properties": "user_properties"}


def publish(
    protocol: str,
    payload: bytes,
    sections: Mapping[str, Any],
    *,
    received_at: datetime | None = None,
    reference: str = "",
) -> Message:
    """Return a PUBLISH packet of version ``V3`` or ``V5`` as a message.

    Packets of 3.1.1 have no content type, so events are recognised by their text.
    """
    stated = str(sections.get("content_type") or "")
    return Message(
        protocol=protocol, content_type=stated if protocol == V5 else detect_format(payload), body=payload,
        sections=sections, received_at=received_at, reference=reference,
    )  # fmt: skip


class Mqtt3Binding(Binding):
    """The binding of MQTT 3.1.1, whose messages have a topic and a payload."""

    protocol: str = V3
    structured_only = "MQTT 3.1.1"

    def properties(self, options: JSONObject) -> list[Property]:
        """Return the properties for the topic and for delivery."""
        return declare_place(options, "topic_name") + declare_number(options, "qos") + declare_flag(options, "retain")

    def values(self, message: Message) -> Mapping[str, Any]:
        """Return all sections that are present."""
        return {name: value for name, value in message.sections.items() if value is not None}

    def native(self, body: bytes | None, _content_type: str) -> Message:
        """Return a message without a topic. It cannot state a content type."""
        return publish(V3, body or b"", {})

    def carrying(self, message: Message, values: Mapping[str, Any]) -> Message:
        """Return the message with ``values`` as sections."""
        outgoing.refuse(values, _RULES_3)
        return self._publish_values(message, values)

    def _publish_values(self, message: Message, values: Mapping[str, Any]) -> Message:
        sections = {**message.sections, **values}
        return publish(
            self.protocol, message.body or b"", sections, received_at=message.received_at, reference=message.reference
        )


class Mqtt5Binding(Mqtt3Binding):
    """The binding of MQTT 5.0, whose messages also have properties."""

    protocol = V5
    structured_only = ""
    mandatory = (tuple(_ATTRIBUTE_PREFIX + name for name in REQUIRED),)

    def normalise(self, options: JSONObject) -> tuple[JSONObject, list[Finding]]:
        """Return the options with user properties as a list, and with the names of the model."""
        normal = {_ALIASES.get(name, name): value for name, value in options.items()}
        # If both names are given, the name of the model takes precedence.
        normal |= {name: options[name] for name in _ALIASES.values() if name in options}
        if "user_properties" in normal:
            normal["user_properties"] = parse_named_section("user_properties", normal["user_properties"])
        return normal, []

    def properties(self, options: JSONObject) -> list[Property]:
        """Return the properties for topic, delivery, payload, replies and user properties."""
        declared = super().properties(options) + declare_number(options, "message_expiry_interval")
        declared += declare_number(options, "payload_format_indicator", role="plain")
        declared += declare_text(options, "response_topic") + declare_text(options, "correlation_data")
        if (content_type := options.get("content_type")) is not None:
            if not isinstance(content_type, str):
                raise PropertyError("protocoloptions.content_type: must be a string")
            path = "protocoloptions.content_type"
            declared.append(Property(name="content_type", path=path, value=content_type, comparison="content_type"))
        user_properties = parse_named_section("user_properties", options.get("user_properties", []))
        return declared + [declare_header(item, section="user_properties", fold=False) for item in user_properties]

    def values(self, message: Message) -> Mapping[str, Any]:
        """Return all sections that are present, user properties by name, correlation data as text if it is UTF-8."""
        values = dict(super().values(message))
        values |= group_values(values.pop("user_properties", ()), _ATTRIBUTE_PREFIX, fold=False)
        if isinstance(values.get("correlation_data"), bytes):
            values["correlation_data"] = decode_text(values["correlation_data"])
        return values

    def attributes(self, message: Message, values: Mapping[str, Any]) -> dict[str, Attribute]:
        """Return the user properties with names of attributes, and the content type as ``datacontenttype``."""
        attributes: dict[str, Attribute] = {
            # Attributes have no prefix, so other user properties may have names that look like attributes.
            name[len(_ATTRIBUTE_PREFIX) :]: require_single_value(name, occurrences)
            for name, occurrences in values.items()
            if name.startswith(_ATTRIBUTE_PREFIX) and ATTRIBUTE_NAME.fullmatch(name[len(_ATTRIBUTE_PREFIX) :])
        }
        if message.content_type:
            attributes["datacontenttype"] = message.content_type
        return attributes

    def binary(self, event: CloudEvent) -> Message:
        """Return the event in binary mode as a message without a topic."""
        user_properties = [
            (name, format_attribute(value)) for name, value in event.attributes.items() if name != "datacontenttype"
        ]
        message = self.native(event.payload(), event.content_type)
        return publish(V5, message.body or b"", {**message.sections, "user_properties": tuple(user_properties)})

    def native(self, body: bytes | None, content_type: str) -> Message:
        """Return a message without a topic."""
        return publish(V5, body or b"", {"content_type": content_type} if content_type else {})

    def carrying(self, message: Message, values: Mapping[str, Any]) -> Message:
        """Return the message with ``values`` as sections, and user properties as pairs of text."""
        outgoing.refuse(values, _RULES_5)
        user_properties = regroup(
            message.sections.get("user_properties", ()), outgoing.texts(values), _ATTRIBUTE_PREFIX, fold=False
        )
        other_values = {name: value for name, value in values.items() if not name.startswith(_ATTRIBUTE_PREFIX)}
        if isinstance(other_values.get("correlation_data"), str):
            other_values["correlation_data"] = other_values["correlation_data"].encode()
        return self._publish_values(
            message, {**other_values, "user_properties": user_properties} if user_properties else other_values
        )


MQTT3: Final = Mqtt3Binding()
MQTT5: Final = Mqtt5Binding()

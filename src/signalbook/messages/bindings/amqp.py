"""Read and write AMQP 1.0 messages (F.7, K.5, K-7; CloudEvents AMQP protocol binding).

Sections of a message: ``header``, ``delivery-annotations``, ``message-annotations``, ``properties``,
``application-properties`` and ``footer``, each a map. Values are Python objects: strings, numbers, booleans, bytes,
UUIDs, datetimes. Values by property name: ``<section>.<name>``. Names are case-sensitive (K-20).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from signalbook.messages.bindings import outgoing
from signalbook.messages.bindings.base import Binding
from signalbook.messages.bindings.options import make_binary_error
from signalbook.messages.cloudevents import REQUIRED, Attribute, CloudEvent
from signalbook.messages.message import Message
from signalbook.messages.properties import Property, PropertyError, normalise_property
from signalbook.messages.uritemplates import is_template
from signalbook.values import Finding, JSONObject, format_timestamp

_PROPERTY_SECTIONS: Final = (
    "properties", "application-properties", "message-annotations", "delivery-annotations", "footer",
)  # fmt: skip
_HEADER: Final = {
    "durable": "boolean", "priority": "integer", "ttl": "ulong", "first-acquirer": "boolean", "delivery-count": "ulong",
}  # fmt: skip
# The types of properties whose definition states none. ``symbol`` would not allow a media type (F.7).
_DEFAULT_TYPES: Final = {"absolute-expiry-time": "timestamp", "creation-time": "timestamp", "group-sequence": "integer"}
MEDIA: Final = ("content-type", "content-encoding")
"""The properties that describe the body."""
_CARRY_RULES: Final = outgoing.names((f"{section}." for section in ("header", *_PROPERTY_SECTIONS)), outgoing.plain)
_DISTINGUISHING: Final = ("to", "subject")
_PREFIXES: Final = tuple(f"application-properties.cloudEvents{separator}" for separator in "_:")


def message(
    body: bytes | None,
    sections: Mapping[str, Mapping[str, Any]],
    *,
    received_at: datetime | None = None,
    reference: str = "",
) -> Message:
    """Return a message. ``body`` are its data sections."""
    properties = sections.get("properties", {})
    content_type, content_encoding = (str(properties.get(name) or "") for name in MEDIA)
    return Message(
        protocol="AMQP/1.0", content_type=content_type, content_encoding=content_encoding, body=body,
        sections=sections, received_at=received_at, reference=reference,
    )  # fmt: skip


class AmqpBinding(Binding):
    """The binding of AMQP 1.0."""

    protocol: Final = "AMQP/1.0"
    mandatory = tuple(tuple(prefix + name for name in REQUIRED) for prefix in _PREFIXES)

    def normalise(self, options: JSONObject) -> tuple[JSONObject, list[Finding]]:
        """Return the options with property values as text (F-41)."""
        sections = {name: options[name] for name in _PROPERTY_SECTIONS if isinstance(options.get(name), dict)}
        normal = {
            name: {key: normalise_property(entry) for key, entry in section.items()}
            for name, section in sections.items()
        }
        return {**options, **normal}, []

    def properties(self, options: JSONObject) -> list[Property]:
        """Return the properties that all sections declare. Fields of ``header`` concern only delivery (K-27)."""
        declared = [
            entry for section in _PROPERTY_SECTIONS for entry in _declare_section(section, options.get(section))
        ]
        header = options.get("header")
        for name, kind in _HEADER.items():
            if isinstance(header, dict) and header.get(name) is not None:
                path = f"protocoloptions.header.{name}"
                declared.append(
                    Property(name=f"header.{name}", path=path, type=kind, value=header[name], role="delivery")
                )
        return declared

    def values(self, message: Message) -> Mapping[str, Any]:
        """Return the values of all sections."""
        return {
            f"{section}.{name}": value
            for section, fields in message.sections.items()
            for name, value in fields.items()
            if value is not None
        }

    def attributes(self, message: Message, values: Mapping[str, Any]) -> dict[str, Attribute]:
        """Return the application properties with the prefix ``cloudEvents_`` or ``cloudEvents:``, and the content type.

        A message must not mix both prefixes.
        """
        by_prefix = [
            {name[len(prefix) :]: value for name, value in values.items() if name.startswith(prefix)}
            for prefix in _PREFIXES
        ]
        # Both prefixes are legal, but the specification does not define which attributes count if they are mixed.
        if all(by_prefix):
            raise make_binary_error("cloudEvents", "some attributes begin with cloudEvents_, some with cloudEvents:")
        attributes = {name: _convert_attribute(name, value) for name, value in (by_prefix[0] or by_prefix[1]).items()}
        if "datacontenttype" in attributes:
            raise make_binary_error("datacontenttype", "the content type is a property of its own: drop the other one")
        if message.content_type:
            attributes["datacontenttype"] = message.content_type
        return attributes

    def binary(self, event: CloudEvent) -> Message:
        """Return the event in binary mode. Attributes keep their types (K-23)."""
        application_properties = {
            f"cloudEvents_{name}": value for name, value in event.attributes.items() if name != "datacontenttype"
        }
        properties = {"content-type": event.content_type} if event.content_type else {}
        return message(event.payload(), {"properties": properties, "application-properties": application_properties})

    def native(self, body: bytes | None, content_type: str) -> Message:
        """Return a message without an address."""
        return message(body, {"properties": {"content-type": content_type} if content_type else {}})

    def carrying(self, message: Message, values: Mapping[str, Any]) -> Message:
        """Return the message with ``values`` set. Values keep their types."""
        outgoing.refuse(values, _CARRY_RULES)
        sections = {name: dict(fields) for name, fields in message.sections.items()}
        for name, value in values.items():
            section, _, member = name.partition(".")
            sections.setdefault(section, {})[member] = value
        return _message(message.body, sections, received_at=message.received_at, reference=message.reference)

    def identity(self, _message: Message, values: Mapping[str, Any]) -> str:
        """Return the message id, or ``""`` (K-35)."""
        message_id = values.get("properties.message-id")
        return "" if message_id is None else str(_convert_attribute("message-id", message_id))


_message: Final = message
BINDING: Final = AmqpBinding()


def _declare_section(section: str, entries: Any) -> Iterator[Property]:
    if entries is None:
        return
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise PropertyError(f"protocoloptions.{section}: must be an object of objects")
    for name, entry in entries.items():
        value = entry.get("value")
        constant = value is not None and not is_template(str(value))
        distinguishing = section == "application-properties" or (section == "properties" and name in _DISTINGUISHING)
        is_media = section == "properties" and name in MEDIA
        yield Property(
            name=f"{section}.{name}",
            path=f"protocoloptions.{section}.{name}",
            type="string" if is_media else entry.get("type") or _DEFAULT_TYPES.get(name, "string"),
            value=value,
            required=entry.get("required") is True,
            role="discriminator" if distinguishing and constant else "plain",
            comparison="content_type" if is_media and name == "content-type" else "value",
        )


def _convert_attribute(name: str, value: Any) -> Attribute:
    """Return a property value as an attribute of an event. Types that JSON lacks become canonical strings (3.1.3.2)."""
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    if isinstance(value, datetime):
        return format_timestamp(value)
    if isinstance(value, (list, dict)):
        raise make_binary_error(name, f"{name} is no simple value")
    return str(value)

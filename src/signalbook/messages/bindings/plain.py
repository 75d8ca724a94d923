"""Protocol options with plain values, as those of Kafka, MQTT and NATS have: text, templates and numbers."""

from __future__ import annotations

from typing import Any, Literal

from signalbook.messages.cloudevents import JSON_FORMAT
from signalbook.messages.properties import Property, PropertyError
from signalbook.values import JSONObject


def place(options: JSONObject, name: str, *, separator: str = "/") -> list[Property]:
    """The topic or subject: every message has one, and it tells kinds of messages apart."""
    return _text(options, name, separator, required=True, role="discriminator")


def text(options: JSONObject, name: str, *, separator: str = "/") -> list[Property]:
    """Text that a message may have."""
    return _text(options, name, separator, required=False, role="plain")


def number(options: JSONObject, name: str, *, role: Literal["plain", "delivery"] = "delivery") -> list[Property]:
    """A whole number; most are about the delivery of a message, not about the message (K-27)."""
    return _typed(options, name, "integer", role)


def flag(options: JSONObject, name: str) -> list[Property]:
    """Whether, in delivering a message."""
    return _typed(options, name, "boolean", "delivery")


def readable(raw: bytes) -> str | bytes:
    """Bytes as the text they are, if they are."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def implied_format(body: bytes | None) -> str:
    """The JSON format where a protocol cannot say so and the body looks like an event, else ``""``.

    MQTT 3.1.1 and old NATS know events in structured mode only, and other messages too.
    """
    return JSON_FORMAT if body and body.lstrip()[:1] == b"{" and b'"specversion"' in body else ""


def _text(
    options: JSONObject, name: str, separator: str, *, required: bool, role: Literal["discriminator", "plain"]
) -> list[Property]:
    value = options.get(name)
    if value is None:
        return []
    if not isinstance(value, str):
        raise PropertyError(f"protocoloptions.{name}: must be a string")
    path = f"protocoloptions.{name}"
    return [
        Property(
            name=name, path=path, type="uritemplate", value=value, required=required, separator=separator, role=role
        )
    ]


def _typed(options: JSONObject, name: str, type: str, role: Literal["plain", "delivery"]) -> list[Property]:
    value: Any = options.get(name)
    if value is None:
        return []
    return [Property(name=name, path=f"protocoloptions.{name}", type=type, value=value, role=role)]

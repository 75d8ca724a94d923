"""Names of protocols and envelopes in their canonical spelling (domain.md F-5, F-6, F-39, H-8, K-11)."""

from __future__ import annotations

from typing import Final

CLOUDEVENTS: Final = "CloudEvents/1.0"
# Lower-case name -> canonical name.
_PROTOCOLS: Final = {
    "http": "HTTP",
    "http/1.0": "HTTP",
    "http/1.1": "HTTP",
    "http/2": "HTTP",
    "http/2.0": "HTTP",
    "http/3": "HTTP",
    "amqp": "AMQP/1.0",
    "amqp/1.0": "AMQP/1.0",
    "kafka": "KAFKA",
    "mqtt": "MQTT/5.0",
    "mqtt/5": "MQTT/5.0",
    "mqtt/5.0": "MQTT/5.0",
    "mqtt/3.1.1": "MQTT/3.1.1",
    "nats": "NATS",
}


def canonical_protocol(name: str) -> str:
    """The canonical name; of a protocol the specification does not name, the name in upper case."""
    name = name.strip()
    return _PROTOCOLS.get(name.lower(), name.upper())


def is_known_protocol(name: str) -> bool:
    """Whether the specification names the protocol."""
    return name.strip().lower() in _PROTOCOLS


def canonical_envelope(name: str) -> str:
    """The canonical name of an envelope; of one the specification does not name, the name as it is."""
    name = name.strip()
    return CLOUDEVENTS if name.lower() in ("cloudevents", "cloudevents/1.0") else name

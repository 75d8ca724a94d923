"""Names of formats of the drafts, and what groups of xRegistry state in their place (domain.md B-2, J-11, J-18)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from signalbook.cncf.messagecatalog.metaschemas import AMQP, CLOUDEVENTS, METASCHEMAS, MQTT, NATS
from signalbook.values import JSON, JSONObject

HTTP: Final = "HTTP"
KAFKA: Final = "KAFKA"
XREGISTRY: Final = "xRegistry"
"""The format of groups that state neither envelope nor protocol, and of no draft: definitions are as xRegistry's."""

PREDEFINED: Final = tuple(METASCHEMAS)
ALIASES: Final = {"CloudsEvents": CLOUDEVENTS}
"""The drafts' own misspelling (B-3, L-2)."""

_CLOUDEVENTS: Final = "CloudEvents/1.0"
_PROTOCOLS: Final = {AMQP: "AMQP/1.0", NATS: "NATS", HTTP: "HTTP", KAFKA: "KAFKA"}
_FAMILIES: Final = {AMQP.lower(): AMQP, MQTT.lower(): MQTT, NATS.lower(): NATS, "http": HTTP, "kafka": KAFKA}


def format_of(group: Mapping[str, JSON]) -> str:
    """The format that a group of xRegistry has in the drafts: by its envelope, else its protocol, else its own word."""
    envelope, protocol, stated = (group.get(name) for name in ("envelope", "protocol", "format"))
    if isinstance(envelope, str) and envelope:
        return CLOUDEVENTS if family(envelope) == CLOUDEVENTS.lower() else envelope
    if isinstance(protocol, str) and protocol:
        return _FAMILIES.get(family(protocol), protocol)
    return stated if isinstance(stated, str) and stated else XREGISTRY


def group_attributes(format: str) -> JSONObject:
    """What a group of xRegistry states so that it has ``format``; None is to be absent.

    One of format MQTT states no protocol: its definitions may be for either version, each its own (J-11).
    """
    if format == CLOUDEVENTS:
        return {"envelope": _CLOUDEVENTS, "protocol": None, "format": None}
    if format in _PROTOCOLS:
        return {"envelope": None, "protocol": _PROTOCOLS[format], "format": None}
    return {"envelope": None, "protocol": None, "format": format}


def message_protocol(format: str, group: Mapping[str, JSON], mqtt: str) -> str | None:
    """What a message of ``format`` in ``group`` states as its protocol; ``mqtt`` is the version of MQTT it is for."""
    stated = group.get("protocol")
    if isinstance(stated, str) and stated:
        return stated
    return f"MQTT/{mqtt}" if format == MQTT else None


def family(name: str) -> str:
    """An envelope's or protocol's name without its version, in lower case."""
    return name.partition("/")[0].lower()

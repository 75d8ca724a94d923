"""Kafka records (domain.md F.7, K-5, K-7; CloudEvents Kafka protocol binding).

Sections of a message: ``topic``, ``partition``, ``offset``, ``key`` (bytes or ``None``), ``headers`` (pairs of name and
bytes or ``None``). Its values by property name: ``topic``, ``partition``, ``key`` (text, where it is some),
``key_base64`` (bytes), ``headers.<name>``; names have their case (K-20).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from signalbook.messages.bindings import outgoing
from signalbook.messages.bindings.base import Binding
from signalbook.messages.bindings.options import (
    add_content_type,
    grouped,
    header_property,
    invalid_binary,
    named_section,
    number_property,
    place_property,
    readable,
    single_value,
    text_property,
)
from signalbook.messages.bindings.outgoing import regrouped
from signalbook.messages.cloudevents import REQUIRED, Attribute, CloudEvent, attribute_text
from signalbook.messages.definitions.properties import Property, PropertyError
from signalbook.messages.message import Message
from signalbook.values import Finding, JSONObject

_PREFIX: Final = "headers.ce_"
_RULES: Final = {
    "topic": outgoing.kafka_topic, "key": outgoing.plain, "key_base64": outgoing.anything, "partition": outgoing.number,
    "headers.": outgoing.plain,
}  # fmt: skip


def record(
    topic: str,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]] = (),
    *,
    key: bytes | None = None,
    partition: int | None = None,
    offset: int | None = None,
    received_at: datetime | None = None,
    reference: str = "",
) -> Message:
    """A record as a message; one without a value is a tombstone, or an event without data."""
    pairs = tuple(headers)
    known = {name: readable(raw or b"") for name, raw in pairs if name in ("content-type", "content-encoding")}
    sections = {"topic": topic, "partition": partition, "offset": offset, "key": key, "headers": pairs}
    return Message(
        protocol="KAFKA", content_type=str(known.get("content-type", "")),
        content_encoding=str(known.get("content-encoding", "")), body=value, sections=sections,
        received_at=received_at, reference=reference,
    )  # fmt: skip


class KafkaBinding(Binding):
    """Kafka, all versions with headers."""

    protocol: Final = "KAFKA"
    mandatory = (tuple(_PREFIX + name for name in REQUIRED),)

    def normalise(self, options: JSONObject) -> tuple[JSONObject, list[Finding]]:
        """Headers as a map of objects, as the model has them."""
        found = dict(options)
        headers = found.get("headers")
        if isinstance(headers, dict):
            found["headers"] = {
                name: item if isinstance(item, dict) else {"value": item} for name, item in headers.items()
            }
        return found, []

    def properties(self, options: JSONObject) -> list[Property]:
        """Topic, key in one of its two forms, partition, headers."""
        declared = (
            place_property(options, "topic") + text_property(options, "key") + number_property(options, "partition")
        )
        if options.get("key_base64") is not None:
            path = "protocoloptions.key_base64"
            if not isinstance(options["key_base64"], str):
                raise PropertyError(f"{path}: must be a string")
            declared.append(Property(name="key_base64", path=path, type="binary", value=options["key_base64"]))
        return declared + [
            header_property(item, fold=False) for item in named_section("headers", options.get("headers", []))
        ]

    def values(self, message: Message) -> Mapping[str, Any]:
        """Return topic, partition, key and headers, with bytes as text where they are text. A null header is empty."""
        sections = message.sections
        pairs = [(name, readable(raw or b"")) for name, raw in sections.get("headers", ())]
        values: dict[str, Any] = grouped(pairs, "headers.", fold=False)
        for name in ("topic", "partition"):
            if sections.get(name) is not None:
                values[name] = sections[name]
        if (key := sections.get("key")) is not None:
            # Both forms at once: a definition may declare either.
            values["key_base64"] = key
            values["key"] = readable(key)
        return values

    def attributes(self, message: Message, values: Mapping[str, Any]) -> dict[str, Attribute]:
        """The ``ce_`` headers, and the content type as ``datacontenttype``."""
        attributes: dict[str, Attribute] = {}
        for name, occurrences in values.items():
            if name.startswith(_PREFIX):
                value = single_value(name, occurrences)
                if not isinstance(value, str):
                    raise invalid_binary(name, f"the header {name[len('headers.') :]} is not in UTF-8")
                attributes[name[len(_PREFIX) :]] = value
        return add_content_type(attributes, message, "ce_datacontenttype")

    def binary(self, event: CloudEvent) -> Message:
        """A record of no topic yet, and without a key: which it is, is for the sender to say."""
        headers = [
            (f"ce_{name}", attribute_text(value).encode())
            for name, value in event.attributes.items()
            if name != "datacontenttype"
        ]
        if event.content_type:
            headers.append(("content-type", event.content_type.encode()))
        return record("", event.payload(), headers)

    def native(self, body: bytes | None, content_type: str) -> Message:
        """A record of no topic yet."""
        return record("", body, [("content-type", content_type.encode())] if content_type else [])

    def carrying(self, message: Message, values: Mapping[str, Any]) -> Message:
        """Text as UTF-8; a key in one of its two forms."""
        outgoing.refuse(values, _RULES)
        sections = message.sections
        key = values.get("key_base64", values.get("key", sections["key"]))
        headers = regrouped(sections["headers"], values, "headers.", fold=False)
        return record(
            outgoing.text(values.get("topic", sections["topic"])),
            message.body,
            [(name, _raw(value)) for name, value in headers],
            key=None if key is None else _raw(key),
            partition=values.get("partition", sections["partition"]),
            offset=sections["offset"],
            received_at=message.received_at,
            reference=message.reference,
        )

    def identity(self, message: Message, _values: Mapping[str, Any]) -> str:
        """Topic, partition and offset (K-35)."""
        parts = [message.sections.get(name) for name in ("topic", "partition", "offset")]
        return "" if None in parts else "/".join(map(str, parts))


def _raw(value: Any) -> bytes:
    return value if isinstance(value, bytes) else outgoing.text(value).encode()


BINDING: Final = KafkaBinding()

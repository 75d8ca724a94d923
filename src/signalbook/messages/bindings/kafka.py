"""Read and write Kafka records (F.7, K.5, K-7; CloudEvents Kafka protocol binding).

Sections of a message: ``topic``, ``partition``, ``offset``, ``key`` (bytes or ``None``), ``headers`` (pairs of name and
bytes or ``None``). Values by property name: ``topic``, ``partition``, ``key`` (text if it is UTF-8, else bytes),
``key_base64`` (bytes), ``headers.<name>``. Names are case-sensitive (K-20).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from signalbook.messages.bindings import outgoing
from signalbook.messages.bindings.base import Binding
from signalbook.messages.bindings.options import (
    add_content_type,
    declare_header,
    declare_number,
    declare_place,
    declare_text,
    decode_text,
    group_values,
    make_binary_error,
    parse_named_section,
    require_single_value,
)
from signalbook.messages.bindings.outgoing import regroup
from signalbook.messages.cloudevents import REQUIRED, Attribute, CloudEvent, format_attribute
from signalbook.messages.message import Message
from signalbook.messages.properties import Property, PropertyError
from signalbook.values import Finding, JSONObject

_ATTRIBUTE_PREFIX: Final = "headers.ce_"
_CARRY_RULES: Final = {
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
    """Return a record as a message. A record without a value is a tombstone, or an event without data."""
    pairs = tuple(headers)
    content_headers = {
        name: decode_text(raw or b"") for name, raw in pairs if name in ("content-type", "content-encoding")
    }
    sections = {"topic": topic, "partition": partition, "offset": offset, "key": key, "headers": pairs}
    return Message(
        protocol="KAFKA", content_type=str(content_headers.get("content-type", "")),
        content_encoding=str(content_headers.get("content-encoding", "")), body=value, sections=sections,
        received_at=received_at, reference=reference,
    )  # fmt: skip


class KafkaBinding(Binding):
    """The binding of Kafka, all versions with headers."""

    protocol: Final = "KAFKA"
    mandatory = (tuple(_ATTRIBUTE_PREFIX + name for name in REQUIRED),)

    def normalise(self, options: JSONObject) -> tuple[JSONObject, list[Finding]]:
        """Return the options with headers as a map of objects, as in the model."""
        normal = dict(options)
        headers = normal.get("headers")
        if isinstance(headers, dict):
            normal["headers"] = {
                name: item if isinstance(item, dict) else {"value": item} for name, item in headers.items()
            }
        return normal, []

    def properties(self, options: JSONObject) -> list[Property]:
        """Return the properties for topic, key (``key`` or ``key_base64``), partition and headers."""
        declared = declare_place(options, "topic") + declare_text(options, "key") + declare_number(options, "partition")
        if options.get("key_base64") is not None:
            path = "protocoloptions.key_base64"
            if not isinstance(options["key_base64"], str):
                raise PropertyError(f"{path}: must be a string")
            declared.append(Property(name="key_base64", path=path, type="binary", value=options["key_base64"]))
        return declared + [
            declare_header(item, fold=False) for item in parse_named_section("headers", options.get("headers", []))
        ]

    def values(self, message: Message) -> Mapping[str, Any]:
        """Return topic, partition, key and headers.

        Bytes in UTF-8 become text, and a null header becomes empty text.
        """
        sections = message.sections
        pairs = [(name, decode_text(raw or b"")) for name, raw in sections.get("headers", ())]
        values: dict[str, Any] = group_values(pairs, "headers.", fold=False)
        for name in ("topic", "partition"):
            if sections.get(name) is not None:
                values[name] = sections[name]
        if (key := sections.get("key")) is not None:
            # Return both forms, because a definition may declare either.
            values["key_base64"] = key
            values["key"] = decode_text(key)
        return values

    def attributes(self, message: Message, values: Mapping[str, Any]) -> dict[str, Attribute]:
        """Return the ``ce_`` headers, and the content type as ``datacontenttype``."""
        attributes: dict[str, Attribute] = {}
        for name, occurrences in values.items():
            if name.startswith(_ATTRIBUTE_PREFIX):
                value = require_single_value(name, occurrences)
                if not isinstance(value, str):
                    raise make_binary_error(name, f"the header {name[len('headers.') :]} is not in UTF-8")
                attributes[name[len(_ATTRIBUTE_PREFIX) :]] = value
        return add_content_type(attributes, message, "ce_datacontenttype")

    def binary(self, event: CloudEvent) -> Message:
        """Return a record without topic and key, which the sender chooses."""
        headers = [
            (f"ce_{name}", format_attribute(value).encode())
            for name, value in event.attributes.items()
            if name != "datacontenttype"
        ]
        if event.content_type:
            headers.append(("content-type", event.content_type.encode()))
        return record("", event.payload(), headers)

    def native(self, body: bytes | None, content_type: str) -> Message:
        """Return a record without a topic."""
        return record("", body, [("content-type", content_type.encode())] if content_type else [])

    def carrying(self, message: Message, values: Mapping[str, Any]) -> Message:
        """Return the record with ``values`` set: text as UTF-8, and the key from ``key_base64`` or else ``key``."""
        outgoing.refuse(values, _CARRY_RULES)
        sections = message.sections
        key = values.get("key_base64", values.get("key", sections["key"]))
        headers = regroup(sections["headers"], values, "headers.", fold=False)
        return record(
            outgoing.text(values.get("topic", sections["topic"])),
            message.body,
            [(name, _encode_value(value)) for name, value in headers],
            key=None if key is None else _encode_value(key),
            partition=values.get("partition", sections["partition"]),
            offset=sections["offset"],
            received_at=message.received_at,
            reference=message.reference,
        )

    def identity(self, message: Message, _values: Mapping[str, Any]) -> str:
        """Return topic, partition and offset, or ``""`` if one of them is unknown (K-35)."""
        parts = [message.sections.get(name) for name in ("topic", "partition", "offset")]
        return "" if None in parts else "/".join(map(str, parts))


def _encode_value(value: Any) -> bytes:
    return value if isinstance(value, bytes) else outgoing.text(value).encode()


BINDING: Final = KafkaBinding()

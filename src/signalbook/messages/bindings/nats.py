"""Read and write NATS messages (F.7, K.5, K-7; CloudEvents NATS protocol binding).

Sections of a message: ``subject``, ``reply-to``, ``headers`` (pairs of name and value). Values by property name:
``subject``, ``reply-to``, ``headers.<name in lower case>``. A placeholder in a subject stands for one word (K-16).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from signalbook.messages.bindings import outgoing
from signalbook.messages.bindings.base import Binding
from signalbook.messages.bindings.options import (
    declare_header,
    declare_place,
    declare_text,
    detect_format,
    group_values,
    parse_named_section,
    read_header_attributes,
)
from signalbook.messages.bindings.outgoing import escape_header, regroup
from signalbook.messages.cloudevents import REQUIRED, Attribute, CloudEvent, format_attribute
from signalbook.messages.message import Message
from signalbook.messages.properties import Property
from signalbook.values import Finding, JSONObject

_ATTRIBUTE_PREFIX: Final = "headers.ce-"
_CARRY_RULES: Final = {"subject": outgoing.subject, "reply-to": outgoing.subject, "headers.": outgoing.header}
CONTENT_TYPES: Final = ("content-type", "ce-datacontenttype")
"""The headers that may state a content type, the preferred one first."""


def message(
    subject: str,
    payload: bytes,
    headers: Iterable[tuple[str, str]] = (),
    *,
    reply_to: str = "",
    received_at: datetime | None = None,
    reference: str = "",
) -> Message:
    """Return a NATS message. Without headers, as before NATS 2.2, an event is recognised by its text."""
    pairs = tuple(headers)
    stated = {name.lower(): value for name, value in pairs}
    # NATS producers use either of these headers.
    content_type = next((stated[name] for name in CONTENT_TYPES if name in stated), "")
    sections: dict[str, Any] = {"subject": subject, "headers": pairs}
    if reply_to:
        sections["reply-to"] = reply_to
    return Message(
        protocol="NATS", content_type=content_type if pairs else detect_format(payload),
        content_encoding=stated.get("content-encoding", ""), body=payload, sections=sections,
        received_at=received_at, reference=reference,
    )  # fmt: skip


class NatsBinding(Binding):
    """The binding of NATS, with and without headers."""

    protocol: Final = "NATS"
    mandatory = (tuple(_ATTRIBUTE_PREFIX + name for name in REQUIRED),)

    def normalise(self, options: JSONObject) -> tuple[JSONObject, list[Finding]]:
        """Return the options with headers as a list, and ``reply``, the name in the model, as ``reply-to``."""
        normal = dict(options)
        if "headers" in normal:
            normal["headers"] = parse_named_section("headers", normal["headers"])
        if "reply" in normal and "reply-to" not in normal:
            normal["reply-to"] = normal.pop("reply")
        return normal, []

    def properties(self, options: JSONObject) -> list[Property]:
        """Return the properties for the subject, the reply subject and headers."""
        subjects = declare_place(options, "subject", separator=".") + declare_text(options, "reply-to", separator=".")
        return subjects + [declare_header(item) for item in parse_named_section("headers", options.get("headers", []))]

    def values(self, message: Message) -> Mapping[str, Any]:
        """Return subjects and headers by property name."""
        sections = message.sections
        values: dict[str, Any] = group_values(sections.get("headers", ()), "headers.", fold=True)
        return values | {name: sections[name] for name in ("subject", "reply-to") if name in sections}

    def attributes(self, message: Message, values: Mapping[str, Any]) -> dict[str, Attribute]:
        """Return the ``ce-`` headers, unquoted and percent-decoded.

        ``Content-Type`` is used if ``ce-datacontenttype`` is absent.
        """
        attributes = read_header_attributes(values, _ATTRIBUTE_PREFIX)
        if message.content_type:
            attributes.setdefault("datacontenttype", message.content_type)
        return attributes

    def binary(self, event: CloudEvent) -> Message:
        """Return the event in binary mode as a message without a subject."""
        attributes = dict(event.attributes)
        if event.content_type:
            attributes["datacontenttype"] = event.content_type
        headers = [(f"ce-{name}", escape_header(format_attribute(value))) for name, value in attributes.items()]
        return message("", event.payload() or b"", headers)

    def native(self, body: bytes | None, content_type: str) -> Message:
        """Return a message without a subject."""
        return message("", body or b"", [("Content-Type", content_type)] if content_type else [])

    def carrying(self, message: Message, values: Mapping[str, Any]) -> Message:
        """Return the message with ``values`` set, as text."""
        outgoing.refuse(values, _CARRY_RULES)
        texts, sections = outgoing.texts(values), message.sections
        return _message(
            texts.get("subject", sections["subject"]),
            message.body or b"",
            regroup(sections["headers"], texts, "headers.", fold=True),
            reply_to=texts.get("reply-to", sections.get("reply-to", "")),
            received_at=message.received_at,
            reference=message.reference,
        )


_message: Final = message
BINDING: Final = NatsBinding()

"""Protocol options of messages that no model can hold to their rules (domain.md F.7; HTTP is the binding's own).

Sections of AMQP properties are property definitions like those of an envelope; MQTT, Kafka and NATS have plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from signalbook.messages.bindings.items import named_items
from signalbook.messages.properties import PropertyError, check_type
from signalbook.messages.propertylint import Severity, lint_property, lint_template
from signalbook.messages.structure import malformed_property
from signalbook.messages.uritemplates import is_template
from signalbook.values import JSON, Finding, JSONObject

_SECTIONS: Final = ("application-properties", "message-annotations", "delivery-annotations", "footer")
_MQTT5_ONLY: Final = (
    "payload_format", "payload_format_indicator", "message_expiry_interval", "response_topic", "correlation_data",
    "content_type", "user_properties",
)  # fmt: skip
_UINT32: Final = 2**32 - 1
_MAX_PRIORITY: Final = 255


def lint_options(protocol: str, options: JSONObject) -> list[Finding]:
    """Findings about the ``protocoloptions`` of a message of ``protocol``, by its canonical name."""
    rules = _RULES.get(protocol)
    return [] if rules is None else list(rules(options))


def stated_content_types(protocol: str, options: JSONObject) -> Iterator[tuple[str, str]]:
    """Where protocol options say of which type the payload is, and what (F-14)."""
    if protocol == "AMQP/1.0":
        properties = options.get("properties")
        entry = properties.get("content-type") if isinstance(properties, dict) else None
        found: Any = entry.get("value") if isinstance(entry, dict) else None
        places = [("protocoloptions.properties.content-type.value", found)]
    elif protocol == "MQTT/5.0":
        places = [("protocoloptions.content_type", options.get("content_type"))]
    else:
        places = [
            (f"protocoloptions.headers.{item['name']}", item.get("value"))
            for item in _items(options.get("headers", []))
            if item["name"].lower() == "content-type"
        ]
    for path, value in places:
        if isinstance(value, str) and value and not is_template(value):
            yield path, value


def _http(options: JSONObject) -> Iterator[Finding]:
    yield from _template_at("path", options)


def _amqp(options: JSONObject) -> Iterator[Finding]:
    """Sections of property definitions; the header's fields are hints on how to send."""
    for section in ("properties", *_SECTIONS):
        entries = options.get(section)
        if entries is not None and not isinstance(entries, dict):
            yield _finding(section, "structure", "must be an object")
        for name, entry in entries.items() if isinstance(entries, dict) else ():
            yield from _definition(f"protocoloptions.{section}.{name}", entry)
    properties = options.get("properties")
    identifier = properties.get("message-id") if isinstance(properties, dict) else None
    value = identifier.get("value") if isinstance(identifier, dict) else None
    if isinstance(value, str) and not is_template(value):
        text = "messages with one and the same id are duplicates"
        yield _finding("properties.message-id.value", "constant", text, "warning")
    header = options.get("header")
    for name, most in (("priority", _MAX_PRIORITY), ("ttl", _UINT32), ("delivery-count", _UINT32)):
        yield from _range(f"header.{name}", header.get(name) if isinstance(header, dict) else None, most)


def _definition(path: str, entry: JSON) -> Iterator[Finding]:
    faults = list(malformed_property(path, entry))
    yield from faults or lint_property(path, entry)


def _mqtt3(options: JSONObject) -> Iterator[Finding]:
    yield from _publish(options)
    for name in _MQTT5_ONLY:
        if name in options:
            yield _finding(name, "version", "this is an option of MQTT/5.0, not of MQTT/3.1.1")


def _mqtt5(options: JSONObject) -> Iterator[Finding]:
    yield from _publish(options)
    yield from _topic("response_topic", options, "+#")
    yield from _range("message_expiry_interval", options.get("message_expiry_interval"), _UINT32)
    yield from _alike("payload_format", "payload_format_indicator", options)
    for name in ("payload_format", "payload_format_indicator"):
        yield from _range(name, options.get(name), 1)
    yield from _named("user_properties", options)


def _publish(options: JSONObject) -> Iterator[Finding]:
    yield from _range("qos", options.get("qos"), 2)
    yield from _topic("topic_name", options, "+#")


def _kafka(options: JSONObject) -> Iterator[Finding]:
    yield from _template_at("topic", options)
    yield from _range("partition", options.get("partition"), 2**31 - 1)
    encoded = options.get("key_base64")
    if encoded is not None and options.get("key") is not None:
        yield _finding("key_base64", "exclusive", "a record has one key: key or key_base64, not both")
    if encoded is not None and not (isinstance(encoded, str) and check_type("binary", encoded)):
        yield _finding("key_base64", "type", "must be base64")
    headers = options.get("headers")
    for name, entry in headers.items() if isinstance(headers, dict) else ():
        own = entry.get("name", name) if isinstance(entry, dict) else name
        if not isinstance(own, str) or own.lower() != name.lower():
            text = f"the header stands under {name!r} and calls itself {own!r}"
            yield _finding(f"headers.{name}.name", "mismatch", text)


def _nats(options: JSONObject) -> Iterator[Finding]:
    for name in ("subject", "reply-to", "reply"):
        yield from _topic(name, options, "*>")
    yield from _alike("reply", "reply-to", options)
    yield from _named("headers", options)


_RULES: Final[Mapping[str, Callable[[JSONObject], Iterator[Finding]]]] = {
    "HTTP": _http,
    "AMQP/1.0": _amqp,
    "MQTT/3.1.1": _mqtt3,
    "MQTT/5.0": _mqtt5,
    "KAFKA": _kafka,
    "NATS": _nats,
}


def _topic(name: str, options: JSONObject, wildcards: str) -> Iterator[Finding]:
    """A topic or subject: a template, of one place only."""
    yield from _template_at(name, options)
    value = options.get(name)
    if isinstance(value, str) and set(value) & set(wildcards):
        yield _finding(name, "wildcard", f"no message is published to a name with {' or '.join(wildcards)} in it")


def _template_at(name: str, options: JSONObject) -> Iterator[Finding]:
    value = options.get(name)
    if isinstance(value, str) and "{" in value:
        yield from lint_template(f"protocoloptions.{name}", value)


def _range(name: str, value: JSON, most: int) -> Iterator[Finding]:
    if isinstance(value, int) and not isinstance(value, bool) and not 0 <= value <= most:
        yield _finding(name, "range", f"{value} is not from 0 to {most}")


def _alike(one: str, other: str, options: JSONObject) -> Iterator[Finding]:
    if one in options and other in options and options[one] != options[other]:
        yield _finding(one, "alias", f"{one} and {other} mean the same, but differ")


def _named(section: str, options: JSONObject) -> Iterator[Finding]:
    try:
        named_items(options.get(section, []))
    except PropertyError as error:
        yield _finding(section, "structure", str(error))


def _items(value: JSON) -> list[JSONObject]:
    try:
        return named_items(value)
    except PropertyError:
        return []


def _finding(name: str, rule: str, message: str, severity: Severity = "error") -> Finding:
    return Finding(path=f"protocoloptions.{name}", rule=rule, message=message, severity=severity)

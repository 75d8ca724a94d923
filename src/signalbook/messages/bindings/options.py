"""Parse protocol options to properties, and group the values of headers and similar sections, for all bindings.

Headers, query parameters and similar sections are lists of named properties, however they were written. Kafka, MQTT and
NATS also have plain options: text, templates and numbers. Names of HTTP and NATS headers are case-insensitive, and any
header may occur several times. Their values are printable ASCII, and other characters are percent-encoded (CloudEvents
bindings for HTTP, 3.1.3.2, and NATS, 3.1.3.2).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal
from urllib.parse import unquote

from signalbook.messages.cloudevents import JSON_FORMAT, Attribute
from signalbook.messages.eventformats import EventError
from signalbook.messages.message import Message, Reason
from signalbook.messages.properties import Property, PropertyError, find_malformed_property, normalise_property
from signalbook.messages.uritemplates import is_template
from signalbook.values import JSON, Finding, JSONObject


def parse_named_items(value: JSON) -> list[JSONObject]:
    """Return a list of objects with a ``name``, from such a list or from a map of names to values or objects (K-11).

    Raises ``PropertyError`` for anything else.
    """
    if isinstance(value, dict):
        return [_name_item(name, item) for name, item in value.items()]
    if isinstance(value, list):
        return [_check_item(item) for item in value]
    raise PropertyError("must be a list of objects with a name, or a map of names")


def _name_item(name: str, item: JSON) -> JSONObject:
    return _check_item(
        {**item, "name": item.get("name") or name} if isinstance(item, dict) else {"name": name, "value": item}
    )


def _check_item(item: JSON) -> JSONObject:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str) or not item["name"]:
        raise PropertyError("each item must be an object with a name")
    normal: JSONObject = normalise_property(item)
    faults = list(find_malformed_property(item["name"], normal))
    if faults:
        raise PropertyError(f"{faults[0].path} {faults[0].message}")
    return normal


def declare_place(options: JSONObject, name: str, *, separator: str = "/") -> list[Property]:
    """Return the property for the topic or subject ``name``.

    Messages always have it, and it distinguishes kinds of messages.
    """
    return _declare_template(options, name, separator, required=True, role="discriminator")


def declare_text(options: JSONObject, name: str, *, separator: str = "/") -> list[Property]:
    """Return the property for an optional text, or an empty list if it is not declared."""
    return _declare_template(options, name, separator, required=False, role="plain")


def declare_number(
    options: JSONObject, name: str, *, role: Literal["plain", "delivery"] = "delivery"
) -> list[Property]:
    """Return the property for an integer. Most integers concern the delivery of a message, not the message (K-27)."""
    return _declare_typed(options, name, "integer", role)


def declare_flag(options: JSONObject, name: str) -> list[Property]:
    """Return a property that is true or false, and concerns only delivery."""
    return _declare_typed(options, name, "boolean", "delivery")


def _declare_template(
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


def _declare_typed(options: JSONObject, name: str, type: str, role: Literal["plain", "delivery"]) -> list[Property]:
    value: Any = options.get(name)
    if value is None:
        return []
    return [Property(name=name, path=f"protocoloptions.{name}", type=type, value=value, role=role)]


# These headers concern one transfer of a message, not its kind.
_INCIDENTAL: Final = ("content-type", "content-length", "date")


def parse_named_section(section: str, value: JSON) -> list[JSONObject]:
    """Return the named items of a section of ``protocoloptions``. Raises ``PropertyError`` with its place."""
    try:
        return parse_named_items(value)
    except PropertyError as error:
        raise PropertyError(f"protocoloptions.{section}: {error}") from None


def declare_header(item: JSONObject, *, section: str = "headers", fold: bool = True) -> Property:
    """Return the property for a header or user property. With ``fold``, its name is in lower case (K-20)."""
    name = item["name"].lower() if fold else item["name"]
    value = item.get("value")
    distinguishing = name not in _INCIDENTAL and value is not None
    return Property(
        name=f"{section}.{name}",
        path=f"protocoloptions.{section}.{item['name']}",
        type=item.get("type") or "string",
        value=value,
        required=item.get("required") is True,
        multiple=True,
        role="discriminator" if distinguishing and not is_template(str(value)) else "plain",
        comparison="content_type" if name == "content-type" else "value",
    )


def decode_text(raw: bytes) -> str | bytes:
    """Return ``raw`` as text if it is UTF-8, else unchanged."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def detect_format(body: bytes | None) -> str:
    """Return the media type of JSON events if ``body`` looks like an event, else ``""``.

    This is for MQTT 3.1.1 and NATS without headers, which cannot state a content type. Their events are always
    structured.
    """
    return JSON_FORMAT if body and body.lstrip()[:1] == b"{" and b'"specversion"' in body else ""


def group_values(pairs: Any, prefix: str, *, fold: bool) -> dict[str, tuple[str, ...]]:
    """Return pairs of name and value as tuples of values by property name.

    With ``fold``, names are in lower case (K-20).
    """
    values: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        key = prefix + (name.lower() if fold else name)
        values[key] = (*values[key], value) if key in values else (value,)
    return values


_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)


def read_header_attribute(name: str, occurrences: tuple[str, ...]) -> str:
    """Return the attribute in a header, unquoted and percent-decoded once.

    Raises ``EventError``, also if it occurs twice.
    """
    value = require_single_value(name, occurrences).strip()
    if '"' in value:
        value = _QUOTED.sub(lambda match: re.sub(r"\\(.)", r"\1", match[1], flags=re.DOTALL), value)
    if "%" not in value:
        return value
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise make_binary_error(name, f"the header {name} is percent-encoded, but not as UTF-8") from None


def read_header_attributes(values: Mapping[str, Any], prefix: str) -> dict[str, Attribute]:
    """Return the context attributes in headers whose property names begin with ``prefix``. Raises ``EventError``."""
    return {
        name[len(prefix) :]: read_header_attribute(name.removeprefix("headers."), occurrences)
        for name, occurrences in values.items()
        if name.startswith(prefix)
    }


def add_content_type(attributes: dict[str, Attribute], message: Message, header: str) -> dict[str, Attribute]:
    """Add the content type as ``datacontenttype``.

    Raises ``EventError`` if a ``header`` states the attribute ``datacontenttype`` too.
    """
    if "datacontenttype" in attributes:
        raise make_binary_error(header, f"the content type is a header of its own: drop {header}")
    if message.content_type:
        attributes["datacontenttype"] = message.content_type
    return attributes


def require_single_value(name: str, occurrences: tuple[str, ...]) -> str:
    """Return the only value of a header. Raises ``EventError`` if there are several."""
    if len(occurrences) > 1:
        raise make_binary_error(
            name, f"the header {name} occurs {len(occurrences)} times: an event has each attribute once"
        )
    return occurrences[0]


def make_binary_error(path: str, message: str) -> EventError:
    """Return the error for an invalid CloudEvent in binary mode."""
    return EventError(Reason.INVALID_CLOUDEVENT, [Finding(path=path, rule="cloudevents", message=message)])

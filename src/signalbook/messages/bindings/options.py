"""Headers, query parameters and the like in a definition: a list of named properties, however it was written."""

from __future__ import annotations

from typing import Any, Final, Literal

from signalbook.messages.definitions.properties import Property, PropertyError, malformed_property, normal_property
from signalbook.messages.uritemplates import is_template
from signalbook.values import JSON, JSONObject


def named_items(value: JSON) -> list[JSONObject]:
    """A list of objects with a ``name``, from such a list or from a map of names to values or objects (K-11).

    Raises ``PropertyError`` for anything else.
    """
    if isinstance(value, dict):
        return [_named(name, item) for name, item in value.items()]
    if isinstance(value, list):
        return [_listed(item) for item in value]
    raise PropertyError("must be a list of objects with a name, or a map of names")


def _named(name: str, item: JSON) -> JSONObject:
    return _listed(
        {**item, "name": item.get("name") or name} if isinstance(item, dict) else {"name": name, "value": item}
    )


def _listed(item: JSON) -> JSONObject:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str) or not item["name"]:
        raise PropertyError("each item must be an object with a name")
    found: JSONObject = normal_property(item)
    faults = list(malformed_property(item["name"], found))
    if faults:
        raise PropertyError(f"{faults[0].path} {faults[0].message}")
    return found


def place_property(options: JSONObject, name: str, *, separator: str = "/") -> list[Property]:
    """The topic or subject: every message has one, and it tells kinds of messages apart."""
    return _template_property(options, name, separator, required=True, role="discriminator")


def text_property(options: JSONObject, name: str, *, separator: str = "/") -> list[Property]:
    """Text that a message may have."""
    return _template_property(options, name, separator, required=False, role="plain")


def number_property(
    options: JSONObject, name: str, *, role: Literal["plain", "delivery"] = "delivery"
) -> list[Property]:
    """A whole number; most are about the delivery of a message, not about the message (K-27)."""
    return _typed(options, name, "integer", role)


def flag_property(options: JSONObject, name: str) -> list[Property]:
    """Whether, in delivering a message."""
    return _typed(options, name, "boolean", "delivery")


def _template_property(
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


# They are about this transfer of the message, not about the kind of message.
_INCIDENTAL: Final = ("content-type", "content-length", "date")


def named_section(section: str, value: JSON) -> list[JSONObject]:
    """The named items of a section of ``protocoloptions``. Raises ``PropertyError`` with its place."""
    try:
        return named_items(value)
    except PropertyError as error:
        raise PropertyError(f"protocoloptions.{section}: {error}") from None


def header_property(item: JSONObject, *, section: str = "headers", fold: bool = True) -> Property:
    """A declared header, or what a protocol has instead; with ``fold`` its name is in lower case (K-20)."""
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

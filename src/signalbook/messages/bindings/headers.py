"""Headers of HTTP and NATS: how they hold context attributes, and how definitions declare them.

Both have names without case, any of which may recur, and values of printable ASCII with the rest percent-encoded
(CloudEvents bindings for HTTP, 3.1.3.2, and NATS, 3.1.3.2).
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from signalbook.messages.bindings.items import named_items
from signalbook.messages.eventformats import EventError
from signalbook.messages.properties import Property, PropertyError
from signalbook.messages.reasons import Reason
from signalbook.messages.uritemplates import is_template
from signalbook.values import JSON, Finding, JSONObject

_UNSAFE: Final = re.compile(r"[^\x21\x23\x24\x26-\x7e]")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
# They are about this transfer of the message, not about the kind of message.
_INCIDENTAL: Final = ("content-type", "content-length", "date")


def items(section: str, value: JSON) -> list[JSONObject]:
    """The named items of a section of ``protocoloptions``. Raises ``PropertyError`` with its place."""
    try:
        return named_items(value)
    except PropertyError as error:
        raise PropertyError(f"protocoloptions.{section}: {error}") from None


def header(item: JSONObject, *, section: str = "headers", fold: bool = True) -> Property:
    """A declared header, or what a protocol has instead; with ``fold`` its name is in lower case (K-20)."""
    name = item["name"].lower() if fold else item["name"]
    value = item.get("value")
    telling = name not in _INCIDENTAL and value is not None
    return Property(
        name=f"{section}.{name}",
        path=f"protocoloptions.{section}.{item['name']}",
        type=item.get("type") or "string",
        value=value,
        required=item.get("required") is True,
        multiple=True,
        role="discriminator" if telling and not is_template(str(value)) else "plain",
        comparison="content_type" if name == "content-type" else "value",
    )


def attribute(name: str, occurrences: tuple[str, ...]) -> str:
    """The context attribute in a header: once, unquoted, percent-decoded once. Raises ``EventError``."""
    value = single(name, occurrences).strip()
    if '"' in value:
        value = _QUOTED.sub(lambda found: re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL), value)
    if "%" not in value:
        return value
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise invalid(name, f"the header {name} is percent-encoded, but not as UTF-8") from None


def single(name: str, occurrences: tuple[str, ...]) -> str:
    """The one value of a header. Raises ``EventError`` if there are several."""
    if len(occurrences) > 1:
        raise invalid(name, f"the header {name} occurs {len(occurrences)} times: an event has each attribute once")
    return occurrences[0]


def escaped(text: str) -> str:
    """An attribute as the value of a header."""
    return _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8")), text)


def invalid(path: str, message: str) -> EventError:
    """That something is no CloudEvent."""
    return EventError(Reason.INVALID_CLOUDEVENT, [Finding(path=path, rule="cloudevents", message=message)])

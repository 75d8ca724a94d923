"""The shape a definition must have before anything can be made of it: objects where objects belong, text where text.

A registry has checked this against its model; documents and folders have been checked by nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from signalbook.messages.timestamps import LEGACY_NOW, NOW
from signalbook.values import JSON, Finding, JSONObject

_TEXTS: Final = (
    "envelope", "protocol", "dataschemaformat", "dataschemauri", "dataschemaxid", "datacontenttype", "basemessageuri",
)  # fmt: skip
_OBJECTS: Final = ("envelopemetadata", "envelopeoptions", "protocoloptions")
# Names of the 2022 and 2023 documents (I-6).
_LEGACY_TYPES: Final = {"var": "any", "datetime": "timestamp"}
_TEXT: Final = (str, type(None))
_OBJECT: Final = (dict, type(None))
_TYPES: Final = (
    ("type", _TEXT, "a string"),
    ("value", _TEXT, "a string"),
    ("required", (bool, type(None)), "true or false"),
)


def malformed(definition: JSONObject) -> list[Finding]:
    """Members of a normalised definition that are of the wrong JSON type."""
    return [*_members(definition), *_attributes(definition)]


def _members(definition: JSONObject) -> Iterator[Finding]:
    for name in _TEXTS:
        if not isinstance(definition.get(name), _TEXT):
            yield _finding(name, "a string")
    for name in _OBJECTS:
        if not isinstance(definition.get(name), _OBJECT):
            yield _finding(name, "an object")
    options = definition.get("envelopeoptions")
    options = options if isinstance(options, dict) else {}
    for name in ("mode", "format"):
        if not isinstance(options.get(name), _TEXT):
            yield _finding(f"envelopeoptions.{name}", "a string")


def _attributes(definition: JSONObject) -> Iterator[Finding]:
    metadata = definition.get("envelopemetadata")
    for name, entry in metadata.items() if isinstance(metadata, dict) else ():
        yield from malformed_property(f"envelopemetadata.{name}", entry)


def malformed_property(path: str, entry: JSON) -> Iterator[Finding]:
    """Members of one property definition that are of the wrong JSON type."""
    if not isinstance(entry, dict):
        yield _finding(path, "an object with type, value and required")
        return
    for name, kind, said in _TYPES:
        if not isinstance(entry.get(name), kind):
            yield _finding(f"{path}.{name}", said)


def normal_property(entry: JSON) -> JSON:
    """One property definition with today's type names and its value as text (F-41)."""
    if not isinstance(entry, dict):
        return entry
    found = dict(entry)
    if isinstance(found.get("type"), str):
        name = found["type"].lower()
        found["type"] = _LEGACY_TYPES.get(name, name)
    if "value" in found:
        found["value"] = _text(found["value"])
    return found


def _text(value: Any) -> JSON:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    return NOW if value == LEGACY_NOW else value


def _finding(path: str, kind: str) -> Finding:
    return Finding(path=path, rule="structure", message=f"must be {kind}")

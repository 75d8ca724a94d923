"""Names of schema formats: those the drafts use, and those of xRegistry (domain.md J-8, A-3).

The drafts leave formats to the implementation and print short names; xRegistry has ``NAME/VERSION``. A short name
becomes the format it stands for, any other name is a format as it is. Formats are shown by their short names, but for
those that came in longer: ``FORMATNAME`` remembers that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from signalbook.values import JSON, JSONError, parse_json

FORMATNAME: Final = "formatname"
"""The attribute that is there if a format came in by its long name, though it has a short one."""

AVRO: Final = "Avro/1.11"
JSON_SCHEMA: Final = "JsonSchema"
PROTOBUF: Final = "Protobuf/3"
_SHORT: Final = {
    "avro": AVRO,
    "json-schema": JSON_SCHEMA,
    "protobuf": PROTOBUF,
    "xsd10": "XSD/1.0",
    "xsd11": "XSD/1.1",
}
_SHOWN: Final = {"avro": "avro", "jsonschema": "json-schema", "protobuf": "protobuf"}
_BY_VERSION: Final = {full.lower(): short for short, full in _SHORT.items() if short.startswith("xsd")}
_DIALECT: Final = re.compile(r"https?://json-schema\.org/(draft(?:-0\d|/\d{4}-\d\d))/schema#?", re.ASCII)


def registry_format(name: str, document: bytes = b"") -> str:
    """The format of xRegistry that a draft's ``name`` stands for, of a ``document`` if there is one.

    A JSON Schema that says of which version it is has that version.
    """
    if name == "json-schema" and document:
        return _json_schema(document)
    return _SHORT.get(name, name)


def draft_format(attributes: Mapping[str, JSON]) -> str | None:
    """The name in a draft of the format that an entity with these ``attributes`` has, None if it has none."""
    stated = attributes.get("format")
    if not isinstance(stated, str) or not stated:
        return None
    if attributes.get(FORMATNAME) == stated:
        return stated
    found = _SHOWN.get(stated.partition("/")[0].lower()) or _BY_VERSION.get(stated.lower())
    return found or stated


def format_attributes(name: str, document: bytes = b"") -> dict[str, str | None]:
    """The attributes that say ``name``: the format and, if that would be shown by another name, what it came in as."""
    stated = registry_format(name, document)
    return {"format": stated, FORMATNAME: None if draft_format({"format": stated}) == name else name}


def dialect(uri: JSON) -> str | None:
    """The format of a JSON Schema document whose ``$schema`` is ``uri``, None if that names no known version."""
    match = _DIALECT.fullmatch(uri) if isinstance(uri, str) else None
    return f"{JSON_SCHEMA}/{match[1]}" if match else None


def _json_schema(document: bytes) -> str:
    try:
        value = parse_json(document)
    except JSONError:
        return JSON_SCHEMA  # the check of the document tells what is wrong with it
    return (dialect(value.get("$schema")) if isinstance(value, dict) else None) or JSON_SCHEMA

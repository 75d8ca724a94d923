"""Detect the format of a schema document by its file name or its content."""

from __future__ import annotations

import re
from typing import Final

from signalbook.documents.protofiles import proto_format, states_syntax
from signalbook.values import JSON, JSONError, parse_json

_DIALECTS: Final = {
    "draft-04/schema": "JsonSchema/draft-04",
    "draft-06/schema": "JsonSchema/draft-06",
    "draft-07/schema": "JsonSchema/draft-07",
    "draft/2019-09/schema": "JsonSchema/draft/2019-09",
    "draft/2020-12/schema": "JsonSchema/draft/2020-12",
}
_KEYWORDS: Final = frozenset({"properties", "additionalProperties", "required", "items", "$defs", "definitions"})
"""An object with one of these members and a type is almost certainly a JSON Schema."""
_XSD: Final = "XSD/1.1"
# The root element after any comments and processing instructions. Its prefix must be bound to the namespace of XML
# Schema. However many comments there are, each is read only once.
_XSD_ROOT: Final = re.compile(
    rb"""(?:\xef\xbb\xbf)?(?:\s++|<\?.*?\?>|<!--.*?-->)*+<(?:([\w.-]++):)?+schema(?=\s)[^>]*?"""
    rb"""\sxmlns(?(1):\1)\s*+=\s*+["']http://www\.w3\.org/2001/XMLSchema["']""",
    re.DOTALL,
)
_CONTENT_TYPES: Final = {
    "avro": "application/json",
    "jsonschema": "application/schema+json",
    "jsonstructure": "application/json",
    "protobuf": "text/plain",
    "xsd": "application/xml",
}


def guess_format(name: str, content: bytes) -> str:
    """Return the format of a schema file by its name or its content, ``""`` if neither shows it."""
    lowered = name.lower()
    if lowered.endswith(".avsc"):
        return "Avro/1.12.0"
    if lowered.endswith(".proto") or states_syntax(content):
        return proto_format(content)
    if lowered.endswith(".xsd") or _XSD_ROOT.match(content):
        return _XSD
    try:
        document = parse_json(content)
    except JSONError:
        return ""
    return guess_document_format(document)


def guess_document_format(document: JSON) -> str:
    """Return the format of a schema in JSON by its content, ``""`` if the content does not show it."""
    if not isinstance(document, dict):
        return ""
    if document.get("type") in ("record", "enum", "fixed") and "name" in document:
        return "Avro/1.12.0"
    stated = document.get("$schema")
    if stated is None and document.get("type") in ("object", "array") and document.keys() & _KEYWORDS:
        # Validators assume these dialects if a schema names none.
        return "JsonSchema/draft-07" if "definitions" in document else "JsonSchema/draft/2020-12"
    if str(stated).startswith("https://json-structure.org/meta/"):
        return "JsonStructure/draft-04"
    return _DIALECTS.get(str(stated).rstrip("#").rpartition("json-schema.org/")[2], "")


def guess_content_type(format: str) -> str:
    """Return the content type of schemas in ``format``, ``""`` if the format is unknown."""
    return _CONTENT_TYPES.get(format.partition("/")[0].lower(), "")

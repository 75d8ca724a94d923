"""Schemas as the Confluent-compatible API has them, and the Versions they are (docs/decisions/145-confluent-api.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from signalbook.values import JSON, canonical_json, digest

SCHEMA_TYPES: Final = {"avro": "AVRO", "jsonschema": "JSON", "protobuf": "PROTOBUF"}
"""Names of formats, in lower case, and the ``schemaType`` that each is."""
_CONTENT: Final = ("references", "metadata", "ruleset")
_GUID_DIGITS: Final = 32


def schema_type(attributes: Mapping[str, JSON]) -> str | None:
    """The ``schemaType`` of a Version with these attributes; None if its format is not one of the three."""
    stated = attributes.get("format")
    return SCHEMA_TYPES.get(stated.partition("/")[0].lower()) if isinstance(stated, str) else None


def content_key(attributes: Mapping[str, JSON], document: str | None) -> str | None:
    """What stands for the content of a Version: equal for those that share an id. None for one that has none.

    ``document`` is the digest of its document. References, metadata and rules make another content.
    """
    kind = schema_type(attributes)
    if kind is None or document is None:
        return None
    return digest(canonical_json([kind, document, *(attributes.get(name) for name in _CONTENT)]))


def guid(content: str) -> str:
    """The ``guid`` of a content by its key: a UUID, the same in every registry that has it."""
    return str(UUID(hex=content[:_GUID_DIGITS]))


def content_beginning(guid: str) -> str | None:
    """How the keys of contents with this ``guid`` begin; None if it is no UUID."""
    try:
        return UUID(guid).hex
    except ValueError:
        return None

"""Payloads by their definition's schema and content type, held to the schema before they are sent (domain.md K-52)."""

from __future__ import annotations

from typing import Final

import msgspec

from signalbook.formats import PayloadError
from signalbook.formats.base import is_json, json_payload, media_type
from signalbook.messages.schemas import SchemaUse
from signalbook.values import JSON, Finding

UNSET: Final = msgspec.UNSET


def encode_payload(use: SchemaUse, value: JSON, content_type: str) -> bytes | None:
    """The payload: ``value`` written by the schema, or the ``bytes`` it is, if they conform; ``UNSET`` is no payload.

    ``value`` is as ``Schema.decode`` gives it, XML also as its text. Without a schema it is JSON, or text where the
    content type says so. Raises ``PayloadError`` for a value that does not conform, or that nothing writes.
    """
    if use.reason is not None:
        raise _refused(use.reason.value, f"the schema cannot be used: {'; '.join(map(str, use.findings))}")
    if use.schema is None:
        return None if value is UNSET else _opaque(value, content_type)
    if value is UNSET:
        raise _refused("required", "there is no payload, but the definition names its schema: give data")
    if not isinstance(value, bytes):
        return use.schema.encode(value, content_type)
    use.schema.decode(value, content_type)
    return value


def _opaque(value: JSON, content_type: str) -> bytes:
    """A value that no schema says how to write."""
    if isinstance(value, bytes):
        return value
    if not content_type or is_json(content_type):
        return json_payload(value)
    kind = media_type(content_type)
    if isinstance(value, str) and (kind.startswith("text/") or kind.endswith(("/xml", "+xml"))):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise _refused("text", f"no text: {error}") from None
    raise _refused("content_type", f"nothing here writes {content_type} without a schema: give the payload as bytes")


def _refused(rule: str, message: str) -> PayloadError:
    return PayloadError("schema_violation", [Finding(path="", rule=rule, message=message)])

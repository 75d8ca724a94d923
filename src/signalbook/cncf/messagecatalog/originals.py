"""Keep definitions as they were sent next to the message made of them, to return them unchanged (B-20, C-11).

A message's attribute ``draft`` has the ``definition`` that was sent to 0.1, or the ``content`` (``contentbase64`` if it
is not text) and ``contenttype`` of a document of the first draft. ``of`` is a fingerprint of the message: the original
is valid only while the message is unchanged. It is left out if rendering the message gives the same definition.
``more`` are members that no draft knows.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Final

from signalbook.cncf.messagecatalog.conversion import message_to_definition
from signalbook.cncf.messagecatalog.metaschemas import (
    HTTP,
    KAFKA,
    PREDEFINED,
    XREGISTRY,
    select_sections,
    to_first_spelling,
    to_newer_spelling,
)
from signalbook.largejson import parse_untrusted_json
from signalbook.values import JSONError, JSONObject, dump_json, fingerprint

DRAFT: Final = "draft"
JSON_TYPE: Final = "application/json"
KNOWN: Final = frozenset({*PREDEFINED, HTTP, KAFKA, XREGISTRY})
"""The formats whose definitions are understood. Nothing is assumed about other formats."""
BESIDE: Final = frozenset(
    {"id", "description", "format", "version", "authority", "specversion", "createdtimeutc", "updatedtimeutc"}
)
"""Members of a document of the first draft that are not sections (B-23)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A document of the first draft: bytes, and their content type if one was stated."""

    body: bytes
    contenttype: str | None


def keep_definition(format: str, message: JSONObject, sent: JSONObject) -> JSONObject:
    """Return ``message`` with the definition ``sent``, unless rendering the message gives the same definition."""
    rendered = message_to_definition(format, message)
    # Rendering gives the same definition, so there is nothing to keep.
    if rendered == sent:
        return message
    return _add_original(message, {"of": fingerprint(rendered), "definition": sent})


def keep_content(format: str, message: JSONObject, sent: Content) -> JSONObject:
    """Return ``message`` with the document ``sent`` that it was made of."""
    original: JSONObject = {"of": fingerprint(message_to_definition(format, message))}
    if sent.contenttype is not None:
        original["contenttype"] = sent.contenttype
    try:
        original["content"] = sent.body.decode("utf-8")
    except UnicodeDecodeError:
        original["contentbase64"] = base64.b64encode(sent.body).decode("ascii")
    return _add_original(message, original)


def keep_members(message: JSONObject, more: JSONObject) -> JSONObject:
    """Return ``message`` with members for which it has no attribute."""
    return _add_original(message, {"more": more}) if more else message


def load_members(message: JSONObject) -> JSONObject:
    """Return the members that ``keep_members`` stored."""
    members = _read_original(message).get("more")
    return members if isinstance(members, dict) else {}


def restore_definition(format: str, message: JSONObject) -> JSONObject:
    """Return the definition of a message in the spelling of 0.1: as it was sent, unless the message has changed."""
    original, rendered = _load_valid_original(format, message)
    if isinstance(original.get("definition"), dict):
        return dict(original["definition"])
    content = _decode_content(original)
    return rendered if content is None else _parse_content(format, content)


def render_content(format: str, id: str, number: int, message: JSONObject) -> Content:
    """Return a message as a document of the first draft: as it was sent if the message is unchanged, else JSON."""
    sent = restore_content(format, message)
    if sent is not None:
        return sent
    sections = restore_definition(format, message)
    document = sections
    # For an unknown format, do not even assume that its documents have an id.
    if format in KNOWN:
        document = {"id": id, "format": format, "version": number}
        if message.get("description"):
            document["description"] = message["description"]
        document |= to_first_spelling(format, sections)
    return Content(body=dump_json(document), contenttype=JSON_TYPE)


def restore_content(format: str, message: JSONObject) -> Content | None:
    """Return the first-draft document that a message was made of, or None if there is none or the message changed."""
    return _decode_content(_load_valid_original(format, message)[0])


def _add_original(message: JSONObject, original: JSONObject) -> JSONObject:
    return {**message, DRAFT: {**_read_original(message), **original}}


def _read_original(message: JSONObject) -> JSONObject:
    original = message.get(DRAFT)
    return original if isinstance(original, dict) else {}


def _load_valid_original(format: str, message: JSONObject) -> tuple[JSONObject, JSONObject]:
    """Return the stored original (``{}`` if the message changed), and the definition rendered from the message."""
    rendered = message_to_definition(format, message)
    original = _read_original(message)
    # If the message was changed in xRegistry, the original is outdated.
    return (original if original.get("of") == fingerprint(rendered) else {}), rendered


def _decode_content(original: JSONObject) -> Content | None:
    contenttype = original.get("contenttype")
    contenttype = contenttype if isinstance(contenttype, str) else None
    if isinstance(original.get("content"), str):
        return Content(body=original["content"].encode("utf-8"), contenttype=contenttype)
    try:
        body = base64.b64decode(original.get("contentbase64", ""), validate=True)
    except (binascii.Error, TypeError, ValueError):
        return None
    return Content(body=body, contenttype=contenttype) if "contentbase64" in original else None


def _parse_content(format: str, content: Content) -> JSONObject:
    """Return the definition in a document of the first draft.

    A document that is not a JSON object is kept as ``content``.
    """
    try:
        document = parse_untrusted_json(content.body)
    except JSONError:
        document = None
    if not isinstance(document, dict):
        members: JSONObject = {"contenttype": content.contenttype} if content.contenttype else {}
        try:
            return {**members, "content": content.body.decode("utf-8")}
        except UnicodeDecodeError:
            return {**members, "contentbase64": base64.b64encode(content.body).decode("ascii")}
    if format not in KNOWN:
        return document
    return to_newer_spelling(format, select_sections(format, document, BESIDE))

"""A Version's document: exactly one of ``<RESOURCE>``, ``<RESOURCE>base64``, ``<RESOURCE>url``, or plain bytes.

core/spec.md "<RESOURCE>* Attribute Processing", core/http.md "Serializing Resource Domain-Specific Documents".
"""

from __future__ import annotations

import base64
import binascii

from signalbook.engine.attributes import invalid
from signalbook.engine.commands import DocumentBody
from signalbook.engine.context import Documents
from signalbook.engine.drafts import VersionCopy
from signalbook.engine.intents import WriteMode
from signalbook.errors import RegistryError
from signalbook.formats.registry import family
from signalbook.model import ResourceType
from signalbook.values import JSON, JSONError, JSONObject, dump_json, parse_json
from signalbook.xid import Xid

JSON_TYPE = "application/json"


def names(type: ResourceType) -> tuple[str, str, str]:
    """``<RESOURCE>``, ``<RESOURCE>base64`` and ``<RESOURCE>url`` of this type."""
    return type.singular, f"{type.singular}base64", f"{type.singular}url"


def from_body(
    draft: VersionCopy, body: JSONObject, mode: WriteMode, type: ResourceType, documents: Documents
) -> JSONObject:
    """Take the document out of a metadata body; returns the attributes that go with it, over those of the body.

    Raises ``one_resource`` (R245) and ``invalid_attribute``.
    """
    inline, encoded, url = names(type)
    given = [name for name in (inline, encoded, url) if body.get(name) is not None]
    if len(given) > 1:
        listed = ", ".join((inline, encoded, url))
        raise RegistryError("one_resource", subject=str(draft.xid), list=listed)
    if not given:
        return _without_document(draft, body, mode, type)
    if given == [url]:
        draft.document = None
        return {}
    content_type = _content_type(draft, body, mode, default=mode is WriteMode.MERGE or given == [inline])
    if given == [inline]:
        content = _encode(body[inline], type.type_of(content_type or JSON_TYPE))
    else:
        content = _decode(body[encoded], encoded, draft.xid)
    draft.document = documents.keep(content)
    return {url: None, **({"contenttype": content_type} if content_type else {})}


def from_content(draft: VersionCopy, document: DocumentBody, type: ResourceType, documents: Documents) -> JSONObject:
    """Take the document of a write in document form (R160-R164); returns the attributes that go with it.

    Raises ``one_resource`` when there is both content and a ``<RESOURCE>url``.
    """
    _, _, url = names(type)
    location = document.attributes.get(url)
    if location is not None and document.content:
        raise RegistryError("one_resource", subject=str(draft.xid), list=f"{url}, the body")
    draft.document = documents.keep(document.content)
    return {"contenttype": document.contenttype, url: location}


def schema_text(content: bytes, format: str = "") -> bytes:
    """What a format reads of a document: of one that is a JSON string, the text in it.

    A schema that is no JSON (Protobuf, XSD) sent inline without a ``contenttype`` is a JSON string by R248; what it
    says is in the string. To Avro a string that holds no JSON is a schema: the name of a type.
    """
    if not content.startswith(b'"'):
        return content
    try:
        value = parse_json(content)
    except JSONError:
        return content
    if not isinstance(value, str) or (family(format) == "avro" and not value.lstrip().startswith(("{", "[", '"'))):
        return content
    return value.encode("utf-8")


def _without_document(draft: VersionCopy, body: JSONObject, mode: WriteMode, type: ResourceType) -> JSONObject:
    """No document in the body: a null empties it (R246), silence keeps it unless PUT drops a stored url (R247)."""
    url = names(type)[2]
    if any(name in body for name in names(type)) or (mode is WriteMode.REPLACE and url in draft.attributes):
        draft.document = None
        return {url: None}
    return {}


def _content_type(draft: VersionCopy, body: JSONObject, mode: WriteMode, *, default: bool) -> str | None:
    """The content type to go by (R248): the body's, on PATCH then the stored one, then the request's own."""
    given = body.get("contenttype")
    if given is None and mode is WriteMode.MERGE and "contenttype" not in body:
        given = draft.attributes.get("contenttype")
    if given is not None:
        return given if isinstance(given, str) else None  # a wrong type is the attribute check's to tell
    return JSON_TYPE if default else None


def _encode(value: JSON, kind: str) -> bytes:
    """The bytes of an inline document: text as it is unless its type is JSON, anything else as JSON."""
    if isinstance(value, str) and kind != "json":
        return value.encode("utf-8")
    return dump_json(value)


def _decode(value: JSON, name: str, subject: Xid) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise invalid(subject, name, "it needs to be a string of base64") from None

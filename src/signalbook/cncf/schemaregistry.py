"""Convert between documents of the Schema Registry draft 0.2 and entities of the registry (A.1 to A.4, J.2).

All functions are pure. A group is given by its own attributes, a schema by those of one of its versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from signalbook.cncf.ids import authority_of, compose, draft_id, entity_id, schema_path
from signalbook.largejson import parse_untrusted_json
from signalbook.uris import is_uri, is_uri_reference
from signalbook.values import JSON, Finding, JSONError, JSONObject
from signalbook.xid import Xid

FORMATNAME: Final = "formatname"
"""The attribute with the name of a format that was stated by its long name although it has a short one."""

AVRO: Final = "Avro/1.11"
JSON_SCHEMA: Final = "JsonSchema"
PROTOBUF: Final = "Protobuf/3"
_SHORT: Final = {"avro": AVRO, "json-schema": JSON_SCHEMA, "protobuf": PROTOBUF, "xsd10": "XSD/1.0", "xsd11": "XSD/1.1"}
_DRAFT_FORMATS: Final = {"avro": "avro", "jsonschema": "json-schema", "protobuf": "protobuf"}
_BY_VERSION: Final = {full.lower(): short for short, full in _SHORT.items() if short.startswith("xsd")}
_DIALECT: Final = re.compile(r"https?://json-schema\.org/(draft(?:-0\d|/\d{4}-\d\d))/schema#?", re.ASCII)


def registry_format(name: str, document: bytes = b"") -> str:
    """Return the format of xRegistry for a draft's format ``name``.

    For a JSON Schema ``document`` that states its version, the format includes the version.
    """
    if name == "json-schema" and document:
        return _detect_json_schema(document)
    return _SHORT.get(name, name)


def draft_format(attributes: Mapping[str, JSON]) -> str | None:
    """Return the draft's name for the format of an entity with these ``attributes``, or None if it has no format."""
    stated = attributes.get("format")
    if not isinstance(stated, str) or not stated:
        return None
    if attributes.get(FORMATNAME) == stated:
        return stated
    name = _DRAFT_FORMATS.get(stated.partition("/")[0].lower()) or _BY_VERSION.get(stated.lower())
    return name or stated


def format_attributes(name: str, document: bytes = b"") -> dict[str, str | None]:
    """Return the attributes for the draft's format ``name``.

    ``formatname`` keeps the name if the format would otherwise be shown under another name.
    """
    stated = registry_format(name, document)
    return {"format": stated, FORMATNAME: None if draft_format({"format": stated}) == name else name}


def dialect(uri: JSON) -> str | None:
    """Return the format of a JSON Schema whose ``$schema`` is ``uri``, or None if that is not a known version."""
    match = _DIALECT.fullmatch(uri) if isinstance(uri, str) else None
    return f"{JSON_SCHEMA}/{match[1]}" if match else None


def _detect_json_schema(document: bytes) -> str:
    try:
        value = parse_untrusted_json(document)
    except JSONError:
        return JSON_SCHEMA  # validation of the document reports the error
    return (dialect(value.get("$schema")) if isinstance(value, dict) else None) or JSON_SCHEMA


GROUPS: Final = Xid(("schemagroups",))
ATTRIBUTES: Final = ("format", "description", "authority", "id")
"""The metadata that may be sent with a document (A-47)."""
PROPERTIES: Final = "groupproperties"
"""The attribute with the ``groupProperties`` of a group that cannot be labels."""

_LABEL: Final = re.compile(r"[a-z0-9][a-z0-9:_.-]{0,62}", re.ASCII)
_MAX_LABEL_CHARS: Final = 4096
_TEXT_MEMBERS: Final = ("id", "format", "description")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """The metadata of a document. "" means absent (A-13, A-20)."""

    format: str = ""
    description: str = ""
    authority: str = ""
    id: str = ""


def validate_group(body: JSONObject, id: str) -> list[Finding]:
    """Return findings about a group that is written to the path of ``id``."""
    findings = [
        _build_schema_finding(name, "it needs to be a string")
        for name in _TEXT_MEMBERS
        if not isinstance(body.get(name), str | None)
    ]
    if not findings and body.get("id") is not None and entity_id(body["id"]) != entity_id(id):
        findings.append(_build_schema_finding("id", f'it needs to be "{id}", as in the path'))
    if body.get("format") == "":
        findings.append(_build_schema_finding("format", "it needs to be a name, or to be left out"))
    values = body.get("groupProperties")
    if not isinstance(values, dict | None) or not all(isinstance(value, str) for value in (values or {}).values()):
        findings.append(_build_schema_finding("groupProperties", "it needs to be an object of strings"))
    return findings


def group_attributes(body: JSONObject, before: Mapping[str, JSON]) -> JSONObject:
    """Return the body of a PATCH for a group. Members that the draft lacks stay (A-6, A-7, J-8).

    ``before`` are the current attributes. An unchanged format keeps its spelling.
    """
    name = body.get("format")
    formats: JSONObject = {"format": None, FORMATNAME: None}
    if name is not None and name != draft_format(before):
        formats = format_attributes(name)
    # The same format as before keeps its spelling.
    elif name is not None:
        formats = {}
    values = body.get("groupProperties") or {}
    labels = {key: value for key, value in values.items() if _LABEL.fullmatch(key) and len(value) <= _MAX_LABEL_CHARS}
    unlabelled = {key: value for key, value in values.items() if key not in labels}
    text = body.get("description") or None
    return {**formats, "description": text, "labels": labels or None, PROPERTIES: unlabelled or None}


def render_group(group: JSONObject) -> JSONObject:
    """Return a group of xRegistry in the form of the draft."""
    rendered: JSONObject = {"id": draft_id(group["schemagroupid"])}
    unlabelled = group.get(PROPERTIES)
    properties = {**(group.get("labels") or {}), **(unlabelled if isinstance(unlabelled, dict) else {})}
    members = {
        "format": draft_format(group),
        "description": group.get("description"),
        "groupProperties": {key: value for key, value in properties.items() if isinstance(value, str)} or None,
    }
    rendered |= {name: value for name, value in members.items() if value is not None}
    return {**rendered, "createdtimeutc": group["createdat"], "updatedtimeutc": group["modifiedat"]}


def validate_metadata(metadata: Stated) -> list[Finding]:
    """Return findings about the metadata of a document (A-13, A-20)."""
    long = [name for name in ATTRIBUTES if len(getattr(metadata, name)) > _MAX_LABEL_CHARS]
    findings = [_build_schema_finding(name, f"it may have {_MAX_LABEL_CHARS} characters") for name in long]
    if metadata.authority and not is_uri(metadata.authority):
        findings.append(_build_schema_finding("authority", "it needs to be an absolute URI"))
    if metadata.id and not is_uri_reference(metadata.id.replace(" ", "%20")):
        findings.append(_build_schema_finding("id", "it needs to be a URI reference"))
    return findings


def validate_format(metadata: Stated, group: Mapping[str, JSON], latest: Mapping[str, JSON] | None) -> Finding | None:
    """Return a finding about the format of a document in ``group``, or None. ``latest`` is None for a first document.

    Either the group or the schema states the format, never both (A-15, A-16, J-9).
    """
    stated = draft_format(group)
    if stated is not None:
        if not metadata.format:
            return None
        return _build_schema_finding("format", f'the group has the format "{stated}" for all its schemas; leave it out')
    if latest is None and not metadata.format:
        return _build_schema_finding("format", "the group has none, so that the schema needs one")
    return None


def other_format(metadata: Stated, latest: Mapping[str, JSON] | None) -> str | None:
    """Return the format of the schema if ``metadata`` states another one, else None.

    All versions must have the same format.
    """
    existing_format = None if latest is None else draft_format(latest)
    return (
        existing_format
        if metadata.format and existing_format is not None and existing_format != metadata.format
        else None
    )


def build_version_attributes(
    metadata: Stated, group: Mapping[str, JSON], latest: Mapping[str, JSON] | None, document: bytes
) -> JSONObject:
    """Return the attributes of a new version (A-13, A-17).

    The format is the group's, else the schema's, else the one in ``metadata``. A missing authority is taken from the
    schema's last version.
    """
    owner = group if draft_format(group) is not None else latest
    if owner is not None:
        formats: JSONObject = {"format": owner["format"]}
        if owner is latest and owner.get(FORMATNAME) is not None:
            formats[FORMATNAME] = owner[FORMATNAME]
    else:
        formats = {name: value for name, value in format_attributes(metadata.format, document).items() if value}
    authority = metadata.authority or authority_of(latest or {})
    texts = {"description": metadata.description, "authority": authority, "globaluri": metadata.id}
    return {**formats, **{name: value for name, value in texts.items() if value}}


def version_id(version: Mapping[str, JSON], xid: Xid) -> str:
    """Return the id that was given to a version, else its path in the API (A-20)."""
    stated_id = version.get("globaluri")
    return stated_id if isinstance(stated_id, str) and stated_id else str(schema_path(xid))


def version_uri(version: Mapping[str, JSON], xid: Xid, base: str) -> str:
    """Return the URI of a version in the API with the URL ``base`` (A-27)."""
    return compose(authority_of(version), version_id(version, xid), base)


def build_version_headers(version: Mapping[str, JSON], group: Mapping[str, JSON]) -> Iterable[tuple[str, str]]:
    """Return the headers with attributes that are sent with a document, as plain text (A-46, A-48)."""
    values = {
        "Schema-Format": draft_format(group) or draft_format(version),
        "Schema-Description": version.get("description"),
        "Schema-Authority": version.get("authority"),
        "Schema-Createdtimeutc": version.get("createdat"),
    }
    return ((name, value) for name, value in values.items() if isinstance(value, str) and value)


def _build_schema_finding(path: str, message: str) -> Finding:
    return Finding(path=path, rule="schema_registry", message=message)

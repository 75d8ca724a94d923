"""Convert schemas between the Confluent-compatible API and Versions (docs/decisions/145-confluent-api.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

from signalbook.cncf.schemaregistry import dialect
from signalbook.confluent.avro import rewrite_schema
from signalbook.confluent.errors import ConfluentError, invalid_schema, invalid_version, unprocessable
from signalbook.confluent.metadata import check_metadata, check_ruleset
from signalbook.confluent.protobuf import detect_syntax, render_descriptor
from signalbook.confluent.tags import Tagged, read_tags, with_tags
from signalbook.formats.references import MAX_REFERENCES
from signalbook.largejson import parse_untrusted_json
from signalbook.values import JSON, JSONError, JSONObject, canonical_json, digest, dump_json

SCHEMA_TYPES: Final = {"avro": "AVRO", "jsonschema": "JSON", "protobuf": "PROTOBUF"}
"""The ``schemaType`` by the name of the format in lower case."""
_CONTENT: Final = ("metadata", "ruleset")
_GUID_DIGITS: Final = 32
_AVRO_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*", re.ASCII)
_HIGHEST: Final = 2**31


def schema_type(attributes: Mapping[str, JSON]) -> str | None:
    """Return the ``schemaType`` of a Version with these attributes, or None if Confluent's API lacks its format."""
    stated = attributes.get("format")
    return SCHEMA_TYPES.get(stated.partition("/")[0].lower()) if isinstance(stated, str) else None


def compute_content_key(attributes: Mapping[str, JSON], document: str | None) -> str | None:
    """Return the key of a Version's content, equal for Versions that share an id, or None without content.

    ``document`` is the digest of its document. References, metadata and rules are part of the content.
    """
    kind = schema_type(attributes)
    if kind is None or document is None:
        return None
    references = [reference.to_json() for reference in read_stored_references(attributes)] or None
    return digest(canonical_json([kind, document, references, *(attributes.get(name) for name in _CONTENT)]))


def guid(content: str) -> str:
    """Return the ``guid`` for the content key ``content``. It is a UUID, equal in every registry with this content."""
    return str(UUID(hex=content[:_GUID_DIGITS]))


def content_beginning(guid: str) -> str | None:
    """Return the beginning of content keys with this ``guid``, or None if it is not a UUID."""
    try:
        return UUID(guid).hex
    except ValueError:
        return None


Layout: TypeAlias = Literal["own", "one", "normal"]
"""The layout in which a schema is stored.

``own`` keeps the order of members and removes white space. ``one`` writes Avro as Avro's library does. ``normal`` also
sorts members and references, so that their order makes no difference.
"""
TAG_MEMBERS: Final = ("schemaTagsToAdd", "schemaTagsToRemove")
_DEFAULT_FORMATS: Final = {"AVRO": "Avro/1.11", "JSON": "JsonSchema/draft-07", "PROTOBUF": "Protobuf/2"}
_SYNTAXES: Final = {"proto3": "Protobuf/3", "editions": "Protobuf"}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Reference:
    """A reference of a schema by ``name`` to a version of a subject. -1 is the latest version."""

    name: str
    subject: str
    version: int

    def to_json(self) -> JSONObject:
        """Return the JSON that clients expect."""
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaBody:
    """A schema in a request. ``text`` is the text to store, and ``type`` is AVRO, JSON or PROTOBUF.

    ``stated`` is the format that the text of a JSON Schema states, or None.
    """

    text: str
    type: str
    stated: str | None = None
    references: tuple[Reference, ...] = ()
    metadata: JSONObject | None = None
    ruleset: JSONObject | None = None
    version: int | None = None
    id: int | None = None
    propagate: bool = False
    """True if the tags of the previous version are added."""

    @property
    def document(self) -> bytes:
        """The document of the Version."""
        return self.text.encode("utf-8")

    @property
    def default_format(self) -> str:
        """The format of a schema of this type whose text does not state a format."""
        return _DEFAULT_FORMATS[self.type]

    def format(self, before: str | None = None) -> str:
        """Return the format of the Version. ``before`` is the format of the existing Versions of its subject.

        All Versions of a schema have the same format. So if a JSON Schema has another draft than ``before``, or a
        Protobuf schema another syntax, the result is the name of the format without a version, and each document states
        its own. The same applies to Protobuf with an edition, which has no format of its own.
        """
        if before and self.type == "AVRO":
            return before
        own_format = self.stated
        if self.type == "PROTOBUF":
            own_format = _SYNTAXES.get(detect_syntax(self.text), _DEFAULT_FORMATS["PROTOBUF"])
        if before and own_format and before.lower() != own_format.lower():
            return own_format.partition("/")[0]
        return before or own_format or self.default_format

    def attributes(self) -> dict[str, JSON]:
        """Return the attributes of the Version that are part of its content, without the format."""
        return {
            "references": [reference.to_json() for reference in self.references] or None,
            "metadata": self.metadata or None,
            "ruleset": self.ruleset or None,
        }


def read_stored_references(attributes: Mapping[str, JSON]) -> list[Reference]:
    """Return the references of a Version that have the form of this API. Other references are left out."""
    stated = attributes.get("references")
    references = []
    for reference in stated[:MAX_REFERENCES] if isinstance(stated, list) else ():
        try:
            references.append(_parse_reference(reference))
        except ConfluentError:
            continue
    return references


def read_schema(body: Mapping[str, Any], layout: Layout = "one") -> SchemaBody:
    """Return the schema in the body of a request. Raises ``ConfluentError`` (42201, 42202, 42210)."""
    kind = body.get("schemaType") or "AVRO"
    if not isinstance(kind, str) or kind not in _DEFAULT_FORMATS:
        raise invalid_schema(f"no schemas of type {kind!r} are known; there are AVRO, JSON and PROTOBUF")
    text = body.get("schema")
    if not isinstance(text, str) or not text.strip():
        raise invalid_schema("the request has no schema")
    if kind == "PROTOBUF":
        text = render_descriptor(text) or text
    add, remove = (read_tags(body, name) for name in TAG_MEMBERS)
    if add or remove:
        text = with_tags(text, kind, add, remove)
    canonical, stated = canonical_text(text, kind, layout)
    return SchemaBody(
        text=canonical,
        type=kind,
        stated=stated,
        references=_parse_references(body.get("references"), layout),
        metadata=check_metadata(body, "metadata"),
        ruleset=check_ruleset(body),
        version=_parse_number(body, "version"),
        id=_parse_number(body, "id"),
        propagate=_parse_flag(body, "propagateSchemaTags"),
    )


def propagate_tags(body: SchemaBody, tags: Sequence[Tagged], layout: Layout) -> SchemaBody:
    """Return ``body`` with the ``tags`` of the previous version. Raises 42201 if a tagged field no longer exists."""
    text = with_tags(body.text, body.type, tags, ())
    return replace(body, text=canonical_text(text, body.type, layout)[0])


def states_format(text: str, kind: str) -> bool:
    """Return True if the text of a stored schema states the version of its format.

    Protobuf without ``syntax`` is proto2. A JSON Schema without ``$schema`` does not state its draft.
    """
    return kind != "JSON" or canonical_text(text, kind, "own")[1] is not None


def canonical_text(text: str, kind: str, layout: Layout) -> tuple[str, str | None]:
    """Return the text to store, and the format that it states.

    Clients format the same JSON in different ways, so it is rewritten in one ``layout``. Numbers keep their value.
    """
    if kind == "PROTOBUF":
        return text.strip() + "\n", None
    try:
        value = parse_untrusted_json(text.encode("utf-8"), exact=True)
    except UnicodeEncodeError:
        raise invalid_schema("it has a lone surrogate, which UTF-8 cannot have") from None
    except JSONError as error:
        if kind == "AVRO" and _AVRO_NAME.fullmatch(text.strip()):
            return f'"{text.strip()}"', None
        raise invalid_schema(str(error)) from None
    value = _sort_members(value) if layout == "normal" else value
    value = rewrite_schema(value) if kind == "AVRO" and layout != "own" else value
    stated = dialect(value.get("$schema")) if kind == "JSON" and isinstance(value, dict) else None
    return dump_json(value).decode("utf-8"), stated


def _sort_members(value: JSON) -> JSON:
    match value:
        case dict():
            return {name: _sort_members(value[name]) for name in sorted(value)}
        case list():
            return [_sort_members(item) for item in value]
    return value


def _parse_references(value: JSON, layout: Layout) -> tuple[Reference, ...]:
    if not isinstance(value, list | None) or len(value or ()) > MAX_REFERENCES:
        raise invalid_schema(f"references are a list of at most {MAX_REFERENCES}")
    references = [_parse_reference(reference) for reference in value or ()]
    return tuple(sorted(set(references)) if layout == "normal" else references)


def _parse_reference(value: JSON) -> Reference:
    members = value if isinstance(value, dict) else {}
    name, subject, version = (members.get(part) for part in ("name", "subject", "version"))
    if not isinstance(name, str) or not isinstance(subject, str) or not isinstance(version, int) or not name:
        raise invalid_schema("a reference has a name, a subject and the number of a version")
    return Reference(name=name, subject=subject, version=version)


def _parse_flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if not isinstance(value, bool | None):
        raise unprocessable(f"{name} has to be true or false")
    return value is True


def _parse_number(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is None or value in (0, -1):
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < _HIGHEST:
        raise invalid_version(value)
    return value


def render_text(document: bytes, format: str) -> str:
    """Return the text of a stored schema. A Protobuf schema that was stored as a JSON string is decoded."""
    if format.lower().startswith("protobuf") and document.startswith(b'"'):
        try:
            value = parse_untrusted_json(document)
        except JSONError:
            value = None
        if isinstance(value, str):
            return value
    return document.decode("utf-8", "replace")

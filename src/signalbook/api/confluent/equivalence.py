"""Find the version of a subject whose schema equals a sent schema that is written in another form.

Clients format the same Protobuf differently, normalize a schema that was registered without normalizing, or include
types in an Avro schema that the registered schema only refers to. None of these is another schema (Confluent's
``ParsedSchema.canLookup``).
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from signalbook.api.confluent.resolution import inline_types
from signalbook.api.confluent.subjects import Subjects
from signalbook.api.confluent.versions import SchemaVersion
from signalbook.confluent.errors import ConfluentError
from signalbook.confluent.metadata import remove_version
from signalbook.confluent.naming import Subject
from signalbook.confluent.protobuf import list_numbers, normalize_document, split_tokens
from signalbook.confluent.schemas import Reference, canonical_text, read_stored_references, schema_type
from signalbook.formats import SchemaError
from signalbook.formats.base import Resolve
from signalbook.values import JSON, JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class SentSchema:
    """A schema as a client sends it, with the ``attributes`` of the Version that it would become."""

    text: str
    type: str
    attributes: JSONObject
    normalize: bool
    resolve: Resolve

    @property
    def references(self) -> list[Reference]:
        return read_stored_references(self.attributes)


def find_equivalent(
    subjects: Subjects, subject: Subject, sent: SentSchema, *, deleted: bool = False
) -> SchemaVersion | None:
    """Return the newest version of a subject that has the same schema in another form, or None.

    Its metadata and rules have to be equal, except for the version number in the metadata. With ``deleted``,
    soft-deleted versions are included.
    """
    is_whole = sent.type == "AVRO" and not sent.references
    if not (sent.normalize or is_whole or sent.type == "PROTOBUF"):
        return None
    (rows,) = subjects.load_live_rows([subject])
    # Read only the documents of versions that can be equivalent.
    versions = subjects.load_versions([row for row in rows if _can_equal(sent, row.attributes)])
    if deleted:
        versions += [version for version in subjects.deleted(subject) if _can_equal(sent, version.attributes)]
    newest_first = sorted(versions, key=lambda version: version.version, reverse=True)
    return next((version for version in newest_first if _is_equal(subjects, sent, version)), None)


def _can_equal(sent: SentSchema, attributes: JSONObject) -> bool:
    if schema_type(attributes) != sent.type:
        return False
    if _read_compared_members(attributes) != _read_compared_members(sent.attributes):
        return False
    references = read_stored_references(attributes)
    if sent.type == "AVRO" and references and not sent.references:
        return True
    if sent.normalize:
        return sorted(references) == sorted(sent.references)
    return sent.type == "PROTOBUF" and references == sent.references


def _read_compared_members(attributes: JSONObject) -> tuple[JSON, JSON]:
    return remove_version(attributes.get("metadata")), attributes.get("ruleset") or None


def _is_equal(subjects: Subjects, sent: SentSchema, version: SchemaVersion) -> bool:
    try:
        match sent.type:
            case "PROTOBUF":
                return _is_equal_protobuf(sent, version)
            case "AVRO":
                is_inlined = not sent.references and read_stored_references(version.attributes)
                text = inline_types(subjects, version) if is_inlined else version.text
                return _normalize_text(text, "AVRO") == _normalize_text(sent.text, "AVRO")
        return _normalize_text(version.text, sent.type) == _normalize_text(sent.text, sent.type)
    except (SchemaError, ConfluentError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False  # an unreadable schema equals no other


def _is_equal_protobuf(sent: SentSchema, version: SchemaVersion) -> bool:
    if split_tokens(version.text) == split_tokens(sent.text):
        return True
    # Compiling a document takes long, so only documents with the same numbers are compiled.
    if not sent.normalize or list_numbers(version.text) != list_numbers(sent.text):
        return False
    return split_tokens(normalize_document(version.text, sent.resolve)) == split_tokens(sent.text)


def _normalize_text(text: str, kind: str) -> str:
    return canonical_text(text, kind, "normal")[0]

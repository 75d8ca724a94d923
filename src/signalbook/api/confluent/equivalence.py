"""Find the version of a subject whose schema equals a sent schema that is written in another form.

Clients format the same Protobuf differently, normalize a schema that was registered without normalizing, or include
types in an Avro schema that the registered schema only refers to. None of these is another schema (Confluent's
``ParsedSchema.canLookup``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from signalbook.api.confluent.resolution import ReferredSchemas, inline_document, load_referred_schemas
from signalbook.api.confluent.subjects import Subjects
from signalbook.api.confluent.versions import SchemaVersion
from signalbook.batches import batched
from signalbook.confluent.errors import ConfluentError
from signalbook.confluent.metadata import remove_version
from signalbook.confluent.naming import Subject
from signalbook.confluent.protobuf import list_numbers, normalize_document, split_tokens
from signalbook.confluent.schemas import Reference, canonical_text, read_stored_references, schema_type
from signalbook.formats import SchemaError
from signalbook.values import JSON, JSONObject, digest
from signalbook.work import Postponed, compute_or_postpone, known_result, spend

_NOT_FOUND: Final = -1
_VERSIONS_AT_ONCE: Final = 100
"""The number of versions that are compared together. All schemas that they refer to are in memory at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentSchema:
    """A schema as a client sends it, with the ``attributes`` of the Version that it would become."""

    text: str
    type: str
    attributes: JSONObject
    normalize: bool
    resolve: ReferredSchemas

    @property
    def references(self) -> list[Reference]:
        return read_stored_references(self.attributes)

    @property
    def is_whole(self) -> bool:
        """True for an Avro schema without references, which may contain the types that a stored schema refers to."""
        return self.type == "AVRO" and not self.references


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A stored version that may have the sent schema.

    ``inlined`` are the schemas whose types are inserted into it for the comparison, None if it is compared as it is.
    """

    version: SchemaVersion
    inlined: ReferredSchemas | None

    @property
    def size(self) -> int:
        """The number of bytes of the version's document and the inlined schemas."""
        return len(self.version.document) + (0 if self.inlined is None else self.inlined.size)


def find_equivalent(
    subjects: Subjects, subject: Subject, sent: SentSchema, *, deleted: bool = False
) -> SchemaVersion | None:
    """Return the newest version of a subject that has the same schema in another form, or None.

    Its metadata and rules have to be equal, except for the version number in the metadata. With ``deleted``,
    soft-deleted versions are included. In a write, raises ``Postponed`` if comparing takes too long for its turn.
    """
    if not (sent.normalize or sent.is_whole or sent.type == "PROTOBUF"):
        return None
    (rows,) = subjects.load_live_rows([subject])
    # Read only the documents of versions that can be equivalent.
    versions = subjects.load_versions([row for row in rows if _can_equal(sent, row.attributes)])
    if deleted:
        versions += [version for version in subjects.deleted(subject) if _can_equal(sent, version.attributes)]
    newest_first = sorted(versions, key=lambda version: version.version, reverse=True)
    postponed: list[Hashable] = []
    for batch in batched(newest_first, _VERSIONS_AT_ONCE):
        candidates = list(_list_candidates(subjects, sent, batch))
        key = _make_key(sent, candidates)
        position = compute_or_postpone(
            key,
            partial(_find_first_equal, sent, candidates),
            later=partial(_find_unless_found, sent, candidates, tuple(postponed)),
            size=sum(candidate.size for candidate in candidates),
        )
        if position is None:
            postponed.append(key)  # go on, so that the next versions are compared before the next try, too
        elif not postponed and position != _NOT_FOUND:
            return candidates[position].version
    if postponed:
        raise Postponed
    return None


def _list_candidates(subjects: Subjects, sent: SentSchema, versions: Sequence[SchemaVersion]) -> Iterator[_Candidate]:
    """Yield the candidates for ``versions``.

    Versions that refer to missing schemas are left out: they cannot equal a schema without references.
    """
    for version in versions:
        inlined = None
        if sent.is_whole and read_stored_references(version.attributes):
            try:
                inlined = load_referred_schemas(subjects, version)
            except ConfluentError:
                continue
        yield _Candidate(version, inlined)


def _make_key(sent: SentSchema, candidates: Sequence[_Candidate]) -> Hashable:
    stored = tuple(
        (digest(candidate.version.document), None if candidate.inlined is None else candidate.inlined.digests)
        for candidate in candidates
    )
    return "equivalent", sent.type, sent.normalize, digest(sent.text.encode("utf-8")), sent.resolve.digests, stored


def _find_first_equal(sent: SentSchema, candidates: Sequence[_Candidate]) -> int:
    """Return the position of the first candidate that has the schema ``sent``, or ``_NOT_FOUND``."""
    for position, candidate in enumerate(candidates):
        spend(len(sent.text) + len(candidate.version.document))
        if _is_equal(sent, candidate):
            return position
    return _NOT_FOUND


def _find_unless_found(sent: SentSchema, candidates: Sequence[_Candidate], newer: Sequence[Hashable]) -> int:
    """Return the result of ``_find_first_equal``, or ``_NOT_FOUND`` if a search with a key in ``newer`` found one."""
    is_found = any(known_result(key) != _NOT_FOUND for key in newer)
    return _NOT_FOUND if is_found else _find_first_equal(sent, candidates)


def _can_equal(sent: SentSchema, attributes: JSONObject) -> bool:
    if schema_type(attributes) != sent.type:
        return False
    if _read_compared_members(attributes) != _read_compared_members(sent.attributes):
        return False
    references = read_stored_references(attributes)
    if references and sent.is_whole:
        return True
    if sent.normalize:
        return sorted(references) == sorted(sent.references)
    return sent.type == "PROTOBUF" and references == sent.references


def _read_compared_members(attributes: JSONObject) -> tuple[JSON, JSON]:
    return remove_version(attributes.get("metadata")), attributes.get("ruleset") or None


def _is_equal(sent: SentSchema, candidate: _Candidate) -> bool:
    version, inlined = candidate.version, candidate.inlined
    try:
        match sent.type:
            case "PROTOBUF":
                return _is_equal_protobuf(sent, version)
            case "AVRO":
                text = version.text if inlined is None else inline_document(version.document, inlined)
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

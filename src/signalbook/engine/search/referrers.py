"""Entities that have a field by reference, because they name the xid or URL of a schema with this field.

Their index entries do not contain these fields, so a new default Version of a schema changes no other entry. Searches
follow the links between entities instead, starting from the side with fewer entities.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from signalbook.access.decisions import Access
from signalbook.engine.search.links import SCHEMA
from signalbook.engine.search.query import Query
from signalbook.engine.search.snippets import find_snippets
from signalbook.engine.search.text import PINS
from signalbook.formats.members import LinkedMembers, Walk
from signalbook.storage.base import Reader
from signalbook.storage.index import Candidate, Documented, IndexReader
from signalbook.storage.schema import stored_xid
from signalbook.storage.words import CURRENT, Condition, Conjunction, Phrase, Text, WordQuery
from signalbook.xid import Kind

MAX_REFERRERS: Final = 1_000
"""The maximum number of entities, and of schemas with a field, that are examined.

If both exceed it, matches may be missed.
"""
MAX_LINKED_BYTES: Final = 16 * 1024 * 1024
"""The maximum number of bytes of documents that are read to follow deep links."""
MAX_LINKED_STEPS: Final = 500_000
_LINKING: Final = "dataschemauri"
_HAS_PINNED: Final = Condition((Phrase((PINS,)),), ("facets",))


class MatchSource(Protocol):
    """A source of readable matches."""

    def find_matching(
        self, conditions: Conjunction, limit: int, within: Collection[int] | None = None
    ) -> Sequence[Candidate]:
        """Return up to ``limit`` matches. If ``within`` is set, only entities with these keys are searched."""

    def find_having(self, field: Condition, limit: int) -> Sequence[Candidate] | None:
        """Return the entities shown by default that have the field ``field``; None if there are more than ``limit``."""


@dataclass(frozen=True, slots=True)
class SchemaReferrer:
    """An entity that was found, with the ``schemas`` that it refers to and that have the fields.

    ``members`` are the members of the part of the schema that it refers to, None if it refers to the whole schema.
    """

    candidate: Candidate
    schemas: tuple[Documented, ...]
    members: tuple[Text, ...] | None = None


def find_referring(
    index: IndexReader,
    entities: Reader,
    fields: Conjunction,
    other_conditions: Conjunction,
    access: Access,
    source: MatchSource,
) -> tuple[list[SchemaReferrer], bool]:
    """Find entities that match ``other_conditions`` and have all ``fields``, some of them in a schema they refer to.

    The second result is True if these are all matches. Schemas that ``access`` cannot read, directly or through a
    hidden cross reference, are ignored.
    """
    candidates: Sequence[Candidate] | None = None
    if not other_conditions:
        candidates = _find_through_schemas(index, fields, other_conditions, source)
    if candidates is None:
        candidates = source.find_matching(other_conditions, MAX_REFERRERS + 1)
    if other_conditions and len(candidates) > MAX_REFERRERS:
        found_through_schemas = _find_through_schemas(index, fields, other_conditions, source)
        candidates = candidates if found_through_schemas is None else found_through_schemas
    return _select_with_fields(index, entities, candidates[:MAX_REFERRERS], fields, access), len(
        candidates
    ) <= MAX_REFERRERS


def _find_through_schemas(
    index: IndexReader, fields: Conjunction, other_conditions: Conjunction, source: MatchSource
) -> Sequence[Candidate] | None:
    """Find the matches of ``other_conditions`` that may have all fields, themselves or in a schema they refer to.

    None if too many entities have each field, or if too many name a certain Version of a schema.
    """
    # Entities that name a certain Version are checked one by one, because many old Versions may have a field.
    pinned = source.find_matching((*other_conditions, _HAS_PINNED), MAX_REFERRERS + 1)
    if len(pinned) > MAX_REFERRERS:
        return None
    within: set[int] | None = None
    for condition in fields:
        having = source.find_having(condition, MAX_REFERRERS)
        if having is not None:
            keys = {candidate.key for candidate in (*having, *pinned)} | _find_referrers(index, having)
            within = keys if within is None else within & keys
    return None if within is None else source.find_matching(other_conditions, MAX_REFERRERS + 1, within)


def _find_referrers(index: IndexReader, schemas: Iterable[Candidate]) -> set[int]:
    """Return the keys of entities that refer to these schemas directly or through a cross reference."""
    targets = {stored_xid(schema.xid) for schema in schemas}
    targets |= {xid.resource for xid in targets if xid.kind is Kind.VERSION}
    keys: set[int] = set()
    copies: set[str] = set()
    for referrer in index.referrers(set(map(str, targets))):
        if referrer.kind == SCHEMA:
            keys.add(referrer.key)
        elif referrer.kind == "xref":
            copies.add(referrer.xid)
    return keys | {referrer.key for referrer in index.referrers(copies) if referrer.kind == SCHEMA} if copies else keys


def _select_with_fields(
    index: IndexReader, entities: Reader, candidates: Sequence[Candidate], fields: Conjunction, access: Access
) -> list[SchemaReferrer]:
    """Return the candidates that have all fields, in their own schema or in one that they refer to."""
    keys = [candidate.key for candidate in candidates]
    schema_targets: dict[int, list[str]] = {}
    for key, link in index.links(keys):
        if link.kind == SCHEMA:
            schema_targets.setdefault(key, []).append(link.target)
    targets = {target for targets in schema_targets.values() for target in targets}
    documents = index.documented(targets) if targets else []
    searched_keys = {*keys, *(document.key for document in documents)} if documents else set()
    past = any(not candidate.flags & CURRENT for candidate in candidates) or any(
        document.target == document.xid for document in documents
    )
    having = (
        [index.having(WordQuery((condition,)), searched_keys, past=past) for condition in fields] if documents else []
    )
    readable: dict[str, list[Documented]] = {}
    for document in documents:
        if any(document.key in keys for keys in having) and _are_readable(access, document.target, document.xid):
            readable.setdefault(document.target, []).append(document)
    referrers = []
    for candidate in candidates if readable else ():
        schemas = [
            document for target in schema_targets.get(candidate.key, ()) for document in readable.get(target, ())
        ]
        if schemas and all(candidate.key in keys or any(schema.key in keys for schema in schemas) for keys in having):
            referrers.append(SchemaReferrer(candidate, tuple(schemas)))
    linked = _find_linked_members(index, entities, referrers)
    return [
        replace(referrer, members=linked.get(referrer.candidate.key))
        for referrer in referrers
        if (members := linked.get(referrer.candidate.key)) is None
        or all(
            referrer.candidate.key in keys or find_snippets(Query("", (condition,)), members)
            for condition, keys in zip(fields, having, strict=True)
        )
    ]


def _find_linked_members(
    index: IndexReader, entities: Reader, referrers: Sequence[SchemaReferrer]
) -> dict[int, tuple[Text, ...]]:
    """Return the members of the schema parts that entities refer to by a deep link, by the key of the entity.

    An entity is left out if the part cannot be determined or the work limit is reached; then its whole schema counts.
    """
    texts = index.texts([referrer.candidate.key for referrer in referrers if len(referrer.schemas) == 1])
    links = {
        key: text.text.partition("#")[2]
        for key, entity_texts in texts.items()
        for text in entity_texts
        if _is_deep_link(text)
    }
    schemas = {
        referrer.schemas[0].key: referrer.candidate.key for referrer in referrers if referrer.candidate.key in links
    }
    documents: dict[int, LinkedMembers] = {}
    bytes_left = MAX_LINKED_BYTES
    for row in entities.by_key(schemas):
        content = entities.documents([row.document]).get(row.document, b"") if row.document else b""
        bytes_left -= len(content)
        if bytes_left < 0:
            break
        documents[row.key] = LinkedMembers(content, str(row.attributes.get("format", "")))
    walk = Walk(MAX_LINKED_STEPS)
    members_by_key = {}
    for referrer in referrers:
        key = referrer.candidate.key
        if key in links and referrer.schemas[0].key in documents:
            members = documents[referrer.schemas[0].key].list_members(links[key], walk)
            if members is not None:
                members_by_key[key] = tuple(
                    Text(member=True, path=member.path, text=member.description) for member in members
                )
    return members_by_key


def _is_deep_link(text: Text) -> bool:
    return not text.member and text.path == _LINKING and text.text.find("#") > 0


def _are_readable(access: Access, *xids: str) -> bool:
    return access.reads_everything or all(access.is_readable(stored_xid(xid)) for xid in xids)

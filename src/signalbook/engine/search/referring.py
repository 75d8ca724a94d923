"""What has a field by reference: entities whose schema is a document of its own, of which they name the xid or URL.

Their index entries know nothing of the fields: a new default Version of a schema changes no other entry. The links say
who refers to whom, and are followed when somebody asks, from whichever side there is less of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from signalbook.access.decisions import Access
from signalbook.engine.search.links import SCHEMA
from signalbook.engine.search.query import Query
from signalbook.engine.search.snippets import snippets
from signalbook.engine.search.text import PINS
from signalbook.formats.members import LinkedMembers, Walk
from signalbook.storage.base import Reader
from signalbook.storage.index import Candidate, Documented, IndexReader
from signalbook.storage.schema import stored_xid
from signalbook.storage.words import CURRENT, Condition, Conjunction, Phrase, Text, WordQuery
from signalbook.xid import Kind

MOST: Final = 1_000
"""Entities, and schemas with a field, that are looked at. If there are more of both, not all that match are found."""
MAX_LINKED_BYTES: Final = 16 * 1024 * 1024
"""The most bytes of documents that are read to follow deep links."""
MAX_LINKED_STEPS: Final = 500_000
_LINKING: Final = "dataschemauri"
_HAS_PINNED: Final = Condition((Phrase((PINS,)),), ("facets",))


class Matching(Protocol):
    """The sources of readable matches."""

    def wanted(self, every: Conjunction, limit: int, within: Collection[int] | None = None) -> Sequence[Candidate]:
        """Up to ``limit`` of what was asked for, among the keys in ``within``."""

    def having(self, field: Condition, most: int) -> Sequence[Candidate] | None:
        """Whatever is shown by default and has the field; None if that is more than ``most``."""


@dataclass(frozen=True, slots=True)
class SchemaReferrer:
    """An entity that was found, and the ``schemas`` that it refers to and that have the fields.

    ``members`` are those of the part of its schema that it refers to, None if that is all of the schema.
    """

    candidate: Candidate
    schemas: tuple[Documented, ...]
    members: tuple[Text, ...] | None = None


def referring(
    index: IndexReader, entities: Reader, fields: Conjunction, rest: Conjunction, access: Access, matching: Matching
) -> tuple[list[SchemaReferrer], bool]:
    """Find entities with all ``fields``, some of them in a schema they refer to, and the ``rest`` themselves.

    The second result is True if these are all. A schema that ``access`` hides, or that is behind a hidden cross
    reference, has no fields.
    """
    some: Sequence[Candidate] | None = None
    if not rest:
        some = _through_schemas(index, fields, rest, matching)
    if some is None:
        some = matching.wanted(rest, MOST + 1)
    if rest and len(some) > MOST:
        through = _through_schemas(index, fields, rest, matching)
        some = some if through is None else through
    return _with_fields(index, entities, some[:MOST], fields, access), len(some) <= MOST


def _through_schemas(
    index: IndexReader, fields: Conjunction, rest: Conjunction, matching: Matching
) -> Sequence[Candidate] | None:
    """Find referrers of anything with one of the fields and the rest; None if too much has any of them."""
    # Who names a Version of a schema is looked at by itself: past Versions with a field may be many.
    pinned = matching.wanted((*rest, _HAS_PINNED), MOST + 1)
    if len(pinned) > MOST:
        return None
    within: set[int] | None = None
    for condition in fields:
        having = matching.having(condition, MOST)
        if having is not None:
            keys = {each.key for each in (*having, *pinned)} | _referrers(index, having)
            within = keys if within is None else within & keys
    return None if within is None else matching.wanted(rest, MOST + 1, within)


def _referrers(index: IndexReader, schemas: Iterable[Candidate]) -> set[int]:
    """Return the entities that name these as schemas, or a cross reference to them."""
    targets = {stored_xid(each.xid) for each in schemas}
    targets |= {xid.resource for xid in targets if xid.kind is Kind.VERSION}
    found: set[int] = set()
    copies: set[str] = set()
    for referrer in index.referrers(set(map(str, targets))):
        if referrer.kind == SCHEMA:
            found.add(referrer.key)
        elif referrer.kind == "xref":
            copies.add(referrer.xid)
    return found | {each.key for each in index.referrers(copies) if each.kind == SCHEMA} if copies else found


def _with_fields(
    index: IndexReader, entities: Reader, candidates: Sequence[Candidate], fields: Conjunction, access: Access
) -> list[SchemaReferrer]:
    """Return the candidates with all of the fields, in their own schema or one they refer to."""
    keys = [each.key for each in candidates]
    named: dict[int, list[str]] = {}
    for key, link in index.links(keys):
        if link.kind == SCHEMA:
            named.setdefault(key, []).append(link.target)
    targets = {target for some in named.values() for target in some}
    documents = index.documented(targets) if targets else []
    asked = {*keys, *(each.key for each in documents)} if documents else set()
    past = any(not each.flags & CURRENT for each in candidates) or any(each.target == each.xid for each in documents)
    having = [index.having(WordQuery((condition,)), asked, past=past) for condition in fields] if documents else []
    shown: dict[str, list[Documented]] = {}
    for each in documents:
        if any(each.key in some for some in having) and _are_readable(access, each.target, each.xid):
            shown.setdefault(each.target, []).append(each)
    found = []
    for candidate in candidates if shown else ():
        schemas = [each for target in named.get(candidate.key, ()) for each in shown.get(target, ())]
        if schemas and all(candidate.key in some or any(each.key in some for each in schemas) for some in having):
            found.append(SchemaReferrer(candidate, tuple(schemas)))
    linked = _linked_members(index, entities, found)
    return [
        replace(each, members=linked.get(each.candidate.key))
        for each in found
        if (members := linked.get(each.candidate.key)) is None
        or all(
            each.candidate.key in some or snippets(Query("", (one,)), members)
            for one, some in zip(fields, having, strict=True)
        )
    ]


def _linked_members(
    index: IndexReader, entities: Reader, referrers: Sequence[SchemaReferrer]
) -> dict[int, tuple[Text, ...]]:
    """Return the members of the parts of schemas that entities refer to by a deep link, by the entity's key.

    All of a schema counts where the part cannot be told, or where it takes too long to look at all of them.
    """
    texts = index.texts([each.candidate.key for each in referrers if len(each.schemas) == 1])
    links = {key: text.text.partition("#")[2] for key, some in texts.items() for text in some if _is_deep_link(text)}
    schemas = {each.schemas[0].key: each.candidate.key for each in referrers if each.candidate.key in links}
    documents: dict[int, LinkedMembers] = {}
    left = MAX_LINKED_BYTES
    for row in entities.by_key(schemas):
        content = entities.documents([row.document]).get(row.document, b"") if row.document else b""
        left -= len(content)
        if left < 0:
            break
        documents[row.key] = LinkedMembers(content, str(row.attributes.get("format", "")))
    walk = Walk(MAX_LINKED_STEPS)
    found = {}
    for each in referrers:
        key = each.candidate.key
        if key in links and each.schemas[0].key in documents:
            members = documents[each.schemas[0].key].list_members(links[key], walk)
            if members is not None:
                found[key] = tuple(Text(member=True, path=one.path, text=one.description) for one in members)
    return found


def _is_deep_link(text: Text) -> bool:
    return not text.member and text.path == _LINKING and text.text.find("#") > 0


def _are_readable(access: Access, *xids: str) -> bool:
    return access.reads_everything or all(access.is_readable(stored_xid(xid)) for xid in xids)

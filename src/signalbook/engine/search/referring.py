"""What has a field by reference: entities whose schema is a document of its own, of which they name the xid or URL.

Their index entries know nothing of the fields: a new default Version of a schema changes no other entry. The links say
who refers to whom, and are followed when somebody asks, from whichever side there is less of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from signalbook.access.decisions import Access
from signalbook.engine.search.links import SCHEMA
from signalbook.engine.search.text import PINS
from signalbook.storage.index import Candidate, Documented, IndexReader
from signalbook.storage.schema import stored_xid
from signalbook.storage.words import CURRENT, Condition, Conjunction, Phrase, WordQuery
from signalbook.xid import Kind

MOST: Final = 1_000
"""Entities, and schemas with a field, that are looked at. If there are more of both, not all that match are found."""
_HAS_PINNED: Final = Condition((Phrase((PINS,)),), ("facets",))


class Matching(Protocol):
    """Where to find what matches and may be read."""

    def wanted(self, every: Conjunction, limit: int, within: Collection[int] | None = None) -> Sequence[Candidate]:
        """Up to ``limit`` of what was asked for, among the keys in ``within``."""

    def having(self, field: Condition, most: int) -> Sequence[Candidate] | None:
        """Whatever is shown by default and has the field; None if that is more than ``most``."""


@dataclass(frozen=True, slots=True)
class SchemaReferrer:
    """An entity that was found, and the ``schemas`` that it refers to and that have the fields."""

    candidate: Candidate
    schemas: tuple[Documented, ...]


def referring(
    index: IndexReader, fields: Conjunction, rest: Conjunction, access: Access, matching: Matching
) -> tuple[list[SchemaReferrer], bool]:
    """What has all ``fields``, some of them in a schema that it refers to, and the ``rest`` itself; is that all?

    A schema that ``access`` hides has no fields, and neither has one behind a hidden cross reference.
    """
    some: Sequence[Candidate] | None = None
    if not rest:
        some = _through_schemas(index, fields, rest, matching)
    if some is None:
        some = matching.wanted(rest, MOST + 1)
    if rest and len(some) > MOST:
        through = _through_schemas(index, fields, rest, matching)
        some = some if through is None else through
    return _with_fields(index, some[:MOST], fields, access), len(some) <= MOST


def _through_schemas(
    index: IndexReader, fields: Conjunction, rest: Conjunction, matching: Matching
) -> Sequence[Candidate] | None:
    """What refers to anything that has one of the fields, with the rest; None if too much has any of them."""
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
    """What names these as its schema, or a cross reference to them."""
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
    index: IndexReader, candidates: Sequence[Candidate], fields: Conjunction, access: Access
) -> list[SchemaReferrer]:
    """Those that have all of the fields, in their own schema or one that they refer to."""
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
    return found


def _are_readable(access: Access, *xids: str) -> bool:
    return access.reads_everything or all(access.readable(stored_xid(xid)) for xid in xids)

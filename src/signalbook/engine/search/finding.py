"""Answering a search: what matches and may be read, the best first, with counts by facet, page by page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from signalbook.access.base import Action
from signalbook.access.decisions import Access
from signalbook.engine.search.query import ANYWHERE, Query, within
from signalbook.engine.search.rights import Readable, readable
from signalbook.engine.search.snippets import Snippet, snippets
from signalbook.engine.search.text import ALL, ENVELOPE, FORMAT, GROUP, PROTOCOL, TYPE, facet
from signalbook.storage.index import Candidate, IndexReader
from signalbook.storage.schema import stored_xid
from signalbook.storage.words import CURRENT, DEPRECATED, Condition, Conjunction, Part, Phrase, Text, WordQuery
from signalbook.values import JSONObject
from signalbook.xid import Kind, Xid

MOST: Final = 1_000
"""Matches that are looked at, sorted and counted: who has more of them asks for less."""
_FACET_VALUES: Final = 50
_EXACT, _NAMED, _FIELDS, _TEXT = range(4)
_SCORES: Final = (1.0, 0.75, 0.5, 0.25)
_TIERS: Final[tuple[tuple[int, tuple[Part, ...]], ...]] = (
    (_NAMED, ("names",)),
    (_FIELDS, ("names", "fields", "members")),
    (_TEXT, ANYWHERE),
)
_EVERYTHING: Final = Condition((Phrase((ALL,)),), ("facets",))
FACETS: Final = ("type", "group", "format", "protocol", "envelope")
_LETTERS: Final = {"type": TYPE, "group": GROUP, "format": FORMAT, "protocol": PROTOCOL, "envelope": ENVELOPE}


class Place(NamedTuple):
    """Where a match stands in the order of all: by what matched, then the shorter id, then the xid."""

    tier: int
    length: int
    xid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A ``query``, and by the names in ``FACETS`` which of some values what is found is to have.

    ``deprecated`` asks for what is, or is not. With ``versions`` all Versions are looked at, not those alone that are
    shown by default. Up to ``limit`` hits are wanted, behind ``after``.
    """

    query: Query
    facets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    deprecated: bool | None = None
    versions: bool = False
    limit: int = 20
    after: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """An entity that was found: a Group, a Resource, or among all Versions one of these."""

    xid: Xid
    name: str
    score: float
    snippets: tuple[Snippet, ...]
    candidate: Candidate

    def to_json(self) -> JSONObject:
        """As clients get it."""
        shown = self.xid.resource if self.xid.kind is Kind.VERSION else self.xid
        found: JSONObject = {
            "xid": str(self.xid),
            "kind": self.xid.kind.value,
            "type": shown.parts[-2],
            "group": str(Xid(self.xid.parts[:2])),
            "id": self.xid.id,
            "name": self.name,
            "score": self.score,
            "deprecated": bool(self.candidate.flags & DEPRECATED),
            "snippets": [each.to_json() for each in self.snippets],
        }
        for name in ("format", "protocol", "envelope"):
            if value := getattr(self.candidate, name):
                found[name] = value
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPage:
    """Hits, the best first; of all that match by facet how many have which value; and where the next page begins.

    ``count`` and ``facets`` are of the first ``MOST`` matches, if they are not ``complete``.
    """

    hits: tuple[SearchHit, ...]
    facets: dict[str, tuple[tuple[str, int], ...]]
    count: int
    complete: bool
    following: Place | None

    def to_json(self) -> JSONObject:
        """As clients get it."""
        facets = {
            name: [{"value": value, "count": count} for value, count in values] for name, values in self.facets.items()
        }
        hits = [hit.to_json() for hit in self.hits]
        return {"count": self.count, "complete": self.complete, "hits": hits, "facets": facets}


def search(index: IndexReader, wanted: Search, access: Access) -> SearchPage:
    """The page of what matches and ``access`` lets be read."""
    finder = _Finder(index, wanted, access)
    found = finder.find()
    behind = found if wanted.after is None else [each for each in found if each[0] > wanted.after]
    shown, more = behind[: wanted.limit], len(behind) > wanted.limit
    texts = index.texts([candidate.key for _, candidate in shown]) if shown else {}
    return SearchPage(
        hits=tuple(_hit(place, candidate, wanted, texts.get(candidate.key, [])) for place, candidate in shown),
        facets=_counts([candidate for _, candidate in found]),
        count=len(found),
        complete=finder.complete,
        following=shown[-1][0] if more else None,
    )


def _hit(place: Place, candidate: Candidate, wanted: Search, texts: Sequence[Text]) -> SearchHit:
    xid = stored_xid(candidate.xid)
    name = next((each.text for each in texts if each.path == "name" and not each.member), "")
    return SearchHit(
        xid=xid if wanted.versions or xid.kind is not Kind.VERSION else xid.resource,
        name=name,
        score=_SCORES[place.tier],
        snippets=snippets(wanted.query, texts),
        candidate=candidate,
    )


class _Finder:
    def __init__(self, index: IndexReader, wanted: Search, access: Access) -> None:
        self._index = index
        self._wanted = wanted
        self._access = access
        self._flags = self._want = 0
        if not wanted.versions:
            self._flags = self._want = CURRENT
        if wanted.deprecated is not None:
            self._flags |= DEPRECATED
            self._want |= DEPRECATED * wanted.deprecated
        self._narrowed = tuple(_one_of(name, values) for name, values in wanted.facets.items() if values)
        self._readable = self._rights()
        self._exact = wanted.query.text.strip('"').casefold()
        # By type and id: whether something in a Group may be read, and whether that depends on what it is.
        self._groups: dict[tuple[str, str], tuple[bool, bool]] = {}
        self.complete = True

    def find(self) -> list[tuple[Place, Candidate]]:
        """What matches, each in the first of the tiers in which it does, the best first; no more than ``MOST``."""
        found: list[tuple[Place, Candidate]] = []
        if self._readable.nothing:
            return found
        before: Conjunction | None = None
        for tier, parts in _TIERS if self._wanted.query.wanted else _TIERS[-1:]:
            every = within(self._wanted.query.wanted, parts)
            if every is None or every == before:
                continue
            before = every
            # All that a tier has is in the next one, too.
            known = [candidate.key for _, candidate in found]
            for candidate in self._matching(every, known, MOST + 1 - len(found)):
                own = _EXACT if self._is_exact(candidate) else tier
                found.append((Place(own, len(candidate.folded), candidate.xid), candidate))
            if len(found) > MOST:  # whatever comes now is behind what is there
                self.complete = False
                break
        return sorted(found)[:MOST]

    def _matching(self, every: Conjunction, known: Sequence[int], most: int) -> Iterable[Candidate]:
        """Up to so many that match ``every`` and may be read, without those that are ``known``."""
        query = WordQuery(
            (*every, *self._narrowed) or (_EVERYTHING,),
            self._wanted.query.unwanted,
            among=self._readable.among,
            hidden=self._readable.hidden,
        )
        flags, want = self._flags, self._want
        if self._readable.exact:
            return self._index.matching(query, flags=flags, want=want, without=known, limit=most)
        # Without a bound: how much is hidden must not show in how much is found.
        rows = self._index.matching(query, flags=flags, want=want, without=known)
        return islice(filter(self._is_readable, rows), most)

    def _rights(self) -> Readable:
        """What may be read, as words: by the rules, if these are few, else by the Groups, if these are."""
        rules = self._access.reading_rules(_MANY)
        if rules is not None:
            return readable(rules)
        there = self._index.groups(_MOST_GROUPS + 1)
        groups = [xid for xid in there if self._access.somewhere(Action.READ, stored_xid(xid))]
        if len(there) > _MOST_GROUPS or len(groups) > _MANY:
            return Readable(exact=False)
        return Readable(among=((_one_of("group", groups),),), exact=False, nothing=not groups)

    def _is_readable(self, candidate: Candidate) -> bool:
        """Whether it may be read: what holds for a whole Group is asked once."""
        _, plural, group, *_ = candidate.xid.split("/", 3)
        known = self._groups.get((plural, group))
        if known is None:
            xid = Xid((plural, group))
            may = self._access.somewhere(Action.READ, xid)
            known = may, may and not self._access.everything_below(Action.READ, xid)
            self._groups[plural, group] = known
        may, depends = known
        return may and (not depends or self._access.readable(stored_xid(candidate.xid)))

    def _is_exact(self, candidate: Candidate) -> bool:
        """Whether it is known by exactly what was asked for: by its id, or the xid of it or its Resource."""
        if not self._exact.startswith("/"):
            return self._exact == candidate.folded
        xid = candidate.xid.casefold()
        return self._exact in (xid, xid.partition("/versions/")[0])


_MOST_GROUPS: Final = 1_000
"""Groups of which each is looked at."""
_MANY: Final = 100
"""Patterns or Groups that a query names."""


def _one_of(name: str, values: Iterable[str]) -> Condition:
    """One of some values to filter by."""
    return Condition(tuple(Phrase((facet(_LETTERS[name], value),)) for value in values), ("facets",))


def _counts(candidates: Sequence[Candidate]) -> dict[str, tuple[tuple[str, int], ...]]:
    """By facet, how many have which value."""
    types: Counter[str] = Counter()
    groups: Counter[str] = Counter()
    # Of most there are many in one collection.
    for (group, *below), count in Counter(_collection(each.xid) for each in candidates).items():
        types[below[0] if below else group.split("/")[1]] += count
        groups[group] += count
    deprecated = sum(1 for each in candidates if each.flags & DEPRECATED)
    counted = {
        "type": types,
        "group": groups,
        "format": Counter(each.format for each in candidates if each.format),
        "protocol": Counter(each.protocol for each in candidates if each.protocol),
        "envelope": Counter(each.envelope for each in candidates if each.envelope),
        "deprecated": +Counter({"true": deprecated, "false": len(candidates) - deprecated}),
    }
    return {
        name: tuple(sorted(counter.items(), key=lambda each: (-each[1], each[0]))[:_FACET_VALUES])
        for name, counter in counted.items()
    }


def _collection(xid: str) -> tuple[str, ...]:
    """The Group that an entity is or is in, and if it is in one its type."""
    _, plural, group, *below = xid.split("/", 4)
    return (f"/{plural}/{group}", *below[:1])

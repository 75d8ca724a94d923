"""Answering a search: what matches and may be read, the best first, with counts by facet, page by page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple

from signalbook.access.base import Action
from signalbook.access.decisions import Access
from signalbook.engine.search.query import ANYWHERE, OF_MEMBERS, Query, within
from signalbook.engine.search.referring import SchemaReferrer, referring
from signalbook.engine.search.rights import ReadingConditions, readable
from signalbook.engine.search.snippets import MAX_SNIPPETS, Snippet, snippets
from signalbook.engine.search.text import ALL, ENVELOPE, FORMAT, GROUP, PROTOCOL, TYPE, facet
from signalbook.storage.base import Reader
from signalbook.storage.index import Candidate, IndexReader
from signalbook.storage.schema import stored_xid
from signalbook.storage.words import CURRENT, DEPRECATED, Condition, Conjunction, Part, Phrase, Text, WordQuery
from signalbook.values import JSONObject
from signalbook.xid import Kind, Xid

MOST: Final = 1_000
"""Matches that are looked at, sorted and counted: who has more of them asks for less."""
_FACET_VALUES: Final = 50
_EXACT, _NAMED, _FIELDS, _TEXT, _REFERRING = range(5)
_SCORES: Final = (1.0, 0.75, 0.5, 0.25, 0.2)
_TIERS: Final[tuple[tuple[int, tuple[Part, ...]], ...]] = (
    (_NAMED, ("names",)),
    (_FIELDS, ("names", "fields", "members")),
    (_TEXT, ANYWHERE),
)
_EVERYTHING: Final = Condition((Phrase((ALL,)),), ("facets",))
FACETS: Final = ("type", "group", "format", "protocol", "envelope")
_LETTERS: Final = {"type": TYPE, "group": GROUP, "format": FORMAT, "protocol": PROTOCOL, "envelope": ENVELOPE}


class Place(NamedTuple):
    """The place of a match in the order of all: by what matched, then the shorter id, then the xid."""

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
        """Return the JSON for clients."""
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
        """Return the JSON for clients."""
        facets = {
            name: [{"value": value, "count": count} for value, count in values] for name, values in self.facets.items()
        }
        hits = [hit.to_json() for hit in self.hits]
        return {"count": self.count, "complete": self.complete, "hits": hits, "facets": facets}


def search(index: IndexReader, entities: Reader, wanted: Search, access: Access) -> SearchPage:
    """Return a page of the matches that ``access`` allows to be read. ``index`` finds them, ``entities`` reads them."""
    finder = _Finder(index, entities, wanted, access)
    found = finder.find()
    behind = found if wanted.after is None else [each for each in found if each[0] > wanted.after]
    shown, more = behind[: wanted.limit], len(behind) > wanted.limit
    keys = {candidate.key for _, candidate in shown}
    schemas = {key: named for key, named in finder.schemas.items() if key in keys}
    texts = index.texts({*keys, *(each.key for one in schemas.values() for each in one.schemas)}) if shown else {}
    return SearchPage(
        hits=tuple(_hit(place, candidate, wanted, schemas.get(candidate.key), texts) for place, candidate in shown),
        facets=_counts([candidate for _, candidate in found]),
        count=len(found),
        complete=finder.complete,
        following=shown[-1][0] if more else None,
    )


def _place(tier: int, candidate: Candidate) -> Place:
    return Place(tier, len(candidate.folded), candidate.xid)


def _hit(
    place: Place,
    candidate: Candidate,
    wanted: Search,
    referrer: SchemaReferrer | None,
    texts: Mapping[int, Sequence[Text]],
) -> SearchHit:
    xid = stored_xid(candidate.xid)
    own = texts.get(candidate.key, ())
    name = next((each.text for each in own if each.path == "name" and not each.member), "")
    members = None if referrer is None else referrer.members
    of_schemas = [
        snippet
        for each in (referrer.schemas if referrer is not None else ())
        for snippet in snippets(
            _of_fields(wanted.query), texts.get(each.key, ()) if members is None else members, schema=each.target
        )
    ]
    return SearchHit(
        xid=xid if wanted.versions or xid.kind is not Kind.VERSION else xid.resource,
        name=name,
        score=_SCORES[place.tier],
        snippets=(*of_schemas[: MAX_SNIPPETS - 1], *snippets(wanted.query, own))[:MAX_SNIPPETS],
        candidate=candidate,
    )


def _of_fields(query: Query) -> Query:
    return Query(query.text, tuple(condition for condition in query.wanted if condition.parts == OF_MEMBERS))


class _Finder:
    def __init__(self, index: IndexReader, entities: Reader, wanted: Search, access: Access) -> None:
        self._index = index
        self._entities = entities
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
        self.schemas: dict[int, SchemaReferrer] = {}
        """The entities found by a field of a schema that they refer to, by key."""

    def find(self) -> list[tuple[Place, Candidate]]:
        """Return up to ``MOST`` matches, the best first, each in its first matching tier."""
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
            for candidate in self.matching(every, MOST + 1 - len(found), without=known):
                own = _EXACT if self._is_exact(candidate) else tier
                found.append((_place(own, candidate), candidate))
            if len(found) > MOST:  # whatever comes now is behind what is there
                self.complete = False
                break
        if self.complete:
            found += self._referring([candidate.key for _, candidate in found], MOST - len(found))
        return sorted(found)[:MOST]

    def _referring(self, known: Sequence[int], most: int) -> list[tuple[Place, Candidate]]:
        """Return entities whose schema has a requested field, without those that are ``known``."""
        fields = _of_fields(self._wanted.query).wanted
        if not fields:
            return []
        rest = tuple(condition for condition in self._wanted.query.wanted if condition not in fields)
        found, whole = referring(self._index, self._entities, fields, rest, self._access, _Others(self, known))
        self.complete = whole and len(found) <= most
        found.sort(key=lambda each: (len(each.candidate.folded), each.candidate.xid))
        self.schemas = {each.candidate.key: each for each in found[:most]}
        return [(_place(_REFERRING, each.candidate), each.candidate) for each in found[:most]]

    def matching(
        self, every: Conjunction, most: int, *, without: Sequence[int], within: Collection[int] | None = None
    ) -> Iterable[Candidate]:
        """Up to so many that match ``every``, as they are asked for."""
        if within is not None and self._is_open((*every, *self._narrowed), len(within)):
            # Words say nothing here, and all that there are would be gone through.
            some = self._index.candidates(set(within) - set(without))
            shown = (each for each in some if each.flags & self._flags == self._want)
            return islice(filter(self._is_readable, shown), most)
        query = self._permitted((*every, *self._narrowed), self._wanted.query.unwanted)
        return self._read(query, most, flags=self._flags, want=self._want, without=without, within=within)

    def having(self, field: Condition, most: int) -> list[Candidate] | None:
        """Return the readable entities shown by default that have a field; None if there are more than ``most``."""
        query = self._permitted((field,))
        if self._readable.exact:
            keys = self._index.current_keys(query, most + 1)
            return None if len(keys) > most else list(filter(self._is_readable, self._index.candidates(keys)))
        found = list(self._read(query, most + 1, flags=CURRENT, want=CURRENT))
        return None if len(found) > most else found

    def _is_open(self, every: Conjunction, number: int) -> bool:
        """Return True if no words are required, apart from rights on entities that are checked soon."""
        return not every and not self._wanted.query.unwanted and (number <= _FEW or self._access.reads_everything)

    def _permitted(self, every: Conjunction, unwanted: Conjunction = ()) -> WordQuery:
        rights = self._readable
        return WordQuery(every or (_EVERYTHING,), unwanted, among=rights.among, hidden=rights.hidden)

    def _read(self, query: WordQuery, most: int, **more: Any) -> Iterable[Candidate]:
        """Up to so many of what may be read."""
        if self._readable.exact:
            # The rules have the last word: an entry that a server of an older version wrote, while this one is brought
            # in, lacks the words by which it is hidden.
            return filter(self._is_readable, self._index.matching(query, limit=most, **more))
        # Without a bound: how much is hidden must not show in how much is found.
        return islice(filter(self._is_readable, self._index.matching(query, **more)), most)

    def _rights(self) -> ReadingConditions:
        """What may be read, as words: by the rules, if these are few, else by the Groups, if these are."""
        rules = self._access.list_reading_rules(_MANY)
        if rules is not None and (found := readable(rules)).size <= _CONDITIONS:
            return found
        there = self._index.groups(_MOST_GROUPS + 1)
        groups = [xid for xid in there if self._access.allows_somewhere(Action.READ, stored_xid(xid))]
        if len(there) > _MOST_GROUPS or len(groups) > _MANY:
            return ReadingConditions(exact=False)
        return ReadingConditions(among=((_one_of("group", groups),),), exact=False, nothing=not groups)

    def _is_readable(self, candidate: Candidate) -> bool:
        """Whether it may be read: what holds for a whole Group is asked once."""
        if self._access.reads_everything:
            return True
        _, plural, group, *_ = candidate.xid.split("/", 3)
        known = self._groups.get((plural, group))
        if known is None:
            xid = Xid((plural, group))
            may = self._access.allows_somewhere(Action.READ, xid)
            known = may, may and not self._access.allows_everything_below(Action.READ, xid)
            self._groups[plural, group] = known
        may, depends = known
        return may and (not depends or self._access.is_readable(stored_xid(candidate.xid)))

    def _is_exact(self, candidate: Candidate) -> bool:
        """Whether it is known by exactly what was asked for: by its id, or the xid of it or its Resource."""
        if not self._exact.startswith("/"):
            return self._exact == candidate.folded
        xid = candidate.xid.casefold()
        return self._exact in (xid, xid.partition("/versions/")[0])


@dataclass(frozen=True, slots=True)
class _Others:
    """What ``finder`` finds beside what is ``known``."""

    finder: _Finder
    known: Sequence[int]

    def wanted(self, every: Conjunction, limit: int, within: Collection[int] | None = None) -> list[Candidate]:
        return list(self.finder.matching(every, limit, without=self.known, within=within))

    def having(self, field: Condition, most: int) -> list[Candidate] | None:
        return self.finder.having(field, most)


_MOST_GROUPS: Final = 1_000
"""Groups of which each is looked at."""
_MANY: Final = 100
"""Patterns or Groups that a query names."""
_FEW: Final = 500
"""Entities that are checked by the rules sooner than the rules are read as words."""
_CONDITIONS: Final = 200
"""That patterns may be: SQLite reads 1,000 of them in 10 ms, before it looks for anything."""


def _one_of(name: str, values: Iterable[str]) -> Condition:
    """Return the condition that one of some values holds."""
    return Condition(tuple(Phrase((facet(_LETTERS[name], value),)) for value in values), ("facets",))


def _counts(candidates: Sequence[Candidate]) -> dict[str, tuple[tuple[str, int], ...]]:
    """Return the number of candidates by facet and value."""
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

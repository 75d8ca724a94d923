"""Answering a search: what matches and may be read, the best first, with counts by facet, page by page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from signalbook.access.base import Action
from signalbook.access.decisions import Access
from signalbook.engine.search.query import ANYWHERE, Query, within
from signalbook.engine.search.snippets import Snippet, snippets
from signalbook.engine.search.text import ALL, ENVELOPE, FORMAT, GROUP, PROTOCOL, TYPE, facet
from signalbook.storage.index import Candidate, IndexReader
from signalbook.storage.schema import stored_xid
from signalbook.storage.words import CURRENT, DEPRECATED, Condition, Part, Phrase, Text, WordQuery
from signalbook.values import JSONObject
from signalbook.xid import ROOT, Kind, Xid

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
    places = sorted((_place(tier, candidate), candidate) for tier, candidate in found.values())
    behind = [each for each in places if wanted.after is None or each[0] > wanted.after]
    shown, more = behind[: wanted.limit], len(behind) > wanted.limit
    texts = index.texts([candidate.key for _, candidate in shown]) if shown else {}
    return SearchPage(
        hits=tuple(_hit(place, candidate, wanted, texts.get(candidate.key, [])) for place, candidate in shown),
        facets=_counts(candidate for _, candidate in places),
        count=len(places),
        complete=finder.complete,
        following=shown[-1][0] if more else None,
    )


def _place(tier: int, candidate: Candidate) -> Place:
    return Place(tier, len(candidate.folded), candidate.xid)


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
        self._narrowed = [Condition(tuple(Phrase((each,)) for each in some), ("facets",)) for some in self._facets()]
        # By type and id: whether something in a Group may be read, and whether that depends on what it is.
        self._groups: dict[tuple[str, str], tuple[bool, bool]] = {}
        self.complete = True

    def find(self) -> dict[int, tuple[int, Candidate]]:
        """What matches by key, each in the first of the tiers in which it does; no more than ``MOST``."""
        found: dict[int, tuple[int, Candidate]] = {}
        before: tuple[Condition, ...] = ()
        for tier, parts in _TIERS if self._wanted.query.wanted else _TIERS[-1:]:
            every = within(self._wanted.query.wanted, parts)
            if every is None:
                continue
            for candidate in self._matching(every, before, MOST + 1 - len(found)):
                found[candidate.key] = (_EXACT if self._is_exact(candidate) else tier, candidate)
            if len(found) > MOST:  # whatever comes now is behind what is there
                self.complete = False
                break
            # All that a tier has is in the next one, too.
            before = every
        kept = sorted(found.items(), key=lambda each: _place(*each[1]))[:MOST]
        return dict(kept)

    def _matching(self, every: tuple[Condition, ...], before: tuple[Condition, ...], most: int) -> Iterable[Candidate]:
        """Up to so many that match ``every`` and may be read, without those that all of ``before`` fits."""
        narrowed = (*every, *self._narrowed) or (_EVERYTHING,)
        query = WordQuery(narrowed, self._wanted.query.unwanted, before)
        if self._access.reads_everything:
            return self._index.matching(query, flags=self._flags, want=self._want, limit=most)
        # Without a bound: how much is hidden must not show in how much is found.
        rows = self._index.matching(query, flags=self._flags, want=self._want)
        return islice(filter(self._is_readable, rows), most)

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
        text = self._wanted.query.text.strip('"').casefold()
        if not text.startswith("/"):
            return text == candidate.folded
        xid = candidate.xid.casefold()
        return text in (xid, xid.partition("/versions/")[0])

    def _facets(self) -> Iterator[list[str]]:
        for name, values in self._wanted.facets.items():
            if values:
                yield [facet(_LETTERS[name], value) for value in values]
        groups = self._readable_groups()
        if groups is not None:
            yield [facet(GROUP, group) for group in groups] or [facet(GROUP, "")]

    def _readable_groups(self) -> list[str] | None:
        """The Groups that may have something readable in them, if these are few: what is elsewhere is not looked at."""
        if self._access.everything_below(Action.READ, ROOT):
            return None
        found = self._named_groups()
        if found is None:
            there = self._index.groups(_MOST_GROUPS + 1)
            if len(there) > _MOST_GROUPS:
                return None
            found = [xid for xid in there if self._access.somewhere(Action.READ, stored_xid(xid))]
        return found if len(found) <= _MANY_GROUPS else None

    def _named_groups(self) -> list[str] | None:
        """The only ones, if rules name them."""
        types = self._access.readable_ids(ROOT)
        if types is None:
            return None
        found: list[str] = []
        for plural in types:
            ids = self._access.readable_ids(ROOT / plural)
            if ids is None:
                return None
            found += [str(ROOT / plural / each) for each in sorted(ids)]
        return found


_MOST_GROUPS: Final = 1_000
"""Groups of which each is looked at."""
_MANY_GROUPS: Final = 100


def _counts(candidates: Iterable[Candidate]) -> dict[str, tuple[tuple[str, int], ...]]:
    counted: dict[str, Counter[str]] = {name: Counter() for name in (*FACETS, "deprecated")}
    for each in candidates:
        parts = each.xid.split("/")
        counted["type"][parts[-4] if len(parts) > _OF_VERSION else parts[-2]] += 1
        counted["group"]["/".join(parts[:3])] += 1
        for name in ("format", "protocol", "envelope"):
            if value := getattr(each, name):
                counted[name][value] += 1
        counted["deprecated"]["true" if each.flags & DEPRECATED else "false"] += 1
    return {
        name: tuple(sorted(counter.items(), key=lambda each: (-each[1], each[0]))[:_FACET_VALUES])
        for name, counter in counted.items()
    }


_OF_VERSION: Final = 5
"""Parts of the xid of a Resource, with the empty one before the first slash."""

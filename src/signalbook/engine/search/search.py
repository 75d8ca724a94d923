"""The results of a search: readable matches in pages, the best first, with counts by facet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple

from signalbook.access.base import Action
from signalbook.access.decisions import Access
from signalbook.engine.search.query import ANYWHERE, MEMBERS, Query, restrict_to
from signalbook.engine.search.referrers import SchemaReferrer, find_referring
from signalbook.engine.search.rights import ReadingConditions, find_reading_conditions
from signalbook.engine.search.snippets import MAX_SNIPPETS, Snippet, find_snippets
from signalbook.engine.search.text import ANY_ENTITY, ENVELOPE, FORMAT, GROUP, PROTOCOL, TYPE, make_facet
from signalbook.storage.base import Reader
from signalbook.storage.index import Candidate, IndexReader
from signalbook.storage.schema import stored_xid
from signalbook.storage.words import CURRENT, DEPRECATED, Condition, Conjunction, Part, Phrase, Text, WordQuery
from signalbook.values import JSONObject
from signalbook.xid import Kind, Xid

MAX_MATCHES: Final = 1_000
"""The maximum number of matches that are sorted and counted."""
_FACET_VALUES: Final = 50
_EXACT, _NAMED, _FIELDS, _TEXT, _REFERRING = range(5)
_SCORES: Final = (1.0, 0.75, 0.5, 0.25, 0.2)
_TIERS: Final[tuple[tuple[int, tuple[Part, ...]], ...]] = (
    (_NAMED, ("names",)),
    (_FIELDS, ("names", "fields", "members")),
    (_TEXT, ANYWHERE),
)
_ALL_ENTITIES: Final = Condition((Phrase((ANY_ENTITY,)),), ("facets",))
FACETS: Final = ("type", "group", "format", "protocol", "envelope")
_FACET_LETTERS: Final = {"type": TYPE, "group": GROUP, "format": FORMAT, "protocol": PROTOCOL, "envelope": ENVELOPE}


class Rank(NamedTuple):
    """The sort position of a match: first by the tier of the match (see ``_TIERS``), then by shorter id,
    then by xid.
    """

    tier: int
    length: int
    xid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search: a ``query``, and ``facets`` that matches must have, as alternative values by name (see ``FACETS``).

    ``deprecated`` selects only deprecated (True) or only other (False) entities; None selects both. ``versions``
    searches all Versions instead of only the default ones. A page has up to ``limit`` hits after the position
    ``after``.
    """

    query: Query
    facets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    deprecated: bool | None = None
    versions: bool = False
    limit: int = 20
    after: Rank | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """An entity that was found: a Group or a Resource, or a Version if all Versions are searched."""

    xid: Xid
    name: str
    score: float
    snippets: tuple[Snippet, ...]
    candidate: Candidate

    def to_json(self) -> JSONObject:
        """Return the hit as the JSON object that clients receive."""
        shown_xid = self.xid.resource if self.xid.kind is Kind.VERSION else self.xid
        document: JSONObject = {
            "xid": str(self.xid),
            "kind": self.xid.kind.value,
            "type": shown_xid.parts[-2],
            "group": str(Xid(self.xid.parts[:2])),
            "id": self.xid.id,
            "name": self.name,
            "score": self.score,
            "deprecated": bool(self.candidate.flags & DEPRECATED),
            "snippets": [snippet.to_json() for snippet in self.snippets],
        }
        for name in ("format", "protocol", "envelope"):
            if value := getattr(self.candidate, name):
                document[name] = value
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPage:
    """A page of hits, the best first, with the number of matches by facet and value.

    ``following`` is the position after which the next page starts, None on the last page. If not ``complete``,
    ``count`` and ``facets`` cover only the first ``MAX_MATCHES`` matches.
    """

    hits: tuple[SearchHit, ...]
    facets: dict[str, tuple[tuple[str, int], ...]]
    count: int
    complete: bool
    following: Rank | None

    def to_json(self) -> JSONObject:
        """Return the page as the JSON object that clients receive."""
        facets = {
            name: [{"value": value, "count": count} for value, count in values] for name, values in self.facets.items()
        }
        hits = [hit.to_json() for hit in self.hits]
        return {"count": self.count, "complete": self.complete, "hits": hits, "facets": facets}


def search(index: IndexReader, entities: Reader, request: Search, access: Access) -> SearchPage:
    """Return a page of the matches that ``access`` can read, found with ``index`` and ``entities``."""
    finder = _Finder(index, entities, request, access)
    matches = finder.find()
    following = matches if request.after is None else [match for match in matches if match[0] > request.after]
    page, has_more = following[: request.limit], len(following) > request.limit
    keys = {candidate.key for _, candidate in page}
    referrers = {key: referrer for key, referrer in finder.schemas.items() if key in keys}
    texts = (
        index.texts({*keys, *(schema.key for referrer in referrers.values() for schema in referrer.schemas)})
        if page
        else {}
    )
    return SearchPage(
        hits=tuple(
            _make_hit(rank, candidate, request, referrers.get(candidate.key), texts) for rank, candidate in page
        ),
        facets=_count_facets([candidate for _, candidate in matches]),
        count=len(matches),
        complete=finder.complete,
        following=page[-1][0] if has_more else None,
    )


def _make_rank(tier: int, candidate: Candidate) -> Rank:
    return Rank(tier, len(candidate.folded), candidate.xid)


def _make_hit(
    rank: Rank,
    candidate: Candidate,
    request: Search,
    referrer: SchemaReferrer | None,
    texts: Mapping[int, Sequence[Text]],
) -> SearchHit:
    xid = stored_xid(candidate.xid)
    own_texts = texts.get(candidate.key, ())
    name = next((text.text for text in own_texts if text.path == "name" and not text.member), "")
    members = None if referrer is None else referrer.members
    schema_snippets = [
        snippet
        for schema in (referrer.schemas if referrer is not None else ())
        for snippet in find_snippets(
            _select_field_conditions(request.query),
            texts.get(schema.key, ()) if members is None else members,
            schema=schema.target,
        )
    ]
    return SearchHit(
        xid=xid if request.versions or xid.kind is not Kind.VERSION else xid.resource,
        name=name,
        score=_SCORES[rank.tier],
        snippets=(*schema_snippets[: MAX_SNIPPETS - 1], *find_snippets(request.query, own_texts))[:MAX_SNIPPETS],
        candidate=candidate,
    )


def _select_field_conditions(query: Query) -> Query:
    return Query(query.text, tuple(condition for condition in query.required if condition.parts == MEMBERS))


class _Finder:
    def __init__(self, index: IndexReader, entities: Reader, request: Search, access: Access) -> None:
        self._index = index
        self._entities = entities
        self._request = request
        self._access = access
        self._flags = self._flag_values = 0
        if not request.versions:
            self._flags = self._flag_values = CURRENT
        if request.deprecated is not None:
            self._flags |= DEPRECATED
            self._flag_values |= DEPRECATED * request.deprecated
        self._facet_conditions = tuple(
            _make_facet_condition(name, values) for name, values in request.facets.items() if values
        )
        self._reading_conditions = self._find_rights()
        self._exact = request.query.text.strip('"').casefold()
        # By type and id of a Group: whether anything in the Group can be read, and whether that differs by entity.
        self._groups: dict[tuple[str, str], tuple[bool, bool]] = {}
        self.complete = True
        self.schemas: dict[int, SchemaReferrer] = {}
        """The entities found by a field of a schema that they refer to, by storage key."""

    def find(self) -> list[tuple[Rank, Candidate]]:
        """Return up to ``MAX_MATCHES`` matches, the best first.

        Each match is ranked by the first tier that finds it.
        """
        matches: list[tuple[Rank, Candidate]] = []
        if self._reading_conditions.nothing:
            return matches
        before: Conjunction | None = None
        for tier, parts in _TIERS if self._request.query.required else _TIERS[-1:]:
            conditions = restrict_to(self._request.query.required, parts)
            if conditions is None or conditions == before:
                continue
            before = conditions
            # The matches of a tier also match the next tier, so they are excluded there.
            found_keys = [candidate.key for _, candidate in matches]
            for candidate in self.find_matching(conditions, MAX_MATCHES + 1 - len(matches), without=found_keys):
                match_tier = _EXACT if self._is_exact(candidate) else tier
                matches.append((_make_rank(match_tier, candidate), candidate))
            if len(matches) > MAX_MATCHES:  # later tiers have only lower-ranked matches
                self.complete = False
                break
        if self.complete:
            matches += self._find_referrers([candidate.key for _, candidate in matches], MAX_MATCHES - len(matches))
        return sorted(matches)[:MAX_MATCHES]

    def _find_referrers(self, found_keys: Sequence[int], limit: int) -> list[tuple[Rank, Candidate]]:
        """Return up to ``limit`` entities that refer to a schema with a requested field, except those in
        ``found_keys``.
        """
        fields = _select_field_conditions(self._request.query).required
        if not fields:
            return []
        other_conditions = tuple(condition for condition in self._request.query.required if condition not in fields)
        referrers, complete = find_referring(
            self._index, self._entities, fields, other_conditions, self._access, _RemainingMatches(self, found_keys)
        )
        self.complete = complete and len(referrers) <= limit
        referrers.sort(key=lambda referrer: (len(referrer.candidate.folded), referrer.candidate.xid))
        self.schemas = {referrer.candidate.key: referrer for referrer in referrers[:limit]}
        return [(_make_rank(_REFERRING, referrer.candidate), referrer.candidate) for referrer in referrers[:limit]]

    def find_matching(
        self, conditions: Conjunction, limit: int, *, without: Sequence[int], within: Collection[int] | None = None
    ) -> Iterable[Candidate]:
        """Return up to ``limit`` readable entities that match ``conditions``.

        Entities with keys in ``without`` are excluded. If ``within`` is set, only entities with these keys are
        searched.
        """
        if within is not None and self._is_open((*conditions, *self._facet_conditions), len(within)):
            # The conditions exclude nothing, so a query would read all entities of the registry.
            candidates = self._index.candidates(set(within) - set(without))
            selected = (candidate for candidate in candidates if candidate.flags & self._flags == self._flag_values)
            return islice(filter(self._is_readable, selected), limit)
        query = self._build_query((*conditions, *self._facet_conditions), self._request.query.excluded)
        return self._read_matching(
            query, limit, flags=self._flags, want=self._flag_values, without=without, within=within
        )

    def find_having(self, field: Condition, limit: int) -> list[Candidate] | None:
        """Return the readable entities shown by default that have the field ``field``; None if there are more than
        ``limit``.
        """
        query = self._build_query((field,))
        if self._reading_conditions.exact:
            keys = self._index.current_keys(query, limit + 1)
            return None if len(keys) > limit else list(filter(self._is_readable, self._index.candidates(keys)))
        candidates = list(self._read_matching(query, limit + 1, flags=CURRENT, want=CURRENT))
        return None if len(candidates) > limit else candidates

    def _is_open(self, conditions: Conjunction, number: int) -> bool:
        """Return True if only access rights limit the matches, and checking them on ``number`` entities is fast."""
        return (
            not conditions
            and not self._request.query.excluded
            and (number <= _MAX_CHECKED_BY_RULES or self._access.reads_everything)
        )

    def _build_query(self, conditions: Conjunction, unwanted: Conjunction = ()) -> WordQuery:
        rights = self._reading_conditions
        return WordQuery(conditions or (_ALL_ENTITIES,), unwanted, among=rights.among, hidden=rights.hidden)

    def _read_matching(self, query: WordQuery, limit: int, **options: Any) -> Iterable[Candidate]:
        """Return up to ``limit`` readable matches of ``query``."""
        if self._reading_conditions.exact:
            # The access rules are checked again, because an entry written by an older server during an upgrade may lack
            # the words by which it is hidden.
            return filter(self._is_readable, self._index.matching(query, limit=limit, **options))
        # Without a limit in the query, because hidden entities must not reduce the number of results.
        return islice(filter(self._is_readable, self._index.matching(query, **options)), limit)

    def _find_rights(self) -> ReadingConditions:
        """Return the access rights as search conditions.

        They are made from the access rules if there are few of these, else from the readable Groups if there are few.
        """
        rules = self._access.list_reading_rules(_MAX_PATTERNS)
        if rules is not None and (conditions := find_reading_conditions(rules)).size <= _MAX_CONDITIONS:
            return conditions
        all_groups = self._index.groups(_MAX_GROUPS + 1)
        groups = [xid for xid in all_groups if self._access.allows_somewhere(Action.READ, stored_xid(xid))]
        if len(all_groups) > _MAX_GROUPS or len(groups) > _MAX_PATTERNS:
            return ReadingConditions(exact=False)
        return ReadingConditions(among=((_make_facet_condition("group", groups),),), exact=False, nothing=not groups)

    def _is_readable(self, candidate: Candidate) -> bool:
        """Return True if the entity can be read. The rights on a whole Group are checked once and remembered."""
        if self._access.reads_everything:
            return True
        _, plural, group, *_ = candidate.xid.split("/", 3)
        group_rights = self._groups.get((plural, group))
        if group_rights is None:
            xid = Xid((plural, group))
            is_allowed = self._access.allows_somewhere(Action.READ, xid)
            group_rights = is_allowed, is_allowed and not self._access.allows_everything_below(Action.READ, xid)
            self._groups[plural, group] = group_rights
        is_allowed, depends = group_rights
        return is_allowed and (not depends or self._access.is_readable(stored_xid(candidate.xid)))

    def _is_exact(self, candidate: Candidate) -> bool:
        """Return True if the query is exactly the id of an entity, its xid or the xid of its Resource."""
        if not self._exact.startswith("/"):
            return self._exact == candidate.folded
        folded_xid = candidate.xid.casefold()
        return self._exact in (folded_xid, folded_xid.partition("/versions/")[0])


@dataclass(frozen=True, slots=True)
class _RemainingMatches:
    """The matches of ``finder``, without the entities in ``found_keys``."""

    finder: _Finder
    found_keys: Sequence[int]

    def find_matching(
        self, conditions: Conjunction, limit: int, within: Collection[int] | None = None
    ) -> list[Candidate]:
        return list(self.finder.find_matching(conditions, limit, without=self.found_keys, within=within))

    def find_having(self, field: Condition, limit: int) -> list[Candidate] | None:
        return self.finder.find_having(field, limit)


_MAX_GROUPS: Final = 1_000
"""The maximum number of Groups whose rights are checked one by one."""
_MAX_PATTERNS: Final = 100
"""The maximum number of patterns or Groups that a query contains."""
_MAX_CHECKED_BY_RULES: Final = 500
"""Up to this many entities, checking each by the access rules is faster than a query with the rules as words."""
_MAX_CONDITIONS: Final = 200
"""The maximum number of conditions for patterns: SQLite parses 1,000 of them in 10 ms."""


def _make_facet_condition(name: str, values: Iterable[str]) -> Condition:
    return Condition(tuple(Phrase((make_facet(_FACET_LETTERS[name], value),)) for value in values), ("facets",))


def _count_facets(candidates: Sequence[Candidate]) -> dict[str, tuple[tuple[str, int], ...]]:
    """Return the number of candidates by facet and value, the most frequent values first."""
    types: Counter[str] = Counter()
    groups: Counter[str] = Counter()
    # Counted by collection first, because most candidates share a few collections.
    for (group, *below), count in Counter(_split_collection(candidate.xid) for candidate in candidates).items():
        types[below[0] if below else group.split("/")[1]] += count
        groups[group] += count
    deprecated = sum(1 for candidate in candidates if candidate.flags & DEPRECATED)
    counted = {
        "type": types,
        "group": groups,
        "format": Counter(candidate.format for candidate in candidates if candidate.format),
        "protocol": Counter(candidate.protocol for candidate in candidates if candidate.protocol),
        "envelope": Counter(candidate.envelope for candidate in candidates if candidate.envelope),
        "deprecated": +Counter({"true": deprecated, "false": len(candidates) - deprecated}),
    }
    return {
        name: tuple(sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:_FACET_VALUES])
        for name, counter in counted.items()
    }


def _split_collection(xid: str) -> tuple[str, ...]:
    """Return the Group of an entity and, if the entity is in a Group, also its type."""
    _, plural, group, *below = xid.split("/", 4)
    return (f"/{plural}/{group}", *below[:1])

"""Read rights as search conditions, so that the database itself excludes hidden entities."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from signalbook.access.decisions import ReadingRules
from signalbook.engine.search.text import IS_GROUP, PART_LETTERS, spell_part
from signalbook.storage.words import Condition, Conjunction, Phrase

_GROUP_PARTS: Final = 2
"""The number of parts of a Group's xid."""
_STARS: Final = re.compile(r"\*+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingConditions:
    """The conditions of readable entities: one of ``among`` (if not empty) must match, and none of ``hidden``.

    If not ``exact``, some entities that match are hidden nevertheless. ``nothing`` means that all entities are hidden.
    """

    among: tuple[Conjunction, ...] = ()
    hidden: tuple[Conjunction, ...] = ()
    exact: bool = True
    nothing: bool = False

    @property
    def size(self) -> int:
        """The number of conditions, which decides whether a query can contain them."""
        return sum(map(len, (*self.among, *self.hidden)))


@dataclass(frozen=True, slots=True)
class _Pattern:
    """The conditions of a pattern for the Group and for entities in the Group.

    ``deep`` means that the pattern matches entities in the Group and not the Group itself.
    """

    group: Conjunction
    member: Conjunction
    deep: bool
    exact: bool


@lru_cache(maxsize=1 << 8)
def find_reading_conditions(rules: ReadingRules) -> ReadingConditions:
    """Return the conditions of the entities that ``rules`` allow to read.

    A Group can also be read if a pattern allows an entity in it.
    """
    allowed, denied = ([_parse_pattern(parts) for parts in patterns] for patterns in rules)
    among = dict.fromkeys(conjunction for pattern in allowed for conjunction in _list_shown(pattern))
    # A pattern without exact conditions may match too much, so it must not hide entities here.
    hidden = dict.fromkeys(_find_denied(pattern) for pattern in denied if pattern.exact)
    return ReadingConditions(
        among=() if () in among else tuple(_merge(among)),
        hidden=tuple(_merge(hidden)),
        exact=all(pattern.exact for pattern in (*allowed, *denied)),
        nothing=not among or () in hidden,
    )


def _parse_pattern(parts: Sequence[str]) -> _Pattern:
    conditions_by_part = [_parse_part(part, letters) for part, letters in zip(parts, PART_LETTERS, strict=False)]
    group, member = (
        tuple(condition for conditions, _ in parts_conditions for condition in conditions)
        for parts_conditions in (conditions_by_part[:_GROUP_PARTS], conditions_by_part[_GROUP_PARTS:])
    )
    return _Pattern(group, member, len(parts) > _GROUP_PARTS, all(exact for _, exact in conditions_by_part))


def _parse_part(part: str, letters: tuple[str, str]) -> tuple[Conjunction, bool]:
    """Return the conditions for one part of a pattern, and whether they are exact.

    ``letters`` are the prefixes of the facet words for the part and for the reversed part.
    """
    forward, backward = letters
    before, *between, behind = _STARS.split(part) if "*" in part else (part, "")
    if "*" not in part:
        return (_make_facet_condition(Phrase((forward + spell_part(before),))),), True
    conditions = [_make_facet_condition(Phrase((forward + spell_part(before),), prefix=True))] if before else []
    if behind and backward:
        conditions.append(_make_facet_condition(Phrase((backward + spell_part(behind)[::-1],), prefix=True)))
    # The texts before and after a star must not overlap, which words cannot express. Types have no reversed words.
    return tuple(conditions), not between and not (behind and (before or not backward))


def _make_facet_condition(phrase: Phrase) -> Condition:
    return Condition((phrase,), ("facets",))


_IS_GROUP: Final = _make_facet_condition(Phrase((IS_GROUP,)))
_IN_GROUP: Final = _make_facet_condition(Phrase((PART_LETTERS[_GROUP_PARTS][0],), prefix=True))
"""The condition that an entity is in a Group: such an entity has a facet word for its Resource type."""


def _list_shown(pattern: _Pattern) -> Iterator[Conjunction]:
    """Yield the conditions of entities that an allowing pattern makes visible."""
    yield (*pattern.group, *pattern.member)
    if pattern.member:
        yield (*pattern.group, _IS_GROUP)


def _find_denied(pattern: _Pattern) -> Conjunction:
    """Return the conditions of entities that a denying pattern hides."""
    return (*pattern.group, *(pattern.member or (_IN_GROUP,))) if pattern.deep else pattern.group


def _merge(conjunctions: Iterable[Conjunction]) -> Iterator[Conjunction]:
    """Yield the conjunctions, with those of a single condition merged into one, because rules often list many ids."""
    phrases: list[Phrase] = []
    for conjunction in conjunctions:
        if len(conjunction) == 1:
            phrases += conjunction[0].phrases
        else:
            yield conjunction
    if phrases:
        yield (Condition(tuple(phrases), ("facets",)),)

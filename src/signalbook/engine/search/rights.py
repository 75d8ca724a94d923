"""Read rights as search conditions, so that the database itself leaves out hidden entities."""

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
"""Parts of the xid of a Group."""
_STARS: Final = re.compile(r"\*+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingConditions:
    """The conditions for readable entities: one of ``among``, if there are any, and none of ``hidden``.

    Unless that is ``exact``, some entities that meet them are hidden all the same. With ``nothing`` everything is.
    """

    among: tuple[Conjunction, ...] = ()
    hidden: tuple[Conjunction, ...] = ()
    exact: bool = True
    nothing: bool = False

    @property
    def size(self) -> int:
        """The number of conditions."""
        return sum(map(len, (*self.among, *self.hidden)))


@dataclass(frozen=True, slots=True)
class _Pattern:
    """The conditions that a pattern is for the Group, and for what is in it; ``deep`` if it is not about the Group."""

    group: Conjunction
    member: Conjunction
    deep: bool
    exact: bool


@lru_cache(maxsize=1 << 8)
def find_reading_conditions(rules: ReadingRules) -> ReadingConditions:
    """Return the readable entities by these rules: a Group also if a pattern allows something in it."""
    allowed, denied = ([_parse_pattern(parts) for parts in patterns] for patterns in rules)
    among = dict.fromkeys(conjunction for pattern in allowed for conjunction in _list_shown(pattern))
    # What only seems to fit is not left out here.
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
    """Return the conditions for one part of a pattern, and whether they are exact."""
    forward, backward = letters
    before, *between, behind = _STARS.split(part) if "*" in part else (part, "")
    if "*" not in part:
        return (_make_facet_condition(Phrase((forward + spell_part(before),))),), True
    conditions = [_make_facet_condition(Phrase((forward + spell_part(before),), prefix=True))] if before else []
    conditions += (
        [_make_facet_condition(Phrase((backward + spell_part(behind)[::-1],), prefix=True))]
        if behind and backward
        else []
    )
    # What stands before and behind a star may not overlap; types are no words from behind.
    return tuple(conditions), not between and not (behind and (before or not backward))


def _make_facet_condition(phrase: Phrase) -> Condition:
    return Condition((phrase,), ("facets",))


_IS_GROUP: Final = _make_facet_condition(Phrase((IS_GROUP,)))
_IN_GROUP: Final = _make_facet_condition(Phrase((PART_LETTERS[_GROUP_PARTS][0],), prefix=True))
"""What is in a Group has a type beside that of the Group."""


def _list_shown(pattern: _Pattern) -> Iterator[Conjunction]:
    """Yield what an allowing pattern shows."""
    yield (*pattern.group, *pattern.member)
    if pattern.member:
        yield (*pattern.group, _IS_GROUP)


def _find_denied(pattern: _Pattern) -> Conjunction:
    """Return what a denying pattern hides."""
    return (*pattern.group, *(pattern.member or (_IN_GROUP,))) if pattern.deep else pattern.group


def _merge(conjunctions: Iterable[Conjunction]) -> Iterator[Conjunction]:
    """Yield the conjunctions, with all that are a single condition joined into one: rules often name many ids."""
    phrases: list[Phrase] = []
    for conjunction in conjunctions:
        if len(conjunction) == 1:
            phrases += conjunction[0].phrases
        else:
            yield conjunction
    if phrases:
        yield (Condition(tuple(phrases), ("facets",)),)

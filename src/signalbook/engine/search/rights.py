"""What somebody may read, as words of the index: the database itself leaves out what is hidden."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from signalbook.access.decisions import ReadingRules
from signalbook.engine.search.text import IS_GROUP, PLACES, spelled
from signalbook.storage.words import Condition, Conjunction, Phrase

_OF_GROUP: Final = 2
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
def readable(rules: ReadingRules) -> ReadingConditions:
    """Return the readable entities by these rules: a Group also if a pattern allows something in it."""
    allowed, denied = ([_read(parts) for parts in some] for some in rules)
    among = dict.fromkeys(conjunction for pattern in allowed for conjunction in _shown(pattern))
    # What only seems to fit is not left out here.
    hidden = dict.fromkeys(_denied(pattern) for pattern in denied if pattern.exact)
    return ReadingConditions(
        among=() if () in among else tuple(_merged(among)),
        hidden=tuple(_merged(hidden)),
        exact=all(pattern.exact for pattern in (*allowed, *denied)),
        nothing=not among or () in hidden,
    )


def _read(parts: Sequence[str]) -> _Pattern:
    found = [_part(part, letters) for part, letters in zip(parts, PLACES, strict=False)]
    group, member = (
        tuple(condition for conditions, _ in some for condition in conditions)
        for some in (found[:_OF_GROUP], found[_OF_GROUP:])
    )
    return _Pattern(group, member, len(parts) > _OF_GROUP, all(exact for _, exact in found))


def _part(part: str, letters: tuple[str, str]) -> tuple[Conjunction, bool]:
    """The conditions that one part of a pattern is, and whether these say all that it says."""
    forward, backward = letters
    before, *between, behind = _STARS.split(part) if "*" in part else (part, "")
    if "*" not in part:
        return (_has(Phrase((forward + spelled(before),))),), True
    found = [_has(Phrase((forward + spelled(before),), prefix=True))] if before else []
    found += [_has(Phrase((backward + spelled(behind)[::-1],), prefix=True))] if behind and backward else []
    # What stands before and behind a star may not overlap; types are no words from behind.
    return tuple(found), not between and not (behind and (before or not backward))


def _has(phrase: Phrase) -> Condition:
    return Condition((phrase,), ("facets",))


_IS_GROUP: Final = _has(Phrase((IS_GROUP,)))
_IN_GROUP: Final = _has(Phrase((PLACES[_OF_GROUP][0],), prefix=True))
"""What is in a Group has a type beside that of the Group."""


def _shown(pattern: _Pattern) -> Iterator[Conjunction]:
    """Yield what an allowing pattern shows."""
    yield (*pattern.group, *pattern.member)
    if pattern.member:
        yield (*pattern.group, _IS_GROUP)


def _denied(pattern: _Pattern) -> Conjunction:
    """Return what a denying pattern hides."""
    return (*pattern.group, *(pattern.member or (_IN_GROUP,))) if pattern.deep else pattern.group


def _merged(conjunctions: Iterable[Conjunction]) -> Iterator[Conjunction]:
    """The same with those of a single condition in one: rules often name many ids."""
    phrases: list[Phrase] = []
    for each in conjunctions:
        if len(each) == 1:
            phrases += each[0].phrases
        else:
            yield each
    if phrases:
        yield (Condition(tuple(phrases), ("facets",)),)

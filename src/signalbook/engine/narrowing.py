"""What a filter leaves: the store sieves, every expression is then tested here, and what passed becomes a tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import chain, groupby
from urllib.parse import quote

from signalbook.engine.dotpath import Steps
from signalbook.engine.filters import Filter
from signalbook.engine.inline import Inline
from signalbook.engine.lookup import AttributeLookup
from signalbook.engine.view_tree import WHOLE, EntityNode, Remainder
from signalbook.engine.walking import PathMatch, PathMember, PathWalk
from signalbook.storage.base import Reader


class FilterEvaluation:
    """A filter at work. ``Kept`` objects it makes hold the members of collections named in ``inline``."""

    def __init__(self, reader: Reader, filter: Filter, lookup: AttributeLookup) -> None:
        self._reader = reader
        self._filter = filter
        self._lookup = lookup

    def beneath(self, base: EntityNode, inline: Inline) -> Remainder | None:
        """What is left of ``base``, an entity with its rows and counts, and beneath it; None if nothing is."""
        alive = self._alive(base)
        if any(not self._filter.paths[number] for number in alive):
            return WHOLE
        kept = self._gather(self._ways(base, alive), 0, inline)
        return kept if kept.passed else None

    def members(
        self, base: EntityNode, plural: str, inline: Inline, *, after: str | None = None, asked: Steps | None = None
    ) -> Iterator[PathMember]:
        """The members of a collection of ``base`` that are left, by id behind ``after``, each with what is beneath it.

        ``asked`` is an attribute of theirs that will be asked for; ``inline`` is that of the members.
        """
        alive = [number for number in self._alive(base) if self._filter.paths[number][:1] == (plural,)]
        ways = self._ways(base, alive, after=after, asked=asked)
        for _, group in groupby(ways, key=lambda way: way.steps[0]):
            rest = iter(group)
            way = next(rest)
            ends = len(way.steps) == 1  # the shorter ways come first
            way.first.kept = WHOLE if ends else self._gather(chain([way], rest), 1, inline)
            yield way.first

    def _alive(self, base: EntityNode) -> list[int]:
        """Numbers of the alternatives whose expressions about ``base`` itself it passes."""
        return [
            number
            for number, alternative in enumerate(self._filter.alternatives)
            if all(self._lookup.accepts(base, each) for each in alternative if not each.types)
        ]

    def _ways(
        self,
        base: EntityNode,
        alive: Iterable[int],
        *,
        after: str | None = None,
        asked: Steps | None = None,
    ) -> Iterator[PathMatch]:
        """The ways that pass, in the order of the response: by collection and id, an entity before what is beneath."""
        by_path: dict[tuple[str, ...], list[int]] = {}
        for number in alive:
            by_path.setdefault(self._filter.paths[number], []).append(number)
        walks = [
            PathWalk(
                self._reader,
                self._lookup,
                base,
                path,
                {number: self._filter.alternatives[number] for number in numbers},
                asked=asked,
            )
            for path, numbers in by_path.items()
        ]
        return merge(*(walk.ways(after=after) for walk in walks), key=lambda way: way.steps)

    def _gather(self, ways: Iterable[PathMatch], depth: int, inline: Inline) -> Remainder:
        """The tree that ``ways`` make from their step ``depth`` on. One that ends there leaves everything."""
        kept = Remainder()
        for step, group in groupby(ways, key=lambda way: way.steps[depth : depth + 1]):
            if not step:
                kept.whole = True
            if not step or step[0][0] not in inline:
                kept.passed.update(*(way.passed for way in group))
            else:
                ((plural, _, key),) = step
                below = self._gather(group, depth + 1, inline.below(plural))
                kept.members.setdefault(plural, {})[key] = below
                kept.passed |= below.passed
            if step:
                kept.counts[step[0][0]] = kept.counts.get(step[0][0], 0) + 1
        kept.queries = {} if kept.whole else {plural: self._query(kept.passed, plural, depth) for plural in kept.counts}
        return kept

    def _query(self, passed: Iterable[int], plural: str, depth: int) -> str:
        """The filter that remains for the members of a collection at ``depth`` (R193)."""
        texts = []
        for number in sorted(passed):
            if self._filter.paths[number][depth : depth + 1] == (plural,):
                alternative = self._filter.alternatives[number]
                texts.append(",".join(each.below(depth + 1) for each in alternative if len(each.types) > depth))
        return "?" + "&".join(f"filter={quote(text, safe='=*!:@()~,')}" for text in dict.fromkeys(texts))

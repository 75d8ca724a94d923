"""Filter evaluation: which entities pass, tested on what the store's prefilter lets through.

Paths of entities are read from the store, every expression is tested on them, and what passed becomes a tree of what is
left. Attributes are looked up as a client would see them in API view, without rendering whole entities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from heapq import merge
from itertools import chain, groupby, islice
from typing import Final, TypeAlias
from urllib.parse import quote

from signalbook.engine.read.filters import Alternative, Filter, FilterExpression, Value, as_instant
from signalbook.engine.read.inlining import WHOLE, EntityNode, Inline, Remainder, version_node
from signalbook.engine.read.paths import Steps, Wild, collections_of, find_values, is_made
from signalbook.engine.read.prefilter import store_conditions
from signalbook.engine.read.rendering import Renderer
from signalbook.model import Model
from signalbook.storage.base import Condition, Hit, Part, Reader, Row, Selection
from signalbook.values import JSONObject
from signalbook.xid import Kind

_COLUMNS: Final[dict[str, Callable[[Row], Value]]] = {
    "epoch": lambda row: row.epoch,
    "createdat": lambda row: row.createdat,
    "modifiedat": lambda row: row.modifiedat,
}
"""What is the same in a row and in what is shown of it."""


class AttributeLookup:
    """Finds attributes of nodes that have their rows, and their counts where these are asked for."""

    def __init__(self, model: Model, renderer: Renderer) -> None:
        self.model = model
        self._renderer = renderer
        self._made = cache(partial(is_made, model))

    def values(self, node: EntityNode, steps: Steps, *, timestamp: bool) -> Iterator[Value]:
        """All values at ``steps`` (R189), timestamps as instants if it is known that they are some."""
        found = self._found(node, steps)
        return map(as_instant, found) if timestamp else found

    def accepts(self, node: EntityNode, expression: FilterExpression) -> bool:
        """Whether the entity that ``expression`` is about passes it."""
        return expression.accepts(self.values(node, expression.steps, timestamp=expression.timestamp))

    def _found(self, node: EntityNode, steps: Steps) -> Iterator[Value]:
        first, *rest = steps
        if first is Wild.KEY:
            return find_values(self._whole(node), steps)
        if not isinstance(first, str):
            return iter(())
        if first == "meta" and node.xid.kind is Kind.RESOURCE:
            return find_values(self._renderer.meta(node), rest)
        return find_values(self._attribute(node, first), rest)

    def _whole(self, node: EntityNode) -> JSONObject:
        shown = self._renderer.entity(node)
        return {**shown, "meta": self._renderer.meta(node)} if node.xid.kind is Kind.RESOURCE else shown

    def _attribute(self, node: EntityNode, name: str) -> Value:
        row = node.default if node.xid.kind is Kind.RESOURCE else node.row
        if row is not None:
            if name in row.attributes:
                return row.attributes[name]
            if name in _COLUMNS:
                return _COLUMNS[name](row)
            if name == "isdefault" and node.xid.kind is Kind.VERSION:
                return node.shown is not None and node.shown.defaultversionid == row.xid.id
        return self._renderer.entity(node).get(name) if self._made(node.xid.parts[0::2], (name,)) else None


@dataclass(frozen=True, slots=True)
class LoadedMember:
    """An entity whose node is there already, among others that are not."""

    node: EntityNode
    lookup: AttributeLookup

    @property
    def folded(self) -> str:
        """The folded id."""
        return self.node.folded

    def values(self, steps: Steps, *, timestamp: bool) -> Iterator[Value]:
        """As ``AttributeLookup.values``."""
        return self.lookup.values(self.node, steps, timestamp=timestamp)


_BATCH: Final = 1000
Step: TypeAlias = tuple[str, str, int]
"""Collection, folded id and storage key: its steps put a path in its place in the response."""


@dataclass(slots=True, kw_only=True)
class PathMatch:
    """A path down to an entity that passed some alternatives, by their numbers; ``first`` is the first entity on it."""

    steps: tuple[Step, ...]
    passed: frozenset[int]
    first: PathMember


class PathMember:
    """An entity on a path. What is asked of it decides what is fetched; ``remainder`` is what is left of it."""

    __slots__ = ("_above", "_level", "_node", "_walk", "hit", "passed", "remainder", "step")

    def __init__(self, walk: PathWalk, level: int, hit: Hit, above: PathMember | None) -> None:
        self._walk = walk
        self._level = level
        self._above = above
        self._node: EntityNode | None = None
        self.hit = hit
        self.remainder: Remainder | None = None
        self.step: Step = (walk.path[level], hit.folded, hit.key)
        self.passed: frozenset[int] = walk.passing(level, self, walk.numbers if above is None else above.passed)

    @property
    def folded(self) -> str:
        """The folded id."""
        return self.hit.folded

    @property
    def node(self) -> EntityNode:
        """The entity, without what is beneath it; for those alone of whom a made attribute is asked."""
        if self._node is None:
            self._node = self._walk.node(self._level, self.hit, self._above)
        return self._node

    def values(self, steps: Steps, *, timestamp: bool) -> Iterator[Value]:
        """As ``AttributeLookup.values``; of a stored attribute without the rest of the row."""
        lookup, part = self._walk.lookup, self._walk.part(self._level, steps)
        if part is None:
            return lookup.values(self.node, steps, timestamp=timestamp)
        found = find_values(self.hit.attributes(part), steps)
        return map(as_instant, found) if timestamp else found


class PathWalk:
    """From ``base``, an entity with its rows, through the collections of ``path``.

    ``alternatives`` are those of a filter that lead down this path, by their numbers; ``asked`` is an attribute that
    will be asked of the first entities.
    """

    def __init__(
        self,
        reader: Reader,
        lookup: AttributeLookup,
        base: EntityNode,
        path: tuple[str, ...],
        alternatives: Mapping[int, Alternative],
        *,
        asked: Steps | None = None,
    ) -> None:
        self._reader = reader
        self.lookup = lookup
        self._base = base
        self.path = path
        self.numbers = frozenset(alternatives)
        self._alternatives = alternatives
        self._types = base.xid.parts[0::2]
        self._tests = [
            {n: [each for each in tests if len(each.types) == level + 1] for n, tests in alternatives.items()}
            for level in range(len(path))
        ]
        self._asked = [{each.steps for tests in level.values() for each in tests} for level in self._tests]
        if asked is not None:
            self._asked[0].add(asked)
        self._counted = [level for level, steps in enumerate(self._asked) if any(map(counts, steps))]
        self._counts: Mapping[tuple[int, str], int] = {}
        self.part = cache(self._part)

    def matches(self, *, after: str | None = None) -> Iterator[PathMatch]:
        """Those that pass, by the folded ids on them; the first step behind the id ``after``."""
        members: list[PathMember] = []
        for hits in self._hits(after):
            same = 0
            # Steps that are those of the path before are the same objects: what was found out about them still holds.
            while same < len(members) and members[same].hit is hits[same]:
                same += 1
            del members[same:]
            for level in range(same, len(hits)):
                members.append(PathMember(self, level, hits[level], members[-1] if members else None))
            if members[-1].passed:
                yield PathMatch(
                    steps=tuple([member.step for member in members]), passed=members[-1].passed, first=members[0]
                )

    def passing(self, level: int, member: PathMember, among: frozenset[int]) -> frozenset[int]:
        """Those alternatives whose expressions about the entities at ``level`` this one passes."""
        tests = self._tests[level]
        # Where nothing is asked nothing is fetched: most levels of a deep filter are passed through.
        if not among or not self._asked[level]:
            return among
        passed = [
            number
            for number in among
            if all(each.accepts(member.values(each.steps, timestamp=each.timestamp)) for each in tests[number])
        ]
        return among if len(passed) == len(among) else frozenset(passed)

    def _part(self, level: int, steps: Steps) -> Part | None:
        """Which row stores the attribute that ``steps`` begin with; None if it has to be made."""
        types = self._types + self.path[: level + 1]
        if steps[0] == "meta" or not isinstance(steps[0], str) or is_made(self.lookup.model, types, steps):
            return None
        return "default" if len(types) == 2 else "own"

    def _hits(self, after: str | None) -> Iterator[tuple[Hit, ...]]:
        """The store's answer, with counts batch by batch where they are asked for."""
        found = self._reader.select(self._selection(after))
        if not self._counted:
            yield from found
            return
        # Counts are asked for batch by batch: one query for a thousand paths.
        while batch := list(islice(found, _BATCH)):
            self._counts = self._reader.counts({_owner(hits[level]) for hits in batch for level in self._counted})
            yield from batch

    def _selection(self, after: str | None) -> Selection:
        level = 1 - len(self._types)
        resource = level if 0 <= level < len(self.path) else None
        rows = {
            level for level, steps in enumerate(self._asked) if any(self.part(level, each) is None for each in steps)
        }
        if resource is not None and resource + 1 in rows:
            rows.add(resource)  # what is computed of a Version may depend on its Resource
        return Selection(
            parent=(self._base.shown or self._base.row).key,
            types=self.path,
            resource=resource,
            rows=frozenset(rows),
            attributes=frozenset(level for level, steps in enumerate(self._asked) if steps),
            alternatives=tuple(self._conditions(alternative) for alternative in self._alternatives.values()),
            after=None if after is None else after.lower(),
        )

    def _conditions(self, alternative: Alternative) -> tuple[Condition, ...]:
        below = [each for each in alternative if each.types]
        found = (test for each in below for test in store_conditions(each, self.lookup.model, self._types + each.types))
        return tuple(map(self._settled, found))

    def _settled(self, test: Condition) -> Condition:
        """Of Versions of a Resource that is not on the path, which one is the default is known."""
        if test.relation != "default" or len(self._types) != 2:
            return test
        known = (self._base.shown or self._base.row).defaultversionid or ""
        return replace(test, relation="=", values=(known.lower(),))

    def node(self, level: int, hit: Hit, above: PathMember | None) -> EntityNode:
        """The entity at ``level``."""
        row = hit.row
        assert row is not None, "its rows are among those selected"
        match len(self._types) + level:
            case 0:
                node = EntityNode(xid=row.xid, row=row)
            case 1:
                node = EntityNode(xid=row.xid, row=row, shown=_shown_row(row, hit.target), default=hit.default)
            case _:
                resource = self._base if above is None else above.node
                node = version_node(resource.row, resource.shown, row)
        if level in self._counted:
            plurals = collections_of(self.lookup.model, node.xid.parts[0::2])
            node.counts = {plural: self._counts.get((_owner(hit), plural), 0) for plural in plurals}
        return node


def counts(steps: Steps) -> bool:
    """Whether an attribute may be the count of a collection."""
    return steps[0] is Wild.KEY or (isinstance(steps[0], str) and steps[0].endswith("count"))


def _shown_row(row: Row, target: Row | None) -> Row | None:
    """What a Resource shows: references are followed once (R267, R268)."""
    if row.xref is None:
        return row
    return target if target is not None and target.xref is None else None


def _owner(hit: Hit) -> int:
    """The key that the members of an entity are beneath."""
    return (hit.target or hit).key


class FilterEvaluation:
    """A filter at work. A ``Remainder`` that it makes holds the members of collections named in ``inline``."""

    def __init__(self, reader: Reader, filter: Filter, lookup: AttributeLookup) -> None:
        self._reader = reader
        self._filter = filter
        self._lookup = lookup

    def beneath(self, base: EntityNode, inline: Inline) -> Remainder | None:
        """What is left of ``base``, an entity with its rows and counts, and beneath it; None if nothing is."""
        passing_base = self._passing_base(base)
        if any(not self._filter.paths[number] for number in passing_base):
            return WHOLE
        remainder = self._remainder(self._matches(base, passing_base), 0, inline)
        return remainder if remainder.passed else None

    def members(
        self, base: EntityNode, plural: str, inline: Inline, *, after: str | None = None, asked: Steps | None = None
    ) -> Iterator[PathMember]:
        """The members of a collection of ``base`` that are left, by id behind ``after``, each with what is beneath it.

        ``asked`` is an attribute of theirs that will be asked for; ``inline`` is that of the members.
        """
        passing_base = [number for number in self._passing_base(base) if self._filter.paths[number][:1] == (plural,)]
        matches = self._matches(base, passing_base, after=after, asked=asked)
        for _, group in groupby(matches, key=lambda found: found.steps[0]):
            rest = iter(group)
            found = next(rest)
            ends = len(found.steps) == 1  # the shorter paths come first
            found.first.remainder = WHOLE if ends else self._remainder(chain([found], rest), 1, inline)
            yield found.first

    def _passing_base(self, base: EntityNode) -> list[int]:
        """Numbers of the alternatives whose expressions about ``base`` itself it passes."""
        return [
            number
            for number, alternative in enumerate(self._filter.alternatives)
            if all(self._lookup.accepts(base, each) for each in alternative if not each.types)
        ]

    def _matches(
        self,
        base: EntityNode,
        passing_base: Iterable[int],
        *,
        after: str | None = None,
        asked: Steps | None = None,
    ) -> Iterator[PathMatch]:
        """The paths that pass, in the order of the response: by collection and id, an entity before what is beneath."""
        by_path: dict[tuple[str, ...], list[int]] = {}
        for number in passing_base:
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
        # Each walk is in order by itself: merged they are in the order of the response, without holding any of them.
        return merge(*(walk.matches(after=after) for walk in walks), key=lambda found: found.steps)

    def _remainder(self, matches: Iterable[PathMatch], depth: int, inline: Inline) -> Remainder:
        """The tree that ``matches`` make from their step ``depth`` on. One that ends there leaves everything."""
        remainder = Remainder()
        for step, group in groupby(matches, key=lambda found: found.steps[depth : depth + 1]):
            if not step:
                remainder.whole = True
            if not step or step[0][0] not in inline:
                remainder.passed.update(*(found.passed for found in group))
            else:
                ((plural, _, key),) = step
                below = self._remainder(group, depth + 1, inline.below(plural))
                remainder.members.setdefault(plural, {})[key] = below
                remainder.passed |= below.passed
            if step:
                remainder.counts[step[0][0]] = remainder.counts.get(step[0][0], 0) + 1
        if not remainder.whole:
            remainder.queries = {plural: self._query(remainder.passed, plural, depth) for plural in remainder.counts}
        return remainder

    def _query(self, passed: Iterable[int], plural: str, depth: int) -> str:
        """The filter that remains for the members of a collection at ``depth`` (R193)."""
        texts = []
        for number in sorted(passed):
            if self._filter.paths[number][depth : depth + 1] == (plural,):
                alternative = self._filter.alternatives[number]
                texts.append(",".join(each.below(depth + 1) for each in alternative if len(each.types) > depth))
        return "?" + "&".join(f"filter={quote(text, safe='=*!:@()~,')}" for text in dict.fromkeys(texts))

"""Filter evaluation: which entities pass, tested on what the store's prefilter lets through.

Paths of entities are read from the store, every expression is tested on them, and what passed becomes a tree of what is
left. Attributes are looked up as a client would see them in API view, without rendering whole entities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from heapq import merge
from itertools import chain, groupby
from operator import attrgetter
from typing import Final, TypeAlias
from urllib.parse import quote

from signalbook.batches import batched
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

    def values(self, node: EntityNode, steps: Steps, *, timestamp: bool) -> list[Value]:
        """Return all values at ``steps`` (R189), timestamps as instants if ``timestamp`` says so."""
        found = self._found(node, steps)
        return list(map(as_instant, found)) if timestamp else found

    def accepts(self, node: EntityNode, expression: FilterExpression) -> bool:
        """Return True if the entity that ``expression`` is about passes it."""
        return expression.accepts(self.values(node, expression.steps, timestamp=expression.timestamp))

    def _found(self, node: EntityNode, steps: Steps) -> list[Value]:
        first, *rest = steps
        if first is Wild.KEY:
            return find_values(self._whole(node), steps)
        if not isinstance(first, str):
            return []
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

    def values(self, steps: Steps, *, timestamp: bool) -> list[Value]:
        """Return the values of ``AttributeLookup.values``."""
        return self.lookup.values(self.node, steps, timestamp=timestamp)


_BATCH: Final = 1000
Step: TypeAlias = tuple[str, str]
"""Collection and folded id: its steps put a path in its place in the response."""


class PathMember:
    """An entity at the end of a path, ``above`` those on the way; ``remainder`` is what is left of it.

    What is asked of it decides what is fetched. ``passed`` are the alternatives it passed, by their numbers.
    """

    __slots__ = ("_node", "_walk", "above", "first_key", "hit", "level", "passed", "remainder")

    def __init__(self, walk: PathWalk, level: int, hit: Hit, above: PathMember | None) -> None:
        self._walk = walk
        self._node: EntityNode | None = None
        self.level = level
        self.above = above
        self.first_key: int = hit.key if above is None else above.first_key
        self.hit = hit
        self.remainder: Remainder | None = None
        self.passed: frozenset[int] = walk.passing(self, walk.numbers if above is None else above.passed)

    @property
    def folded(self) -> str:
        """The folded id."""
        return self.hit.folded

    @property
    def steps(self) -> tuple[Step, ...]:
        """The whole path."""
        step = (self._walk.path[self.level], self.hit.folded)
        return (step,) if self.above is None else (*self.above.steps, step)

    @property
    def node(self) -> EntityNode:
        """The entity, without what is beneath it; for those alone of whom a made attribute is asked."""
        if self._node is None:
            self._node = self._walk.node(self.level, self.hit, self.above)
        return self._node

    def collection(self, level: int) -> str | None:
        """The collection that the path goes on with from ``level``, None if it ends before."""
        return self._walk.path[level] if level <= self.level else None

    def at(self, level: int) -> PathMember:
        """The entity at ``level`` of the path."""
        found = self
        while found.level > level and found.above is not None:
            found = found.above
        return found

    def values(self, steps: Steps, *, timestamp: bool) -> list[Value]:
        """Return the values of ``AttributeLookup.values``; a stored attribute is read without the rest of its row."""
        return self._walk.question(self.level, steps, timestamp)(self)


_Question: TypeAlias = Callable[[PathMember], list[Value]]
_Test: TypeAlias = tuple[_Question, Callable[[Sequence[Value]], bool]]


class PathWalk:
    """The walk from ``base``, an entity with its rows, through the collections of ``path``.

    ``alternatives`` are the numbers of the filter's alternatives that lead down this path; ``asked`` is an attribute
    that the first entities will be asked for.
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
        expressions = [
            {n: [each for each in tests if len(each.types) == level + 1] for n, tests in alternatives.items()}
            for level in range(len(path))
        ]
        self._asked = [{each.steps for tests in level.values() for each in tests} for level in expressions]
        if asked is not None:
            self._asked[0].add(asked)
        self._counted = [level for level, steps in enumerate(self._asked) if any(map(counts, steps))]
        self._counts: Mapping[tuple[int, str], int] = {}
        # Levels of whose entities more is asked than attributes as they are stored.
        self._made = {
            level for level, steps in enumerate(self._asked) if any(self._part(level, each) is None for each in steps)
        }
        self.question = cache(self._question)
        self._tests: list[dict[int, list[_Test]]] = [
            {
                number: [(self.question(level, each.steps, each.timestamp), each.accepts) for each in tests]
                for number, tests in by_number.items()
            }
            for level, by_number in enumerate(expressions)
        ]

    def matches(self, *, after: str | None = None) -> Iterator[PathMember]:
        """The ends of paths that pass, by the folded ids on them; the first step behind the id ``after``."""
        last = len(self.path) - 1
        above: list[PathMember] = []
        for hits in self._hits(after):
            same = 0
            # Steps that are those of the path before are the same objects: what was found out about them still holds.
            while same < len(above) and above[same].hit is hits[same]:
                same += 1
            if same < last:
                del above[same:]
                for level in range(same, last):
                    above.append(PathMember(self, level, hits[level], above[-1] if above else None))
            member = PathMember(self, last, hits[last], above[-1] if above else None)
            if member.passed:
                yield member

    def passing(self, member: PathMember, among: frozenset[int]) -> frozenset[int]:
        """Return the alternatives whose expressions about entities at its level ``member`` passes."""
        # Where nothing is asked nothing is fetched: most levels of a deep filter are passed through.
        if not among or not self._asked[member.level]:
            return among
        passed = among
        for number, tests in self._tests[member.level].items():
            # Loops, and no generators: these take as long as the tests.
            for question, accepts in tests:
                if number in passed and not accepts(question(member)):
                    passed -= {number}
        return passed

    def _question(self, level: int, steps: Steps, timestamp: bool) -> _Question:
        """Return the question that finds the values at ``steps`` of the entities at ``level``."""
        part = self._part(level, steps)
        name, *rest = steps
        if part is None or not isinstance(name, str):
            return lambda member: self.lookup.values(member.node, steps, timestamp=timestamp)
        if timestamp:
            return lambda member: list(map(as_instant, find_values(member.hit.attribute(part, name), rest)))
        if rest:
            return lambda member: find_values(member.hit.attribute(part, name), rest)

        def question(member: PathMember) -> list[Value]:
            value = member.hit.attribute(part, name)
            return [] if value is None else [value]

        return question

    def _part(self, level: int, steps: Steps) -> Part | None:
        """Return the row that stores the attribute at the beginning of ``steps``; None if the attribute is computed."""
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
        for batch in batched(found, _BATCH):
            self._counts = self._reader.counts({_owner(hits[level]) for hits in batch for level in self._counted})
            yield from batch

    def _selection(self, after: str | None) -> Selection:
        level = 1 - len(self._types)
        resource = level if 0 <= level < len(self.path) else None
        rows = set(self._made)
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
        """Return the condition; the default Version is known for Resources outside the path."""
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
                # On the way to Versions nobody asks for the default one.
                default = hit.default if level in self._made else None
                node = EntityNode(xid=row.xid, row=row, shown=_shown_row(row, hit.target), default=default)
            case _:
                resource = self._base if above is None else above.node
                node = version_node(resource.row, resource.shown, row)
        if level in self._counted:
            plurals = collections_of(self.lookup.model, node.xid.parts[0::2])
            node.counts = {plural: self._counts.get((_owner(hit), plural), 0) for plural in plurals}
        return node


def counts(steps: Steps) -> bool:
    """Return True if an attribute may be the count of a collection."""
    return steps[0] is Wild.KEY or (isinstance(steps[0], str) and steps[0].endswith("count"))


def _shown_row(row: Row, target: Row | None) -> Row | None:
    """Return the row that a Resource shows: references are followed once (R267, R268)."""
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
        self._query = cache(self._query_of)

    def beneath(self, base: EntityNode, inline: Inline) -> Remainder | None:
        """Return what the filter leaves of ``base``, an entity with its rows and counts, and under it; or None."""
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
        for _, group in groupby(matches, key=attrgetter("first_key")):
            rest = iter(group)
            found = next(rest)
            first = found.at(0)
            # The shorter paths come first.
            first.remainder = WHOLE if found is first else self._remainder(chain([found], rest), 1, inline)
            yield first

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
    ) -> Iterator[PathMember]:
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

    def _remainder(self, matches: Iterable[PathMember], depth: int, inline: Inline) -> Remainder:
        """The tree that ``matches`` make from their step ``depth`` on. One that ends there leaves everything."""
        remainder = Remainder()
        for plural, group in groupby(matches, key=lambda found: found.collection(depth)):
            if plural is None:
                remainder.whole = True
                remainder.passed.update(*(found.passed for found in group))
            elif plural in inline:
                members = remainder.members[plural] = {}
                for key, beneath in groupby(group, key=lambda found: found.at(depth).hit.key):
                    members[key] = self._remainder(beneath, depth + 1, inline.below(plural))
                    remainder.passed |= members[key].passed
                remainder.counts[plural] = len(members)
            else:
                remainder.counts[plural] = _counted(group, depth, remainder.passed)
        if not remainder.whole:
            passed = frozenset(remainder.passed)
            remainder.queries = {plural: self._query(passed, plural, depth) for plural in remainder.counts}
        return remainder

    def _query_of(self, passed: frozenset[int], plural: str, depth: int) -> str:
        """The filter that remains for the members of a collection at ``depth`` (R193)."""
        texts = []
        for number in sorted(passed):
            if self._filter.paths[number][depth : depth + 1] == (plural,):
                alternative = self._filter.alternatives[number]
                texts.append(",".join(each.below(depth + 1) for each in alternative if len(each.types) > depth))
        return "?" + "&".join(f"filter={quote(text, safe='=*!:@()~,')}" for text in dict.fromkeys(texts))


def _counted(matches: Iterable[PathMember], depth: int, passed: set[int]) -> int:
    """Count the entities at step ``depth`` of ``matches``. Adds the alternatives that they passed to ``passed``."""
    count, last = 0, 0
    for found in matches:
        key = found.at(depth).hit.key
        if key != last:
            count, last = count + 1, key
        if not found.passed <= passed:
            passed |= found.passed
    return count

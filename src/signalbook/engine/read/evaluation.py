"""Filter evaluation: test which of the entities that the store's prefilter selects pass the filter.

Paths of entities are read from the store and every expression is tested on them. The passing paths become a tree of the
remaining entities. Attributes have the values that clients see in API view, but whole entities are not rendered.
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
from signalbook.engine.read.nodes import WHOLE, EntityNode, Inline, Remainder, make_version_node
from signalbook.engine.read.paths import Steps, Wild, find_values, is_computed, list_collections
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
"""The attributes whose values are the same in a stored row and in the rendered entity."""


class AttributeLookup:
    """A reader of attribute values. Nodes must have their rows, and their counts if a count is requested."""

    def __init__(self, model: Model, renderer: Renderer) -> None:
        self.model = model
        self._renderer = renderer
        self._is_computed = cache(partial(is_computed, model))

    def read_values(self, node: EntityNode, steps: Steps, *, timestamp: bool) -> list[Value]:
        """Return all values at ``steps`` (R189). With ``timestamp`` they are converted to instants."""
        values = self._find_values(node, steps)
        return list(map(as_instant, values)) if timestamp else values

    def accepts(self, node: EntityNode, expression: FilterExpression) -> bool:
        """Return True if the values of ``node`` satisfy ``expression``."""
        return expression.accepts(self.read_values(node, expression.steps, timestamp=expression.timestamp))

    def _find_values(self, node: EntityNode, steps: Steps) -> list[Value]:
        first, *inner_steps = steps
        if first is Wild.KEY:
            return find_values(self._render_whole(node), steps)
        if not isinstance(first, str):
            return []
        if first == "meta" and node.xid.kind is Kind.RESOURCE:
            return find_values(self._renderer.render_meta(node), inner_steps)
        return find_values(self._read_attribute(node, first), inner_steps)

    def _render_whole(self, node: EntityNode) -> JSONObject:
        attributes = self._renderer.render_entity(node)
        return (
            {**attributes, "meta": self._renderer.render_meta(node)} if node.xid.kind is Kind.RESOURCE else attributes
        )

    def _read_attribute(self, node: EntityNode, name: str) -> Value:
        row = node.default if node.xid.kind is Kind.RESOURCE else node.row
        if row is not None:
            if name in row.attributes:
                return row.attributes[name]
            if name in _COLUMNS:
                return _COLUMNS[name](row)
            if name == "isdefault" and node.xid.kind is Kind.VERSION:
                return node.shown is not None and node.shown.defaultversionid == row.xid.id
        return (
            self._renderer.render_entity(node).get(name) if self._is_computed(node.xid.parts[0::2], (name,)) else None
        )


@dataclass(frozen=True, slots=True)
class LoadedMember:
    """A member of a list to sort whose node is loaded already (compare ``PathMember``, which loads its
    node on demand).
    """

    node: EntityNode
    lookup: AttributeLookup

    @property
    def folded(self) -> str:
        """The id in the form used for sorting."""
        return self.node.folded

    def read_values(self, steps: Steps, *, timestamp: bool) -> list[Value]:
        """Return the values at ``steps``: see ``AttributeLookup.read_values``."""
        return self.lookup.read_values(self.node, steps, timestamp=timestamp)


_PATHS_PER_QUERY: Final = 1000
Step: TypeAlias = tuple[str, str]
"""A collection and a folded id. The steps of a path define its position in the response."""


class PathMember:
    """An entity at the end of a path. ``above`` is the entity before it on the path, None for the first.

    Data is fetched only when it is requested. ``passed`` are the numbers of the filter's alternatives that the path
    passes so far; ``remainder`` is the part of the entity that the filter leaves.
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
        self.passed: frozenset[int] = walk.filter_alternatives(self, walk.numbers if above is None else above.passed)

    @property
    def folded(self) -> str:
        """The id in the form used for sorting."""
        return self.hit.folded

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the whole path, from the first collection to this entity."""
        step = (self._walk.path[self.level], self.hit.folded)
        return (step,) if self.above is None else (*self.above.steps, step)

    @property
    def node(self) -> EntityNode:
        """The node of the entity, without its members. It is needed only for computed attributes."""
        if self._node is None:
            self._node = self._walk.make_node(self.level, self.hit, self.above)
        return self._node

    def next_collection(self, level: int) -> str | None:
        """Return the collection that follows on the path at ``level``, or None if the path ends before."""
        return self._walk.path[level] if level <= self.level else None

    def find_ancestor(self, level: int) -> PathMember:
        """Return the entity at ``level`` of the path."""
        member = self
        while member.level > level and member.above is not None:
            member = member.above
        return member

    def read_values(self, steps: Steps, *, timestamp: bool) -> list[Value]:
        """Return the values at ``steps``. A stored attribute is read without loading the rest of its row."""
        return self._walk.make_reader(self.level, steps, timestamp)(self)


_ValueReader: TypeAlias = Callable[[PathMember], list[Value]]
_Test: TypeAlias = tuple[_ValueReader, Callable[[Sequence[Value]], bool]]


class PathWalk:
    """A walk from ``base``, an entity with its rows, through the collections of ``path``.

    ``alternatives`` are the filter's alternatives that apply to this path, by number. ``sort_steps`` is an attribute of
    the first entities on the path that the caller will sort by.
    """

    def __init__(
        self,
        reader: Reader,
        lookup: AttributeLookup,
        base: EntityNode,
        path: tuple[str, ...],
        alternatives: Mapping[int, Alternative],
        *,
        sort_steps: Steps | None = None,
    ) -> None:
        self._reader = reader
        self.lookup = lookup
        self._base = base
        self.path = path
        self.numbers = frozenset(alternatives)
        self._alternatives = alternatives
        self._types = base.xid.parts[0::2]
        expressions = [
            {
                n: [expression for expression in tests if len(expression.types) == level + 1]
                for n, tests in alternatives.items()
            }
            for level in range(len(path))
        ]
        self._needed_steps = [
            {expression.steps for tests in level.values() for expression in tests} for level in expressions
        ]
        if sort_steps is not None:
            self._needed_steps[0].add(sort_steps)
        self._counted_levels = [level for level, steps in enumerate(self._needed_steps) if any(map(is_count, steps))]
        self._counts: Mapping[tuple[int, str], int] = {}
        # Levels at which computed attributes are needed, not only stored ones.
        self._computed_levels = {
            level
            for level, steps in enumerate(self._needed_steps)
            if any(self._find_part(level, expression) is None for expression in steps)
        }
        self.make_reader = cache(self._make_reader)
        self._tests: list[dict[int, list[_Test]]] = [
            {
                number: [
                    (self.make_reader(level, expression.steps, expression.timestamp), expression.accepts)
                    for expression in tests
                ]
                for number, tests in by_number.items()
            }
            for level, by_number in enumerate(expressions)
        ]

    def find_matches(self, *, after: str | None = None) -> Iterator[PathMember]:
        """Yield the last entities of the paths that pass, ordered by the folded ids on the path.

        Only paths whose first id is greater than ``after`` are read.
        """
        last = len(self.path) - 1
        above: list[PathMember] = []
        for hits in self._select_hits(after):
            shared = 0
            # Steps shared with the previous path are the same objects, so their test results can be reused.
            while shared < len(above) and above[shared].hit is hits[shared]:
                shared += 1
            if shared < last:
                del above[shared:]
                for level in range(shared, last):
                    above.append(PathMember(self, level, hits[level], above[-1] if above else None))
            member = PathMember(self, last, hits[last], above[-1] if above else None)
            if member.passed:
                yield member

    def filter_alternatives(self, member: PathMember, alternatives: frozenset[int]) -> frozenset[int]:
        """Return those of ``alternatives`` whose expressions about the level of ``member`` are satisfied
        by ``member``.
        """
        # If no expression is about this level, nothing is fetched. That is true of most levels of a deep filter.
        if not alternatives or not self._needed_steps[member.level]:
            return alternatives
        passed = alternatives
        for number, tests in self._tests[member.level].items():
            # Loops instead of generators, because a generator here costs as much as the tests.
            for read_value, accepts in tests:
                if number in passed and not accepts(read_value(member)):
                    passed -= {number}
        return passed

    def _make_reader(self, level: int, steps: Steps, timestamp: bool) -> _ValueReader:
        """Return a function that reads the values at ``steps`` of an entity at ``level``."""
        part = self._find_part(level, steps)
        name, *inner_steps = steps
        if part is None or not isinstance(name, str):
            return lambda member: self.lookup.read_values(member.node, steps, timestamp=timestamp)
        if timestamp:
            return lambda member: list(map(as_instant, find_values(member.hit.attribute(part, name), inner_steps)))
        if inner_steps:
            return lambda member: find_values(member.hit.attribute(part, name), inner_steps)

        def read_value(member: PathMember) -> list[Value]:
            value = member.hit.attribute(part, name)
            return [] if value is None else [value]

        return read_value

    def _find_part(self, level: int, steps: Steps) -> Part | None:
        """Return the row that stores the attribute at the beginning of ``steps``, or None if the
        attribute is computed.
        """
        types = self._types + self.path[: level + 1]
        if steps[0] == "meta" or not isinstance(steps[0], str) or is_computed(self.lookup.model, types, steps):
            return None
        return "default" if len(types) == 2 else "own"

    def _select_hits(self, after: str | None) -> Iterator[tuple[Hit, ...]]:
        """Yield the paths that the store selects. Counts are loaded for batches of paths if they are needed."""
        hits_by_path = self._reader.select(self._build_selection(after))
        if not self._counted_levels:
            yield from hits_by_path
            return
        # Counts are loaded in batches: one query for a thousand paths.
        for batch in batched(hits_by_path, _PATHS_PER_QUERY):
            self._counts = self._reader.counts(
                {_find_members_key(hits[level]) for hits in batch for level in self._counted_levels}
            )
            yield from batch

    def _build_selection(self, after: str | None) -> Selection:
        level = 1 - len(self._types)
        resource = level if 0 <= level < len(self.path) else None
        rows = set(self._computed_levels)
        if resource is not None and resource + 1 in rows:
            rows.add(resource)  # computed attributes of a Version may depend on its Resource
        return Selection(
            parent=(self._base.shown or self._base.row).key,
            types=self.path,
            resource=resource,
            rows=frozenset(rows),
            attributes=frozenset(level for level, steps in enumerate(self._needed_steps) if steps),
            alternatives=tuple(self._build_conditions(alternative) for alternative in self._alternatives.values()),
            after=None if after is None else after.lower(),
        )

    def _build_conditions(self, alternative: Alternative) -> tuple[Condition, ...]:
        return tuple(
            self._resolve_default(test)
            for expression in alternative
            if expression.types
            for test in store_conditions(expression, self.lookup.model, self._types + expression.types)
        )

    def _resolve_default(self, test: Condition) -> Condition:
        """Return ``test``, with the condition "is the default Version" replaced by the id if ``base`` is a Resource."""
        if test.relation != "default" or len(self._types) != 2:
            return test
        default_id = (self._base.shown or self._base.row).defaultversionid or ""
        return replace(test, relation="=", values=(default_id.lower(),))

    def make_node(self, level: int, hit: Hit, above: PathMember | None) -> EntityNode:
        row = hit.row
        assert row is not None, "its rows are among those selected"
        match len(self._types) + level:
            case 0:
                node = EntityNode(xid=row.xid, row=row)
            case 1:
                # The default Version is not needed for Resources on the way to their Versions.
                default = hit.default if level in self._computed_levels else None
                node = EntityNode(xid=row.xid, row=row, shown=_find_shown_row(row, hit.target), default=default)
            case _:
                resource = self._base if above is None else above.node
                node = make_version_node(resource.row, resource.shown, row)
        if level in self._counted_levels:
            plurals = list_collections(self.lookup.model, node.xid.parts[0::2])
            node.counts = {plural: self._counts.get((_find_members_key(hit), plural), 0) for plural in plurals}
        return node


def is_count(steps: Steps) -> bool:
    """Return True if ``steps`` may select the count of a collection."""
    return steps[0] is Wild.KEY or (isinstance(steps[0], str) and steps[0].endswith("count"))


def _find_shown_row(row: Row, target: Row | None) -> Row | None:
    """Return the row whose meta and Versions a Resource shows. Only one cross reference is followed (R267, R268).

    None if the target is missing or is itself a cross reference.
    """
    if row.xref is None:
        return row
    return target if target is not None and target.xref is None else None


def _find_members_key(hit: Hit) -> int:
    """Return the storage key under which the members of an entity are stored."""
    return (hit.target or hit).key


class FilterEvaluation:
    """An evaluation of a filter. The remainders that it builds hold members only for the collections in ``inline``."""

    def __init__(self, reader: Reader, filter: Filter, lookup: AttributeLookup) -> None:
        self._reader = reader
        self._filter = filter
        self._lookup = lookup
        self._query = cache(self._write_query)

    def find_remainder(self, base: EntityNode, inline: Inline) -> Remainder | None:
        """Return the part of ``base`` and of everything under it that passes the filter, or None if nothing passes.

        ``base`` must have its rows and counts.
        """
        passing_base = self._find_passing(base)
        if any(not self._filter.paths[number] for number in passing_base):
            return WHOLE
        remainder = self._build_remainder(self._find_matches(base, passing_base), 0, inline)
        return remainder if remainder.passed else None

    def list_members(
        self,
        base: EntityNode,
        plural: str,
        inline: Inline,
        *,
        after: str | None = None,
        sort_steps: Steps | None = None,
    ) -> Iterator[PathMember]:
        """Yield the members of a collection of ``base`` that pass, by id from after ``after``.

        Each gets its ``remainder``. ``sort_steps`` is an attribute of the members that the caller will sort by.
        ``inline`` applies to the members.
        """
        passing_base = [number for number in self._find_passing(base) if self._filter.paths[number][:1] == (plural,)]
        matches = self._find_matches(base, passing_base, after=after, sort_steps=sort_steps)
        for _, group in groupby(matches, key=attrgetter("first_key")):
            remaining = iter(group)
            member = next(remaining)
            first = member.find_ancestor(0)
            # Shorter paths come first, so ``member`` is the first entity itself if that passes as a whole.
            first.remainder = WHOLE if member is first else self._build_remainder(chain([member], remaining), 1, inline)
            yield first

    def _find_passing(self, base: EntityNode) -> list[int]:
        """Return the numbers of the alternatives whose expressions about ``base`` itself are satisfied."""
        return [
            number
            for number, alternative in enumerate(self._filter.alternatives)
            if all(self._lookup.accepts(base, expression) for expression in alternative if not expression.types)
        ]

    def _find_matches(
        self,
        base: EntityNode,
        passing_base: Iterable[int],
        *,
        after: str | None = None,
        sort_steps: Steps | None = None,
    ) -> Iterator[PathMember]:
        """Yield the last entities of the passing paths in the order of the response: by collection and id, owners
        first.
        """
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
                sort_steps=sort_steps,
            )
            for path, numbers in by_path.items()
        ]
        # Each walk is ordered. Merging them gives the order of the response without keeping a walk in memory.
        return merge(*(walk.find_matches(after=after) for walk in walks), key=lambda member: member.steps)

    def _build_remainder(self, matches: Iterable[PathMember], depth: int, inline: Inline) -> Remainder:
        """Return the tree of the entities on ``matches`` from their step ``depth`` on.

        If a match ends at this step, the whole entity remains.
        """
        remainder = Remainder()
        for plural, group in groupby(matches, key=lambda member: member.next_collection(depth)):
            if plural is None:
                remainder.whole = True
                remainder.passed.update(*(member.passed for member in group))
            elif plural in inline:
                members = remainder.members[plural] = {}
                for key, beneath in groupby(group, key=lambda member: member.find_ancestor(depth).hit.key):
                    members[key] = self._build_remainder(beneath, depth + 1, inline.select(plural))
                    remainder.passed |= members[key].passed
                remainder.counts[plural] = len(members)
            else:
                remainder.counts[plural] = _count_entities(group, depth, remainder.passed)
        if not remainder.whole:
            passed = frozenset(remainder.passed)
            remainder.queries = {plural: self._query(passed, plural, depth) for plural in remainder.counts}
        return remainder

    def _write_query(self, passed: frozenset[int], plural: str, depth: int) -> str:
        """Return the query with the filter for the members of the collection ``plural`` at ``depth`` (R193)."""
        texts = []
        for number in sorted(passed):
            if self._filter.paths[number][depth : depth + 1] == (plural,):
                alternative = self._filter.alternatives[number]
                below = (expression for expression in alternative if len(expression.types) > depth)
                texts.append(",".join(expression.write_below(depth + 1) for expression in below))
        return "?" + "&".join(f"filter={quote(text, safe='=*!:@()~,')}" for text in dict.fromkeys(texts))


def _count_entities(matches: Iterable[PathMember], depth: int, passed: set[int]) -> int:
    """Return the number of entities at step ``depth`` of ``matches``.

    Adds the alternatives that they passed to ``passed``.
    """
    count, last = 0, 0
    for member in matches:
        key = member.find_ancestor(depth).hit.key
        if key != last:
            count, last = count + 1, key
        if not member.passed <= passed:
            passed |= member.passed
    return count

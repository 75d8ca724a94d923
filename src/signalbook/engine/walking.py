"""The ways down one path of collections that pass some of a filter's alternatives: sieved by the store, tested here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import Final, TypeAlias

from signalbook.engine import sieve
from signalbook.engine.comparing import Value, as_instant
from signalbook.engine.definitions import collections_of, is_made
from signalbook.engine.dotpath import Steps, Wild, find
from signalbook.engine.filters import Alternative
from signalbook.engine.lookup import Lookup
from signalbook.engine.view_tree import Kept, Node, version_node
from signalbook.storage.base import Condition, Hit, Part, Reader, Row, Selection

_BATCH: Final = 1000
Step: TypeAlias = tuple[str, str, int]
"""Collection, folded id and storage key: its steps put a way in its place in the response."""


@dataclass(slots=True, kw_only=True)
class Way:
    """A way down to an entity that passed some alternatives, by their numbers; ``first`` is the first place on it."""

    steps: tuple[Step, ...]
    passed: frozenset[int]
    first: Place


class Place:
    """An entity on a way; what is asked of it decides what is fetched and decoded. ``kept`` is what is left of it."""

    __slots__ = ("_above", "_level", "_node", "_walk", "hit", "kept", "passed", "step")

    def __init__(self, walk: Walk, level: int, hit: Hit, above: Place | None) -> None:
        self._walk = walk
        self._level = level
        self._above = above
        self._node: Node | None = None
        self.hit = hit
        self.kept: Kept | None = None
        self.step: Step = (walk.path[level], hit.folded, hit.key)
        self.passed: frozenset[int] = walk.passing(level, self, walk.numbers if above is None else above.passed)

    @property
    def folded(self) -> str:
        """The folded id."""
        return self.hit.folded

    @property
    def node(self) -> Node:
        """The entity, without what is beneath it; for those alone of whom a made attribute is asked."""
        if self._node is None:
            self._node = self._walk.node(self._level, self.hit, self._above)
        return self._node

    def values(self, steps: Steps, *, timestamp: bool) -> Iterator[Value]:
        """As ``Lookup.values``; of a stored attribute without the rest of the row."""
        lookup, part = self._walk.lookup, self._walk.part(self._level, steps)
        if part is None:
            return lookup.values(self.node, steps, timestamp=timestamp)
        found = find(self.hit.attributes(part), steps)
        return map(as_instant, found) if timestamp else found


class Walk:
    """From ``base``, an entity with its rows, through the collections of ``path``.

    ``alternatives`` are those of a filter that lead down this path, by their numbers; ``asked`` is an attribute that
    will be asked of the first entities.
    """

    def __init__(
        self,
        reader: Reader,
        lookup: Lookup,
        base: Node,
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

    def ways(self, *, after: str | None = None) -> Iterator[Way]:
        """Those that pass, by the folded ids on them; the first step behind the id ``after``."""
        places: list[Place] = []
        for hits in self._hits(after):
            same = 0
            while same < len(places) and places[same].hit is hits[same]:
                same += 1
            del places[same:]
            for level in range(same, len(hits)):
                places.append(Place(self, level, hits[level], places[-1] if places else None))
            if places[-1].passed:
                yield Way(steps=tuple([place.step for place in places]), passed=places[-1].passed, first=places[0])

    def passing(self, level: int, place: Place, among: frozenset[int]) -> frozenset[int]:
        """Those alternatives whose expressions about the entities at ``level`` this one passes."""
        tests = self._tests[level]
        if not among or not self._asked[level]:
            return among
        passed = [
            number
            for number in among
            if all(each.accepts(place.values(each.steps, timestamp=each.timestamp)) for each in tests[number])
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
        while batch := list(islice(found, _BATCH)):
            self._counts = self._reader.counts({_owner(hits[level]) for hits in batch for level in self._counted})
            yield from batch

    def _selection(self, after: str | None) -> Selection:
        place = 1 - len(self._types)
        resource = place if 0 <= place < len(self.path) else None
        rows = {
            level for level, steps in enumerate(self._asked) if any(self.part(level, each) is None for each in steps)
        }
        if resource is not None and resource + 1 in rows:
            rows.add(resource)  # what is made of a Version may be its Resource's to tell
        return Selection(
            parent=(self._base.shown or self._base.row).key,
            types=self.path,
            resource=resource,
            rows=frozenset(rows),
            attributes=frozenset(level for level, steps in enumerate(self._asked) if steps),
            alternatives=tuple(self._sieve(alternative) for alternative in self._alternatives.values()),
            after=None if after is None else after.lower(),
        )

    def _sieve(self, alternative: Alternative) -> tuple[Condition, ...]:
        below = [each for each in alternative if each.types]
        found = (test for each in below for test in sieve.tests(each, self.lookup.model, self._types + each.types))
        return tuple(map(self._settled, found))

    def _settled(self, test: Condition) -> Condition:
        """Of Versions of a Resource that is not on the way, which one is the default is known."""
        if test.relation != "default" or len(self._types) != 2:
            return test
        known = (self._base.shown or self._base.row).defaultversionid or ""
        return replace(test, relation="=", values=(known.lower(),))

    def node(self, level: int, hit: Hit, above: Place | None) -> Node:
        """The entity at ``level``."""
        row = hit.row
        assert row is not None, "its rows are among those selected"
        match len(self._types) + level:
            case 0:
                node = Node(xid=row.xid, row=row)
            case 1:
                node = Node(xid=row.xid, row=row, shown=_shown(row, hit.target), default=hit.default)
            case _:
                resource = self._base if above is None else above.node
                node = version_node(resource.xid, resource.shown, row)
        if level in self._counted:
            plurals = collections_of(self.lookup.model, node.xid.parts[0::2])
            node.counts = {plural: self._counts.get((_owner(hit), plural), 0) for plural in plurals}
        return node


def counts(steps: Steps) -> bool:
    """Whether an attribute may be the count of a collection."""
    return steps[0] is Wild.KEY or (isinstance(steps[0], str) and steps[0].endswith("count"))


def _shown(row: Row, target: Row | None) -> Row | None:
    """What a Resource shows: references are followed once (R267, R268)."""
    if row.xref is None:
        return row
    return target if target is not None and target.xref is None else None


def _owner(hit: Hit) -> int:
    """The key that the members of an entity are beneath."""
    return (hit.target or hit).key

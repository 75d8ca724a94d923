"""The ways down one path of collections that pass some of a filter's alternatives: sieved by the store, tested here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

from signalbook.engine import sieve
from signalbook.engine.definitions import collections_of
from signalbook.engine.dotpath import Steps, Wild
from signalbook.engine.filters import Alternative
from signalbook.engine.lookup import Lookup
from signalbook.engine.view_tree import Node, version_node
from signalbook.storage.base import Hit, Reader, Row
from signalbook.storage.selection import Selection, Test

_BATCH: Final = 1000
Step: TypeAlias = tuple[str, str, int]
"""Collection, folded id and storage key: its steps put a way in its place in the response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way down to an entity that passed some alternatives, by their numbers; ``first`` is the first entity on it."""

    steps: tuple[Step, ...]
    passed: frozenset[int]
    first: Node | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """One step of the present way: its entity if anything is asked of it, and the alternatives passed so far."""

    hit: Hit
    step: Step
    node: Node | None
    passed: frozenset[int]


class Walk:
    """From ``base``, an entity with its rows, through the collections of ``path``.

    ``alternatives`` are those of a filter that lead down this path, by their numbers. ``first`` wants the first entity
    of each way, ``counted`` wants it with the counts of its collections.
    """

    def __init__(
        self,
        reader: Reader,
        lookup: Lookup,
        base: Node,
        path: tuple[str, ...],
        alternatives: Mapping[int, Alternative],
        *,
        first: bool = False,
        counted: bool = False,
    ) -> None:
        self._reader = reader
        self._lookup = lookup
        self._base = base
        self._path = path
        self._alternatives = alternatives
        self._types = base.xid.parts[0::2]
        self._tested = {len(each.types) - 1 for tests in alternatives.values() for each in tests if each.types}
        self._wanted = self._tested | ({0} if first else set())
        self._counted = {0} if counted else set()
        self._counted |= {
            len(each.types) - 1
            for tests in alternatives.values()
            for each in tests
            if each.types and counts(each.steps)
        }
        self._counts: Mapping[tuple[int, str], int] = {}

    def ways(self, *, after: str | None = None) -> Iterator[Way]:
        """Those that pass, by the folded ids on them; the first step behind the id ``after``."""
        places: list[_Place | None] = [None] * len(self._path)
        for hits in self._hits(after):
            above: _Place | None = None
            fresh = False
            for level, hit in enumerate(hits):
                known = places[level]
                fresh = fresh or known is None or known.hit is not hit
                if fresh or known is None:
                    known = places[level] = self._place(level, hit, above)
                above = known
            if above is not None and above.passed:
                here = [place for place in places if place is not None]
                yield Way(steps=tuple(place.step for place in here), passed=above.passed, first=here[0].node)

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
        resource = place if 0 <= place < len(self._path) else None
        rows = set(self._wanted)
        if resource is not None and resource + 1 in rows:
            rows.add(resource)
        return Selection(
            parent=(self._base.shown or self._base.row).key,
            types=self._path,
            resource=resource,
            rows=frozenset(rows),
            alternatives=tuple(self._sieve(alternative) for alternative in self._alternatives.values()),
            after=None if after is None else after.lower(),
        )

    def _sieve(self, alternative: Alternative) -> tuple[Test, ...]:
        below = [each for each in alternative if each.types]
        return tuple(test for each in below for test in sieve.tests(each, self._lookup.model, self._types + each.types))

    def _place(self, level: int, hit: Hit, above: _Place | None) -> _Place:
        node = None if hit.row is None else self._node(level, hit, hit.row, above)
        passed = frozenset(self._alternatives) if above is None else above.passed
        if level in self._tested and node is not None:
            passed = frozenset(number for number in passed if self._passes(number, level, node))
        return _Place(hit=hit, step=(self._path[level], hit.folded, hit.key), node=node, passed=passed)

    def _passes(self, number: int, level: int, node: Node) -> bool:
        return all(
            self._lookup.accepts(node, each) for each in self._alternatives[number] if len(each.types) == level + 1
        )

    def _node(self, level: int, hit: Hit, row: Row, above: _Place | None) -> Node:
        match len(self._types) + level:
            case 0:
                node = Node(xid=row.xid, row=row)
            case 1:
                node = Node(xid=row.xid, row=row, shown=_shown(row, hit.target), default=hit.default)
            case _:
                resource = self._base if above is None or above.node is None else above.node
                node = version_node(resource.xid, resource.shown, row)
        if level in self._counted:
            plurals = collections_of(self._lookup.model, node.xid.parts[0::2])
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

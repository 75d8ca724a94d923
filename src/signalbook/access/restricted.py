"""Readers of the store that leave out everything an identity cannot read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from signalbook.access.base import Action
from signalbook.access.decisions import Access
from signalbook.storage.base import BEHIND, LAST, Hit, Part, Reader, Row, Selection
from signalbook.storage.outbox import Record
from signalbook.values import JSON
from signalbook.xid import ROOT, Kind, Xid

_BATCH_ROWS = 1000
_MIN_BATCH_ROWS = 100
"""The minimum number of rows to load at once if some of them may be hidden."""


def restrict_reader(reader: Reader, access: Access) -> Reader:
    """Return ``reader`` without what ``access`` hides."""
    return reader if access.reads_everything else RestrictedReader(reader, access)


class RestrictedReader:
    """A ``storage.base.Reader`` that leaves out entities hidden by ``access``: from results, counts and references.

    Versions have the rights of their Resource, so queries about the Versions of one Resource are passed on unchecked.
    """

    def __init__(self, reader: Reader, access: Access) -> None:
        self._reader = reader
        self._access = access
        # Most queries name their parent by key only, and nearly always the parent's row was read before.
        self._xids: dict[int, Xid] = {}

    def get(self, xid: Xid) -> Row | None:
        """Return the entity, or None if it does not exist or is hidden."""
        return self.get_many((xid,)).get(xid)

    def get_many(self, xids: Collection[Xid]) -> dict[Xid, Row]:
        """Return the rows that exist and are readable."""
        readable_xids = [xid for xid in xids if self._access.is_readable(xid)]
        rows = self._reader.get_many(readable_xids) if readable_xids else {}
        self._xids.update((row.key, xid) for xid, row in rows.items())
        return rows

    def children(
        self,
        parents: Collection[int],
        type: str | None = None,
        *,
        ids: Collection[str] | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Row]:
        """Return the readable rows below ``parents``."""
        if all(self._is_open(xid) for xid in self._find_xids(parents).values()):
            return self._remember_xids(self._reader.children(parents, type, ids=ids, after=after, limit=limit))
        if len(parents) == 1 and type is not None:
            ids = self._narrow_ids(next(iter(parents)), type, ids)
            if limit is not None:
                return islice(
                    self._iterate_children(next(iter(parents)), type, ids, after, max(limit, _MIN_BATCH_ROWS)), limit
                )
        # No limit is passed to the store, because the number of hidden rows is unknown.
        rows = self._filter_readable(self._reader.children(parents, type, ids=ids, after=after))
        return rows if limit is None else islice(rows, limit)

    def _iterate_children(
        self, parent: int, type: str, ids: Collection[str] | None, after: str | None, size: int
    ) -> Iterator[Row]:
        """Yield the readable rows of one type below ``parent``, read in batches of ``size``."""
        while True:
            rows = list(self._reader.children((parent,), type, ids=ids, after=after, limit=size))
            yield from self._filter_readable(rows)
            if len(rows) < size:
                return
            after = rows[-1].xid.id

    def is_vacant(self, parent: int, type: str, id: str) -> bool:
        """Return True if no entity has this id. Hidden entities count, too: a failing write would reveal
        them anyway."""
        return self._reader.is_vacant(parent, type, id)

    def preceding(self, parent: int, type: str, limit: int, *, upto: str | None = None) -> list[Row]:
        """Return up to ``limit`` readable rows of one type below ``parent``, by descending ids."""
        readable_rows: list[Row] = []
        size = limit if self._is_open(self._find_xids((parent,)).get(parent)) else max(limit, _MIN_BATCH_ROWS)
        # Each batch after the first begins with the last row of the batch before, which is skipped.
        seen: set[int] = set()
        while len(readable_rows) < limit:
            rows = self._reader.preceding(parent, type, size + len(seen), upto=upto)
            new = [row for row in rows if row.key not in seen]
            readable_rows += self._filter_readable(new)
            if not new or len(rows) < size:
                break
            upto, seen = rows[-1].xid.id, {rows[-1].key}
        return readable_rows[:limit]

    def by_key(self, keys: Collection[int]) -> Iterator[Row]:
        """Yield the rows that exist and are readable."""
        return self._filter_readable(self._reader.by_key(keys))

    def select(self, selection: Selection) -> Iterator[tuple[Hit, ...]]:
        """Yield the paths of ``selection`` on which all entities are readable."""
        parent = self._find_xids((selection.parent,)).get(selection.parent)
        if parent is None:
            return
        if selection.resource is None and self._is_open(parent):
            yield from self._reader.select(selection)
            return
        # The number of steps that may be hidden. Versions have the rights of their Resource.
        checked = len(selection.types) if selection.resource is None else selection.resource + 1
        # The steps of the previous path. A step that is unchanged is the same object.
        steps: list[_Step] = []
        visible: tuple[Hit, ...] = ()
        for way in self._reader.select(selection):
            same = 0
            while same < len(steps) and steps[same].hit is way[same]:
                same += 1
            if same < checked:
                del steps[same:]
                for hit in way[same:checked]:
                    if not steps or steps[-1].shown is not None:
                        steps.append(self._step(steps[-1].xid if steps else parent, hit, len(steps), selection))
                visible = tuple(step.shown for step in steps if step.shown is not None)
            if len(visible) == checked:
                yield visible + way[checked:]

    def counts(self, parents: Collection[int]) -> dict[tuple[int, str], int]:
        """Return the numbers of readable children: the stored numbers if all are readable, otherwise they
        are counted."""
        counts = self._reader.counts(parents)
        xids = self._find_xids({parent for parent, _ in counts})
        readable_counts: dict[tuple[int, str], int] = {}
        for (parent, plural), count in counts.items():
            xid = xids.get(parent)
            if xid is not None:
                number = count if self._is_open(xid) else self._count(parent, xid / plural)
                readable_counts |= {(parent, plural): number} if number else {}
        return readable_counts

    def referrers(self, targets: Collection[Xid]) -> list[Row]:
        """Return the readable Resources that refer to ``targets``."""
        return list(self._filter_readable(self._reader.referrers(targets)))

    def newest(self, parent: int, limit: int) -> list[Row]:
        """Return Versions of one Resource, without a check of their own."""
        return self._reader.newest(parent, limit)

    def leaves(self, parent: int, limit: int, *, above: tuple[str, str] = ("", "")) -> list[Row]:
        """Return Versions of one Resource, without a check of their own."""
        return self._reader.leaves(parent, limit, above=above)

    def neighbours(self, parent: int, rank: str, id: str, limit: int) -> tuple[list[Row], list[Row]]:
        """Return Versions of one Resource, without a check of their own."""
        return self._reader.neighbours(parent, rank, id, limit)

    def derived(self, parent: int, ancestors: Collection[str]) -> list[Row]:
        """Return Versions of one Resource, without a check of their own."""
        return self._reader.derived(parent, ancestors)

    def ancestors(self, keys: Collection[int]) -> set[int]:
        """Return Versions of one Resource, without a check of their own."""
        return self._reader.ancestors(keys)

    def named(self, uris: Collection[str], limit: int) -> list[Row]:
        """Return up to ``limit`` readable Versions with one of these ``uris``."""
        store_limit = limit
        while True:
            rows = self._reader.named(uris, store_limit)
            readable_rows = list(self._filter_readable(rows))
            if len(readable_rows) >= limit or len(rows) < store_limit:
                return readable_rows[:limit]
            store_limit *= 2

    def schemas(
        self, group: int, *, first: str = "", last: str = LAST, offset: int = 0, limit: int
    ) -> list[tuple[str, str]]:
        """Return the readable schemas."""
        xid = self._find_xids((group,)).get(group)
        if xid is None:
            return []
        if self._is_open(xid):
            return self._reader.schemas(group, first=first, last=last, offset=offset, limit=limit)
        return list(islice(self._iterate_readable_schemas(group, xid, first, last), offset, offset + limit))

    def count_schemas(self, group: int) -> int:
        """Return the number of readable schemas."""
        xid = self._find_xids((group,)).get(group)
        if xid is None or self._is_open(xid):
            return 0 if xid is None else self._reader.count_schemas(group)
        return sum(1 for _ in self._iterate_readable_schemas(group, xid, "", LAST))

    def _iterate_readable_schemas(self, group: int, xid: Xid, first: str, last: str) -> Iterator[tuple[str, str]]:
        while rows := self._reader.schemas(group, first=first, last=last, limit=_BATCH_ROWS):
            yield from (row for row in rows if self._access.is_readable(xid / "schemas" / row[0]))
            first = rows[-1][0] + BEHIND

    def numbered(self, group: Xid, schemaid: int, limit: int, after: str = "") -> list[Row]:
        """Return up to ``limit`` readable Versions below a Group that have the number ``schemaid``."""
        readable_rows: list[Row] = []
        while rows := self._reader.numbered(group, schemaid, limit, after):
            readable_rows += self._filter_readable(rows)
            if len(readable_rows) >= limit or len(rows) < limit:
                break
            after = str(rows[-1].xid)
        return readable_rows[:limit]

    def holders(self, parent: int, document: str, limit: int) -> list[Row]:
        """Return Versions of one Resource, without a check of their own."""
        return self._reader.holders(parent, document, limit)

    def documents(self, digests: Collection[str]) -> dict[str, bytes]:
        """Return documents by digest. No check is needed, because callers get digests only from readable Versions."""
        return self._reader.documents(digests)

    def last_numbers(self, xids: Collection[Xid]) -> dict[Xid, int]:
        """Return the last Version numbers of deleted Resources."""
        return self._reader.last_numbers([xid for xid in xids if self._access.is_readable(xid)])

    def _find_xids(self, keys: Collection[int]) -> dict[int, Xid]:
        """Return the xids of these entities, as far as they exist."""
        missing = [key for key in keys if key not in self._xids]
        if missing:
            self._xids.update((row.key, row.xid) for row in self._reader.by_key(missing))
        return {key: self._xids[key] for key in keys if key in self._xids}

    def _is_open(self, xid: Xid | None) -> bool:
        """Return True if nothing under the xid is hidden."""
        if xid is None:
            return False
        if xid.kind in (Kind.RESOURCE, Kind.META, Kind.VERSION):
            return self._access.is_readable(xid)
        return self._access.allows_everything_below(Action.READ, xid)

    def _remember_xids(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            self._xids[row.key] = row.xid
            yield row

    def _filter_readable(self, rows: Iterable[Row]) -> Iterator[Row]:
        return self._remember_xids(row for row in rows if self._access.is_readable(row.xid))

    def _narrow_ids(self, parent: int, type: str, ids: Collection[str] | None) -> Collection[str] | None:
        """Return ``ids`` reduced to those that may be readable; None means any id."""
        xid = self._find_xids((parent,)).get(parent)
        readable_ids = None if xid is None else self._access.find_readable_ids(xid / type)
        if readable_ids is None or ids is None:
            return readable_ids if ids is None else ids
        return [name for name in ids if name.casefold() in readable_ids]

    def _count(self, parent: int, xid: Xid) -> int:
        """Count the readable members of the collection ``xid`` below ``parent``."""
        if self._access.find_readable_ids(xid) is not None:
            return sum(1 for _ in self.children((parent,), xid.parts[-1]))
        # Read only the ids of the members, because nothing else is needed.
        ways = self._reader.select(Selection(parent=parent, types=xid.parts[-1:]))
        return sum(self._access.is_readable(xid / way[0].folded) for way in ways)

    def _step(self, above: Xid, hit: Hit, number: int, selection: Selection) -> _Step:
        """Return step ``number`` of a path; its ``shown`` is None if the entity is hidden."""
        if above.kind is Kind.RESOURCE:
            return _Step(above, hit, hit)
        xid = above / selection.types[number] / hit.folded
        if not self._access.is_readable(xid):
            return _Step(xid, hit, None)
        if number == selection.resource and hit.xref is not None and not self._access.is_readable(hit.xref):
            return _Step(xid, hit, _Dangling(hit) if number == len(selection.types) - 1 else None)
        return _Step(xid, hit, hit)


class _Step(NamedTuple):
    """The entity ``xid`` on a path: ``hit`` as the store returned it, ``shown`` as the caller may see it, None if
    hidden."""

    xid: Xid
    hit: Hit
    shown: Hit | None


class _Dangling:
    """The hit of a Resource that refers to a hidden entity. It looks as if the reference led to nothing.

    The store's tests of the hidden target do not count: ``engine.read.prefilter`` tests the result again.
    """

    def __init__(self, hit: Hit) -> None:
        self._hit = hit
        self.key = hit.key
        self.folded = hit.folded

    @property
    def xref(self) -> Xid | None:
        return self._hit.xref

    @property
    def row(self) -> Row | None:
        return self._hit.row

    @property
    def target(self) -> Row | None:
        return None

    @property
    def default(self) -> Row | None:
        return None

    def attribute(self, part: Part, name: str) -> JSON:
        return None if part == "default" else self._hit.attribute(part, name)


_OF_REGISTRY: Final = frozenset({"registry", "model", "modelsource", "capabilities"})


def is_shown(record: Record, access: Access) -> bool:
    """Return True if ``access`` allows reading the changed entity, whether it still exists or not."""
    return access.reads_everything or access.is_readable(_find_changed_xid(record))


def is_delivered(record: Record, access: Access) -> bool:
    """Return True if ``access`` allows subscribing to the changed entity and reading it."""
    xid = _find_changed_xid(record)
    return access.may(Action.SUBSCRIBE, xid) and access.is_readable(xid)


def _find_changed_xid(record: Record) -> Xid:
    """Return the xid that changed. Model and capabilities belong to the Registry."""
    change = record.change
    return ROOT if change["entity"] in _OF_REGISTRY else Xid(tuple(change["xid"][1:].split("/")))

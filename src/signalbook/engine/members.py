"""Which entities of a collection a response shows, and in what order (R212 to R215, R285 to R292)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from signalbook.engine.filters import Filter
from signalbook.engine.inline import Inline
from signalbook.engine.listing import ListedPage, PageRequest, by_id, sorted_by
from signalbook.engine.lookup import AttributeLookup
from signalbook.engine.narrowing import FilterEvaluation
from signalbook.engine.sorting import Sort
from signalbook.engine.view_tree import EntityNode, member_node
from signalbook.engine.walking import PathMember, PathWalk
from signalbook.storage.base import Reader

_TOGETHER: Final = 1000


class CollectionMembers:
    """The members of the collection ``plural`` of ``owner``, a Resource with what it shows."""

    def __init__(self, reader: Reader, lookup: AttributeLookup, owner: EntityNode, plural: str) -> None:
        self._reader = reader
        self._lookup = lookup
        self._owner = owner
        self._plural = plural

    def listed(
        self, page: PageRequest, *, filter: Filter | None, sort: Sort | None, inline: Inline
    ) -> ListedPage[EntityNode]:
        """Those on ``page`` that ``filter`` leaves, with what it leaves beneath them if that is in ``inline``."""
        if filter is None and sort is None:
            return self._by_id(page)
        places = self._places(page, filter, sort, inline)
        listed = by_id(places, page) if sort is None else sorted_by(sort, places, page)
        nodes = self._fetched(listed.members)
        return ListedPage(members=nodes, following=listed.following, total=listed.total)

    def _by_id(self, page: PageRequest) -> ListedPage[EntityNode]:
        """By the index, and with the total that is kept: as quick in a large collection as in a small one."""
        owner, plural = self._owner, self._plural
        key, after = (owner.shown or owner.row).key, page.after.id if page.after is not None else None
        rows = self._reader.children([key], plural, after=after, limit=page.limit and page.limit + 1)
        total = self._reader.counts([key]).get((key, plural), 0) if page.limit and page.total is None else None
        return by_id((member_node(owner, row, plural) for row in rows), page, total)

    def _places(
        self, page: PageRequest, filter: Filter | None, sort: Sort | None, inline: Inline
    ) -> Iterator[PathMember]:
        """The members that the filter leaves, by id; without an order from where the page begins."""
        asked = None if sort is None else sort.steps
        if filter is None:
            walk = PathWalk(self._reader, self._lookup, self._owner, (self._plural,), {0: ()}, asked=asked)
            return (way.first for way in walk.ways())
        after = page.after.id if page.after is not None and sort is None else None
        narrowing = FilterEvaluation(self._reader, filter, self._lookup)
        return narrowing.members(self._owner, self._plural, inline, after=after, asked=asked)

    def _fetched(self, places: Iterable[PathMember]) -> Iterator[EntityNode]:
        """The entities at ``places``, fetched together."""
        waiting = iter(places)
        while batch := list(islice(waiting, _TOGETHER)):
            rows = {row.key: row for row in self._reader.by_key([place.hit.key for place in batch])}
            for place in batch:
                node = member_node(self._owner, rows[place.hit.key], self._plural)
                node.kept = place.kept
                yield node

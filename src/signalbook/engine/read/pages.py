"""The ``sort`` flag and the pages of a collection (core/spec.md "Sort Flag", core R212 to R215; R285 to R292).

A page starts or ends at a position, not at a number, so added or removed members never repeat or skip others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from heapq import nlargest, nsmallest
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar

from signalbook.engine.read.filters import SortKey, Value, as_instant, sort_key
from signalbook.engine.read.paths import Steps, Wild, find_definitions, list_collections, read_path
from signalbook.errors import RegistryError
from signalbook.model import Model
from signalbook.values import JSON, format_timestamp
from signalbook.xid import Xid

_ORDERS = {"": False, "=asc": False, "=desc": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """A sort order: by the attribute at ``steps``, then by id, both ``descending`` or both ascending.

    ``timestamp`` means that the attribute is a timestamp.
    """

    steps: Steps
    descending: bool = False
    timestamp: bool = False


def parse_sort(value: str | None, target: Xid, model: Model, *, subject: str) -> Sort | None:
    """Parse the flag's ``value`` for the collection ``target``. Returns None if ``value`` is None.

    Raises ``sort_noncollection`` if ``target`` is not a collection (R212), and ``bad_sort``; both about ``subject``.
    """
    if value is None:
        return None
    if not target.is_collection:
        raise RegistryError("sort_noncollection", subject=subject)
    try:
        return _read_sort(value, target.parts[0::2], model)
    except ValueError as error:
        excerpt = value if len(value) <= 100 else f"{value[:100]}..."
        raise RegistryError("bad_sort", subject=subject, value=excerpt, error_detail=str(error)) from None


def _read_sort(value: str, types: tuple[str, ...], model: Model) -> Sort:
    steps, ending = read_path(value)
    if ending not in _ORDERS:
        raise ValueError("behind the attribute there may be =asc or =desc")
    if any(isinstance(step, Wild) for step in steps):
        raise ValueError("an entity is sorted by one value: there are no wildcards")
    if steps[0] in list_collections(model, types):
        raise ValueError(f'"{steps[0]}" is a collection; sort by an attribute of the entities themselves')
    attributes = find_definitions(model, types, steps)
    if attributes and not any(attribute.scalar or attribute.type == "any" for attribute in attributes):
        raise ValueError("only a scalar has an order")
    timestamp = any(attribute.type == "timestamp" for attribute in attributes)
    return Sort(steps=steps, descending=_ORDERS[ending], timestamp=timestamp)


_MAX_SORT_CHARS: Final = 256
"""The number of characters of a string that are compared, because a position has to fit into a URL."""


class Identified(Protocol):
    """An entity that has an id to sort by."""

    @property
    def folded(self) -> str:
        """The id in the form used for sorting."""


class PagedMember(Identified, Protocol):
    """A member of a collection whose attribute values can be read."""

    def read_values(self, steps: Steps, *, timestamp: bool) -> list[Value]:
        """Return the values at ``steps``: see ``AttributeLookup.read_values``."""


M = TypeVar("M", bound=PagedMember)
T = TypeVar("T", bound=Identified)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The position directly after a member: its folded id and, if sorted by an attribute, the attribute's value."""

    id: str
    value: JSON = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request for a page of a collection: up to ``limit`` members (None: all) after the position ``after``.

    With ``backward`` the page has the last members up to ``after``, or the last of all if ``after`` is None. ``total``
    is the number of all members if it is known from the first page.
    """

    limit: int | None = None
    after: Position | None = None
    total: int | None = None
    backward: bool = False

    @property
    def size(self) -> int:
        """The maximum number of members.

        The last page read backward has as many members as the last page read forward.
        """
        limit = self.limit or 0
        at_end = self.backward and self.after is None
        return (self.total or 0) % limit or limit if at_end and limit else limit


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPage(Generic[T]):
    """The members of one page.

    ``following`` and ``preceding`` are the positions of the neighbouring pages, if there are any. ``total`` is the
    number of all members, None if unknown. Without a limit the members may be fetched lazily, and can be iterated over
    once.
    """

    members: Iterable[T]
    following: Position | None = None
    preceding: Position | None = None
    total: int | None = None


def page_by_id(
    members: Iterator[T], page: PageRequest, total: int | None = None, *, preceded: bool = True
) -> ListedPage[T]:
    """Return the page of ``members``, which come by id and start where the page starts.

    ``total`` is counted if it is needed and None. ``preceded`` is False if there are no members before the page.
    """
    if page.limit is None:
        return ListedPage(members=members)
    listed = list(islice(members, page.limit + 1))
    page_members, preceding = listed[: page.limit], page.after if preceded else None
    if len(listed) <= page.limit:
        return ListedPage(members=page_members, preceding=preceding, total=page.total)
    known_total = page.total if page.total is not None else total
    if known_total is None:
        known_total = len(listed) + sum(1 for _ in members)
    return ListedPage(
        members=page_members, following=Position(id=page_members[-1].folded), preceding=preceding, total=known_total
    )


def page_by_id_backward(members: Iterable[T], page: PageRequest) -> ListedPage[T]:
    """Return the page that ends at ``page.after``. ``members`` come by id.

    Of the members after that position only the first one is needed.
    """
    window: deque[T] = deque(maxlen=page.size + 1)
    for member in members:
        if page.after is not None and member.folded > page.after.id:
            return _end_page(list(window), page, following=page.after)
        window.append(member)
    return _end_page(list(window), page)


def _end_page(listed: list[T], page: PageRequest, following: Position | None = None) -> ListedPage[T]:
    page_members = listed[-page.size :]
    preceding = Position(id=listed[0].folded) if len(listed) > page.size else None
    return ListedPage(members=page_members, following=following, preceding=preceding, total=page.total)


def page_sorted(sort: Sort, members: Iterable[M], page: PageRequest) -> ListedPage[M]:
    """Return one page of ``members`` in sort order (R214).

    With a limit, one member more than the page is held in memory; without a limit, all members are.
    """
    order = _Order(sort, page)
    if page.limit is None:
        sorted_entries = sorted(order.list_entries(members), key=_entry_place, reverse=sort.descending)
        return ListedPage(members=[member for _, member in sorted_entries])
    best = nlargest if sort.descending != page.backward else nsmallest
    # One more member than the page holds shows whether there is another page.
    entries = [member for _, member in best(page.size + 1, order.list_entries(members), key=_entry_place)]
    page_members, has_more = entries[: page.size], len(entries) > page.size
    behind = page.after if order.skipped else None
    if page.backward:
        preceding = order.make_position(entries[-1]) if has_more else None
        return ListedPage(members=page_members[::-1], following=behind, preceding=preceding, total=page.total)
    total = order.seen if page.total is None and has_more else page.total
    following = order.make_position(page_members[-1]) if has_more else None
    return ListedPage(members=page_members, following=following, preceding=behind, total=total)


class _Order:
    """The order of members for one page.

    ``seen`` counts all members read, ``skipped`` those on the other side of ``after``.
    """

    def __init__(self, sort: Sort, page: PageRequest) -> None:
        after = page.after
        self._sort = sort
        self._backward = page.backward
        self._after = None if after is None else (self._make_key(_read_position(after, sort)), after.id)
        self.seen = 0
        self.skipped = 0

    def list_entries(self, members: Iterable[M]) -> Iterator[tuple[tuple[SortKey, str], M]]:
        """Yield the members, with their sort keys, that are after the position or, for a backward page, up to it."""
        for member in members:
            self.seen += 1
            place = self._make_key(self._read_value(member)), member.folded
            if self._after is None or self._is_behind(place, self._after) != self._backward:
                yield place, member
            else:
                self.skipped += 1

    def _is_behind(self, place: tuple[SortKey, str], after: tuple[SortKey, str]) -> bool:
        return place < after if self._sort.descending else place > after

    def make_position(self, member: PagedMember) -> Position:
        """Return the position directly after ``member``."""
        value = self._read_value(member)
        if isinstance(value, datetime):
            value = format_timestamp(value)
        if isinstance(value, str):
            value = value[:_MAX_SORT_CHARS]
        return Position(id=member.folded, value=None if isinstance(value, dict | list) else value)

    def _read_value(self, member: PagedMember) -> Value:
        values = member.read_values(self._sort.steps, timestamp=self._sort.timestamp)
        return values[0] if values else None

    @staticmethod
    def _make_key(value: Value) -> SortKey:
        return sort_key(value[:_MAX_SORT_CHARS] if isinstance(value, str) else value)


def _entry_place(entry: tuple[tuple[SortKey, str], object]) -> tuple[SortKey, str]:
    return entry[0]


def _read_position(position: Position, sort: Sort) -> Value:
    return as_instant(position.value) if sort.timestamp else position.value

"""Walking two registries side by side, by id, so that neither has to be held whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from signalbook.client import BadAnswer
from signalbook.replication.entities import Resource, Types, resource, version
from signalbook.replication.registry import PAGE, Source, TooLarge
from signalbook.values import JSONObject
from signalbook.xid import Xid

_SMALLER: Final = 10
T = TypeVar("T")


def resources(registry: Source, collection: Xid, types: Types) -> Iterator[tuple[str, Resource]]:
    """The Resources of a collection by id, with their Versions where these can be held at once."""
    last = ""
    try:
        for name, shown in registry.members(collection, deep=True):
            yield name, resource(shown, collection / name, types)
            last = name.lower()
    except TooLarge:
        for name, shown in _shallow(registry, collection):
            if name.lower() > last:
                yield name, found(registry, collection / name, types) or resource(shown, collection / name, types)


def found(registry: Source, xid: Xid, types: Types) -> Resource | None:
    """One Resource, None if it is not there."""
    try:
        shown = registry.find(xid, deep=True)
    except TooLarge:
        shown = registry.find(xid, deep=False)
    return None if shown is None else resource(shown, xid, types)


def versions(registry: Source, xid: Xid, known: Resource | None, types: Types) -> Iterator[tuple[str, JSONObject]]:
    """The Versions of a Resource by id."""
    if known is None:
        return
    if known.versions is not None:
        yield from sorted(known.versions.items(), key=lambda item: item[0].lower())
        return
    singular = types.singular(xid)
    for name, shown in _shallow(registry, xid / "versions"):
        yield name, version(shown, singular)


def joined(ours: Iterable[tuple[str, T]], theirs: Iterable[tuple[str, T]]) -> Iterator[tuple[str, T | None, T | None]]:
    """Both by id, whatever its case: what is of one or of the other, or of both.

    Raises ``BadAnswer`` where one does not come by id: what seems to be missing could be elsewhere.
    """
    left, right = _ordered(ours), _ordered(theirs)
    one, other = next(left, None), next(right, None)
    while one is not None or other is not None:
        order = _compare(one, other)
        if order < 0 and one is not None:
            yield one[0], one[1], None
            one = next(left, None)
        elif order > 0 and other is not None:
            yield other[0], None, other[1]
            other = next(right, None)
        elif one is not None and other is not None:
            yield one[0], one[1], other[1]
            one, other = next(left, None), next(right, None)


def _shallow(registry: Source, collection: Xid) -> Iterator[tuple[str, JSONObject]]:
    """The members of a collection alone, on pages as large as they can be."""
    last, page = "", PAGE
    while True:
        try:
            for name, shown in registry.members(collection, deep=False, page=page):
                if name.lower() > last:
                    yield name, shown
                    last = name.lower()
            return
        except TooLarge:
            if page == 1:
                raise
            page = max(1, page // _SMALLER)


def _compare(one: tuple[str, T] | None, other: tuple[str, T] | None) -> int:
    """Which comes first, below 0 if it is ``one``."""
    if one is None or other is None:
        return (one is None) - (other is None)
    left, right = one[0].lower(), other[0].lower()
    return (left > right) - (left < right)


def _ordered(members: Iterable[tuple[str, T]]) -> Iterator[tuple[str, T]]:
    last = ""
    for name, member in members:
        if name.lower() <= last:
            raise BadAnswer(f"a collection does not come by id: {name} after {last}")
        last = name.lower()
        yield name, member

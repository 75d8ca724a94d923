"""The newest, the oldest and the ancestors of a Resource's Versions, by ``versionmode`` (core/model.md
"versionmode").
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from typing import Final, TypeAlias

from signalbook.engine.write.workingcopies import VersionCopy

Versions: TypeAlias = dict[str, VersionCopy]

_SEMVER: Final = re.compile(r"[vV]?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)
_STAMP_CHARS: Final = len("2030-12-19T06:00:00.000000")  # all instants of working copies are UTC


def make_semver_key(versionid: str) -> str:
    """Return a text that sorts by semantic-version precedence.

    A missing minor or patch number counts as 0. An id that is not a semantic version gives "" and sorts lowest.
    """
    match = _SEMVER.fullmatch(versionid)
    if match is None:
        return ""
    *numbers, prerelease = match.groups()
    identifiers = [part for part in (prerelease or "").split(".") if part]
    release = "".join(_pad_number(number or "0") for number in numbers)
    return f"{release}{'0' if identifiers else '1'}" + "".join(f" {_pad_identifier(part)}" for part in identifiers)


def _pad_identifier(part: str) -> str:
    return f"0{_pad_number(part)}" if part.isdigit() else f"1{part}"


def _pad_number(digits: str) -> str:
    """Return digits with their count in front, so that they sort as numbers. Ids have up to 128 characters."""
    digits = digits.lstrip("0") or "0"
    return f"{len(digits):03}{digits}"


def _format_stamp(stamp: datetime) -> str:
    return stamp.isoformat(timespec="microseconds")[:_STAMP_CHARS]


def rank(version: VersionCopy, mode: str) -> str:
    """Return the text by which the store sorts ``version`` among its siblings in ``mode``; in manual mode by creation
    time.
    """
    if mode == "semver":
        return make_semver_key(version.id)
    return _format_stamp(version.modifiedat if mode == "modifiedat" else version.createdat)


def _id_key(version: VersionCopy) -> tuple[object, ...]:
    # Ids that are equal with case folded are ordered by the id itself.
    return (version.id.casefold(), version.id)


def _createdat_key(version: VersionCopy) -> tuple[object, ...]:
    return (version.createdat, *_id_key(version))


def _modifiedat_key(version: VersionCopy) -> tuple[object, ...]:
    return (version.modifiedat, *_id_key(version))


def _semver_sort_key(version: VersionCopy) -> tuple[object, ...]:
    return (make_semver_key(version.id), *_id_key(version))


ORDERED: Final[dict[str, Callable[[VersionCopy], tuple[object, ...]]]] = {
    "createdat": _createdat_key,
    "modifiedat": _modifiedat_key,
    "semver": _semver_sort_key,
}
"""The modes that put all Versions in one order, each with its sort key. The only other mode is ``manual``."""


def find_newest(versions: Versions, mode: str, inner: Collection[str] = ()) -> VersionCopy:
    """Return the newest Version (R235-R238). ``versions`` must not be empty.

    ``inner`` are ids of Versions that are ancestors of Versions outside ``versions``.
    """
    if mode in ORDERED:
        return max(versions.values(), key=ORDERED[mode])
    ancestors = {v.ancestorid for v in versions.values() if v.ancestorid != v.id}.union(inner)
    leaves = [v for v in versions.values() if v.id not in ancestors]
    # Without a leaf the Versions form a cycle, which ``find_cycle`` finds next, so any Version can be returned.
    return max(leaves or versions.values(), key=_createdat_key)


def find_surplus(versions: Versions, mode: str, limit: int, protected: str | None) -> list[str]:
    """Return the ids to delete, the oldest first, so that ``limit`` Versions remain.

    ``protected`` is never included (R93).
    """
    excess = len(versions) - limit
    if mode in ORDERED:
        ordered = sorted(versions.values(), key=ORDERED[mode])
        return [v.id for v in ordered if v.id != protected][:excess]
    return _find_oldest_roots({vid: v for vid, v in versions.items() if vid != protected}, excess)


def _find_oldest_roots(candidates: Versions, count: int) -> list[str]:
    """Return the ids of ``count`` Versions to delete, always the oldest root (R235). Its children then become roots."""
    children: dict[str, list[VersionCopy]] = {}
    heap = []
    for version in candidates.values():
        if version.ancestorid == version.id or version.ancestorid not in candidates:
            heap.append((_createdat_key(version), version.id))
        else:
            children.setdefault(version.ancestorid, []).append(version)
    # A heap, because each deletion makes new roots: a Resource with 10,000 Versions is pruned in one pass.
    heapq.heapify(heap)
    removed: list[str] = []
    while heap and len(removed) < count:
        removed.append(heapq.heappop(heap)[1])
        for child in children.get(removed[-1], ()):
            heapq.heappush(heap, (_createdat_key(child), child.id))
    return removed


def find_roots(versions: Iterable[VersionCopy]) -> list[VersionCopy]:
    """Return the Versions that are their own ancestor."""
    return [v for v in versions if v.ancestorid == v.id]


def assign(versions: Versions, mode: str, *, open: Collection[str] | None = None, inner: Collection[str] = ()) -> None:
    """Set every ``ancestorid``: by order in an ordered mode (R236-R238), else only where it is missing (R235).

    Without an order, a Version whose ancestor does not exist any more becomes its own ancestor.

    If not all Versions are loaded, only those in ``open`` are set. ``inner`` is as for ``find_newest``.
    """
    if mode in ORDERED:
        _assign_in_order(sorted(versions.values(), key=ORDERED[mode]), open)
    else:
        _reroot_orphans(versions, open)
        _assign_to_newest(versions, inner)


def find_unknown_ancestor(
    versions: Versions, removed: Collection[str], open: Collection[str] | None = None
) -> VersionCopy | None:
    """Return a Version whose ancestor neither exists nor is removed by this request, or None (R239).

    If ``open`` is not None, only these Versions are checked.
    """
    for version in _list_open(versions, open):
        ancestor = version.ancestorid
        if ancestor is not None and ancestor not in versions and ancestor not in removed:
            return version
    return None


def find_cycle(versions: Versions) -> tuple[str, ...]:
    """Return the ids along one cycle of ancestors, or an empty tuple if there is none (R240)."""
    visited: set[str] = set()
    for start in versions:
        trail: dict[str, None] = {}
        versionid = start
        while versionid not in visited and versionid not in trail:
            trail[versionid] = None
            ancestor = versions[versionid].ancestorid
            if ancestor is None or ancestor == versionid or ancestor not in versions:
                break
            versionid = ancestor
        else:
            if versionid in trail:
                ids = list(trail)
                return tuple(ids[ids.index(versionid) :])
        # A Version that does not lead to a cycle need not be visited again from other Versions.
        visited.update(trail)
    return ()


def _list_open(versions: Versions, open: Collection[str] | None) -> Iterator[VersionCopy]:
    return (version for version in versions.values() if open is None or version.id in open)


def _assign_in_order(ordered: list[VersionCopy], open: Collection[str] | None) -> None:
    previous = ordered[0] if ordered else None
    for version in ordered:
        if open is None or version.id in open:
            version.ancestorid = previous.id if previous else version.id
        previous = version


def _reroot_orphans(versions: Versions, open: Collection[str] | None) -> None:
    for version in _list_open(versions, open):
        if version.ancestorid is not None and version.ancestorid not in versions:
            version.ancestorid = version.id


def _assign_to_newest(versions: Versions, inner: Collection[str]) -> None:
    # Sorted by id, because JSON objects have no order that clients can rely on.
    pending = sorted((v for v in versions.values() if v.ancestorid is None), key=_id_key)
    ancestors = {v.ancestorid for v in versions.values()}
    settled = {vid: v for vid, v in versions.items() if v.ancestorid is not None}
    last: VersionCopy | None = None
    for version in pending:
        # A Version that others name as their ancestor cannot be placed under these; all others can be placed anywhere.
        candidates = settled if version.id not in ancestors else _exclude_descendants(settled, version.id)
        if last is not None and last.id in candidates:
            version.ancestorid = last.id
        else:
            version.ancestorid = find_newest(candidates, "manual", inner).id if candidates else version.id
        settled[version.id] = version
        last = version


def _exclude_descendants(versions: Versions, ancestor: str) -> Versions:
    """Return the Versions that do not have ``ancestor`` among their ancestors.

    Under any other Version, ``ancestor`` would form a cycle.
    """
    return {vid: v for vid, v in versions.items() if ancestor not in _list_ancestry(versions, v)}


def _list_ancestry(versions: Versions, version: VersionCopy) -> set[str]:
    seen: set[str] = set()
    current: VersionCopy | None = version
    while current is not None and current.id not in seen:
        seen.add(current.id)
        if current.ancestorid is not None:
            above = versions.get(current.ancestorid)
            if above is None:
                seen.add(current.ancestorid)
            current = above
        else:
            current = None
    return seen

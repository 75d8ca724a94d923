"""Copy entities: all of them by comparing both sides, or those in change events (D-15, D-19 to D-21)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from signalbook.client.registry import ReadableRegistry, Registry
from signalbook.replication.comparing import (
    ComparedResource,
    Types,
    build_difference,
    group_attributes,
    is_same,
    join_by_id,
    read_resource,
    read_resources,
    read_versions,
    version_attributes,
)
from signalbook.replication.link import Link, is_owned_by, with_origin
from signalbook.replication.merging import Merge, Pair
from signalbook.replication.report import CopyOutcome, CopyReport
from signalbook.replication.writing import CopyWriter, Part
from signalbook.values import JSONObject
from signalbook.xid import ROOT, Kind, Xid, XidError

_WHOLE_EVENTS: Final = ("io.xregistry.resource.created", "io.xregistry.resource.deleted")


@dataclass(slots=True)
class Hints:
    """The entities that may differ: ``groups``, and the ids of Versions in ``resources`` by collection and Resource id.

    None in place of the ids means that any Version may differ.
    """

    groups: set[Xid] = field(default_factory=set)
    resources: dict[Xid, dict[str, set[str] | None]] = field(default_factory=dict)

    def add(self, xid: Xid, *, whole: bool = False) -> None:
        """Add that ``xid`` changed. ``whole`` means that everything under it may have changed too."""
        if xid.kind is Kind.GROUP:
            self.groups.add(xid)
        # A change of anything under a Resource is a hint to compare the Resource.
        elif len(xid.parts) >= len(("groups", "g", "resources", "r")):
            resource = xid.resource
            versions = self.resources.setdefault(resource.parent, {})
            version_ids = versions.setdefault(resource.id, set())
            if whole or version_ids is None:
                versions[resource.id] = None
            elif xid.version_id:
                version_ids.add(xid.version_id)

    def __bool__(self) -> bool:
        return bool(self.groups or self.resources)


def of_events(events: Iterable[JSONObject]) -> Hints:
    """Return the hints in events of the xRegistry dialect. Unreadable events give none."""
    hints = Hints()
    for event in events:
        subject = event.get("subject")
        try:
            xid = Xid.parse(subject) if isinstance(subject, str) else None
        except XidError:
            continue
        if xid is not None and not _is_count_change(event, xid):
            hints.add(xid, whole=event.get("type") in _WHOLE_EVENTS)
    return hints


def _is_count_change(event: JSONObject, xid: Xid) -> bool:
    """Return True if an event about a Group reports only its members, which have events of their own."""
    data = event.get("data")
    changed = data.get("changed") if isinstance(data, dict) else None
    if xid.kind is not Kind.GROUP or not isinstance(changed, list) or not changed:
        return False
    names = {name for name in changed if isinstance(name, str)} - {"epoch", "modifiedat"}
    return all(name.endswith("count") or f"{name}count" in names for name in names)


_NO_TYPE: Final = "the target's model has no such type: --model extends it"
HIDDEN: Final = "the source does not show it to this identity, so nobody knows whether it is there: the copy stays"
_WALK: Final = 50
_SCARCE: Final = 12
"""Reading one Resource separately costs as much as reading this many on a page."""


class Copy:
    """Copies from ``source`` to ``target`` over ``link``. The results go into ``report``.

    Entities that are equal on both sides are not written, so a copy may be interrupted and repeated. Methods raise the
    errors of registries that cannot be reached.
    """

    def __init__(self, source: ReadableRegistry, target: Registry, link: Link, report: CopyReport) -> None:
        self._source = source
        self._target = target
        self._link = link
        self._report = report
        self._types = Types(source.model())
        self._there = Types(target.model())
        self._writer = CopyWriter(target, report)

    def everything(self) -> None:
        """Make the target equal to the source, and delete copies whose originals the source no longer has."""
        for plural in self._types.groups():
            if self._link.scope.reaches(ROOT / plural):
                self._copy_groups(ROOT / plural)
        self._writer.flush()

    def changed(self, hints: Hints) -> None:
        """Make the entities in ``hints`` equal to those of the source, in their current state."""
        for xid in sorted(hints.groups):
            if self._link.scope.holds(xid) and self._has_type(xid):
                self._copy_one_group(xid)
        for collection, members in hints.resources.items():
            members_in_scope = {name: ids for name, ids in members.items() if self._link.scope.holds(collection / name)}
            if members_in_scope and self._has_type(collection):
                self._copy_some(collection, members_in_scope)
        self._writer.flush()

    def _has_type(self, xid: Xid) -> bool:
        """Return True if the target has the type of a Group, or of a collection of Resources."""
        if xid.group_type not in self._types.groups():
            return False
        if xid.group_type in self._there.groups() and (
            not xid.resource_type or xid.resource_type in self._there.resources(xid.group_type)
        ):
            return True
        self._report.refuse(xid, _NO_TYPE)
        return False

    # Groups

    def _copy_groups(self, collection: Xid) -> None:
        seen: set[str] = set()
        for xid, group in self._list_source_groups(collection):
            seen.add(xid.id)
            if self._has_type(xid):
                self._copy_group(xid, group)
        # The Group is gone at the source, and so is the Resource that is the scope.
        if self._link.scope.xid.kind is Kind.RESOURCE and not seen:
            self._copy_one(self._link.scope.xid)
        if collection.group_type in self._there.groups():
            # List all Groups first: deleting while pages are read would skip some.
            there = self._target.members(collection, deep=False)
            for name, group in [pair for pair in there if is_owned_by(pair[1], self._link.source)]:
                here = self._link.scope.here(collection / name)
                if here is not None and self._link.scope.holds(here) and here.id not in seen and self._is_gone(here):
                    self._remove_group(here, group)

    def _list_source_groups(self, collection: Xid) -> Iterator[tuple[Xid, JSONObject]]:
        top = self._link.scope.xid
        if len(top.parts) < 2:
            for name, group in self._source.members(collection, deep=False):
                yield collection / name, group
            return
        xid = Xid(top.parts[:2])
        parent_group = self._source.find(xid, deep=False)
        if parent_group is not None:
            yield xid, parent_group

    def _copy_group(self, xid: Xid, group: JSONObject) -> None:
        there = self._link.scope.there(xid)
        if there is None:
            self._report.refuse(xid, "another group was renamed to its name")
            return
        current = self._target.find(there, deep=False)
        self._copy_attributes(xid, there, group, current)
        for plural in self._types.resources(xid.group_type):
            collection = xid / plural
            # If both counts are zero, there is nothing to read. Without a count, there may be members.
            if self._link.scope.reaches(collection) and group.get(f"{plural}count", 1) + self._count(current, plural):
                self._copy_collection(collection, there / plural, fresh=not self._count(current, plural))

    @staticmethod
    def _count(group: JSONObject | None, plural: str) -> int:
        return 0 if group is None else int(group.get(f"{plural}count", 1))

    def _copy_attributes(self, xid: Xid, there: Xid, group: JSONObject, current: JSONObject | None) -> None:
        """Copy the attributes of a Group. A Group that exists at the target may be shared, and keeps its attributes."""
        translated = self._link.scope.translate(group_attributes(group, xid, self._types))
        assert isinstance(translated, dict)
        copied = with_origin(translated, self._link.source)
        if current is None and self._link.returns(group):
            return  # it is a copy from this target, which has deleted the original
        if current is None:
            body = {**copied, "createdat": group.get("createdat")}
            self._writer.add(Part(xid=there, source=xid, body=body, outcomes=((CopyOutcome.CREATED, Kind.GROUP, 1),)))
            return
        current_attributes = group_attributes(current, there, self._there)
        if is_same(copied, current_attributes) or self._link.returns(group):
            self._report.count(CopyOutcome.UNCHANGED, Kind.GROUP)
        elif is_owned_by(current, self._link.source):
            body = build_difference(copied, current_attributes)
            self._writer.add(Part(xid=there, source=xid, body=body, outcomes=((CopyOutcome.UPDATED, Kind.GROUP, 1),)))
        else:
            self._report.skip(xid, "the target has a group of its own there, which keeps its attributes")

    def _copy_one_group(self, xid: Xid) -> None:
        there = self._link.scope.there(xid)
        if there is None:
            return
        group, current = self._source.find(xid, deep=False), self._target.find(there, deep=False)
        if group is not None:
            self._copy_attributes(xid, there, group, current)
        elif current is not None and self._is_gone(xid):
            self._remove_group(xid, current)

    def _is_gone(self, xid: Xid) -> bool:
        """Return True if an entity that the source did not show is gone, and not hidden from this identity.

        Rights do not depend on existence: a caller that can read the xid and gets 404 knows that the entity is gone.
        """
        if self._source.hides(xid):
            self._report.skip(xid, HIDDEN)
            return False
        return self._source.find(xid, deep=False) is None

    def _remove_group(self, xid: Xid, current: JSONObject) -> None:
        """Delete the copied members of a Group, and the Group itself if nothing else is left in it (D-9)."""
        there = self._link.scope.there(xid)
        assert there is not None
        for plural in self._there.resources(xid.group_type):
            if current.get(f"{plural}count", 1):
                for name, resource in read_resources(self._target, there / plural, self._there):
                    self._remove(xid / plural / name, there / plural / name, resource)
        # Delete the members before checking whether the Group is empty.
        self._writer.flush()
        remaining = self._target.find(there, deep=False)
        if remaining is None or not is_owned_by(remaining, self._link.source):
            return
        if any(remaining.get(f"{plural}count", 1) for plural in self._there.resources(xid.group_type)):
            self._report.skip(xid, "is gone, but the target has more in that group than came from there")
        else:
            self._writer.delete([(there, xid)])

    # Resources

    def _copy_collection(self, collection: Xid, there: Xid, *, fresh: bool) -> None:
        """Copy all Resources of a collection. ``fresh`` means that the target has none."""
        top = self._link.scope.xid
        if top.kind is Kind.RESOURCE:
            self._copy_one(top)
        elif self._has_type(collection):
            self._copy_resources(collection, there, fresh=fresh)

    def _copy_resources(self, collection: Xid, there: Xid, *, fresh: bool, only: Collection[str] | None = None) -> None:
        ours = read_resources(self._source, collection, self._types)
        theirs = () if fresh else read_resources(self._target, there, self._there)
        for name, our_resource, their_resource in join_by_id(ours, theirs):
            if only is None or name in only:
                self._copy_resource(collection / name, there / name, our_resource, their_resource)

    def _copy_some(self, collection: Xid, members: Mapping[str, Set[str] | None]) -> None:
        """Copy some Resources of a collection, each with the Versions that changed (None means all)."""
        there = self._link.scope.there(collection)
        if there is None:
            return
        # If many of the members changed, reading all on pages costs less than reading each of them.
        if len(members) > _WALK and self._count_members(collection, there) < len(members) * _SCARCE:
            self._copy_resources(collection, there, fresh=False, only=members)
            return
        for name in sorted(members):
            self._copy_one(collection / name, members[name])

    def _count_members(self, collection: Xid, there: Xid) -> int:
        """Return the number of members at the source or at the target, whichever is greater."""
        groups = self._source.find(collection.owner, deep=False), self._target.find(there.owner, deep=False)
        return max(self._count(group, collection.resource_type) for group in groups)

    def _copy_one(self, xid: Xid, versions: Set[str] | None = None) -> None:
        there = self._link.scope.there(xid)
        if there is None:
            return
        ours = read_resource(self._source, xid, self._types)
        theirs = read_resource(self._target, there, self._there)
        self._copy_resource(xid, there, ours, theirs, versions)

    def _copy_resource(
        self,
        xid: Xid,
        there: Xid,
        ours: ComparedResource | None,
        theirs: ComparedResource | None,
        only: Set[str] | None = None,
    ) -> None:
        if ours is None:
            if theirs is not None and self._is_gone(xid):
                self._remove(xid, there, theirs)
            return
        merge = self._merge(xid, there, ours, theirs)
        self._take(merge, only)
        if merge.again:
            # Now all Versions exist at the target, so the ancestors that were left out can be set.
            self._writer.flush()
            target_resource = read_resource(self._target, there, self._there)
            self._take(self._merge(xid, there, ours, target_resource, settled=True), only)

    def _take(self, merge: Merge, only: Set[str] | None) -> None:
        """Write and delete what ``merge`` requires."""
        xid, there, ours = merge.xid, merge.there, merge.source
        if ours.versions is not None and not ours.versions:
            parts = merge.reference()
        else:
            parts = merge.parts(self._pair_versions(xid, there, ours, merge.target, only))
        for part in parts:
            self._writer.add(part)
        if merge.gone:
            self._writer.delete([(there / "versions" / name, xid / "versions" / name) for name in merge.gone])

    def _merge(
        self, xid: Xid, there: Xid, ours: ComparedResource, theirs: ComparedResource | None, *, settled: bool = False
    ) -> Merge:
        return Merge(
            xid=xid,
            there=there,
            link=self._link,
            report=self._report,
            source=ours,
            target=theirs,
            singular=self._types.singular(xid),
            settled=settled,
            held=theirs is not None and not self._is_owned(there, theirs),
            named=self._there.takes(there, "globaluri") and self._there.takes(there, "authority"),
            ruled=self._there.has_rule(there),
        )

    def _pair_versions(
        self, xid: Xid, there: Xid, ours: ComparedResource, theirs: ComparedResource | None, only: Set[str] | None
    ) -> Iterator[Pair]:
        """Return the Versions of both sides. If there are too many for memory, return just those in ``only``."""
        if ours.versions is not None or only is None:
            mine = read_versions(self._source, xid, ours, self._types)
            return join_by_id(mine, read_versions(self._target, there, theirs, self._there))
        return (
            (
                name,
                self._find_version(self._source, xid / "versions" / name),
                self._find_version(self._target, there / "versions" / name),
            )
            for name in sorted(only, key=str.lower)
        )

    def _find_version(self, registry: ReadableRegistry, xid: Xid) -> JSONObject | None:
        entity = registry.find(xid, deep=False)
        return None if entity is None else version_attributes(entity, self._types.singular(xid.resource))

    def _is_owned(self, there: Xid, resource: ComparedResource) -> bool:
        """Return True if the source may change a Resource at the target. One without Versions belongs to its Group."""
        if resource.versions is not None and not resource.versions:
            group = self._target.find(Xid(there.parts[:2]), deep=False)
            return group is not None and is_owned_by(group, self._link.source)
        versions = read_versions(self._target, there, resource, self._there)
        return any(is_owned_by(version, self._link.source) for _, version in versions)

    def _remove(self, xid: Xid, there: Xid, resource: ComparedResource) -> None:
        """Delete the copies of a Resource that the source no longer has (D-9)."""
        if resource.versions is not None and not resource.versions:
            if self._is_owned(there, resource):
                self._writer.delete([(there, xid)])
            return
        gone, has_others = [], False
        for name, body in read_versions(self._target, there, resource, self._there):
            if is_owned_by(body, self._link.source):
                gone.append(name)
            else:
                has_others = True
        if gone and not has_others:
            self._writer.delete([(there, xid)])
        elif gone:
            self._writer.delete([(there / "versions" / name, xid / "versions" / name) for name in gone])

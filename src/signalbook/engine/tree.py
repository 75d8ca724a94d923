"""The part of the registry that one command can touch, in memory: loaded in a few queries, changed, then stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from signalbook.engine.drafts import OwnerCopy, ResourceCopy, StoredVersions, VersionCopy, WorkingCopy
from signalbook.engine.intents import Intent
from signalbook.engine.vicinity import NeedsSome
from signalbook.errors import RegistryError
from signalbook.storage.base import Reader
from signalbook.xid import ROOT, Xid


@dataclass(slots=True, kw_only=True)
class WorkingTree:
    """Drafts by xid. ``deleted`` are stored entities that will be gone, with all beneath them listed too."""

    registry: OwnerCopy
    groups: dict[Xid, OwnerCopy] = field(default_factory=dict)
    resources: dict[Xid, ResourceCopy] = field(default_factory=dict)
    deleted: list[WorkingCopy] = field(default_factory=list)

    def group(self, xid: Xid, now: datetime) -> OwnerCopy:
        """The Group at ``xid``, made if it is missing (R52)."""
        draft = self.groups.get(xid)
        if draft is None:
            draft = self.groups[xid] = OwnerCopy(xid=xid, createdat=now, modifiedat=now)
            self.registry.membership_changed(xid.group_type, now)
        return draft

    def resource(self, xid: Xid, now: datetime) -> ResourceCopy:
        """The Resource at ``xid``, made (without Versions yet) if it is missing."""
        draft = self.resources.get(xid)
        if draft is None:
            draft = self.resources[xid] = ResourceCopy(xid=xid, createdat=now, modifiedat=now)
            self.group(xid.owner, now).membership_changed(xid.resource_type, now)
        return draft


def load(reader: Reader, intent: Intent, partly: NeedsSome) -> WorkingTree:
    """Everything stored that ``intent`` can touch: a few queries, however many entities it names."""
    groups = {group.xid for group in intent.groups}
    resources = {resource.xid for resource in intent.resources()}
    return load_entities(reader, groups, resources, partly)


def load_entities(
    reader: Reader, groups: Collection[Xid], resources: Collection[Xid], partly: NeedsSome | None = None
) -> WorkingTree:
    """The Registry, these Groups, and these Resources with their Versions, as far as they exist."""
    rows = reader.get_many({ROOT, *groups, *resources})
    tree = WorkingTree(registry=OwnerCopy.of(rows[ROOT]))
    tree.groups = {xid: OwnerCopy.of(rows[xid]) for xid in groups if xid in rows}
    tree.resources = {xid: ResourceCopy.of(rows[xid]) for xid in resources if xid in rows}
    load_versions(reader, tree.resources.values(), partly)
    return tree


def load_versions(reader: Reader, resources: Collection[ResourceCopy], partly: NeedsSome | None = None) -> None:
    """Give each stored Resource its Versions, in one query, but for those that ``partly`` says need some only."""
    by_key = {draft.before.key: draft for draft in resources if draft.before is not None and draft.xref is None}
    counts = reader.counts(by_key) if partly and by_key else {}
    for (key, _), count in counts.items():
        row = by_key[key].before
        if partly and row is not None and partly(row, count):
            by_key.pop(key).stored = StoredVersions(reader, row, count)
    for row in reader.children(by_key, "versions") if by_key else ():
        by_key[row.parent].versions[row.xid.id] = VersionCopy.of(row)


def check_siblings(tree: WorkingTree) -> None:
    """No two new siblings whose ids differ in case only (R26), else ``bad_request``; the store looks at stored ones."""
    for resource in tree.resources.values():
        seen: dict[str, Xid] = {}
        for version in resource.versions.values():
            _check_id_case(seen, version.xid)
    folded: dict[Xid, dict[str, Xid]] = defaultdict(dict)
    for xid in (*tree.groups, *tree.resources):
        _check_id_case(folded[xid.parent], xid)


class IdClash(RegistryError):
    """An id that exists in other case (R26): to clients of xRegistry a ``bad_request``."""

    def __init__(self, xid: Xid) -> None:
        detail = f'"{xid.parent}" already has an entity with the id "{xid.id}" (upper and lower case are one)'
        super().__init__("bad_request", subject=str(xid), error_detail=detail)


def _check_id_case(seen: dict[str, Xid], xid: Xid) -> None:
    if seen.setdefault(xid.id.casefold(), xid) != xid:
        raise IdClash(xid)
